// SPDX-License-Identifier: Apache-2.0
#include "cures.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "words.hpp"

namespace faultline::diagnosis {
namespace {

std::string text_of(const core::ExperimentEvidence& row) {
  const std::string rates =
      fmt::format("{} of {} wrong, against {} of {} further ones of '{}'", count(row.after_wrong),
                  plural(row.after_trials, "further trial"), count(row.before_wrong),
                  count(row.before_trials), row.baseline);
  std::string text;
  const Effect effect = effect_of(row);
  // What is there to provoke failures cures none.
  const bool provokes = row.kind == core::ExperimentEvidence::Kind::knob ||
                        row.kind == core::ExperimentEvidence::Kind::delay ||
                        row.kind == core::ExperimentEvidence::Kind::second_call;
  if (provokes && effect != Effect::not_run && effect != Effect::raised) {
    text = fmt::format("with {}: {}", row.change, rates);
    return row.place.empty() ? text : text + "; one delay is enough, at " + row.place;
  }
  switch (effect) {
  case Effect::not_run: return {};
  case Effect::cured: text = fmt::format("cured by {}: {}", row.change, rates); break;
  case Effect::lowered: text = fmt::format("less often with {}: {}", row.change, rates); break;
  case Effect::raised: text = fmt::format("more often with {}: {}", row.change, rates); break;
  case Effect::unchanged: text = fmt::format("not cured by {}: {}", row.change, rates); break;
  case Effect::open:
    text = fmt::format("{}, too few trials to call it a cure: {}", row.change, rates);
    break;
  }
  if (!row.place.empty()) text += fmt::format("; one delay is enough, at {}", row.place);
  return text;
}

}  // namespace

Effect effect_of(const core::Evidence& evidence, core::ExperimentEvidence::Kind kind) {
  const auto row = std::find_if(evidence.experiments.begin(), evidence.experiments.end(),
                                [&](const auto& e) { return e.kind == kind; });
  return row == evidence.experiments.end() ? Effect::not_run : effect_of(*row);
}

std::string experiment_text(const core::Evidence& evidence, core::ExperimentEvidence::Kind kind) {
  const auto row = std::find_if(evidence.experiments.begin(), evidence.experiments.end(),
                                [&](const auto& e) { return e.kind == kind; });
  return row == evidence.experiments.end() ? std::string() : text_of(*row);
}

bool is_no_cure(Effect effect) {
  return effect == Effect::lowered || effect == Effect::raised || effect == Effect::unchanged;
}

std::vector<std::string> experiment_texts(const core::Evidence& evidence) {
  std::vector<std::string> cures, others;
  for (const core::ExperimentEvidence& row : evidence.experiments) {
    std::string text = text_of(row);
    if (text.empty()) continue;
    (text.starts_with("cured") ? cures : others).push_back(std::move(text));
  }
  cures.insert(cures.end(), others.begin(), others.end());
  return cures;
}

}  // namespace faultline::diagnosis
