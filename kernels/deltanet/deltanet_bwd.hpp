// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <faultline/kernels/subject.hpp>

namespace faultline::kernels::deltanet {

/// deltanet_bwd and gated_deltanet_bwd, the chunkwise backward: README.md beside this file.
Subject make_deltanet_bwd();
Subject make_gated_deltanet_bwd();

}  // namespace faultline::kernels::deltanet
