// SPDX-License-Identifier: Apache-2.0
// output_rounding: not a failure. A test against a rounded reference sees a maximum error that is a
// power of two, because it is exactly one unit in the last place of the 16-bit output.
#include <cmath>

#include <fmt/format.h>

#include "../words.hpp"
#include "rule.hpp"

namespace faultline::diagnosis {
namespace {

constexpr double kFewUlps = 1.5;

bool is_power_of_two(double x) {
  int exponent = 0;
  return std::isfinite(x) && x > 0.0 && std::frexp(x, &exponent) == 0.5;
}

}  // namespace

std::optional<core::Finding> find_output_rounding(const Facts& facts) {
  core::Finding finding;
  finding.finding = core::FindingClass::output_rounding;
  finding.severity = core::Severity::note;
  finding.confidence = 0.5;
  for (const core::OutputTotals& output : facts.outputs) {
    const bool narrow = output.dtype == core::Dtype::f16 || output.dtype == core::Dtype::bf16;
    const bool accepted = output.compared_elements > 0 && output.bad_elements == 0;
    if (!narrow || !accepted || !is_power_of_two(output.worst_rounded_error)) continue;
    // An element that cancels may be many of its own, tiny ulps away; what counts is whether the
    // largest errors are ulps of the large values at which they occur.
    const double ulp = core::ulp_at(output.dtype, output.worst_error_expected);
    if (!(output.worst_ulps <= kFewUlps) && !(output.worst_rounded_error <= ulp)) continue;
    const double low = std::ldexp(output.worst_rounded_error, core::mantissa_bits(output.dtype));
    finding.evidence.push_back(
        fmt::format("{}: max_err {} against a rounded reference is exactly 1 {} ulp in [{}, {})",
                    output.name, number(output.worst_rounded_error), dtype_text(output.dtype),
                    number(low), number(2 * low)));
    finding.evidence.push_back(
        output.worst_ulps <= kFewUlps
            ? fmt::format("{}: no element is more than {} of its own ulps from the unrounded "
                          "reference; beyond rounding the worst one uses {} of the bound",
                          output.name, number(output.worst_ulps), number(output.worst_ratio))
            : fmt::format("{}: beyond rounding the worst element uses {} of the bound; elements "
                          "near zero, where terms cancel, are up to {} of their own ulps off, "
                          "because an ulp is tiny there: no large error",
                          output.name, number(output.worst_ratio), number(output.worst_ulps)));
  }
  if (finding.evidence.empty()) return std::nullopt;
  finding.headline =
      fmt::format("the power-of-two max_err of {} is the rounding of its output, not a defect",
                  subject_text(facts.evidence));
  finding.runner_up = core::FindingClass::systematic_offset;
  finding.runner_up_reason = "an offset would leave the interval of bound and rounding, in which "
                             "every element lies";
  return finding;
}

}  // namespace faultline::diagnosis
