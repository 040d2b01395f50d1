// SPDX-License-Identifier: Apache-2.0
#include <faultline/reference/deltanet_decode.hpp>

#include "decode.hpp"

#include <faultline/core/errors.hpp>

#include <Eigen/Dense>
#include <fmt/format.h>

#include <string>

namespace faultline::reference {

namespace {

using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

struct Extents {
  std::int64_t heads = 0, dk = 0, dv = 0;  // heads = B * H
};

Extents check_shapes(const DeltaDecodeInputs& inputs) {
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

Eigen::VectorXd decoded(const core::Tensor& tensor, std::int64_t head, std::int64_t n) {
  Eigen::VectorXd values(n);
  decode_range(tensor, head * n, n, values.data());
  return values;
}

}  // namespace

DeltaDecodeBound delta_decode_bound(const DeltaDecodeNumerics& numerics) {
  // The reference rounds each of its products and sums once, in chains of DK terms.
  const double own = (numerics.terms + 8.0) * reference_roundoff();
  return {.state_relative = gamma_fp32(numerics.state_chain) + own,
          .qk_relative = gamma_fp32(numerics.qk_chain) + own,
          .absolute = (2.0 * numerics.terms + 16.0) * fp32_underflow(),
          .gated = numerics.gated ? 1 : 0,
          .update = numerics.update};
}

std::vector<core::ReferenceTensor> delta_decode(const DeltaDecodeInputs& inputs, double scale,
                                                const DeltaDecodeBound& bound) {
  const Extents e = check_shapes(inputs);
  if ((inputs.g != nullptr) != (bound.gated != 0)) {
    throw core::UsageError(inputs.g != nullptr
                               ? "the DeltaNet decode reference got g with an ungated bound"
                               : "the DeltaNet decode reference got no g for a gated bound");
  }
  std::vector<core::ReferenceTensor> outputs(2);
  core::ReferenceTensor& o = outputs[0];
  core::ReferenceTensor& new_state = outputs[1];
  o.expected.resize(static_cast<std::size_t>(e.heads * e.dv));
  o.bound.resize(o.expected.size());
  new_state.expected.resize(static_cast<std::size_t>(e.heads * e.dk * e.dv));
  new_state.bound.resize(new_state.expected.size());

  const double cost = 16.0 * static_cast<double>(new_state.expected.size());
  parallel_ranges(e.heads, cost, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t head = begin; head < end; ++head) {
      const Eigen::VectorXd q = decoded(inputs.q, head, e.dk);  // [dk]
      const Eigen::VectorXd k = decoded(inputs.k, head, e.dk);  // [dk]
      const Eigen::VectorXd v = decoded(inputs.v, head, e.dv);  // [dv]
      const double beta = decoded(inputs.beta, head, 1)[0];
      RowMajor state(e.dk, e.dv);
      decode_range(inputs.state, head * e.dk * e.dv, e.dk * e.dv, state.data());
      const DeltaDecay decay =
          delta_decay(bound, inputs.g != nullptr ? decoded(*inputs.g, head, 1)[0] : 0.0);

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
          new_state.bound[static_cast<std::size_t>((head * e.dk + i) * e.dv + j)] =
              delta_state_bound(decay, state(i, j), k[i], updated(i, j),
                                columns[static_cast<std::size_t>(j)]);
        }
      }
    }
  });
  return outputs;
}

}  // namespace faultline::reference
