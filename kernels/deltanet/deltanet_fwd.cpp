// SPDX-License-Identifier: Apache-2.0
#include "deltanet/deltanet_fwd.hpp"

#include "deltanet/family.hpp"
#include "deltanet/forward.hpp"
#include "src/subject_support.hpp"

#include <faultline/core/errors.hpp>
#include <faultline/reference/deltanet.hpp>
#include <faultline/reference/deltanet_bounds.hpp>
#include <faultline/reference/deltanet_squaring.hpp>
#include <faultline/reference/deltanet_state.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>

namespace faultline::kernels::deltanet {

namespace {

using core::Dtype;
using Values = std::vector<core::Assignment::Value>;

constexpr std::array kIntermediates{"x", "w", "u", "h", "v_new"};

std::string name_of_subject(bool gated) { return gated ? "gated_deltanet_fwd" : "deltanet_fwd"; }

Variant clean(std::string name, std::string description) {
  Variant variant;
  variant.name = std::move(name);
  variant.description = std::move(description);
  return variant;
}

Variant mutant(std::string name, core::FindingClass finding, std::string hypothesis,
               Values shows_at, std::string description) {
  return {.name = std::move(name),
          .description = std::move(description),
          .is_mutant = true,
          .clean_twin = "chunkwise",
          .required_finding = finding,
          .hypothesis = std::move(hypothesis),
          .shows_at = std::move(shows_at)};
}

std::vector<Variant> variants(bool gated) {
  std::vector<Variant> all{
      clean("chunkwise", "inverses, W and U of all chunks; states, in segments when long; outputs"),
      clean("squaring", "chunkwise with the inverse by repeated squaring"),
  };
  all.front().known_warnings = {core::FindingClass::slow_uncoalesced};
  all.front().known_reason = "f32 has the plain kernels, whose lanes read rows of q and k; f16 and "
                             "bf16, on tensor cores, are what is fast";
  all.back().weak_at = {{"keys", "correlated"}, {"keys", "identical"}};
  all.back().weakness = "the powers of M grow where keys correlate, and rounding errors with them";
  Values weak_gates{{"t", "128"}, {"keys", "unit"}, {"beta", "uniform"}, {"states", "random"}};
  if (gated) {
    weak_gates.push_back({"gate", "0.1"});
    all.push_back(mutant("w_scaled_outside", core::FindingClass::wrong_term, "w_scaled_outside",
                         weak_gates,
                         "W = diag(e^G) X diag(beta) K: the decay outside the inverse"));
    all.push_back(mutant("gamma_twice", core::FindingClass::wrong_term, "gamma_twice", weak_gates,
                         "the state decays by gamma^2 a chunk"));
  }
  all.push_back(mutant("strict_tril", core::FindingClass::wrong_term, "strict_tril", weak_gates,
                       "P without its diagonal: o_t lacks step t"));
  Values long_scan{{"t", "512"}, {"keys", "unit"}, {"beta", "uniform"}, {"states", "random"}};
  if (gated) {
    long_scan.push_back({"gate", "0"});
  }
  all.push_back(mutant("bf16_state", core::FindingClass::accumulation, "bf16_state", long_scan,
                       "the running state is rounded to bf16 after every chunk"));
  return all;
}

core::Domain config_domain(const std::string&) {
  return {{
      detail::listed_parameter("chunk", "rows of a chunk", {32, 64}, 64),
      detail::choice_parameter("segments",
                               "parts of the sequence whose states are found at once and joined by "
                               "a scan; auto: as many "
                               "as keep 128 multiprocessors busy, of at least four chunks",
                               {"auto", "1", "2", "3", "4", "6", "8", "16"}),
  }};
}

/// Chunks of a segment; 0: one pass.
std::int64_t segment_of(const core::Problem& problem, const core::Config& config) {
  const Extents e = extents_of(problem);
  const std::int64_t chunk = config.integer("chunk"), chunks = e.chunks(chunk);
  const std::string& asked = config.text("segments");
  if (asked == "auto") {
    return preferred_segment(e, problem.values.dtype(), chunk);
  }
  const std::int64_t segments = std::stoll(asked);
  if (segments == 1) {
    return 0;
  }
  const std::int64_t length = detail::ceil_div(chunks, segments);
  if ((segments - 1) * length >= chunks) {
    throw core::UsageError(
        fmt::format("segments={} leaves a segment without chunks: t={} has {} chunks of {}",
                    segments, e.t, chunks, chunk));
  }
  return length;
}

bool built(const core::Problem& problem, const Variant& variant, std::int64_t chunk) {
  return !variant.is_mutant || problem.values.dtype() == Dtype::f32 ||
         (chunk == 64 && problem.values.integer("dk") == 64);
}

/// The default first. Then three segments where every one has a chunk, and chunks of 32 rows where
/// they are built.
std::vector<core::Config> configs_of(const core::Problem& problem, bool short_chunks) {
  const Extents e = extents_of(problem);
  std::vector<core::Config> configs;
  const auto add = [&](std::int64_t chunk, const char* segments) {
    configs.emplace_back(Values{{"chunk", std::to_string(chunk)}, {"segments", segments}});
  };
  add(64, "auto");
  const bool plain = problem.values.dtype() == Dtype::f32;
  if (!plain && e.chunks(64) >= 3 && 2 * detail::ceil_div(e.chunks(64), 3) < e.chunks(64)) {
    add(64, "3");
  }
  if (short_chunks) {
    add(32, "auto");
  }
  return configs;
}

std::vector<core::BufferSpec> buffers_of(const core::Problem& problem, bool gated,
                                         std::int64_t chunk, std::int64_t segment) {
  std::vector<core::BufferSpec> buffers;
  for (const char* name : {"q", "k", "v", "beta", "g", "h0", "o", "hT"}) {
    if (gated || std::string_view(name) != "g") {
      buffers.push_back(family_buffer(problem, name, chunk));
    }
  }
  for (core::BufferSpec& workspace :
       forward_workspaces(extents_of(problem), problem.values.dtype(), chunk, segment)) {
    buffers.push_back(std::move(workspace));
  }
  return buffers;
}

core::TrialPlan plan(const core::Problem& problem, bool gated, const std::string& variant,
                     const core::Config& config) {
  const Extents e = extents_of(problem);
  const Dtype dtype = problem.values.dtype();
  const std::int64_t chunk = config.integer("chunk");
  const std::int64_t segment = segment_of(problem, config);
  const float scale = scale_of(problem);
  // Rows are counted in 32 bits.
  constexpr std::int64_t kMaxRows = std::numeric_limits<std::int32_t>::max();
  if (e.heads() * e.t > kMaxRows) {
    throw core::UsageError(fmt::format("{} takes b*h*t < 2^31, got b*h = {}, t = {}",
                                       name_of_subject(gated), e.heads(), e.t));
  }

  core::TrialPlan plan;
  plan.subject = problem.subject;
  plan.variant = variant;
  plan.problem = problem;
  plan.config = config;
  plan.buffers = buffers_of(problem, gated, chunk, segment);
  plan.max_batch = static_cast<std::uint32_t>(kMaxRows / (e.heads() * e.t));
  const ForwardBuffers bound_buffers = forward_buffers(plan.buffers);
  const ForwardOptions options{
      .dtype = dtype, .chunk = chunk, .segment = segment, .scale = scale, .variant = variant};

  core::Program checked;
  add_forward(checked, e, bound_buffers, options, 1);  // UsageError when not built

  plan.program = [=](std::uint32_t batch) {
    core::Program program;
    program.name = fmt::format("{}@{}", name_of_subject(gated), variant);
    add_forward(program, e, bound_buffers, options, batch);
    return program;
  };

  for (const char* name : kIntermediates) {
    plan.intermediates.push_back(index_of(plan.buffers, name));
  }
  const reference::DeltaNumerics numerics = forward_numerics(dtype, chunk, gated, segment);
  const auto bounds = [=, buffers = plan.buffers](const std::vector<core::Tensor>& inputs,
                                                  bool intermediates) {
    reference::BoundRequest request;
    request.intermediates = intermediates;
    return reference::delta_bound_cache().get(inputs_of(buffers, inputs, scale), numerics, request);
  };
  plan.reference = [=](const std::vector<core::Tensor>& inputs) {
    return references_of(*bounds(inputs, false), {"o", "hT"});
  };
  plan.reference_notes = [=](const std::vector<core::Tensor>& inputs) {
    return notes_of(*bounds(inputs, false), {"o", "hT"});
  };
  plan.intermediate_reference = [=](const std::vector<core::Tensor>& inputs) {
    return references_of(*bounds(inputs, true), {kIntermediates.begin(), kIntermediates.end()});
  };
  plan.error_hypotheses = [=, buffers = plan.buffers](const std::vector<core::Tensor>& inputs) {
    constexpr std::array kOutputs{reference::DeltaOutput::o, reference::DeltaOutput::hT};
    const reference::DeltaInputs values = inputs_of(buffers, inputs, scale);
    std::vector<core::ErrorHypothesis> all = reference::delta_hypotheses(values, chunk, kOutputs);
    all.push_back(reference::narrow_state_hypothesis(values, chunk, kOutputs, Dtype::bf16));
    if (inverts_by_squaring(variant)) {
      for (const auto sums : {reference::Fp32Sums::nearest, reference::Fp32Sums::truncated}) {
        all.push_back(reference::squaring_hypothesis(values, chunk, kOutputs, sums));
      }
    }
    return all;
  };
  return plan;
}

std::vector<RoundingPoint> numeric_plan(const core::Problem& problem, bool gated) {
  const Dtype dtype = problem.values.dtype();
  std::vector<RoundingPoint> points{
      {.name = "M = slt(diag(beta) (K K^T . Gamma))", .stored = Dtype::f32, .reduction = "dk"},
      {.name = "X = (I + M)^-1, fp32, stored", .stored = dtype, .reduction = "chunk"},
      {.name = "X diag(beta e^G), X diag(beta) as operands", .stored = dtype, .reduction = ""},
      {.name = "W, U", .stored = dtype, .reduction = "chunk"},
      {.name = "h as an operand and stored; the running state is fp32",
       .stored = dtype,
       .reduction = "chunk, then chunks"},
      {.name = "v_new = U - W h", .stored = dtype, .reduction = "dk"},
  };
  if (gated) {
    points.push_back(
        {.name = "diag(e^(G_n - G)) v_new as an operand", .stored = dtype, .reduction = ""});
  }
  points.push_back({.name = "segments: Phi, -W Phi and h as operands of the scan; L is fp32",
                    .stored = dtype,
                    .reduction = "dk, then segments"});
  points.push_back({.name = "P as an operand", .stored = dtype, .reduction = "dk"});
  points.push_back(
      {.name = "O = s (diag(e^G) Q h + P v_new)", .stored = dtype, .reduction = "dk, then chunk"});
  return points;
}

Subject make_subject(bool gated) {
  Subject subject;
  subject.name = name_of_subject(gated);
  subject.description = gated ? "chunkwise forward of the gated delta rule: "
                                "S_t = e^g_t (I - beta k k^T) S_t-1 + beta k v^T, o = s S^T q"
                              : "chunkwise forward of the delta rule: "
                                "S_t = (I - beta k k^T) S_t-1 + beta k v^T, o = s S^T q";
  subject.problem_domain = problem_domain({.gated = gated});
  subject.config_domain = config_domain;
  subject.variants = variants(gated);
  subject.configs = [all = subject.variants](const core::Problem& problem,
                                             const std::string& variant) {
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const Variant& v) { return v.name == variant; });
    return configs_of(problem, found == all.end() || built(problem, *found, 32));
  };
  subject.verify_problems = [gated](bool small) {
    return sequence_verify_problems(name_of_subject(gated), gated, small);
  };
  subject.bench_problems = [gated] {
    return sequence_bench_problems(name_of_subject(gated), gated);
  };
  subject.numeric_plan = [gated](const core::Problem& p) { return numeric_plan(p, gated); };
  subject.plan = [gated](const core::Problem& problem, const std::string& variant,
                         const core::Config& config) {
    return plan(problem, gated, variant, config);
  };
  subject.lengths = [](const core::Problem& problem, const std::string&,
                       const core::Config& config) {
    const Extents e = extents_of(problem);
    const std::int64_t chunk = config.integer("chunk");
    return TileLengths{.tile_k = chunk, .reduction = e.t, .tile_rows = chunk, .rows = e.t};
  };
  subject.traffic_bytes = [gated](const core::Problem& problem) {
    return traffic_bytes_of(buffers_of(problem, gated, 64, 0));
  };
  return subject;
}

}  // namespace

Subject make_deltanet_fwd() { return make_subject(false); }
Subject make_gated_deltanet_fwd() { return make_subject(true); }

}  // namespace faultline::kernels::deltanet
