// SPDX-License-Identifier: Apache-2.0
// A closer look at the outputs of failing trials: whose data do wrong tiles hold, what do the
// errors look like, do they follow the poison?
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "faultline/core/evidence.hpp"
#include "faultline/core/trial.hpp"

namespace faultline::stress {

/// The inputs of a trial, in buffer order, inputs only. Tensor number = index among all buffers.
std::vector<core::Tensor> make_inputs(const core::TrialPlan& plan, core::DataMode data,
                                      std::uint64_t input_seed);

struct CaptureExamination {
  std::vector<core::ProvenanceEvidence> provenance;     ///< by output, destination
  std::optional<core::ErrorShapeEvidence> shape;        ///< nothing was captured: empty
  std::vector<core::AlternativeEvidence> alternatives;  ///< of those the plan names, by output
  std::vector<core::ErrorReading> readings;             ///< of what is wrong, by output
  std::vector<core::FootprintEvidence> footprints;      ///< of outputs with wrong elements
  std::vector<core::TemplateEvidence> templates;        ///< the best first, of each output
};

/// Inputs are regenerated and the reference and the hypotheses recomputed once per input set, for
/// the first 8 input sets; captures beyond these are left alone. Deterministic. `templates`: also
/// the bank of error templates, which takes most of the time; no class of a finding depends on it.
CaptureExamination examine_captures(const core::TrialPlan& plan, core::DataMode data,
                                    const std::vector<const core::TrialResult*>& results,
                                    bool templates = true);

}  // namespace faultline::stress
