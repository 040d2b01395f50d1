// SPDX-License-Identifier: Apache-2.0
#include "deltanet/forward.hpp"

#include "deltanet/launch_arguments.hpp"
#include "deltanet/layout.hpp"
#include "faultline_kernel_modules_modules.hpp"
#include "src/subject_support.hpp"

#include <faultline/core/errors.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace faultline::kernels::deltanet {

namespace {

using core::Dtype;

constexpr std::uint32_t kPlainThreads = 128;

enum class Stage { prepare, transitions, states, output };
constexpr std::array<std::string_view, 4> kStageNames{"prepare", "transitions", "states", "output"};

/// A kernel that a variant replaces; all others are those of `chunkwise`.
struct Replacement {
  std::string_view variant;
  Stage stage;
  bool mutant;
};
constexpr std::array kReplacements{
    Replacement{"squaring", Stage::prepare, false},
    Replacement{"w_scaled_outside", Stage::prepare, true},
    Replacement{"gamma_twice", Stage::transitions, true},
    Replacement{"gamma_twice", Stage::states, true},
    Replacement{"bf16_state", Stage::transitions, true},
    Replacement{"bf16_state", Stage::states, true},
    Replacement{"strict_tril", Stage::output, true},
};

core::ModuleRef module_of(Dtype dtype, bool mutant) {
  using namespace embedded;
  switch (dtype) {
  case Dtype::f16:
    return detail::cached_module(mutant ? deltanet_fwd_f16_mutants() : deltanet_fwd_f16());
  case Dtype::bf16:
    return detail::cached_module(mutant ? deltanet_fwd_bf16_mutants() : deltanet_fwd_bf16());
  default: return detail::cached_module(deltanet_fwd_f32());
  }
}

/// A launch of a stage with module and entry set.
core::LaunchOperation launch_of(Stage stage, const Extents& e, const ForwardOptions& options) {
  std::string_view variant = "chunkwise";
  bool mutant = false;
  for (const Replacement& replacement : kReplacements) {
    if (replacement.variant == options.variant && replacement.stage == stage) {
      variant = replacement.variant;
      mutant = replacement.mutant;
    }
  }
  const bool plain = options.dtype == Dtype::f32;
  if (mutant && !plain && (options.chunk != 64 || (stage != Stage::prepare && e.dk != 64))) {
    throw core::UsageError(fmt::format(
        "deltanet_fwd@{} is built in {} for chunk=64 and dk=64 only, got chunk={} dk={}: use "
        "those, or dtype=f32",
        variant, core::name_of(options.dtype), options.chunk, e.dk));
  }
  core::LaunchOperation launch;
  launch.module = module_of(options.dtype, mutant);
  launch.entry = fmt::format("deltanet_{}_{}_{}_c{}", kStageNames[static_cast<std::size_t>(stage)],
                             variant, core::name_of(options.dtype), options.chunk);
  if (!plain && stage != Stage::prepare) {
    launch.entry += fmt::format("_dk{}", e.dk);
  }
  return launch;
}

/// Launches of one forward over `heads` heads (all trials of a batch).
class ForwardLaunches {
 public:
  ForwardLaunches(const Extents& extents, const ForwardBuffers& buffers,
                  const ForwardOptions& options, std::uint32_t batch)
      : e_(extents),
        buffers_(buffers),
        options_(options),
        maps_{options.dtype, extents.heads() * batch, extents.t, options.chunk},
        heads_(maps_.heads),
        chunks_(extents.chunks(options.chunk)),
        segments_(options.segment > 0 ? detail::ceil_div(chunks_, options.segment) : 1) {}

  std::int64_t segments() const { return segments_; }

  core::LaunchOperation prepare() const {
    core::LaunchOperation launch = launch_of(Stage::prepare, e_, options_);
    per_chunk(launch);
    if (plain()) {
      add_buffers(launch, {buffers_.k, buffers_.v});
    }
    add_buffers(launch, {buffers_.beta});
    add_optional(launch, buffers_.g);
    add_buffers(launch, {buffers_.w, buffers_.u, buffers_.x, buffers_.gates});
    if (!plain()) {
      add_buffers(launch, {buffers_.state_decays});
    }
    add_ints(launch, {e_.t, e_.dk, e_.dv});
    if (!plain()) {
      launch.dynamic_shared_bytes = static_cast<std::uint32_t>(
          prepare_shared_bytes(chunk(), static_cast<int>(e_.dk), static_cast<int>(e_.dv),
                               inverts_by_squaring(options_.variant)));
      add_maps(launch, {rows_map(buffers_.k, e_.dk), rows_map(buffers_.v, e_.dv)});
    }
    return launch;
  }

  core::LaunchOperation transitions() const {
    core::LaunchOperation launch = launch_of(Stage::transitions, e_, options_);
    launch.grid = {static_cast<std::uint32_t>(heads_),
                   static_cast<std::uint32_t>(
                       detail::ceil_div(e_.dv + e_.dk, kTransitionWarps * kStateColumns)),
                   static_cast<std::uint32_t>(segments_ - 1)};
    launch.block[0] = 32 * (kTransitionWarps + 1);
    const StatesLayout layout{chunk(), static_cast<int>(e_.dk), false};
    launch.dynamic_shared_bytes = static_cast<std::uint32_t>(layout.bytes());
    add_buffers(launch, {buffers_.state_decays, *buffers_.transitions, *buffers_.locals});
    add_ints(launch, {e_.t, e_.dv, gated(), options_.segment});
    add_maps(launch, {rows_map(buffers_.w, e_.dk), rows_map(buffers_.k, e_.dk),
                      rows_map(buffers_.u, e_.dv)});
    return launch;
  }

  core::LaunchOperation states() const {
    core::LaunchOperation launch = launch_of(Stage::states, e_, options_);
    launch.grid[0] = static_cast<std::uint32_t>(heads_);
    if (plain()) {
      launch.grid[1] = static_cast<std::uint32_t>(e_.dv / kStateColumns);
      launch.block[0] = kPlainThreads;
      add_buffers(launch, {buffers_.k, buffers_.w, buffers_.u, buffers_.gates, buffers_.h0,
                           buffers_.hT, buffers_.h, buffers_.v_new});
      add_ints(launch, {e_.t, e_.dk, e_.dv, gated()});
      return launch;
    }
    launch.grid[1] = static_cast<std::uint32_t>(e_.dv / kPanelColumns);
    launch.grid[2] = static_cast<std::uint32_t>(segments_);
    launch.block[0] = 32 * (kStateWarps + 2);
    const StatesLayout layout{chunk(), static_cast<int>(e_.dk), true};
    launch.dynamic_shared_bytes = static_cast<std::uint32_t>(layout.bytes());
    // With one segment the scan's arguments are not read: any buffer stands in for them.
    const bool scanned = segments_ > 1;
    add_buffers(launch, {buffers_.state_decays, buffers_.h0,
                         scanned ? *buffers_.locals : buffers_.h0, buffers_.hT});
    add_ints(launch, {e_.t, e_.dv, gated(), scanned ? options_.segment : chunks_});
    add_maps(launch, {rows_map(buffers_.w, e_.dk), rows_map(buffers_.k, e_.dk),
                      rows_map(buffers_.u, e_.dv), state_map(), rows_map(buffers_.v_new, e_.dv),
                      scanned ? tile_map(*buffers_.transitions, options_.dtype, e_.dk, e_.dk,
                                         heads_ * (segments_ - 1), e_.dk)
                              : state_map()});
    return launch;
  }

  core::LaunchOperation output() const {
    core::LaunchOperation launch = launch_of(Stage::output, e_, options_);
    per_chunk(launch);
    if (plain()) {
      add_buffers(launch, {buffers_.q, buffers_.k, buffers_.h, buffers_.v_new, buffers_.gates,
                           *buffers_.o});
      add_ints(launch, {e_.t, e_.dk, e_.dv, gated()});
      launch.arguments.push_back(core::scalar(options_.scale));
      return launch;
    }
    launch.dynamic_shared_bytes = static_cast<std::uint32_t>(
        output_shared_bytes(chunk(), static_cast<int>(e_.dk), static_cast<int>(e_.dv)));
    add_buffers(launch, {buffers_.gates, *buffers_.o});
    add_ints(launch, {e_.t, e_.dv, gated()});
    launch.arguments.push_back(core::scalar(options_.scale));
    add_maps(launch, {rows_map(buffers_.q, e_.dk), rows_map(buffers_.k, e_.dk), state_map(),
                      rows_map(buffers_.v_new, e_.dv)});
    return launch;
  }

 private:
  bool plain() const { return options_.dtype == Dtype::f32; }
  int chunk() const { return static_cast<int>(options_.chunk); }
  std::int64_t gated() const { return buffers_.g ? 1 : 0; }

  void per_chunk(core::LaunchOperation& launch) const {
    launch.grid[0] = static_cast<std::uint32_t>(heads_);
    launch.grid[1] = static_cast<std::uint32_t>(chunks_);
    launch.block[0] = plain() ? kPlainThreads : static_cast<std::uint32_t>(2 * options_.chunk);
  }
  core::TensorMapArgument rows_map(std::uint32_t buffer, std::int64_t columns) const {
    return maps_.rows(buffer, columns);
  }
  core::TensorMapArgument state_map() const { return maps_.states(buffers_.h, e_.dk, e_.dv); }

  const Extents& e_;
  const ForwardBuffers& buffers_;
  const ForwardOptions& options_;
  ChunkMaps maps_;
  std::int64_t heads_, chunks_, segments_;
};

}  // namespace

std::vector<core::BufferSpec> forward_workspaces(const Extents& e, Dtype dtype, std::int64_t chunk,
                                                 std::int64_t segment) {
  const std::int64_t n = e.chunks(chunk);
  const auto rows = [&](std::string name, std::int64_t columns) {
    return workspace_buffer(std::move(name), dtype, {e.b, e.h, e.t, columns}, chunk, "one chunk");
  };
  std::vector<core::BufferSpec> all{
      workspace_buffer("gates", Dtype::f32, {e.b, e.h, n, chunk}, 1),
      workspace_buffer("state_decays", Dtype::f32,
                       {e.b, e.h, n, state_decay_record(static_cast<int>(chunk))}, 1),
      rows("x", chunk), rows("w", e.dk), rows("u", e.dv)};
  if (segment > 0 && segment < n) {
    const std::int64_t carried = detail::ceil_div(n, segment) - 1;
    all.push_back(workspace_buffer("transitions", dtype, {e.b, e.h, carried, e.dk, e.dk}, e.dk));
    all.push_back(workspace_buffer("locals", Dtype::f32, {e.b, e.h, carried, e.dv, e.dk}, e.dv));
  }
  all.push_back(
      workspace_buffer("h", dtype, {e.b, e.h, n, e.dk, e.dv}, e.dk, "the state before one chunk"));
  all.push_back(rows("v_new", e.dv));
  return all;
}

std::int64_t preferred_segment(const Extents& e, Dtype dtype, std::int64_t chunk) {
  if (dtype == Dtype::f32 || e.dk > 2 * chunk) {
    return 0;
  }
  constexpr std::int64_t kBlocks = 128;  // of `states` that fill a large GPU
  constexpr std::int64_t kShortest = 4;  // chunks: below, the scan costs what it saves
  const std::int64_t per_segment = e.heads() * (e.dv / kPanelColumns);
  const std::int64_t n = e.chunks(chunk);
  const std::int64_t segments = std::min(kBlocks / per_segment, n / kShortest);
  return segments >= 3 ? detail::ceil_div(n, segments) : 0;
}

ForwardBuffers forward_buffers(const std::vector<core::BufferSpec>& buffers) {
  ForwardBuffers f;
  f.q = index_of(buffers, "q");
  f.k = index_of(buffers, "k");
  f.v = index_of(buffers, "v");
  f.beta = index_of(buffers, "beta");
  f.h0 = index_of(buffers, "h0");
  f.g = find_buffer(buffers, "g");
  f.o = find_buffer(buffers, "o");
  f.hT = index_of(buffers, "hT");
  f.x = index_of(buffers, "x");
  f.w = index_of(buffers, "w");
  f.u = index_of(buffers, "u");
  f.h = index_of(buffers, "h");
  f.v_new = index_of(buffers, "v_new");
  f.gates = index_of(buffers, "gates");
  f.state_decays = index_of(buffers, "state_decays");
  f.transitions = find_buffer(buffers, "transitions");
  f.locals = find_buffer(buffers, "locals");
  return f;
}

void add_forward(core::Program& program, const Extents& extents, const ForwardBuffers& buffers,
                 const ForwardOptions& options, std::uint32_t batch) {
  if (options.segment > 0 && (options.dtype == Dtype::f32 || extents.dk > 2 * options.chunk)) {
    throw core::UsageError(fmt::format(
        "segments are built in f16 and bf16 for dk <= 2 chunk, got dtype={} dk={} chunk={}: use "
        "segments=1",
        core::name_of(options.dtype), extents.dk, options.chunk));
  }
  const ForwardLaunches launches(extents, buffers, options, batch);
  program.add(launches.prepare());
  if (launches.segments() > 1) {
    program.add(launches.transitions());
  }
  program.add(launches.states());
  if (buffers.o) {
    program.add(launches.output());
  }
}

reference::DeltaNumerics forward_numerics(Dtype dtype, std::int64_t chunk, bool gated,
                                          std::int64_t segment) {
  using reference::Grid;
  using reference::RoundingPoint;
  reference::DeltaNumerics numerics =
      reference::DeltaNumerics::stored_in(dtype, static_cast<int>(chunk));
  if (dtype == Dtype::f32) {
    return numerics;
  }
  numerics.inverse_scaled = true;
  // e^G multiplies Q h in fp32.
  numerics.set(RoundingPoint::q_hat_o, Grid::none);
  numerics.decay_on_v_new = true;
  numerics.segment_chunks = static_cast<int>(segment);
  if (segment > 0) {
    numerics.set(RoundingPoint::transition, reference::grid_of(dtype))
        .set(RoundingPoint::transition_product, reference::grid_of(dtype))
        .set(RoundingPoint::carry, reference::grid_of(dtype));
  }
  if (!gated) {
    numerics.set(RoundingPoint::k_hat, Grid::none);
  }
  return numerics;
}

bool inverts_by_squaring(const std::string& variant) { return variant == "squaring"; }

}  // namespace faultline::kernels::deltanet
