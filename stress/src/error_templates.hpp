// SPDX-License-Identifier: Apache-2.0
// What does the error of an output's worst tile look like? Templates are what got - expected would
// be, had one thing been read or left out instead of another (core::TemplateEvidence). Nothing is
// fitted to the values but the rows of a torn tile. Named terms and low precisions of a subject are
// templates with a coefficient: see regress_terms().
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "faultline/core/evidence.hpp"
#include "faultline/core/poison.hpp"
#include "faultline/core/trial.hpp"

namespace faultline::stress::detail {

/// What the templates of one failing trial are made of.
struct TemplateSources {
  const std::vector<core::Tensor>& inputs;
  const std::vector<core::ReferenceTensor>& expected;       ///< one for each output
  const std::vector<core::TileHypothesis>& hypotheses;      ///< may be empty
  const std::vector<core::ReferenceTensor>* previous = {};  ///< of the trial before; may be null
};

/// Keeps the best two templates of each output, for the first trial in which it is wrong.
class ErrorTemplates {
 public:
  explicit ErrorTemplates(const core::TrialPlan& plan);

  /// True once every output was wrong in some trial: nothing more is looked at.
  bool complete() const;
  void add(const core::Capture& capture, const TemplateSources& sources);
  std::vector<core::TemplateEvidence> result() const;

 private:
  const core::TrialPlan& plan_;
  core::PoisonMap poisons_;
  std::vector<std::uint32_t> indices_;
  std::vector<std::vector<core::TemplateEvidence>> found_;  ///< of each output, the best first
  std::vector<bool> examined_;
};

}  // namespace faultline::stress::detail
