// SPDX-License-Identifier: Apache-2.0
// Launches of the chunkwise backward (backward.cuh, backward_plain.cuh).
#pragma once

#include "deltanet/family.hpp"
#include "deltanet/forward.hpp"

#include <faultline/core/program.hpp>
#include <faultline/reference/deltanet_bounds.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace faultline::kernels::deltanet {

/// Where the backward's tensors stand among a plan's buffers; the forward's beside them.
struct BackwardBuffers {
  ForwardBuffers forward{};
  std::uint32_t d_o = 0, dhT = 0;
  std::uint32_t dq = 0, dk = 0, dv = 0, dbeta = 0, dh0 = 0;
  std::optional<std::uint32_t> dg{};                                   ///< none: not gated
  std::uint32_t du_partial = 0, decays = 0, dh = 0, du = 0;            ///< workspaces
  std::optional<std::uint32_t> transitions{}, constants{}, factors{};  ///< of several segments
};

struct BackwardOptions {
  core::Dtype dtype = core::Dtype::f16;
  std::int64_t chunk = 64;
  std::int64_t segments = 1;
  float scale = 1.0f;
  std::string variant = "chunkwise";  ///< of deltanet_bwd
};

/// At most `segments`, none of them empty.
std::int64_t whole_segments(std::int64_t chunks, std::int64_t segments);
/// As many segments as keep `heads` heads' recurrences on 128 multiprocessors, of at least
/// four chunks each.
std::int64_t default_segments(std::int64_t heads, std::int64_t chunks);
/// Chunks of a segment; the last may have fewer.
std::int64_t chunks_per_segment(std::int64_t chunks, std::int64_t segments);

/// Of the forward before a backward of that many segments: 0 (one pass) when that is one pass too.
std::int64_t forward_segment(const Extents& extents, core::Dtype dtype, std::int64_t chunk,
                             std::int64_t segments);

/// du_partial [B,H,T,DV], gradient_decays [B,H,N,2C+4] fp32, dh [B,H,N,DK,DV], du [B,H,T,DV]; of
/// several segments also gradient_transitions, gradient_constants and gradient_factors.
std::vector<core::BufferSpec> backward_workspaces(const Extents& extents, core::Dtype dtype,
                                                  std::int64_t chunk, std::int64_t segments);

/// Buffers by their names in the plan.
BackwardBuffers backward_buffers(const std::vector<core::BufferSpec>& buffers);

/// Adds local, segments (of several), state and gradients; the forward's workspaces are there.
/// UsageError when the variant is not built for these extents.
void add_backward(core::Program& program, const Extents& extents, const BackwardBuffers& buffers,
                  const BackwardOptions& options, std::uint32_t batch);

/// Where these kernels and the forward's before them round.
reference::DeltaNumerics backward_numerics(const Extents& extents, const BackwardOptions& options,
                                           bool gated);

}  // namespace faultline::kernels::deltanet
