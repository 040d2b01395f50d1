// SPDX-License-Identifier: Apache-2.0
// The subjects of this build, listed by hand: static registration would be dropped by the linker.
#include <faultline/kernels/subject.hpp>

#if FAULTLINE_HAVE_SUBJECTS
#include "catalogue/subjects.hpp"
#include "deltanet/decode_subject.hpp"
#include "deltanet/deltanet_bwd.hpp"
#include "deltanet/deltanet_fwd.hpp"
#include "gemm/subject.hpp"
#include "gemv/subject.hpp"
#include "gla_decode/subject.hpp"
#endif

namespace faultline::kernels {

void register_builtin_subjects([[maybe_unused]] SubjectRegistry& registry) {
#if FAULTLINE_HAVE_SUBJECTS
  registry.add(gemv::make_subject());
  registry.add(gemm::make_subject());
  registry.add(gla_decode::make_subject());
  registry.add(deltanet::make_deltanet_fwd());
  registry.add(deltanet::make_gated_deltanet_fwd());
  registry.add(deltanet::make_deltanet_bwd());
  registry.add(deltanet::make_gated_deltanet_bwd());
  registry.add(deltanet::make_decode_subject(false));
  registry.add(deltanet::make_decode_subject(true));
  for (Subject& subject : catalogue::all_subjects()) registry.add(std::move(subject));
#endif
}

}  // namespace faultline::kernels
