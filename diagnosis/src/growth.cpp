// SPDX-License-Identifier: Apache-2.0
#include "faultline/diagnosis/growth.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <tuple>

namespace faultline::diagnosis {
namespace {

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::string key_of(const std::string& word) { return word.substr(0, word.find('=')); }

/// Parameters ("t") whose value is the cell's length.
std::set<std::string> length_keys(const core::ConfigEvidence& cell) {
  std::set<std::string> keys;
  const std::string length = "=" + std::to_string(cell.reduction);
  for (const std::string& word : words_of(cell.problem)) {
    const std::string key = key_of(word);
    if (word == key + length) keys.insert(key);
  }
  return keys;
}

std::string without(const std::string& line, const std::string& key) {
  std::string rest;
  for (const std::string& word : words_of(line)) {
    if (key_of(word) != key) rest += (rest.empty() ? "" : " ") + word;
  }
  return rest;
}

}  // namespace

std::vector<core::GrowthEvidence> growth_of(const std::vector<core::ConfigEvidence>& cells) {
  std::set<std::string> keys;
  bool first = true;
  for (const core::ConfigEvidence& cell : cells) {
    if (cell.reduction <= 0) continue;
    const std::set<std::string> here = length_keys(cell);
    if (first) {
      keys = here;
    } else {
      std::erase_if(keys, [&](const std::string& key) { return !here.contains(key); });
    }
    first = false;
  }
  if (keys.size() != 1) return {};  // none, or one length was tried under two names

  std::map<std::tuple<std::string, std::string, std::string>,
           std::map<std::int64_t, core::GrowthEvidence>>
      series;
  for (const core::ConfigEvidence& cell : cells) {
    if (cell.reduction <= 0 || cell.result.skipped) continue;
    const std::string others = without(cell.problem, *keys.begin());
    for (const core::OutputTotals& output : cell.result.outputs) {
      if (output.compared_elements == 0) continue;
      core::GrowthEvidence row;
      row.output = output.name;
      row.config = cell.config;
      row.others = others;
      row.length = cell.reduction;
      row.chunks = cell.tile_k > 0 ? (cell.reduction + cell.tile_k - 1) / cell.tile_k : 0;
      row.relative_l2 = output.relative_l2();
      row.worst_ratio = output.worst_ratio;
      row.wrong = output.bad_elements > 0;
      series[{row.output, row.config, row.others}].insert_or_assign(row.length, row);
    }
  }
  std::vector<core::GrowthEvidence> growth;
  for (const auto& [key, rows] : series) {
    if (rows.size() < 2) continue;
    for (const auto& [length, row] : rows) growth.push_back(row);
  }
  return growth;
}

}  // namespace faultline::diagnosis
