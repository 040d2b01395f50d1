// SPDX-License-Identifier: Apache-2.0
#include "examine_terms.hpp"

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "faultline/core/errors.hpp"
#include "faultline/stress/captures.hpp"

namespace faultline::stress::detail {
namespace {

constexpr std::size_t kInputSets = 2;

std::vector<const core::Capture*>
captures_to_examine(const std::vector<const core::TrialResult*>& results) {
  std::vector<const core::Capture*> chosen;
  for (const core::TrialResult* result : results) {
    for (const core::Capture& capture : result->captures) {
      const bool known = std::any_of(chosen.begin(), chosen.end(), [&](const core::Capture* c) {
        return c->input_seed == capture.input_seed;
      });
      if (!known && chosen.size() < kInputSets) chosen.push_back(&capture);
    }
  }
  return chosen;
}

/// Gives all trials the same hypotheses in the same order, by name. With other inputs a term may
/// vanish altogether, or coincide with another one, and is left out: there it has no effect of its
/// own.
void match_by_name(std::vector<ExaminedTrial>& trials) {
  std::vector<core::ErrorHypothesis> all;  // without effects
  const auto find = [](std::vector<core::ErrorHypothesis>& in, const std::string& name) {
    return std::find_if(in.begin(), in.end(), [&](const auto& h) { return h.name == name; });
  };
  for (const ExaminedTrial& trial : trials) {
    for (const core::ErrorHypothesis& h : trial.hypotheses) {
      const auto known = find(all, h.name);
      if (known == all.end()) {
        all.push_back({h.name, h.terms, h.kind, {}, h.left_out});
      } else if (h.left_out.empty()) {
        known->left_out.clear();  // evaluated at least once
      }
    }
  }
  for (ExaminedTrial& trial : trials) {
    std::vector<core::ErrorHypothesis> matched = all;
    for (core::ErrorHypothesis& h : trial.hypotheses) {
      find(matched, h.name)->effect = std::move(h.effect);
    }
    trial.hypotheses = std::move(matched);
  }
}

/// References are kept beside the trials that point to them.
struct Examined {
  std::vector<std::vector<core::ReferenceTensor>> references;
  std::vector<ExaminedTrial> trials;
};

Examined examine(const core::TrialPlan& plan, core::DataMode data,
                 const std::vector<const core::Capture*>& captures, std::uint64_t input_seed,
                 const std::vector<std::size_t>& captured) {
  const std::vector<std::uint32_t> outputs = plan.output_indices();
  const core::PoisonMap poisons(plan.buffers);
  const std::size_t count = std::max<std::size_t>(captures.size(), 1);
  Examined examined;
  examined.references.reserve(count);
  for (std::size_t n = 0; n < count; ++n) {
    const core::Capture* capture = captures.empty() ? nullptr : captures[n];
    const std::vector<core::Tensor> inputs =
        make_inputs(plan, data, capture ? capture->input_seed : input_seed);
    ExaminedTrial trial;
    trial.hypotheses = plan.error_hypotheses(inputs);
    examined.references.push_back(plan.reference(inputs));
    const std::vector<core::ReferenceTensor>& references = examined.references.back();
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      const core::BufferSpec& spec = plan.buffers[outputs[o]];
      ExaminedOutput output;
      output.name = spec.name;
      output.reference = &references.at(o);
      output.tiles = spec.tiles;
      output.dtype = spec.dtype;
      if (capture) {
        output.got = &capture->outputs.at(captured.empty() ? o : captured[o]);
        output.poison = poisons.of(outputs[o], capture->poison);
      }
      trial.outputs.push_back(std::move(output));
    }
    examined.trials.push_back(std::move(trial));
  }
  match_by_name(examined.trials);
  return examined;
}

}  // namespace

TermRegression examine_terms(const core::TrialPlan& plan, core::DataMode data,
                             const std::vector<const core::TrialResult*>& results,
                             std::uint64_t input_seed, const std::vector<std::size_t>& captured,
                             std::string& trouble) {
  if (!plan.error_hypotheses || !plan.reference) return {};
  const auto not_examined = [](const std::exception& e) {
    return fmt::format("the named terms were not examined: {}", e.what());
  };
  try {
    const Examined examined =
        examine(plan, data, captures_to_examine(results), input_seed, captured);
    return regress_terms(examined.trials);
  } catch (const std::bad_alloc& e) {
    trouble = not_examined(e);
  } catch (const core::EnvironmentError& e) {
    trouble = not_examined(e);
  }
  return {};
}

void add_terms(core::Evidence& evidence, TermRegression regression, const std::string& problem,
               const std::string& config) {
  for (core::TermEvidence& term : regression.terms) {
    term.problem = problem;
    term.config = config;
    evidence.terms.push_back(std::move(term));
  }
  for (core::TermCombinationEvidence& combination : regression.combinations) {
    combination.problem = problem;
    combination.config = config;
    evidence.term_combinations.push_back(std::move(combination));
  }
}

}  // namespace faultline::stress::detail
