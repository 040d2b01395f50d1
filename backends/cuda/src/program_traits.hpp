// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "faultline/core/program.hpp"

namespace faultline::cuda {

/// Facts about a program that decide how it may be run.
struct ProgramTraits {
  bool has_host_steps = false;
  bool has_captures = false;
  bool multiple_streams = false;
  bool launches_in_several_streams = false;
  bool reloads_modules = false;   ///< before launches: cannot be captured
  bool has_clusters = false;      ///< of more than one block
  std::uint64_t blocks = 0;       ///< over all launches
  std::uint64_t most_blocks = 0;  ///< that may run at the same time: of the largest launch, or
                                  ///< where there are several streams of all
  std::uint32_t launches = 0;
  std::uint32_t largest_dynamic_shared = 0;
};
ProgramTraits traits_of(const core::Program& program);

}  // namespace faultline::cuda
