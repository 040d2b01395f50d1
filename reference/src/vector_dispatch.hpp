// SPDX-License-Identifier: Apache-2.0
// One function body, compiled for the baseline and for AVX2, chosen when it is called. Only bodies
// whose every lane is computed by the same IEEE operations in the same order may use it: the choice
// must be one of speed alone. (target_clones would do the same through ifunc, which sanitizers do
// not survive.)
#pragma once

#include <cstdint>

namespace faultline::reference {

// Eight lanes as one value: the compiler makes one 256-bit or two 128-bit registers of it. Passed
// by reference alone, for by value the two have different calling conventions.
inline constexpr std::int64_t kLaneCount = 8;
using FloatLanes = float __attribute__((vector_size(32)));
using WordLanes = std::uint32_t __attribute__((vector_size(32)));
using IntLanes = std::int32_t __attribute__((vector_size(32)));
using FloatLanesInMemory = float __attribute__((vector_size(32), aligned(4), may_alias));

}  // namespace faultline::reference

#define FAULTLINE_INLINE [[gnu::always_inline]] inline

#if defined(__x86_64__)
#define FAULTLINE_DISPATCH(name, body, parameters, arguments)                                      \
  [[gnu::target("avx2")]] void name##_avx2 parameters { body arguments; }                          \
  void name##_baseline parameters { body arguments; }                                              \
  void name parameters {                                                                           \
    static const bool avx2 = __builtin_cpu_supports("avx2");                                       \
    if (avx2) {                                                                                    \
      name##_avx2 arguments;                                                                       \
    } else {                                                                                       \
      name##_baseline arguments;                                                                   \
    }                                                                                              \
  }
#else
#define FAULTLINE_DISPATCH(name, body, parameters, arguments)                                      \
  void name parameters { body arguments; }
#endif
