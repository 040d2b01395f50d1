// SPDX-License-Identifier: Apache-2.0
// Comparison of one output of one trial on the host: check_element() of acceptance.hpp over a whole
// tensor, with the figures collected per tile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "faultline/core/dtype.hpp"
#include "faultline/core/output_hash.hpp"
#include "faultline/core/poison.hpp"
#include "faultline/core/tensor.hpp"
#include "faultline/core/trial.hpp"

namespace faultline::core {

/// Bins of errors. Bin 0: exactly 0. Bin 1: above 0, up to 2^-10. Then one for each power of two,
/// its upper end, up to 2^20; one for what is larger; the last for what is infinite or NaN. With 1
/// an end of a bin, accepted elements and rejected ones (error over bound > 1) share none.
inline constexpr std::size_t kErrorBins = 34;
inline constexpr int kLowestErrorExponent = -10;  ///< of the upper end of bin 1
/// Upper end of a bin, which belongs to it: 0, then powers of two; infinite from kErrorBins - 2 on.
double error_bin_limit(std::size_t bin);
inline std::size_t error_bin(double error) {
  if (!(error > 0.0)) return error == 0.0 ? 0 : kErrorBins - 1;
  const std::uint64_t bits = bits_of(error);
  const int exponent = static_cast<int>(bits >> 52) - 1023 + ((bits & ((1ull << 52) - 1)) != 0);
  if (exponent > 1023) return kErrorBins - 1;
  const int bin = exponent - kLowestErrorExponent + 1;
  constexpr int kLast = static_cast<int>(kErrorBins) - 2;
  return static_cast<std::size_t>(bin < 1 ? 1 : bin > kLast ? kLast : bin);
}

/// Add counts by bin; `into` grows as needed.
void add_bins(std::vector<std::uint64_t>& into, std::span<const std::uint64_t> bins);

/// Ready to accumulate: name, dtype, geometry and one empty TileTotals per tile.
OutputTotals make_output_totals(const BufferSpec& output);

/// Compare one trial's output with its reference and add what was found to `totals`: counts over
/// trials, worst figures over all elements compared so far. The same element rule as on the device:
/// the counts and worst figures equal those of check_element() called for each element.
///
/// `got` holds the raw elements of `dtype`, packed, in the order of the reference. `poison` is what
/// was laid there before the launch. `geometry` must cover exactly the elements.
/// Tiles with wrong elements are appended to `wrong_tiles`, with output number 0.
/// Returns the number of elements that were not accepted.
/// UsageError when there is nothing to compare, or when sizes, dtype or geometry do not fit
/// together: such an output was not compared and must not count as one that was.
std::uint64_t compare_output(std::span<const std::byte> got, Dtype dtype,
                             const ReferenceTensor& reference, const TileGeometry& geometry,
                             const Poison& poison, OutputTotals& totals,
                             std::vector<WrongTile>* wrong_tiles = nullptr);

/// The same of a tensor, whose shape must also be `shape` where that is given (not empty).
std::uint64_t compare_output(const Tensor& got, const ReferenceTensor& reference,
                             const TileGeometry& geometry, const Poison& poison,
                             OutputTotals& totals, const Shape& shape = {},
                             std::vector<WrongTile>* wrong_tiles = nullptr);

/// Order-independent hash of packed elements: sum of output_hash_term().
std::uint64_t output_hash(std::span<const std::byte> elements, Dtype dtype);
std::uint64_t output_hash(const Tensor& tensor);
/// The same without the elements that must stay untouched: they hold the poison, which rotates.
std::uint64_t output_hash(const Tensor& tensor, const ReferenceTensor& reference);

}  // namespace faultline::core
