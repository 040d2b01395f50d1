// SPDX-License-Identifier: Apache-2.0
#include "config_matrix.hpp"

#include <map>
#include <string_view>

#include "view.hpp"

namespace faultline::reports {
namespace {

/// Distinct texts in the order of their first appearance.
class Axis {
 public:
  std::size_t index_of(const std::string& text) {
    const auto [at, is_new] = index_.try_emplace(text, texts_.size());
    if (is_new) {
      texts_.push_back(at->first);
    }
    return at->second;
  }
  const std::vector<std::string_view>& texts() const { return texts_; }

 private:
  std::map<std::string, std::size_t> index_;
  std::vector<std::string_view> texts_;
};

}  // namespace

std::string ConfigMatrix::name_of(std::size_t problem, std::size_t config) const {
  return configs[config] + " at " + problems[problem];
}

ConfigMatrix config_matrix_of(const core::RunRecord& record) {
  Axis problems, configs;
  for (const core::ConfigEvidence& cell : record.evidence.configs) {
    problems.index_of(cell.problem);
    configs.index_of(cell.config);
  }
  ConfigMatrix matrix;
  const CommonWords problem_words(problems.texts()), config_words(configs.texts());
  matrix.all_problems = problem_words.text();
  matrix.all_configs = config_words.text();
  for (const std::string_view text : problems.texts()) {
    matrix.problems.push_back(problem_words.without(text));
  }
  for (const std::string_view text : configs.texts()) {
    matrix.configs.push_back(config_words.without(text));
  }
  matrix.cells.resize(matrix.problems.size() * matrix.configs.size());
  for (const core::ConfigEvidence& cell : record.evidence.configs) {
    const core::ConfigEvidence*& place =
        matrix.cells[problems.index_of(cell.problem) * matrix.configs.size() +
                     configs.index_of(cell.config)];
    if (!place || !place->failed) {
      place = &cell;
    }
  }
  return matrix;
}

}  // namespace faultline::reports
