// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "faultline/core/backend.hpp"

namespace faultline::app {

/// "cuda", "simulator", or "auto": CUDA when a usable device is there, else the simulator. Throws
/// EnvironmentError when the wanted one cannot be had.
/// `timeout_s` limits what is executed outside trials (race FILE.ptx).
std::unique_ptr<core::Backend> choose_backend(const std::string& name, double timeout_s = 60.0);

}  // namespace faultline::app
