// SPDX-License-Identifier: Apache-2.0
// Launches of the chunkwise forward (forward.cuh, forward_plain.cuh), for the subjects that run it:
// the forward itself, and the backward, which starts from its workspaces.
#pragma once

#include "deltanet/family.hpp"

#include <faultline/core/program.hpp>
#include <faultline/reference/deltanet_bounds.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace faultline::kernels::deltanet {

/// Where the forward's tensors stand among a plan's buffers.
struct ForwardBuffers {
  std::uint32_t q = 0, k = 0, v = 0, beta = 0, h0 = 0;
  std::optional<std::uint32_t> g{};                     ///< none: not gated
  std::optional<std::uint32_t> o{};                     ///< none: no output kernel
  std::uint32_t hT = 0;                                 ///< an output or a workspace
  std::uint32_t x = 0, w = 0, u = 0, h = 0, v_new = 0;  ///< workspaces
  std::uint32_t gates = 0, state_decays = 0;
  std::optional<std::uint32_t> transitions{}, locals{};  ///< with segments
};

struct ForwardOptions {
  core::Dtype dtype = core::Dtype::f16;
  std::int64_t chunk = 64;
  std::int64_t segment = 0;  ///< chunks of a segment of the state's recurrence; 0: one pass
  float scale = 1.0f;
  std::string variant = "chunkwise";  ///< of deltanet_fwd
};

/// The workspaces in the order in which the algorithm computes them: gates [B,H,N,C] and
/// state_decays [B,H,N,C+4] fp32, x [B,H,T,C], w, u, with segments transitions and locals, then h
/// [B,H,N,DK,DV] and v_new. x, w, u, h, v_new are intermediates of the reference.
std::vector<core::BufferSpec> forward_workspaces(const Extents& extents, core::Dtype dtype,
                                                 std::int64_t chunk, std::int64_t segment = 0);

/// Chunks of a segment that keep a large GPU busy: 0 where one pass does, as for few chunks or many
/// heads, or where segments are not built (fp32; dk > 2 chunk).
std::int64_t preferred_segment(const Extents& extents, core::Dtype dtype, std::int64_t chunk);

/// Buffers by their names in the plan ("q", "x", ...); o and g as they are there.
ForwardBuffers forward_buffers(const std::vector<core::BufferSpec>& buffers);

/// Adds prepare, transitions with segments, states and, with buffers.o, output. UsageError when the
/// variant is not built for these extents.
void add_forward(core::Program& program, const Extents& extents, const ForwardBuffers& buffers,
                 const ForwardOptions& options, std::uint32_t batch);

/// The variant inverts I + M by repeated squaring.
bool inverts_by_squaring(const std::string& variant);

/// Where these kernels round.
reference::DeltaNumerics forward_numerics(core::Dtype dtype, std::int64_t chunk, bool gated,
                                          std::int64_t segment = 0);

}  // namespace faultline::kernels::deltanet
