// SPDX-License-Identifier: Apache-2.0
// NumPy's .npy files: one array, a text header and the raw elements.
// Format: numpy.lib.format, versions 1.0, 2.0 and 3.0.
#pragma once

#include <filesystem>
#include <span>

#include "faultline/core/tensor.hpp"

namespace faultline::app {

/// The array in a file: float16, float32 or float64, little-endian, C order; the file must hold
/// exactly as many bytes as its shape asks for. UsageError, naming the file, for all else, also for
/// what is no regular file; EnvironmentError when there is no memory for it.
core::Tensor read_npy(const std::filesystem::path& path);

/// Writes a float64 array (version 1.0), whole or not at all (reports::write_output()).
/// EnvironmentError when it cannot be written, which calls it `shown` when that is not empty.
void write_npy(const std::filesystem::path& path, const core::Shape& shape,
               std::span<const double> values, const std::filesystem::path& shown = {});

}  // namespace faultline::app
