// SPDX-License-Identifier: Apache-2.0
#include "deltanet/deltanet_bwd.hpp"

#include "deltanet/backward.hpp"
#include "deltanet/family.hpp"
#include "deltanet/forward.hpp"
#include "src/subject_support.hpp"

#include <faultline/core/errors.hpp>
#include <faultline/reference/deltanet.hpp>
#include <faultline/reference/deltanet_bounds.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>

namespace faultline::kernels::deltanet {

namespace {

using core::Dtype;
using Values = std::vector<core::Assignment::Value>;

constexpr std::array kIntermediates{"x", "w", "u", "h", "v_new", "dh", "du"};
constexpr std::int64_t kStateTileRows = 16;

std::string name_of_subject(bool gated) { return gated ? "gated_deltanet_bwd" : "deltanet_bwd"; }

std::vector<std::string> output_names(bool gated) {
  return gated ? std::vector<std::string>{"dq", "dk", "dv", "dbeta", "dg", "dh0"}
               : std::vector<std::string>{"dq", "dk", "dv", "dbeta", "dh0"};
}

std::vector<Variant> variants(bool gated) {
  Variant clean;
  clean.name = "chunkwise";
  clean.description =
      "the forward's inverses and states, then: products within chunks; the state's gradient, in "
      "segments of the sequence; all gradients in one launch";
  std::vector<Variant> all{std::move(clean)};
  // One chunk shows every path when it is entered by a state and left by a gradient.
  Values one_chunk{{"t", "64"}, {"keys", "unit"}, {"beta", "uniform"}, {"states", "random"}};
  if (gated) {
    one_chunk.push_back({"gate", "0.01"});
  }
  const auto mutant = [&](std::string name, std::string hypothesis, std::string description,
                          core::FindingClass finding = core::FindingClass::missing_term) {
    all.push_back({.name = std::move(name),
                   .description = std::move(description),
                   .is_mutant = true,
                   .clean_twin = "chunkwise",
                   .required_finding = finding,
                   .hypothesis = std::move(hypothesis),
                   .shows_at = one_chunk});
  };
  mutant("drop_a_inv", "A_inv",
         "no gradient through X = A^-1: dk_A, dbeta_A and dG_A are missing, the published failure");
  mutant("drop_dh_coefficient", "dh_coefficient",
         "dh = dh_local + gamma dh', without -W^T K^ dh': right up to the last chunk but one");
  mutant("drop_dw_cross", "dw_cross",
         "dW without -du_corr h^T: right in the first and last chunk "
         "of zero states");
  mutant("drop_all_three", "A_inv+dh_coefficient+dw_cross", "the three paths above, as published");
  mutant("drop_du_corr", "du_corr", "dU without K^ dh', and so dW and dh");
  mutant("drop_dk_corr", "dk_corr", "dK without diag(e^(G_n - G)) v_new dh'^T");
  if (gated) {
    mutant("no_reverse_cumsum", "no_reverse_cumsum",
           "dg = dG: the gradient of the summed gates, not summed back",
           core::FindingClass::wrong_term);
  }
  return all;
}

bool is_clean(const std::string& variant) { return variant == "chunkwise"; }

core::Domain config_domain(const std::string& variant) {
  core::Domain domain{{detail::listed_parameter("chunk", "rows of a chunk", {32, 64}, 64)}};
  if (is_clean(variant)) {
    domain.parameters.push_back(detail::choice_parameter(
        "segments",
        "at most so many parts of the sequence, of equally many chunks, whose state gradients are "
        "found at once and joined by a scan; auto: as many as keep 128 multiprocessors busy, of at "
        "least four chunks",
        {"auto", "1", "2", "3", "4", "8", "16"}));
  }
  return domain;
}

std::int64_t segments_of(const core::Problem& problem, const core::Config& config) {
  const Extents e = extents_of(problem);
  const std::int64_t chunks = e.chunks(config.integer("chunk"));
  const bool plain = problem.values.dtype() == Dtype::f32;
  const std::string asked = config.has("segments") ? config.text("segments") : "1";
  if (asked == "auto") {
    return plain ? 1 : default_segments(e.heads(), chunks);
  }
  const std::int64_t segments = std::stoll(asked);
  if (plain && segments > 1) {
    throw core::UsageError(fmt::format(
        "deltanet_bwd in f32 has one serial pass: segments={} is not built, use segments=auto",
        segments));
  }
  return whole_segments(chunks, segments);
}

std::vector<core::BufferSpec> buffers_of(const core::Problem& problem, bool gated,
                                         std::int64_t chunk, std::int64_t segments) {
  const Extents e = extents_of(problem);
  const Dtype dtype = problem.values.dtype();
  std::vector<core::BufferSpec> buffers;
  for (const char* name : {"q", "k", "v", "beta", "g", "h0", "do", "dhT"}) {
    if (gated || std::string_view(name) != "g") {
      buffers.push_back(family_buffer(problem, name, chunk));
    }
  }
  for (const std::string& name : output_names(gated)) {
    buffers.push_back(family_buffer(problem, name, chunk));
  }
  const auto add = [&](std::vector<core::BufferSpec> workspaces) {
    buffers.insert(buffers.end(), workspaces.begin(), workspaces.end());
  };
  add({workspace_buffer("hT", Dtype::f32, {e.b, e.h, e.dk, e.dv}, kStateTileRows)});
  add(forward_workspaces(e, dtype, chunk, forward_segment(e, dtype, chunk, segments)));
  add(backward_workspaces(e, dtype, chunk, segments));
  return buffers;
}

core::TrialPlan plan(const core::Problem& problem, bool gated, const std::string& variant,
                     const core::Config& config) {
  const Extents e = extents_of(problem);
  const std::int64_t chunk = config.integer("chunk"), segments = segments_of(problem, config);
  const float scale = scale_of(problem);
  // Heads are a grid's second extent and row indices are counted in 32 bits.
  constexpr std::int64_t kMaxHeads = 65535;
  if (e.heads() > kMaxHeads || e.heads() * e.t > std::numeric_limits<std::int32_t>::max()) {
    throw core::UsageError(fmt::format("{} takes b*h <= {} and b*h*t < 2^31, got b*h = {}, t = {}",
                                       name_of_subject(gated), kMaxHeads, e.heads(), e.t));
  }

  core::TrialPlan plan;
  plan.subject = problem.subject;
  plan.variant = variant;
  plan.problem = problem;
  plan.config = config;
  plan.buffers = buffers_of(problem, gated, chunk, segments);
  plan.max_batch = static_cast<std::uint32_t>(std::min(
      kMaxHeads / e.heads(), std::numeric_limits<std::int32_t>::max() / (e.heads() * e.t)));
  const BackwardBuffers buffers = backward_buffers(plan.buffers);
  const ForwardOptions forward{.dtype = problem.values.dtype(),
                               .chunk = chunk,
                               .segment =
                                   forward_segment(e, problem.values.dtype(), chunk, segments),
                               .scale = scale,
                               .variant = "chunkwise"};
  const BackwardOptions backward{.dtype = problem.values.dtype(),
                                 .chunk = chunk,
                                 .segments = segments,
                                 .scale = scale,
                                 .variant = variant};
  plan.program = [=](std::uint32_t batch) {
    core::Program program;
    program.name = fmt::format("{}@{}", name_of_subject(gated), variant);
    add_forward(program, e, buffers.forward, forward, batch);
    add_backward(program, e, buffers, backward, batch);
    return program;
  };
  plan.program(1);  // UsageError when not built

  for (const char* name : kIntermediates) {
    plan.intermediates.push_back(index_of(plan.buffers, name));
  }
  const reference::DeltaNumerics numerics = backward_numerics(e, backward, gated);
  const auto bounds = [=, all = plan.buffers](const std::vector<core::Tensor>& inputs,
                                              bool intermediates) {
    reference::BoundRequest request;
    request.backward = true;
    request.intermediates = intermediates;
    return reference::delta_bound_cache().get(inputs_of(all, inputs, scale), numerics, request);
  };
  plan.reference = [=](const std::vector<core::Tensor>& inputs) {
    return references_of(*bounds(inputs, false), output_names(gated));
  };
  plan.reference_notes = [=](const std::vector<core::Tensor>& inputs) {
    return notes_of(*bounds(inputs, false), output_names(gated));
  };
  plan.intermediate_reference = [=](const std::vector<core::Tensor>& inputs) {
    return references_of(*bounds(inputs, true), {kIntermediates.begin(), kIntermediates.end()});
  };
  plan.error_hypotheses = [=, all = plan.buffers](const std::vector<core::Tensor>& inputs) {
    std::vector<reference::DeltaOutput> outputs;
    for (const std::string& name : output_names(gated)) {
      outputs.push_back(*reference::parse_delta_output(name));
    }
    return reference::delta_hypotheses(inputs_of(all, inputs, scale), chunk, outputs);
  };
  return plan;
}

std::vector<RoundingPoint> numeric_plan(const core::Problem& problem, bool gated) {
  const Dtype dtype = problem.values.dtype();
  const std::string decayed = gated ? "diag(s e^G) dO" : "s dO";
  return {
      {.name = "the forward's X, W, U, h and v_new", .stored = dtype, .reduction = ""},
      {.name = "P as an operand", .stored = dtype, .reduction = "dk"},
      {.name = "du_partial = s P^T dO", .stored = dtype, .reduction = "chunk"},
      {.name = "dh' as an operand and stored; the running gradient is fp32",
       .stored = dtype,
       .reduction = "chunk, then chunks"},
      {.name = "dU = du_partial + diag(e^(G_n - G)) K dh'", .stored = dtype, .reduction = "dk"},
      {.name = decayed + " as an operand", .stored = dtype, .reduction = ""},
      {.name = "of several segments: each transition less gamma I, and the gradient it carries",
       .stored = dtype,
       .reduction = "dk"},
      {.name = "dS = s tril(dO v_new^T) . Gamma as an operand", .stored = dtype, .reduction = "dv"},
      {.name = "R_v = X^T dU, R_w = -R_v h^T as operands",
       .stored = dtype,
       .reduction = "chunk, then dv"},
      {.name = "E and diag(beta) E as operands", .stored = dtype, .reduction = "dk and dv"},
      {.name = "dq, dk, dv: sums of their products", .stored = dtype, .reduction = "dk, dv, chunk"},
      {.name = "dbeta, dg: row sums of fp32 products", .stored = Dtype::f32, .reduction = "dk"},
  };
}

Subject make_subject(bool gated) {
  Subject subject;
  subject.name = name_of_subject(gated);
  subject.description = gated ? "chunkwise backward of the gated delta rule: dq, dk, dv, dbeta, "
                                "dg, dh0 from do, dhT"
                              : "chunkwise backward of the delta rule: dq, dk, dv, dbeta, dh0 "
                                "from do, dhT";
  subject.problem_domain = problem_domain({.gated = gated});
  subject.config_domain = config_domain;
  subject.variants = variants(gated);
  subject.configs = [](const core::Problem& problem, const std::string& variant) {
    const Extents e = extents_of(problem);
    std::vector<core::Config> configs;
    for (const std::int64_t chunk : {std::int64_t{64}, std::int64_t{32}}) {
      const std::string text = std::to_string(chunk);
      if (!is_clean(variant)) {
        configs.emplace_back(Values{{"chunk", text}});
        continue;
      }
      configs.emplace_back(Values{{"chunk", text}, {"segments", "auto"}});
      if (problem.values.dtype() != Dtype::f32 && e.chunks(chunk) >= 3) {
        configs.emplace_back(Values{{"chunk", text}, {"segments", "3"}});
      }
    }
    return configs;
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
    return traffic_bytes_of(buffers_of(problem, gated, 64, 1));
  };
  return subject;
}

}  // namespace

Subject make_deltanet_bwd() { return make_subject(false); }
Subject make_gated_deltanet_bwd() { return make_subject(true); }

}  // namespace faultline::kernels::deltanet
