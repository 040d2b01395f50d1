// SPDX-License-Identifier: Apache-2.0
// Which store a command line means.
#pragma once

#include <cstdlib>

#include "options.hpp"

namespace faultline::app {

/// Whether the store was named by --store, and not by FAULTLINE_STORE, which is not meant for every
/// command in particular.
inline bool is_store_given(const Options& options) {
  const char* from_environment = std::getenv("FAULTLINE_STORE");
  return !options.store.empty() &&
         (from_environment == nullptr || options.store != from_environment);
}

}  // namespace faultline::app
