// SPDX-License-Identifier: Apache-2.0
// What the references of decode steps share: a state [B, H, DK, DV] is read and written once, head
// by head.
#pragma once

#include "decode.hpp"

#include <faultline/core/tensor.hpp>
#include <faultline/core/trial.hpp>
#include <faultline/reference/rounding.hpp>

#include <Eigen/Dense>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace faultline::reference {

using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

struct StepExtents {
  std::int64_t heads = 0, dk = 0, dv = 0;  ///< heads = B * H
};

/// Errors of the reference itself, which rounds each of its products and sums once, in chains of
/// `terms` = DK.
inline double step_relative_error(double terms) { return (terms + 8.0) * reference_roundoff(); }
/// What underflow costs in fp32 over as many terms.
inline double step_absolute_error(double terms) { return (2.0 * terms + 16.0) * fp32_underflow(); }

/// o [heads, dv] and new_state [heads, dk, dv], to be filled.
inline std::vector<core::ReferenceTensor> step_outputs(const StepExtents& e) {
  std::vector<core::ReferenceTensor> outputs(2);
  const std::int64_t sizes[] = {e.heads * e.dv, e.heads * e.dk * e.dv};
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    outputs[i].expected.resize(static_cast<std::size_t>(sizes[i]));
    outputs[i].bound.resize(outputs[i].expected.size());
  }
  return outputs;
}

/// Calls work(head) for every head, from several threads where that pays.
template <typename Work>
void for_each_head(const StepExtents& e, const Work& work) {
  const double cost = 16.0 * static_cast<double>(e.heads * e.dk * e.dv);
  parallel_ranges(e.heads, cost, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t head = begin; head < end; ++head) {
      work(head);
    }
  });
}

/// Row `head` of a tensor [heads, n].
inline Eigen::VectorXd vector_of(const core::Tensor& tensor, std::int64_t head, std::int64_t n) {
  Eigen::VectorXd values(n);
  decode_range(tensor, head * n, n, values.data());
  return values;
}
/// Matrix `head` of a state.
inline RowMajor state_of(const core::Tensor& state, std::int64_t head, const StepExtents& e) {
  RowMajor values(e.dk, e.dv);
  decode_range(state, head * e.dk * e.dv, e.dk * e.dv, values.data());
  return values;
}

}  // namespace faultline::reference
