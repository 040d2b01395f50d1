// SPDX-License-Identifier: Apache-2.0
#include "catalogue/subjects.hpp"

namespace faultline::kernels::catalogue {

std::vector<Subject> all_subjects() {
  std::vector<Subject> subjects;
  subjects.push_back(make_sgemm());
  subjects.push_back(make_rowdot());
  subjects.push_back(make_gemv_splitk());
  subjects.push_back(make_colsum_workspace());
  subjects.push_back(make_unpack_bwd());
  subjects.push_back(make_colsum_affine());
  subjects.push_back(make_reverse_rows());
  subjects.push_back(make_block_sum());
  subjects.push_back(make_rowscale());
  subjects.push_back(make_rmsnorm());
  subjects.push_back(make_attn_row());
  subjects.push_back(make_cast_copy());
  subjects.push_back(make_tril_decay());
  subjects.push_back(make_gdn_step());
  subjects.push_back(make_ticket_sum());
  subjects.push_back(make_transpose());
  subjects.push_back(make_masked_sum());
  subjects.push_back(make_gather_rows());
  subjects.push_back(make_atomic_sum());
  subjects.push_back(make_softmax());
  subjects.push_back(make_message());
  subjects.push_back(make_graph_scale());
  subjects.push_back(make_jit_scale());
  subjects.push_back(make_dispatch());
  subjects.push_back(make_ring_copy());
  subjects.push_back(make_allreduce2());
  return subjects;
}

}  // namespace faultline::kernels::catalogue
