// SPDX-License-Identifier: Apache-2.0
// What a delta rule computes whose running state is kept in too narrow a dtype.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include <faultline/core/dtype.hpp>
#include <faultline/core/trial.hpp>
#include <faultline/reference/deltanet.hpp>

namespace faultline::reference {

/// o and hT of the chunkwise form in double, but for the state, which is rounded to `state` after
/// every chunk. UsageError when the inputs' sizes do not fit or chunk < 1.
DeltaOutputs narrow_state_forward(const DeltaInputs& inputs, std::int64_t chunk, core::Dtype state);

/// The error hypothesis "<dtype>_state" (low precision): the outputs above minus the right ones,
/// for `outputs`, of which only o and hT can differ; gradients have no effect. Left out when
/// there are more than `value_limit` values.
core::ErrorHypothesis narrow_state_hypothesis(const DeltaInputs& inputs, std::int64_t chunk,
                                              std::span<const DeltaOutput> outputs,
                                              core::Dtype state,
                                              std::int64_t value_limit = 1 << 25);

}  // namespace faultline::reference
