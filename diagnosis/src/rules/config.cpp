// SPDX-License-Identifier: Apache-2.0
// config: on one problem some configs fail in every trial and others in none.
#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "../words.hpp"
#include "rule.hpp"

namespace faultline::diagnosis {
namespace {

std::set<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  std::set<std::string> words;
  for (std::string word; stream >> word;) words.insert(word);
  return words;
}

/// Settings ("stages=3") that every failing config has and no passing one; none where none passed,
/// because then nothing tells them apart.
std::vector<std::string> telling_settings(const std::set<std::string>& failing,
                                          const std::set<std::string>& passing) {
  std::set<std::string> common;
  if (passing.empty()) return {};
  for (const std::string& config : failing) {
    std::set<std::string> words = words_of(config);
    if (common.empty()) {
      common = words;
    } else {
      std::erase_if(common, [&](const std::string& w) { return !words.contains(w); });
    }
  }
  for (const std::string& config : passing) {
    for (const std::string& word : words_of(config)) common.erase(word);
  }
  return {common.begin(), common.end()};
}

}  // namespace

std::optional<core::Finding> find_config(const Facts& facts) {
  struct Tally {
    std::uint64_t always = 0, never = 0, sometimes = 0;
  };
  // Configs are judged on the problems on which something failed: the others show nothing.
  std::set<std::string> telling_problems;
  for (const core::ConfigEvidence* cell : facts.configs) {
    if (cell->failed) telling_problems.insert(cell->problem);
  }
  std::map<std::string, Tally> by_problem, by_config;
  for (const core::ConfigEvidence* cell : facts.configs) {
    if (!telling_problems.contains(cell->problem)) continue;
    const core::TrialResult& r = cell->result;
    auto add = [&](Tally& t) {
      (!cell->failed ? t.never : r.failed == r.trials ? t.always : t.sometimes)++;
    };
    add(by_problem[cell->problem]);
    add(by_config[cell->config]);
  }
  std::uint64_t split_problems = 0, sometimes = 0;
  for (const auto& [problem, tally] : by_problem) {
    if (tally.never > 0 && tally.always + tally.sometimes > 0) ++split_problems;
    sometimes += tally.sometimes;
  }
  if (split_problems == 0) return std::nullopt;

  std::set<std::string> failing, passing;
  bool clean_cut = true;
  for (const auto& [config, tally] : by_config) {
    (tally.always + tally.sometimes > 0 ? failing : passing).insert(config);
    if (tally.always + tally.sometimes > 0 && tally.never > 0) clean_cut = false;
  }

  core::Finding finding;
  finding.finding = core::FindingClass::config;
  finding.severity = core::Severity::error;
  finding.confidence = sometimes > 0 ? 0.4 : clean_cut ? 0.9 : 0.6;
  const std::vector<std::string> settings = telling_settings(failing, passing);
  const std::vector<std::string> names(failing.begin(), failing.end());
  const std::string subject = subject_text(facts.evidence);
  if (passing.empty()) {
    finding.headline =
        fmt::format("{} is wrong in every one of {}, but not in all of them on the same problems",
                    subject, plural(failing.size(), "config"));
  } else if (settings.empty()) {
    finding.headline =
        fmt::format("{} is wrong in {} of {} and right in the others", subject,
                    count(failing.size()), plural(failing.size() + passing.size(), "config"));
  } else {
    finding.headline = fmt::format("{} is wrong in the configs with {} and right in the others",
                                   subject, list(settings));
  }
  constexpr std::size_t kNamed = 4;
  for (std::size_t i = 0; i < names.size() && i < kNamed; ++i) {
    const Tally& tally = by_config.at(names[i]);
    finding.evidence.push_back(fmt::format(
        "config [{}]: wrong on {} of {}", names[i], count(tally.always + tally.sometimes),
        plural(tally.always + tally.sometimes + tally.never, "problem")));
  }
  if (names.size() > kNamed) {
    finding.evidence.push_back(plural(names.size() - kNamed, "further failing config"));
  }
  finding.evidence.push_back(
      passing.empty()
          ? std::string("no config passed on every problem on which some config fails")
          : fmt::format("{} passed on every problem", plural(passing.size(), "config")));
  finding.evidence.push_back(
      sometimes == 0 ? "each failing cell failed in every trial, so it is not a matter "
                       "of timing"
                     : fmt::format("{} failed in some trials only", plural(sometimes, "cell")));
  for (const core::OutputTotals* output : wrong_outputs(facts)) {
    finding.evidence.push_back(wrong_output_text(*output));
  }
  finding.runner_up =
      sometimes > 0 ? core::FindingClass::race_shared : core::FindingClass::systematic_offset;
  finding.runner_up_reason =
      sometimes > 0 ? "a failure that comes and goes points to timing"
      : passing.empty()
          ? fmt::format("a wrong design fails in every config at once, and on {} some passed",
                        plural(split_problems, "problem"))
          : fmt::format("a wrong design fails in every config, and {} passed",
                        plural(passing.size(), "config"));
  finding.advice = passing.empty() ? "Compare what the failing cells have in common: sizes first."
                                   : "Compare the code paths that these settings select.";
  return finding;
}

}  // namespace faultline::diagnosis
