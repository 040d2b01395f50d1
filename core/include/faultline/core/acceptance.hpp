// SPDX-License-Identifier: Apache-2.0
// The one acceptance rule of faultline, for host and device.
//
// `got` is accepted when it lies in [RN(expected - bound), RN(expected + bound)], RN = round to
// nearest in the stored dtype, `expected` the unrounded double-precision reference. An element is
// accepted only when the comparison is true: NaN is classified by its bits first and can never
// pass.
#pragma once

#include "faultline/core/dtype.hpp"

namespace faultline::core {

/// What one element is. Everything but `accepted` is a failure.
enum class ElementClass : uint8_t {
  accepted = 0,
  out_of_bound = 1,  ///< finite, outside the interval
  not_a_number = 2,
  infinite = 3,      ///< infinite where the interval's end is finite
  poison = 4,        ///< bit-equal to the poison laid before the launch, and not acceptable
  no_reference = 5,  ///< reference or bound NaN or infinite, or bound negative: nothing to say
  overwritten = 6,   ///< the kernel wrote where it must not (must_stay_untouched())
};

/// One element compared.
struct ElementCheck {
  ElementClass kind = ElementClass::no_reference;
  double error = 0.0;  ///< |got - expected|; infinity for NaN and Inf
  /// Error beyond output rounding as a fraction of the bound: distance of `got` from the rounding
  /// interval of `expected`, over the bound. <= 1 exactly for accepted elements. 0 when got ==
  /// RN(expected).
  double ratio = 0.0;
  double ulps = 0.0;  ///< |got - expected| in output ulps at `expected`
};

/// The bound that marks an element which the kernel must not write (the padding of a strided
/// output): it is accepted exactly while it holds the poison laid before the launch.
/// A quiet NaN with a payload of its own, told by its bits: no arithmetic gone wrong makes it.
FAULTLINE_HD double must_stay_untouched() { return double_of(0x7ff8756e746f7563ull); }
FAULTLINE_HD bool stays_untouched(double bound) { return bits_of(bound) == 0x7ff8756e746f7563ull; }

/// Compare the element with raw bits `got` of `dtype`. `poison` holds the raw bits laid down before
/// the launch. bound >= 0, in units of the value.
FAULTLINE_HD ElementCheck check_element(Dtype dtype, uint64_t got, double expected, double bound,
                                        uint64_t poison) {
  ElementCheck r;
  const double infinity = double_of(0x7ff0000000000000ull);
  if (stays_untouched(bound)) {
    r.kind = got == poison ? ElementClass::accepted : ElementClass::overwritten;
    r.error = r.ulps = 0.0;
    r.ratio = got == poison ? 0.0 : infinity;
    return r;
  }
  const double value = decode(dtype, got);
  const bool reference_ok =
      is_finite(expected) && is_finite(bound) && !(bits_of(bound) >> 63 && bound != 0.0);
  if (!reference_ok) {
    r.kind = ElementClass::no_reference;
    r.error = r.ratio = r.ulps = infinity;
    return r;
  }
  const double low = round_to(dtype, expected - bound), high = round_to(dtype, expected + bound);
  if (is_nan(value)) {
    r.kind = got == poison ? ElementClass::poison : ElementClass::not_a_number;
    r.error = r.ratio = r.ulps = infinity;
    return r;
  }
  if (value >= low && value <= high) {
    r.kind = ElementClass::accepted;
  } else if (got == poison) {
    r.kind = ElementClass::poison;
  } else {
    r.kind = is_inf(value) ? ElementClass::infinite : ElementClass::out_of_bound;
  }
  if (is_inf(value)) {
    const bool ok = r.kind == ElementClass::accepted;
    r.error = r.ulps = infinity;
    r.ratio = !ok ? infinity : value == round_to(dtype, expected) ? 0.0 : 1.0;
    return r;
  }
  const double difference = value - expected;
  r.error = difference < 0 ? -difference : difference;
  const double nearest = round_to(dtype, expected);
  r.ulps = is_finite(nearest) ? r.error / ulp_at(dtype, nearest) : infinity;
  if (value == nearest) {
    r.ratio = 0.0;
  } else {
    // Half an ulp belongs to output rounding; the rest is measured against the bound.
    const double half = 0.5 * ulp_at(dtype, value);
    const double beyond = r.error > half ? r.error - half : 0.0;
    r.ratio = bound > 0.0 ? beyond / bound : (beyond > 0.0 ? infinity : 0.0);
    if (r.kind == ElementClass::accepted && r.ratio > 1.0) r.ratio = 1.0;
    if (r.kind != ElementClass::accepted && !(r.ratio > 1.0)) {
      r.ratio = 1.0 + exp2_int(-40);  // rejected elements are strictly beyond 1
    }
  }
  return r;
}

/// Failures have a kind other than accepted.
FAULTLINE_HD bool is_failure(ElementClass kind) { return kind != ElementClass::accepted; }

}  // namespace faultline::core
