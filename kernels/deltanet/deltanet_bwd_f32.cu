// SPDX-License-Identifier: Apache-2.0
// The backward in f32, clean and mutants: plain loops, so that every defect stands out.
#include "backward_plain.cuh"

#define FAULTLINE_DELTANET_BACKWARD_PLAIN(CHUNK)                                                   \
  FAULTLINE_DELTANET_LOCAL_PLAIN(deltanet_bwd_local_f32_c##CHUNK, CHUNK)                           \
  FAULTLINE_DELTANET_STATE_PLAIN(deltanet_bwd_state_none_f32_c##CHUNK, CHUNK, none)                \
  FAULTLINE_DELTANET_STATE_PLAIN(deltanet_bwd_state_dh_coefficient_f32_c##CHUNK, CHUNK,            \
                                 dh_coefficient)                                                   \
  FAULTLINE_DELTANET_STATE_PLAIN(deltanet_bwd_state_du_corr_f32_c##CHUNK, CHUNK, du_corr)          \
  FAULTLINE_DELTANET_GRADIENTS_PLAIN(deltanet_bwd_gradients_none_f32_c##CHUNK, CHUNK, none)        \
  FAULTLINE_DELTANET_GRADIENTS_PLAIN(deltanet_bwd_gradients_a_inv_f32_c##CHUNK, CHUNK, a_inv)      \
  FAULTLINE_DELTANET_GRADIENTS_PLAIN(deltanet_bwd_gradients_dw_cross_f32_c##CHUNK, CHUNK,          \
                                     dw_cross)                                                     \
  FAULTLINE_DELTANET_GRADIENTS_PLAIN(deltanet_bwd_gradients_all_three_f32_c##CHUNK, CHUNK,         \
                                     all_three)                                                    \
  FAULTLINE_DELTANET_GRADIENTS_PLAIN(deltanet_bwd_gradients_dk_corr_f32_c##CHUNK, CHUNK, dk_corr)  \
  FAULTLINE_DELTANET_GRADIENTS_PLAIN(deltanet_bwd_gradients_no_reverse_cumsum_f32_c##CHUNK, CHUNK, \
                                     no_reverse_cumsum)

FAULTLINE_DELTANET_BACKWARD_PLAIN(32)
FAULTLINE_DELTANET_BACKWARD_PLAIN(64)
