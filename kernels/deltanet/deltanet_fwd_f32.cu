// SPDX-License-Identifier: Apache-2.0
// The forward in f32, clean and mutants: plain loops, so that every defect stands out.
#include "forward_plain.cuh"

FAULTLINE_DELTANET_PREPARE_PLAIN(deltanet_prepare_chunkwise_f32_c32, 32, substitution, none)
FAULTLINE_DELTANET_PREPARE_PLAIN(deltanet_prepare_chunkwise_f32_c64, 64, substitution, none)
FAULTLINE_DELTANET_PREPARE_PLAIN(deltanet_prepare_squaring_f32_c32, 32, squaring, none)
FAULTLINE_DELTANET_PREPARE_PLAIN(deltanet_prepare_squaring_f32_c64, 64, squaring, none)
FAULTLINE_DELTANET_STATES_PLAIN(deltanet_states_chunkwise_f32_c32, 32, none)
FAULTLINE_DELTANET_STATES_PLAIN(deltanet_states_chunkwise_f32_c64, 64, none)
FAULTLINE_DELTANET_OUTPUT_PLAIN(deltanet_output_chunkwise_f32_c32, 32, none)
FAULTLINE_DELTANET_OUTPUT_PLAIN(deltanet_output_chunkwise_f32_c64, 64, none)

FAULTLINE_DELTANET_PREPARE_PLAIN(deltanet_prepare_w_scaled_outside_f32_c32, 32, substitution,
                                 w_scaled_outside)
FAULTLINE_DELTANET_PREPARE_PLAIN(deltanet_prepare_w_scaled_outside_f32_c64, 64, substitution,
                                 w_scaled_outside)
FAULTLINE_DELTANET_STATES_PLAIN(deltanet_states_gamma_twice_f32_c32, 32, gamma_twice)
FAULTLINE_DELTANET_STATES_PLAIN(deltanet_states_gamma_twice_f32_c64, 64, gamma_twice)
FAULTLINE_DELTANET_STATES_PLAIN(deltanet_states_bf16_state_f32_c32, 32, bf16_state)
FAULTLINE_DELTANET_STATES_PLAIN(deltanet_states_bf16_state_f32_c64, 64, bf16_state)
FAULTLINE_DELTANET_OUTPUT_PLAIN(deltanet_output_strict_tril_f32_c32, 32, strict_tril)
FAULTLINE_DELTANET_OUTPUT_PLAIN(deltanet_output_strict_tril_f32_c64, 64, strict_tril)
