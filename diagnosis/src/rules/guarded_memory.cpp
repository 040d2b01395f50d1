// SPDX-License-Identifier: Apache-2.0
// layout and oob: the kernel wrote where it must not, between the rows of a strided output or
// beyond them. Where the stray values are the right values of other elements, the address is
// computed with the wrong pitch or order (layout); otherwise the kernel writes too far (oob).
#include <fmt/format.h>

#include "../words.hpp"
#include "rule.hpp"

namespace faultline::diagnosis {
namespace {

/// By chance a stray value equals some element of the reference; not nine in ten of them.
constexpr double kDisplacedShare = 0.9;

const core::ErrorShapeEvidence* overwritten_shape(const Facts& facts) {
  const auto& shape = facts.evidence.error_shape;
  return shape && shape->overwritten > 0 ? &*shape : nullptr;
}

/// A few stray values agree with something by chance.
constexpr std::uint64_t kLeastDisplaced = 8;

bool displaced(const core::ErrorShapeEvidence& shape) {
  if (shape.displaced < kLeastDisplaced) return false;
  return static_cast<double>(shape.displaced) >=
         kDisplacedShare * static_cast<double>(shape.overwritten);
}

core::Finding start(const Facts& facts, core::FindingClass finding_class,
                    const core::ErrorShapeEvidence& shape) {
  core::Finding finding;
  finding.finding = finding_class;
  finding.severity = core::Severity::error;
  finding.evidence.push_back(fmt::format(
      "{} elements between or beyond the rows of the output no longer hold the poison that was "
      "laid there",
      share(shape.overwritten, shape.guarded)));
  for (const core::OutputTotals* output : wrong_outputs(facts)) {
    finding.evidence.push_back(wrong_place(facts, *output));
  }
  return finding;
}

}  // namespace

std::optional<core::Finding> find_layout(const Facts& facts) {
  const core::ErrorShapeEvidence* shape = overwritten_shape(facts);
  if (!shape || !displaced(*shape)) return std::nullopt;
  core::Finding finding = start(facts, core::FindingClass::layout, *shape);
  finding.confidence = 0.97;
  finding.headline = fmt::format("{} writes right values to wrong places: a pitch or an order of "
                                 "dimensions is ignored",
                                 subject_text(facts.evidence));
  finding.evidence.push_back(fmt::format(
      "{} of them hold, within its bound, what belongs to another element of the output",
      count(shape->displaced)));
  if (shape->equal_poison > 0) {
    finding.evidence.push_back(fmt::format("{} that should have been written still hold the poison",
                                           plural(shape->equal_poison, "element")));
  }
  finding.runner_up = core::FindingClass::oob;
  finding.runner_up_reason = "a write too far would leave no hole where the values belong";
  finding.advice = "Use the destination's own pitch; compare a contiguous twin with a strided one.";
  return finding;
}

std::optional<core::Finding> find_oob(const Facts& facts) {
  const core::ErrorShapeEvidence* shape = overwritten_shape(facts);
  if (!shape || displaced(*shape)) return std::nullopt;
  core::Finding finding = start(facts, core::FindingClass::oob, *shape);
  finding.confidence = 0.95;
  finding.headline =
      fmt::format("{} writes outside the elements of its output", subject_text(facts.evidence));
  finding.runner_up = core::FindingClass::layout;
  const bool few = shape->displaced > 0 && shape->displaced == shape->overwritten;
  finding.runner_up_reason =
      few ? fmt::format(
                "the stray values all belong to another element, but {} may do so by chance",
                share(shape->displaced, shape->overwritten))
          : fmt::format("only {} of the stray values belong to another element",
                        share(shape->displaced, shape->overwritten));
  finding.advice = "Guard the store by the extent of the output, not by that of the tile.";
  return finding;
}

}  // namespace faultline::diagnosis
