// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "faultline/core/backend.hpp"

namespace faultline::app {

/// "cuda", "simulator", or "auto": CUDA when a usable device is there, else the simulator. Throws
/// EnvironmentError when the wanted one cannot be had.
std::unique_ptr<core::Backend> choose_backend(const std::string& name);

}  // namespace faultline::app
