// SPDX-License-Identifier: Apache-2.0
// Tensors as double arrays, fast enough for gigabyte matrices.
#pragma once

#include <faultline/core/tensor.hpp>

#include <cstdint>
#include <functional>

namespace faultline::reference {

/// destination[i] = element first + i of the tensor, exactly, for i < count.
void decode_range(const core::Tensor& tensor, std::int64_t first, std::int64_t count,
                  double* destination);

/// Calls work(begin, end) over a partition of [0, count) from up to hardware_concurrency threads,
/// from this one alone when `cost` (element operations) is small. Rethrows the first exception;
/// core::throw_if_stopped() works in all of them.
void parallel_ranges(std::int64_t count, double cost,
                     const std::function<void(std::int64_t begin, std::int64_t end)>& work);

}  // namespace faultline::reference
