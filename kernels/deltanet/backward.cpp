// SPDX-License-Identifier: Apache-2.0
#include "deltanet/backward.hpp"

#include "deltanet/backward_layout.hpp"
#include "deltanet/launch_arguments.hpp"
#include "faultline_kernel_modules_modules.hpp"
#include "src/subject_support.hpp"

#include <faultline/core/errors.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

namespace faultline::kernels::deltanet {

namespace {

using core::Dtype;

constexpr std::int64_t kMultiprocessors = 128;
constexpr std::int64_t kSegmentChunks = 4;
constexpr std::uint32_t kPlainThreads = 128;

/// The kernels that a mutant replaces, by the names of their defects; all others are clean.
struct Replacement {
  std::string_view variant, state, gradients;
};
constexpr std::array kReplacements{
    Replacement{"drop_a_inv", "none", "a_inv"},
    Replacement{"drop_dh_coefficient", "dh_coefficient", "none"},
    Replacement{"drop_dw_cross", "none", "dw_cross"},
    Replacement{"drop_all_three", "dh_coefficient", "all_three"},
    Replacement{"drop_du_corr", "du_corr", "none"},
    Replacement{"drop_dk_corr", "none", "dk_corr"},
    Replacement{"no_reverse_cumsum", "none", "no_reverse_cumsum"},
};

core::ModuleRef module_of(Dtype dtype, bool mutant, bool wide) {
  using namespace embedded;
  const auto pick = [&](const core::EmbeddedModule& narrow, const core::EmbeddedModule& broad,
                        const core::EmbeddedModule& mutants) {
    return detail::cached_module(mutant ? mutants : wide ? broad : narrow);
  };
  switch (dtype) {
  case Dtype::f16:
    return pick(deltanet_bwd_f16(), deltanet_bwd_f16_wide(), deltanet_bwd_f16_mutants());
  case Dtype::bf16:
    return pick(deltanet_bwd_bf16(), deltanet_bwd_bf16_wide(), deltanet_bwd_bf16_mutants());
  default: return detail::cached_module(deltanet_bwd_f32());
  }
}

/// Launches of one backward over all heads of a batch.
class BackwardLaunches {
 public:
  BackwardLaunches(const Extents& extents, const BackwardBuffers& buffers,
                   const BackwardOptions& options, std::uint32_t batch)
      : e_(extents),
        io_(buffers),
        options_(options),
        maps_{options.dtype, extents.heads() * batch, extents.t, options.chunk},
        heads_(maps_.heads),
        chunks_(extents.chunks(options.chunk)),
        replacement_{options.variant, "none", "none"} {
    for (const Replacement& replacement : kReplacements) {
      if (replacement.variant == options.variant) {
        replacement_ = replacement;
      }
    }
  }

  core::LaunchOperation local() const {
    core::LaunchOperation launch = launch_of("local", "");
    if (plain()) {
      per_chunk_plain(launch);
      add_buffers(launch, {f().q, f().k, io_.d_o, f().gates, io_.du_partial});
      add_plain_extents(launch);
      add_ints(launch, {gated()});
      launch.arguments.push_back(core::scalar(options_.scale));
      return launch;
    }
    launch.grid[0] = static_cast<std::uint32_t>(heads_ * chunks_);
    launch.block[0] = static_cast<std::uint32_t>(2 * options_.chunk);
    launch.dynamic_shared_bytes = bytes(local_shared_bytes(chunk(), dk(), dv()));
    add_buffers(launch, {f().gates, io_.du_partial, io_.decays});
    add_ints(launch, {e_.t, chunks_, gated()});
    launch.arguments.push_back(core::scalar(options_.scale));
    add_maps(launch, {rows_map(f().q, e_.dk), rows_map(f().k, e_.dk), rows_map(io_.d_o, e_.dv)});
    return launch;
  }

  core::LaunchOperation segments() const {
    core::LaunchOperation launch = launch_of("segments", "");
    launch.grid[0] = static_cast<std::uint32_t>(options_.segments - 1);
    launch.grid[1] = static_cast<std::uint32_t>(heads_);
    launch.grid[2] = 2;
    const StateLayout layout{chunk(), dk(), dv()};
    launch.block[0] = static_cast<std::uint32_t>(layout.segments_threads());
    launch.dynamic_shared_bytes = bytes(layout.segments_bytes());
    add_buffers(launch, {io_.decays, io_.dhT, *io_.transitions, *io_.constants, *io_.factors});
    add_segments(launch);
    add_state_maps(launch);
    return launch;
  }

  core::LaunchOperation state() const {
    core::LaunchOperation launch = launch_of("state", replacement_.state);
    if (plain()) {
      launch.grid[0] = static_cast<std::uint32_t>(e_.dv / kStateColumns);
      launch.grid[1] = static_cast<std::uint32_t>(heads_);
      launch.block[0] = kPlainThreads;
      add_buffers(launch, {f().q, f().k, f().w, io_.d_o, f().gates, io_.du_partial, io_.dhT, io_.dh,
                           io_.du, io_.dh0});
      add_plain_extents(launch);
      add_ints(launch, {gated()});
      launch.arguments.push_back(core::scalar(options_.scale));
      return launch;
    }
    launch.grid[0] = static_cast<std::uint32_t>(options_.segments);
    launch.grid[1] = static_cast<std::uint32_t>(heads_);
    const StateLayout layout{chunk(), dk(), dv()};
    launch.block[0] = static_cast<std::uint32_t>(layout.state_threads());
    launch.dynamic_shared_bytes = bytes(layout.state_bytes());
    add_buffers(launch, {io_.decays, io_.dhT});
    add_optional(launch, io_.constants);
    add_optional(launch, io_.factors);
    add_buffers(launch, {io_.dh0});
    add_segments(launch);
    add_state_maps(launch);
    // Read only when there are several segments; a map must be of some buffer.
    add_maps(
        launch,
        {io_.transitions ? tile_map(*io_.transitions, options_.dtype, e_.dk, e_.dk,
                                    heads_ * options_.segments, e_.dk)
                         : rows_map(f().k, e_.dk),
         tile_map(io_.dh, options_.dtype, e_.dv, e_.dk, heads_ * chunks_, e_.dk, kStateColumns),
         tile_map(io_.du, options_.dtype, e_.dv, e_.t, heads_, options_.chunk, kStateColumns)});
    return launch;
  }

  core::LaunchOperation gradients() const {
    core::LaunchOperation launch = launch_of("gradients", replacement_.gradients);
    if (plain()) {
      per_chunk_plain(launch);
      launch.dynamic_shared_bytes = bytes(plain_gradients_bytes(chunk(), dk(), dv()));
      add_buffers(launch,
                  {f().q, f().k, f().v, f().beta, io_.d_o, f().gates, f().x, f().w, f().u, f().h,
                   f().v_new, io_.du_partial, io_.du, io_.dh, io_.dq, io_.dk, io_.dv, io_.dbeta});
      add_optional(launch, io_.dg);
      add_plain_extents(launch);
      launch.arguments.push_back(core::scalar(options_.scale));
      return launch;
    }
    const bool local_dw =
        replacement_.gradients == "dw_cross" || replacement_.gradients == "all_three";
    const GradientLayout layout{chunk(), dk(), dv(), local_dw};
    launch.grid[0] = static_cast<std::uint32_t>(heads_ * chunks_);
    launch.block[0] = static_cast<std::uint32_t>(layout.threads());
    launch.dynamic_shared_bytes = bytes(layout.bytes());
    add_buffers(launch,
                {f().v, f().beta, f().gates, f().x, f().h, io_.dq, io_.dk, io_.dv, io_.dbeta});
    add_optional(launch, io_.dg);
    add_ints(launch, {e_.t, chunks_});
    launch.arguments.push_back(core::scalar(options_.scale));
    add_maps(launch, {rows_map(f().q, e_.dk), rows_map(f().k, e_.dk), rows_map(io_.d_o, e_.dv),
                      rows_map(f().v_new, e_.dv), rows_map(f().w, e_.dk), rows_map(f().u, e_.dv),
                      state_map(f().h), state_map(io_.dh), rows_map(io_.du, e_.dv),
                      rows_map(io_.du_partial, e_.dv)});
    return launch;
  }

 private:
  const ForwardBuffers& f() const { return io_.forward; }
  bool plain() const { return options_.dtype == Dtype::f32; }
  int chunk() const { return static_cast<int>(options_.chunk); }
  int dk() const { return static_cast<int>(e_.dk); }
  int dv() const { return static_cast<int>(e_.dv); }
  std::int64_t gated() const { return f().g ? 1 : 0; }
  static std::uint32_t bytes(int count) { return static_cast<std::uint32_t>(count); }

  /// `defect`: "" where a kernel has none, "none" or a name.
  core::LaunchOperation launch_of(std::string_view kernel, std::string_view defect) const {
    const bool mutant = !defect.empty() && defect != "none";
    if (mutant && !plain() && (e_.dk != 64 || e_.dv != 64)) {
      throw core::UsageError(
          fmt::format("deltanet_bwd@{} is built in {} for dk=64 and dv=64 only, got dk={} dv={}: "
                      "use those, or dtype=f32",
                      options_.variant, core::name_of(options_.dtype), e_.dk, e_.dv));
    }
    core::LaunchOperation launch;
    launch.module = module_of(options_.dtype, mutant, e_.dk > 64 || e_.dv > 64);
    launch.entry = fmt::format("deltanet_bwd_{}{}{}_{}_c{}", kernel, defect.empty() ? "" : "_",
                               defect, core::name_of(options_.dtype), options_.chunk);
    if (!plain()) {
      launch.entry += fmt::format("_dk{}_dv{}", e_.dk, e_.dv);
    }
    return launch;
  }

  void per_chunk_plain(core::LaunchOperation& launch) const {
    launch.grid[0] = static_cast<std::uint32_t>(chunks_);
    launch.grid[1] = static_cast<std::uint32_t>(heads_);
    launch.block[0] = kPlainThreads;
  }
  void add_plain_extents(core::LaunchOperation& launch) const {
    add_ints(launch, {e_.t, e_.dk, e_.dv});
  }
  void add_segments(core::LaunchOperation& launch) const {
    add_ints(launch, {e_.t, chunks_, options_.segments,
                      chunks_per_segment(chunks_, options_.segments), gated()});
    launch.arguments.push_back(core::scalar(options_.scale));
  }
  void add_state_maps(core::LaunchOperation& launch) const {
    add_maps(launch, {rows_map(f().q, e_.dk), rows_map(f().k, e_.dk), rows_map(f().w, e_.dk),
                      rows_map(io_.d_o, e_.dv), rows_map(io_.du_partial, e_.dv)});
  }
  core::TensorMapArgument rows_map(std::uint32_t buffer, std::int64_t columns) const {
    return maps_.rows(buffer, columns);
  }
  core::TensorMapArgument state_map(std::uint32_t buffer) const {
    return maps_.states(buffer, e_.dk, e_.dv);
  }

  const Extents& e_;
  const BackwardBuffers& io_;
  const BackwardOptions& options_;
  ChunkMaps maps_;
  std::int64_t heads_, chunks_;
  Replacement replacement_;
};

}  // namespace

std::int64_t whole_segments(std::int64_t chunks, std::int64_t segments) {
  const std::int64_t most = std::clamp<std::int64_t>(segments, 1, chunks);
  return detail::ceil_div(chunks, chunks_per_segment(chunks, most));
}

std::int64_t default_segments(std::int64_t heads, std::int64_t chunks) {
  return whole_segments(chunks, std::min(kMultiprocessors / heads, chunks / kSegmentChunks));
}

std::int64_t forward_segment(const Extents& extents, Dtype dtype, std::int64_t chunk,
                             std::int64_t segments) {
  return segments > 1 ? preferred_segment(extents, dtype, chunk) : 0;
}

std::int64_t chunks_per_segment(std::int64_t chunks, std::int64_t segments) {
  return detail::ceil_div(chunks, segments);
}

std::vector<core::BufferSpec> backward_workspaces(const Extents& e, Dtype dtype, std::int64_t chunk,
                                                  std::int64_t segments) {
  const std::int64_t n = e.chunks(chunk);
  std::vector<core::BufferSpec> buffers{
      workspace_buffer("du_partial", dtype, {e.b, e.h, e.t, e.dv}, chunk),
      workspace_buffer("gradient_decays", Dtype::f32,
                       {e.b, e.h, n, decay_record(static_cast<int>(chunk))}, 1),
      workspace_buffer("dh", dtype, {e.b, e.h, n, e.dk, e.dv}, e.dk,
                       "the gradient of the state after one chunk"),
      workspace_buffer("du", dtype, {e.b, e.h, e.t, e.dv}, chunk, "one chunk"),
  };
  if (segments > 1) {
    buffers.push_back(
        workspace_buffer("gradient_transitions", dtype, {e.b, e.h, segments, e.dk, e.dk}, e.dk));
    buffers.push_back(
        workspace_buffer("gradient_constants", Dtype::f32, {e.b, e.h, segments, e.dk, e.dv}, e.dk));
    buffers.push_back(workspace_buffer("gradient_factors", Dtype::f32, {e.b, e.h, segments}, 1));
  }
  return buffers;
}

BackwardBuffers backward_buffers(const std::vector<core::BufferSpec>& buffers) {
  BackwardBuffers b;
  b.forward = forward_buffers(buffers);
  b.d_o = index_of(buffers, "do");
  b.dhT = index_of(buffers, "dhT");
  b.dq = index_of(buffers, "dq");
  b.dk = index_of(buffers, "dk");
  b.dv = index_of(buffers, "dv");
  b.dbeta = index_of(buffers, "dbeta");
  b.dh0 = index_of(buffers, "dh0");
  b.dg = find_buffer(buffers, "dg");
  b.du_partial = index_of(buffers, "du_partial");
  b.decays = index_of(buffers, "gradient_decays");
  b.dh = index_of(buffers, "dh");
  b.du = index_of(buffers, "du");
  b.transitions = find_buffer(buffers, "gradient_transitions");
  b.constants = find_buffer(buffers, "gradient_constants");
  b.factors = find_buffer(buffers, "gradient_factors");
  return b;
}

void add_backward(core::Program& program, const Extents& extents, const BackwardBuffers& buffers,
                  const BackwardOptions& options, std::uint32_t batch) {
  const BackwardLaunches launches(extents, buffers, options, batch);
  program.add(launches.local());
  if (options.segments > 1) {
    program.add(launches.segments());
  }
  program.add(launches.state());
  program.add(launches.gradients());
}

reference::DeltaNumerics backward_numerics(const Extents& extents, const BackwardOptions& options,
                                           bool gated) {
  using reference::Grid;
  using reference::RoundingPoint;
  reference::DeltaNumerics numerics =
      forward_numerics(options.dtype, options.chunk, gated,
                       forward_segment(extents, options.dtype, options.chunk, options.segments));
  if (options.dtype == Dtype::f32) {
    return numerics;
  }
  // diag(s e^G) dO is rounded, not diag(s e^G) Q; a power of two alone is exact.
  numerics.decay_on_gradient = true;
  int exponent = 0;
  const bool exact = !gated && std::abs(std::frexp(options.scale, &exponent)) == 0.5f;
  numerics.set(RoundingPoint::q_hat_dh, exact ? Grid::none : reference::grid_of(options.dtype));
  numerics.beta_on_e = true;
  numerics.r_w_from_r_v = true;
  numerics.sums_from_operands = true;
  numerics.set(RoundingPoint::row_sum, Grid::f32);
  if (options.segments > 1) {
    numerics.backward_segment_chunks =
        static_cast<int>(chunks_per_segment(extents.chunks(options.chunk), options.segments));
    numerics.set(RoundingPoint::carry, reference::grid_of(options.dtype));
  }
  return numerics;
}

}  // namespace faultline::kernels::deltanet
