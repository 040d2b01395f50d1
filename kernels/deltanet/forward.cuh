// SPDX-License-Identifier: Apache-2.0
//
// The chunkwise forward of the delta rule, gated or not, in three or four launches (16-bit dtypes):
//
//   prepare       a block a chunk    G = cumsum g; M = slt(diag(beta) K K^T . Gamma)
//                                    X = (I + M)^-1, W = X diag(beta e^G) K, U = X diag(beta) V
//   transitions   a warp 16 columns  long sequences only: what each segment of chunks does to the
//                                    state
//   states        a warp 16 columns  v_new = U - W h;  h' = gamma h + K^T diag(e^(G_n - G)) v_new,
//                                    chunk after chunk; h before each chunk and v_new are kept
//   output        a block a chunk    P = tril(Q K^T . Gamma), O = s (diag(e^G) Q h + P v_new)
//
//   q, k, w [B, H, T, DK]   v, u, v_new, o [B, H, T, DV]   beta [B, H, T]
//   g [B, H, T] fp32, or null: not gated
//   x [B, H, T, C] rows of X   h [B, H, N, DK, DV], N = ceil(T / C)   h0, hT [B, H, DK, DV] fp32
//   gated: gates [B, H, N C] fp32 G; decays [B, H, N, C + 4] fp32 (state_decay_record)
//   elements T in {__half, __nv_bfloat16}; DK, DV in {64, 128}; C in {32, 64}; any length T >= 1:
//   rows from T on are zeros in every tile (tensor copies fill them), beta and g count as zero
//   there, and nothing is stored to them.
//
// Tiles come by tensor copies with a 128-byte swizzle, as 3-D maps {columns, T, B H} (h: {DV, DK,
// B H N}) with boxes {64, C, 1} (h: {64, DK, 1}).
//
// Numeric plan: sums in fp32, tensor-core operands in T. Rounded to T: X (stored); X diag(beta e^G)
// and X diag(beta) (operands; K and V enter as they are); W, U; h as an operand and stored; v_new;
// gated: diag(e^(G_n - G)) v_new from the rounded v_new; P; O. The running state is fp32, that of a
// transition too; segments: Phi is stored in T, -W Phi and h as operands of the scan are T, L is
// fp32. The inverse is fp32: substitution in blocks of 16 rows, block products by three tf32
// products.
//
// Defects: forward_defect.hpp.
#pragma once

#include "forward_output.cuh"
#include "forward_prepare.cuh"
#include "forward_states.cuh"

// ---- entries ------------------------------------------------------------------------------------

#define FAULTLINE_DELTANET_PREPARE(NAME, T, CHUNK, INVERSE, DEFECT)                               \
  extern "C" __global__ void __launch_bounds__(2 * CHUNK)                                         \
      NAME(const T* beta, const float* g, T* w, T* u, T* x, float* gates, float* decays,          \
           int length, int dk, int dv, const __grid_constant__ CUtensorMap k_map,                 \
           const __grid_constant__ CUtensorMap v_map) {                                           \
    using namespace faultline::kernels::deltanet;                                                 \
    prepare<T, CHUNK, Inverse::INVERSE, Defect::DEFECT>(beta, g, w, u, x, gates, decays, length,  \
                                                        dk, dv, &k_map, &v_map);                  \
  }

#define FAULTLINE_DELTANET_TRANSITIONS(NAME, T, CHUNK, DK, DEFECT)                                \
  extern "C" __global__ void __launch_bounds__(288)                                               \
      NAME(const float* decays, T* transition, float4* local, int length, int dv, int gated,      \
           int segment_chunks, const __grid_constant__ CUtensorMap w_map,                         \
           const __grid_constant__ CUtensorMap k_map,                                             \
           const __grid_constant__ CUtensorMap u_map) {                                           \
    using namespace faultline::kernels::deltanet;                                                 \
    transitions<T, CHUNK, DK, Defect::DEFECT>(decays, transition, local, length, dv, gated,       \
                                              segment_chunks, &w_map, &k_map, &u_map);            \
  }

#define FAULTLINE_DELTANET_STATES(NAME, T, CHUNK, DK, DEFECT)                                     \
  extern "C" __global__ void __launch_bounds__(192)                                               \
      NAME(const float* decays, const float* h0, const float4* local, float* hT, int length,      \
           int dv, int gated, int segment_chunks, const __grid_constant__ CUtensorMap w_map,      \
           const __grid_constant__ CUtensorMap k_map, const __grid_constant__ CUtensorMap u_map,  \
           const __grid_constant__ CUtensorMap h_map,                                             \
           const __grid_constant__ CUtensorMap v_new_map,                                         \
           const __grid_constant__ CUtensorMap transition_map) {                                  \
    using namespace faultline::kernels::deltanet;                                                 \
    states<T, CHUNK, DK, Defect::DEFECT>(decays, h0, local, hT, length, dv, gated,                \
                                         segment_chunks, &w_map, &k_map, &u_map, &h_map,          \
                                         &v_new_map, &transition_map);                            \
  }

#define FAULTLINE_DELTANET_OUTPUT(NAME, T, CHUNK, DK, DEFECT)                                     \
  extern "C" __global__ void __launch_bounds__(2 * CHUNK) NAME(                                   \
      const float* gates, T* o, int length, int dv, int gated, float scale,                       \
      const __grid_constant__ CUtensorMap q_map, const __grid_constant__ CUtensorMap k_map,       \
      const __grid_constant__ CUtensorMap h_map, const __grid_constant__ CUtensorMap v_new_map) { \
    using namespace faultline::kernels::deltanet;                                                 \
    output<T, CHUNK, DK, Defect::DEFECT>(gates, o, length, dv, gated, scale, &q_map, &k_map,      \
                                         &h_map, &v_new_map);                                     \
  }

#define FAULTLINE_DELTANET_FORWARD_MODULE_DK(DTYPE, T, CHUNK, DK)                                 \
  FAULTLINE_DELTANET_TRANSITIONS(deltanet_transitions_chunkwise_##DTYPE##_c##CHUNK##_dk##DK, T,   \
                                 CHUNK, DK, none)                                                 \
  FAULTLINE_DELTANET_STATES(deltanet_states_chunkwise_##DTYPE##_c##CHUNK##_dk##DK, T, CHUNK, DK,  \
                            none)                                                                 \
  FAULTLINE_DELTANET_OUTPUT(deltanet_output_chunkwise_##DTYPE##_c##CHUNK##_dk##DK, T, CHUNK, DK,  \
                            none)

#define FAULTLINE_DELTANET_FORWARD_MODULE_CHUNK(DTYPE, T, CHUNK)                                  \
  FAULTLINE_DELTANET_PREPARE(deltanet_prepare_chunkwise_##DTYPE##_c##CHUNK, T, CHUNK,             \
                             substitution, none)                                                  \
  FAULTLINE_DELTANET_PREPARE(deltanet_prepare_squaring_##DTYPE##_c##CHUNK, T, CHUNK, squaring,    \
                             none)                                                                \
  FAULTLINE_DELTANET_FORWARD_MODULE_DK(DTYPE, T, CHUNK, 64)                                       \
  FAULTLINE_DELTANET_FORWARD_MODULE_DK(DTYPE, T, CHUNK, 128)

#define FAULTLINE_DELTANET_FORWARD_MODULE(DTYPE, T)     \
  FAULTLINE_DELTANET_FORWARD_MODULE_CHUNK(DTYPE, T, 32) \
  FAULTLINE_DELTANET_FORWARD_MODULE_CHUNK(DTYPE, T, 64)

#define FAULTLINE_DELTANET_FORWARD_MUTANT_STATES(DTYPE, T, DEFECT)                                \
  FAULTLINE_DELTANET_TRANSITIONS(deltanet_transitions_##DEFECT##_##DTYPE##_c64_dk64, T, 64, 64,   \
                                 DEFECT)                                                          \
  FAULTLINE_DELTANET_STATES(deltanet_states_##DEFECT##_##DTYPE##_c64_dk64, T, 64, 64, DEFECT)

#define FAULTLINE_DELTANET_FORWARD_MUTANTS(DTYPE, T)                                              \
  FAULTLINE_DELTANET_PREPARE(deltanet_prepare_w_scaled_outside_##DTYPE##_c64, T, 64,              \
                             substitution, w_scaled_outside)                                      \
  FAULTLINE_DELTANET_FORWARD_MUTANT_STATES(DTYPE, T, gamma_twice)                                 \
  FAULTLINE_DELTANET_FORWARD_MUTANT_STATES(DTYPE, T, bf16_state)                                  \
  FAULTLINE_DELTANET_OUTPUT(deltanet_output_strict_tril_##DTYPE##_c64_dk64, T, 64, 64,            \
                            strict_tril)
