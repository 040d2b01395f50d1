// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <faultline/kernels/subject.hpp>

namespace faultline::kernels::gemm {

/// C = sigmoid(alpha A B) with fp32 accumulation in f16, bf16 and f32: README.md beside this file.
Subject make_subject();

}  // namespace faultline::kernels::gemm
