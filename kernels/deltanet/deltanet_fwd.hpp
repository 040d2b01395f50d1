// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <faultline/kernels/subject.hpp>

namespace faultline::kernels::deltanet {

/// deltanet_fwd and gated_deltanet_fwd, the chunkwise forward: README.md beside this file.
Subject make_deltanet_fwd();
Subject make_gated_deltanet_fwd();

}  // namespace faultline::kernels::deltanet
