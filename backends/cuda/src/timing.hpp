// SPDX-License-Identifier: Apache-2.0
// Steady-state timing: graph replays and single launches between events, L2-cold by rotation.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "device_kernels.hpp"
#include "faultline/core/backend.hpp"

namespace faultline::cuda {

/// Issues one execution on input set `set` in `stream`.
using IssueOnSet = std::function<void(std::uint64_t set, cudaStream_t stream)>;

/// `samples` figures of each kind after two warm-up replays and eight warm-up launches. A graph
/// holds `launches` executions that rotate over the sets; a graph figure is its replay's time over
/// `launches`.
core::Backend::Timing time_executions(const IssueOnSet& issue, std::uint64_t sets,
                                      std::uint64_t launches, unsigned samples, bool graphs,
                                      bool events, cudaStream_t stream);

core::Backend::Timing time_plan(const core::TrialPlan& plan,
                                const core::Backend::TimingRequest& request, ModuleCache& modules,
                                DeviceKernels& kernels);

/// Bytes of device memory that are free.
std::uint64_t free_device_bytes();

double median(std::vector<double> values);

}  // namespace faultline::cuda
