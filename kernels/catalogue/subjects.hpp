// SPDX-License-Identifier: Apache-2.0
// The subjects of the catalogue, one file each (docs/catalogue.md).
#pragma once

#include <faultline/kernels/subject.hpp>

#include <vector>

namespace faultline::kernels::catalogue {

Subject make_sgemm();
Subject make_rowdot();
Subject make_gemv_splitk();
Subject make_colsum_workspace();
Subject make_unpack_bwd();
Subject make_colsum_affine();
Subject make_reverse_rows();
Subject make_block_sum();
Subject make_rowscale();
Subject make_rmsnorm();
Subject make_attn_row();
Subject make_cast_copy();
Subject make_tril_decay();
Subject make_gdn_step();
Subject make_ticket_sum();
Subject make_transpose();
Subject make_masked_sum();
Subject make_gather_rows();
Subject make_atomic_sum();
Subject make_softmax();
Subject make_message();
Subject make_graph_scale();
Subject make_jit_scale();
Subject make_dispatch();
Subject make_ring_copy();
Subject make_allreduce2();

/// All of them, in the order of docs/catalogue.md.
std::vector<Subject> all_subjects();

}  // namespace faultline::kernels::catalogue
