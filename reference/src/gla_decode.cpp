// SPDX-License-Identifier: Apache-2.0
#include <faultline/reference/gla_decode.hpp>

#include "decode_step.hpp"

#include <faultline/core/errors.hpp>

#include <Eigen/Dense>
#include <fmt/format.h>

#include <string>

namespace faultline::reference {

namespace {

StepExtents check_shapes(const GlaInputs& inputs) {
  const core::Shape& state = inputs.state.shape;
  if (state.size() == 4) {
    const core::Shape keys{state[0], state[1], state[2]}, values{state[0], state[1], state[3]};
    if (inputs.q.shape == keys && inputs.k.shape == keys && inputs.gk.shape == keys &&
        inputs.v.shape == values) {
      return {.heads = state[0] * state[1], .dk = state[2], .dv = state[3]};
    }
  }
  throw core::UsageError(fmt::format(
      "the gla_decode reference got q {}, k {}, v {}, gk {} and state {}; it needs q, k, gk "
      "[B, H, DK], v [B, H, DV] and state [B, H, DK, DV]",
      core::to_string(inputs.q.shape), core::to_string(inputs.k.shape),
      core::to_string(inputs.v.shape), core::to_string(inputs.gk.shape),
      core::to_string(inputs.state.shape)));
}

/// One (batch, head).
struct Head {
  Eigen::VectorXd q, k, gk;  // [dk]
  Eigen::VectorXd v;         // [dv]
  RowMajor state;            // [dk, dv]

  Head(const GlaInputs& inputs, const StepExtents& e, std::int64_t head)
      : q(vector_of(inputs.q, head, e.dk)),
        k(vector_of(inputs.k, head, e.dk)),
        gk(vector_of(inputs.gk, head, e.dk)),
        v(vector_of(inputs.v, head, e.dv)),
        state(state_of(inputs.state, head, e)) {}

  Eigen::VectorXd decay() const {
    return gk.unaryExpr([](double g) { return exponential(g); });
  }
};

}  // namespace

GlaBound gla_bound(const GlaNumerics& numerics) {
  const double own = step_relative_error(numerics.terms);
  return {.state_relative = gamma_fp32(numerics.state_chain) + own,
          .qk_relative = gamma_fp32(numerics.qk_chain) + own,
          .absolute = step_absolute_error(numerics.terms),
          .query = numerics.query};
}

std::vector<core::ReferenceTensor> gla_decode(const GlaInputs& inputs, double scale,
                                              const GlaBound& bound) {
  const StepExtents e = check_shapes(inputs);
  std::vector<core::ReferenceTensor> outputs = step_outputs(e);
  core::ReferenceTensor &o = outputs[0], &new_state = outputs[1];
  for_each_head(e, [&](std::int64_t head) {
    const Head in(inputs, e, head);
    Eigen::VectorXd decay(e.dk), output_error(e.dk);  // [dk]
    std::vector<GlaRow> rows(static_cast<std::size_t>(e.dk));
    for (std::int64_t i = 0; i < e.dk; ++i) {
      const GlaRow row = gla_row(bound, in.q[i], in.gk[i]);
      rows[static_cast<std::size_t>(i)] = row;
      decay[i] = row.decay;
      output_error[i] = row.output_error;
    }
    Eigen::Map<RowMajor> updated(new_state.expected.data() + head * e.dk * e.dv, e.dk, e.dv);
    updated = decay.asDiagonal() * in.state;
    updated.noalias() += in.k * in.v.transpose();
    Eigen::Map<Eigen::VectorXd> output(o.expected.data() + head * e.dv, e.dv);
    output.noalias() = scale * (updated.transpose() * in.q);

    for (std::int64_t i = 0; i < e.dk; ++i) {
      for (std::int64_t j = 0; j < e.dv; ++j) {
        new_state.bound[static_cast<std::size_t>((head * e.dk + i) * e.dv + j)] =
            gla_state_bound(rows[static_cast<std::size_t>(i)], in.state(i, j), updated(i, j));
      }
    }
    const Eigen::VectorXd from_state = in.state.cwiseAbs().transpose() * output_error;  // [dv]
    const GlaHeadMagnitudes sums{.qk = in.q.cwiseAbs().dot(in.k.cwiseAbs()),
                                 .q = in.q.cwiseAbs().sum()};
    for (std::int64_t j = 0; j < e.dv; ++j) {
      o.bound[static_cast<std::size_t>(head * e.dv + j)] =
          gla_output_bound(bound, scale, from_state[j], sums, in.v[j]);
    }
  });
  return outputs;
}

std::vector<core::TileHypothesis> gla_decode_hypotheses(const GlaInputs& inputs, double scale,
                                                        std::int64_t tile_rows,
                                                        std::int64_t pipeline_depth,
                                                        std::int64_t value_limit) {
  const StepExtents e = check_shapes(inputs);
  const std::int64_t tiles = e.dk / tile_rows;
  const std::int64_t values_per_pair = e.heads * (e.dk + 1) * e.dv;
  std::int64_t pairs = tiles * (tiles - 1);
  const bool same_buffer_only = pairs * values_per_pair > value_limit;
  if (same_buffer_only && pipeline_depth > 1) {
    pairs /= pipeline_depth;
  }
  if (pairs == 0 || pairs * values_per_pair > value_limit) {
    return {};
  }

  std::vector<core::TileHypothesis> hypotheses;
  for (std::int64_t d = 0; d < tiles; ++d) {
    for (std::int64_t s = 0; s < tiles; ++s) {
      if (d == s || (same_buffer_only && pipeline_depth > 1 && (d - s) % pipeline_depth != 0)) {
        continue;
      }
      hypotheses.push_back(
          {.output = 0,
           .destination = d,
           .source = s,
           .values = std::vector<double>(static_cast<std::size_t>(e.heads * e.dv))});
      hypotheses.push_back(
          {.output = 1,
           .destination = d,
           .source = s,
           .values = std::vector<double>(static_cast<std::size_t>(e.heads * e.dk * e.dv))});
    }
  }
  for (std::int64_t head = 0; head < e.heads; ++head) {
    const Head in(inputs, e, head);
    const Eigen::VectorXd decay = in.decay();                // [dk]
    const Eigen::VectorXd query = decay.cwiseProduct(in.q);  // [dk]
    const RowMajor updated =
        RowMajor(decay.asDiagonal() * in.state) + RowMajor(in.k * in.v.transpose());
    const Eigen::VectorXd output = scale * (updated.transpose() * in.q);  // [dv]
    for (core::TileHypothesis& hypothesis : hypotheses) {
      const std::int64_t to = hypothesis.destination * tile_rows,
                         from = hypothesis.source * tile_rows;
      const RowMajor difference =  // [tile_rows, dv]
          in.state.middleRows(from, tile_rows) - in.state.middleRows(to, tile_rows);
      if (hypothesis.output == 0) {
        Eigen::Map<Eigen::VectorXd>(hypothesis.values.data() + head * e.dv, e.dv) =
            output + scale * (difference.transpose() * query.segment(to, tile_rows));
      } else {
        Eigen::Map<RowMajor> values(hypothesis.values.data() + head * e.dk * e.dv, e.dk, e.dv);
        values = updated;
        values.middleRows(to, tile_rows) += decay.segment(to, tile_rows).asDiagonal() * difference;
      }
    }
  }
  return hypotheses;
}

}  // namespace faultline::reference
