// SPDX-License-Identifier: Apache-2.0
// The rounding errors of a delta rule that inverts A = I + M by repeated squaring in fp32.
//
// X = A^-1 = prod_r (I + P^(2^r)), P = -M, is exact since M is nilpotent, but where keys correlate
// its factors grow like binomials while X stays of order one: what cancels leaves the rounding
// errors of the large. Forward substitution, by which every reference inverts, has no such
// weakness.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include <faultline/core/trial.hpp>
#include <faultline/reference/deltanet.hpp>

namespace faultline::reference {

/// Who adds up the fp32 products.
enum class Fp32Sums {
  nearest,    ///< each sum rounded to nearest, term by term
  truncated,  ///< tensor cores: three tf32 products for one of fp32, eight terms aligned to the
              ///< largest and cut off, the sum towards zero
};

/// o and hT of the chunkwise form in double, but for X, which is found by repeated squaring in
/// fp32 from an M whose elements are off by up to half an fp32 ulp at random (`seed`): one draw of
/// the rounding errors. UsageError when chunk < 1.
DeltaOutputs squaring_forward(const DeltaInputs& inputs, std::int64_t chunk, std::uint64_t seed,
                              Fp32Sums sums = Fp32Sums::nearest);

/// The error hypothesis "squaring" or "squaring_truncated" (rounding): per element of `outputs` the
/// root mean square, over a few draws and the rows of 16 around it, of what squaring does to o and
/// hT; gradients have no effect. Left out when there are more than `value_limit` values, or no draw
/// is finite.
core::ErrorHypothesis squaring_hypothesis(const DeltaInputs& inputs, std::int64_t chunk,
                                          std::span<const DeltaOutput> outputs,
                                          Fp32Sums sums = Fp32Sums::nearest,
                                          std::int64_t value_limit = 1 << 25);

}  // namespace faultline::reference
