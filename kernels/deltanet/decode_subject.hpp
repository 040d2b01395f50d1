// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <faultline/kernels/subject.hpp>

namespace faultline::kernels::deltanet {

/// One decode step of the delta rule, `deltanet_decode` and `gated_deltanet_decode`, in f16, bf16
/// and f32 with the state in fp32 or the same: README.md beside this file.
Subject make_decode_subject(bool gated);

}  // namespace faultline::kernels::deltanet
