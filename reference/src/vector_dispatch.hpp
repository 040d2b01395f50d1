// SPDX-License-Identifier: Apache-2.0
// One function body, compiled for the baseline and for AVX2, chosen when it is called. Only bodies
// whose every lane is computed by the same IEEE operations in the same order may use it: the choice
// must be one of speed alone. (target_clones would do the same through ifunc, which sanitizers do
// not survive.)
#pragma once

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
