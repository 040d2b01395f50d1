// SPDX-License-Identifier: Apache-2.0
// The register-only handlers for plain x86-64, and the choice between them and the AVX2 ones.
#define FAULTLINE_ISA isa_baseline
#include "exec/compute_table.hpp"

namespace faultline::simulator {

namespace isa_avx2 {
ComputeHandler select_compute(const ComputeKey& key);
}

namespace {
bool baseline_forced = false;
}

void force_baseline_compute(bool forced) { baseline_forced = forced; }

ComputeHandler select_compute(const ComputeKey& key) {
  static const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return has_avx2 && !baseline_forced ? isa_avx2::select_compute(key)
                                      : isa_baseline::select_compute(key);
}

}  // namespace faultline::simulator
