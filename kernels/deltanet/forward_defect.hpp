// SPDX-License-Identifier: Apache-2.0
// The mutants of the chunkwise forward.
#pragma once

namespace faultline::kernels::deltanet {

/// Each is a `kDefect ==` line of one kernel, described there: w_scaled_outside in prepare(),
/// gamma_twice and bf16_state in add_chunk(), strict_tril in output().
enum class Defect { none, w_scaled_outside, gamma_twice, strict_tril, bf16_state };

}  // namespace faultline::kernels::deltanet
