// SPDX-License-Identifier: Apache-2.0
// Floating-point elements by their bits: NaNs of every payload, infinities, subnormals, every
// exponent. RapidCheck's arbitrary<double> draws none of the first three.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "faultline/core/dtype.hpp"
#include "faultline/properties/value_domain.hpp"

namespace faultline::properties {

/// One element as stored. Prints as "bf16:0x7fc0".
struct ElementBits {
  core::Dtype dtype = core::Dtype::f32;
  std::uint64_t bits = 0;

  double value() const { return core::decode(dtype, bits); }
  friend bool operator==(const ElementBits&, const ElementBits&) = default;
};
std::ostream& operator<<(std::ostream& out, const ElementBits& element);

/// What a property wants of its elements.
enum class FloatKind : std::uint8_t { any, finite };

/// Elements of the dtypes listed (all four when empty): a quarter specials (zeros, infinities,
/// quiet and signalling NaNs, largest, smallest normal and subnormal, one), the rest subnormals,
/// powers of two and their neighbours, every exponent alike, small integers. Shrinks towards 1 and
/// 0 of the first dtype: mantissa bits cleared, exponent halved towards 0.
ValueDomain<ElementBits> elements(std::vector<core::Dtype> dtypes = {},
                                  FloatKind kind = FloatKind::any);

}  // namespace faultline::properties
