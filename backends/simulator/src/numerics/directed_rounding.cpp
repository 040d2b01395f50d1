// SPDX-License-Identifier: Apache-2.0
// Compiled with -frounding-math; every operand is volatile so that nothing moves across the change
// of the rounding mode.
#include "numerics/directed_rounding.hpp"

#include <cfenv>
#include <cmath>

namespace faultline::simulator {
namespace {

class RoundingGuard {
 public:
  explicit RoundingGuard(Rounding rounding) : previous_(std::fegetround()) {
    int mode = FE_TONEAREST;
    if (rounding == Rounding::toward_zero) mode = FE_TOWARDZERO;
    if (rounding == Rounding::down) mode = FE_DOWNWARD;
    if (rounding == Rounding::up) mode = FE_UPWARD;
    std::fesetround(mode);
  }
  ~RoundingGuard() { std::fesetround(previous_); }
  RoundingGuard(const RoundingGuard&) = delete;
  RoundingGuard& operator=(const RoundingGuard&) = delete;

 private:
  int previous_;
};

template <class T>
T evaluate(FloatOperation operation, Rounding rounding, T a_in, T b_in, T c_in) {
  volatile T a = a_in;
  volatile T b = b_in;
  volatile T c = c_in;
  volatile T result = 0;
  {
    const RoundingGuard guard(rounding);
    switch (operation) {
    case FloatOperation::add: result = a + b; break;
    case FloatOperation::subtract: result = a - b; break;
    case FloatOperation::multiply: result = a * b; break;
    case FloatOperation::divide: result = a / b; break;
    case FloatOperation::square_root: result = std::sqrt(static_cast<T>(a)); break;
    case FloatOperation::multiply_add: result = std::fma(T(a), T(b), T(c)); break;
    }
  }
  return result;
}

template <class T, class I>
T convert(Rounding rounding, I value_in) {
  volatile I value = value_in;
  volatile T result = 0;
  {
    const RoundingGuard guard(rounding);
    result = static_cast<T>(I(value));
  }
  return result;
}

}  // namespace

float directed(FloatOperation operation, Rounding rounding, float a, float b, float c) {
  return evaluate(operation, rounding, a, b, c);
}
double directed(FloatOperation operation, Rounding rounding, double a, double b, double c) {
  return evaluate(operation, rounding, a, b, c);
}
float directed_from_signed(Rounding rounding, std::int64_t value, float) {
  return convert<float>(rounding, value);
}
float directed_from_unsigned(Rounding rounding, std::uint64_t value, float) {
  return convert<float>(rounding, value);
}
double directed_from_signed(Rounding rounding, std::int64_t value, double) {
  return convert<double>(rounding, value);
}
double directed_from_unsigned(Rounding rounding, std::uint64_t value, double) {
  return convert<double>(rounding, value);
}

}  // namespace faultline::simulator
