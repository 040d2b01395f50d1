// SPDX-License-Identifier: Apache-2.0
// f32 and f64 arithmetic under the rounding modes rz, rm and rp, by the IEEE unit of the host.
#pragma once

#include "numerics/float_format.hpp"

namespace faultline::simulator {

enum class FloatOperation : std::uint8_t {
  add,
  subtract,
  multiply,
  divide,
  square_root,
  multiply_add
};

float directed(FloatOperation operation, Rounding rounding, float a, float b, float c);
double directed(FloatOperation operation, Rounding rounding, double a, double b, double c);
// Conversions of 64-bit integers, where two roundings would differ from one.
float directed_from_signed(Rounding rounding, std::int64_t value, float);
float directed_from_unsigned(Rounding rounding, std::uint64_t value, float);
double directed_from_signed(Rounding rounding, std::int64_t value, double);
double directed_from_unsigned(Rounding rounding, std::uint64_t value, double);

}  // namespace faultline::simulator
