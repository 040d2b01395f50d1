// SPDX-License-Identifier: Apache-2.0
#include "config_onset.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <sstream>

namespace faultline::diagnosis {
namespace {

std::map<std::string, std::int64_t> numbers_of(const std::string& config) {
  std::map<std::string, std::int64_t> numbers;
  std::istringstream stream(config);
  for (std::string word; stream >> word;) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos) continue;
    std::int64_t number = 0;
    const char *begin = word.data() + equals + 1, *end = word.data() + word.size();
    const auto [rest, error] = std::from_chars(begin, end, number);
    if (error == std::errc() && rest == end) numbers[word.substr(0, equals)] = number;
  }
  return numbers;
}

/// Of one problem, or of all of them.
struct Range {
  std::int64_t least_failing = std::numeric_limits<std::int64_t>::max();
  std::int64_t largest_passing = std::numeric_limits<std::int64_t>::min();
};

}  // namespace

std::optional<ConfigOnset> config_onset(const Facts& facts) {
  std::map<std::string, std::map<std::string, Range>> by_problem;  // then by setting
  std::map<std::string, std::pair<bool, bool>> seen;               // some failed, some passed
  for (const core::ConfigEvidence* cell : facts.configs) {
    (cell->failed ? seen[cell->problem].first : seen[cell->problem].second) = true;
    for (const auto& [setting, value] : numbers_of(cell->config)) {
      Range& range = by_problem[cell->problem][setting];
      if (cell->failed) {
        range.least_failing = std::min(range.least_failing, value);
      } else {
        range.largest_passing = std::max(range.largest_passing, value);
      }
    }
  }
  std::map<std::string, Range> over_all;
  std::map<std::string, bool> divides;
  for (const auto& [problem, settings] : by_problem) {
    if (!seen[problem].first || !seen[problem].second) continue;
    for (const auto& [setting, range] : settings) {
      const bool here = range.least_failing > range.largest_passing;
      const auto known = divides.try_emplace(setting, true).first;
      known->second = known->second && here;
      Range& all = over_all[setting];
      all.least_failing = std::min(all.least_failing, range.least_failing);
      all.largest_passing = std::max(all.largest_passing, range.largest_passing);
    }
  }
  for (const auto& [setting, always] : divides) {
    const Range& range = over_all[setting];
    if (always && range.least_failing > range.largest_passing) {
      return ConfigOnset{setting, range.least_failing, range.largest_passing};
    }
  }
  return std::nullopt;
}

}  // namespace faultline::diagnosis
