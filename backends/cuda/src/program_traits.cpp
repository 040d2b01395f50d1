// SPDX-License-Identifier: Apache-2.0
#include "program_traits.hpp"

#include <algorithm>
#include <set>
#include <variant>

#include "faultline/core/launch_streams.hpp"

namespace faultline::cuda {

ProgramTraits traits_of(const core::Program& program) {
  ProgramTraits traits;
  std::set<core::StreamId> streams;
  for (const core::Operation& operation : program.operations) {
    streams.insert(operation.stream);
    if (const auto* launch = std::get_if<core::LaunchOperation>(&operation.what)) {
      ++traits.launches;
      traits.reloads_modules |= launch->reload_module;
      traits.has_clusters |= launch->cluster[0] * launch->cluster[1] * launch->cluster[2] > 1;
      const std::uint64_t blocks =
          std::uint64_t{launch->grid[0]} * launch->grid[1] * launch->grid[2];
      traits.blocks += blocks;
      traits.most_blocks = std::max(traits.most_blocks, blocks);
      traits.largest_dynamic_shared =
          std::max(traits.largest_dynamic_shared, launch->dynamic_shared_bytes);
    }
    traits.has_host_steps |= std::holds_alternative<core::HostStepOperation>(operation.what);
    traits.has_captures |= std::holds_alternative<core::CaptureBeginOperation>(operation.what);
  }
  streams.insert(0);
  traits.multiple_streams = streams.size() > 1;
  if (traits.multiple_streams) traits.most_blocks = traits.blocks;
  traits.launches_in_several_streams = core::launches_in_several_streams(program);
  return traits;
}

}  // namespace faultline::cuda
