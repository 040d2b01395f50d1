// SPDX-License-Identifier: Apache-2.0
#include <faultline/reference/deltanet_decode.hpp>

#include "decode_step.hpp"

#include <faultline/core/errors.hpp>

#include <Eigen/Dense>
#include <fmt/format.h>

#include <string>

namespace faultline::reference {

namespace {

StepExtents check_shapes(const DeltaDecodeInputs& inputs) {
  const core::Shape& state = inputs.state.shape;
  if (state.size() == 4) {
    const core::Shape keys{state[0], state[1], state[2]}, values{state[0], state[1], state[3]},
        steps{state[0], state[1]};
    if (inputs.q.shape == keys && inputs.k.shape == keys && inputs.v.shape == values &&
        inputs.beta.shape == steps && (inputs.g == nullptr || inputs.g->shape == steps)) {
      return {.heads = state[0] * state[1], .dk = state[2], .dv = state[3]};
    }
  }
  throw core::UsageError(fmt::format(
      "the DeltaNet decode reference got q {}, k {}, v {}, beta {}, g {} and state {}; it needs q, "
      "k [B, H, DK], v [B, H, DV], beta, g [B, H] and state [B, H, DK, DV]",
      core::to_string(inputs.q.shape), core::to_string(inputs.k.shape),
      core::to_string(inputs.v.shape), core::to_string(inputs.beta.shape),
      inputs.g != nullptr ? core::to_string(inputs.g->shape) : "none",
      core::to_string(inputs.state.shape)));
}

}  // namespace

DeltaDecodeBound delta_decode_bound(const DeltaDecodeNumerics& numerics) {
  const double own = step_relative_error(numerics.terms);
  return {.state_relative = gamma_fp32(numerics.state_chain) + own,
          .qk_relative = gamma_fp32(numerics.qk_chain) + own,
          .absolute = step_absolute_error(numerics.terms),
          .gated = numerics.gated ? 1 : 0,
          .update = numerics.update};
}

std::vector<core::ReferenceTensor> delta_decode(const DeltaDecodeInputs& inputs, double scale,
                                                const DeltaDecodeBound& bound) {
  const StepExtents e = check_shapes(inputs);
  if ((inputs.g != nullptr) != (bound.gated != 0)) {
    throw core::UsageError(inputs.g != nullptr
                               ? "the DeltaNet decode reference got g with an ungated bound"
                               : "the DeltaNet decode reference got no g for a gated bound");
  }
  std::vector<core::ReferenceTensor> outputs = step_outputs(e);
  core::ReferenceTensor &o = outputs[0], &new_state = outputs[1];
  for_each_head(e, [&](std::int64_t head) {
    const Eigen::VectorXd q = vector_of(inputs.q, head, e.dk);  // [dk]
    const Eigen::VectorXd k = vector_of(inputs.k, head, e.dk);  // [dk]
    const Eigen::VectorXd v = vector_of(inputs.v, head, e.dv);  // [dv]
    const double beta = vector_of(inputs.beta, head, 1)[0];
    const RowMajor state = state_of(inputs.state, head, e);
    const DeltaDecay decay =
        delta_decay(bound, inputs.g != nullptr ? vector_of(*inputs.g, head, 1)[0] : 0.0);

    const Eigen::VectorXd read = state.transpose() * k;  // [dv]
    const Eigen::VectorXd read_magnitude = state.cwiseAbs().transpose() * k.cwiseAbs();
    const Eigen::VectorXd query_magnitude = state.cwiseAbs().transpose() * q.cwiseAbs();
    const DeltaHeadSums sums{.qk = q.dot(k), .qk_magnitude = q.cwiseAbs().dot(k.cwiseAbs())};
    std::vector<DeltaColumn> columns(static_cast<std::size_t>(e.dv));
    Eigen::VectorXd update(e.dv);
    for (std::int64_t j = 0; j < e.dv; ++j) {
      DeltaColumn& column = columns[static_cast<std::size_t>(j)];
      column = delta_column(bound, decay, beta, v[j], read[j], read_magnitude[j]);
      update[j] = column.update;
      o.bound[static_cast<std::size_t>(head * e.dv + j)] =
          delta_output_bound(bound, decay, scale, query_magnitude[j], sums, column);
    }

    Eigen::Map<RowMajor> updated(new_state.expected.data() + head * e.dk * e.dv, e.dk, e.dv);
    updated = decay.value * state;
    updated.noalias() += k * update.transpose();
    Eigen::Map<Eigen::VectorXd>(o.expected.data() + head * e.dv, e.dv) =
        scale * (updated.transpose() * q);
    for (std::int64_t i = 0; i < e.dk; ++i) {
      for (std::int64_t j = 0; j < e.dv; ++j) {
        new_state.bound[static_cast<std::size_t>((head * e.dk + i) * e.dv + j)] = delta_state_bound(
            decay, state(i, j), k[i], updated(i, j), columns[static_cast<std::size_t>(j)]);
      }
    }
  });
  return outputs;
}

}  // namespace faultline::reference
