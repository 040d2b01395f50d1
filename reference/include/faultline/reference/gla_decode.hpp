// SPDX-License-Identifier: Apache-2.0
// One GLA decode step in double with Eigen, its error bounds, and what a wrong tile would have
// given.
#pragma once

#include <vector>

#include <faultline/core/tensor.hpp>
#include <faultline/core/trial.hpp>
#include <faultline/reference/gla_decode_bound.hpp>

namespace faultline::reference {

/// Inputs of a step. Views: the tensors must outlive the call.
///   q, k, gk [B, H, DK]   v [B, H, DV]   state [B, H, DK, DV]
/// gk is the natural logarithm of the decay.
struct GlaInputs {
  const core::Tensor& q;
  const core::Tensor& k;
  const core::Tensor& v;
  const core::Tensor& gk;
  const core::Tensor& state;
};

/// {o [B, H, DV], new_state [B, H, DK, DV]} by the definition
///   S' = diag(e^gk) S + k v^T,  o = scale S'^T q
/// Throws UsageError when the shapes do not fit. Deterministic.
std::vector<core::ReferenceTensor> gla_decode(const GlaInputs& inputs, double scale,
                                              const GlaBound& bound);

/// For every ordered pair of different state tiles of `tile_rows` rows: o (output 0, as if pass 1
/// had read tile `source` where `destination` belongs) and new_state (output 1, as if pass 2 had),
/// every head alike; gates, q and k stay those of `destination`. At most `value_limit` values in
/// all: then only pairs whose tiles share one of `pipeline_depth` buffers are listed, and none when
/// even those are too many.
std::vector<core::TileHypothesis> gla_decode_hypotheses(const GlaInputs& inputs, double scale,
                                                        std::int64_t tile_rows,
                                                        std::int64_t pipeline_depth,
                                                        std::int64_t value_limit = 1 << 25);

}  // namespace faultline::reference
