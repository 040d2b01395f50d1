// SPDX-License-Identifier: Apache-2.0
// One delta-rule decode step, gated or not, in double with Eigen, and its error bounds.
#pragma once

#include <vector>

#include <faultline/core/tensor.hpp>
#include <faultline/reference/deltanet_decode_bound.hpp>

namespace faultline::reference {

/// Inputs of a step. Views: the tensors must outlive the call.
///   q, k [B, H, DK]   v [B, H, DV]   beta, g [B, H]   state [B, H, DK, DV]
struct DeltaDecodeInputs {
  const core::Tensor& q;
  const core::Tensor& k;
  const core::Tensor& v;
  const core::Tensor& beta;
  const core::Tensor* g = nullptr;  ///< natural logarithm of the decay; null: ungated
  const core::Tensor& state;
};

/// {o [B, H, DV], new_state [B, H, DK, DV]}: one step of the recurrence of deltanet.hpp, read as
///   u = beta (v - e^g S^T k),  S' = e^g S + k u^T,  o = scale S'^T q
/// with the bounds of deltanet_decode_bound.hpp. Throws UsageError when the shapes do not fit, or
/// when `bound` is ungated and g is there (or the reverse). Deterministic.
std::vector<core::ReferenceTensor> delta_decode(const DeltaDecodeInputs& inputs, double scale,
                                                const DeltaDecodeBound& bound);

}  // namespace faultline::reference
