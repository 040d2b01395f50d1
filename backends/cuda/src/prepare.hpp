// SPDX-License-Identifier: Apache-2.0
// Inputs drawn, outputs and workspaces poisoned, for all buffers of a plan in one launch.
#pragma once

#include <span>

#include "device_kernels.hpp"
#include "faultline/core/trial.hpp"

namespace faultline::cuda {

/// `buffers` are the plan's, in order, each with room for range.batch trials. `draw` fills the
/// inputs, `poison` lays core::poison_word(trial) over outputs and workspaces: a workspace that a
/// program reads before it writes it must not hold what the trial before left, or a friendly zero.
void prepare_buffers(const core::TrialPlan& plan, core::DataMode data,
                     std::span<const BoundBuffer> buffers, const abi::TrialRange& range, bool draw,
                     bool poison, DeviceKernels& kernels, cudaStream_t stream);

}  // namespace faultline::cuda
