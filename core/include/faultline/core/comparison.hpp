// SPDX-License-Identifier: Apache-2.0
// Comparison of one output of one trial on the host: check_element() of acceptance.hpp over a whole
// tensor, with the figures collected per tile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "faultline/core/output_hash.hpp"
#include "faultline/core/tensor.hpp"
#include "faultline/core/trial.hpp"

namespace faultline::core {

/// Ready to accumulate: name, dtype, geometry and one empty TileTotals per tile.
OutputTotals make_output_totals(const BufferSpec& output);

/// Compare one trial's output with its reference and add what was found to `totals`: counts over
/// trials, worst figures over all elements compared so far. The same element rule as on the device:
/// the counts and worst figures equal those of check_element() called for each element.
///
/// `got` holds the raw elements of `dtype`, packed, in the order of the reference. `poison` is the
/// raw element laid before the launch (poison_bits()). `geometry` must cover exactly the elements.
/// Returns the number of elements that were not accepted.
/// UsageError when there is nothing to compare, or when sizes, dtype or geometry do not fit
/// together: such an output was not compared and must not count as one that was.
std::uint64_t compare_output(std::span<const std::byte> got, Dtype dtype,
                             const ReferenceTensor& reference, const TileGeometry& geometry,
                             std::uint64_t poison, OutputTotals& totals);

/// The same of a tensor, whose shape must also be `shape` where that is given (not empty).
std::uint64_t compare_output(const Tensor& got, const ReferenceTensor& reference,
                             const TileGeometry& geometry, std::uint64_t poison,
                             OutputTotals& totals, const Shape& shape = {});

/// Order-independent hash of packed elements: sum of output_hash_term().
std::uint64_t output_hash(std::span<const std::byte> elements, Dtype dtype);
std::uint64_t output_hash(const Tensor& tensor);
/// The same without the elements that must stay untouched: they hold the poison, which rotates.
std::uint64_t output_hash(const Tensor& tensor, const ReferenceTensor& reference);

}  // namespace faultline::core
