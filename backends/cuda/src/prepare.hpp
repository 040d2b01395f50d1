// SPDX-License-Identifier: Apache-2.0
// Inputs drawn, outputs and workspaces poisoned, for all buffers of a plan in one launch.
#pragma once

#include <span>
#include <vector>

#include "device_kernels.hpp"
#include "faultline/core/trial.hpp"

namespace faultline::cuda {

/// How a buffer cut like this is poisoned: all but where it lies. UnsupportedError for a tensor of
/// 2^31 elements or more with rows, columns or tiles that long, which are no power of two.
abi::PoisonSlot poison_slot(const core::BufferSpec& buffer, const core::TileGeometry& tiles,
                            const core::Poison& poison);
/// Of each of the plan's buffers, in order; those that get no poison have no elements.
std::vector<abi::PoisonSlot> poison_slots(const core::TrialPlan& plan);

/// `buffers` are the plan's, in order, each with room for range.batch trials. `draw` fills the
/// inputs. `poison`, poison_slots() of the plan, lays core::PoisonMap's with the pattern
/// core::poison_word(trial) over outputs and workspaces: a workspace that a program reads before it
/// writes it must not hold what the trial before left, or a friendly zero. Empty: nothing is laid.
void prepare_buffers(const core::TrialPlan& plan, core::DataMode data,
                     std::span<const BoundBuffer> buffers, const abi::TrialRange& range, bool draw,
                     std::span<const abi::PoisonSlot> poison, DeviceKernels& kernels,
                     cudaStream_t stream);

}  // namespace faultline::cuda
