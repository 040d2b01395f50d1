// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace faultline::app {

/// The version of the build, "0.1.0".
extern const char* const kVersion;

}  // namespace faultline::app
