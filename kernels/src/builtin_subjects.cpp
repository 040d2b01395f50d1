// SPDX-License-Identifier: Apache-2.0
// The subjects of this build, listed by hand: static registration would be dropped by the linker.
#include <faultline/kernels/subject.hpp>

#if FAULTLINE_HAVE_SUBJECTS
#include "gemv/subject.hpp"
#include "gla_decode/subject.hpp"
#endif

namespace faultline::kernels {

void register_builtin_subjects([[maybe_unused]] SubjectRegistry& registry) {
#if FAULTLINE_HAVE_SUBJECTS
  registry.add(gemv::make_subject());
  registry.add(gla_decode::make_subject());
#endif
}

}  // namespace faultline::kernels
