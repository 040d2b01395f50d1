// SPDX-License-Identifier: Apache-2.0
//
// Backward of the delta rule, gated and not, chunk by chunk, on tensor cores (mma.sync m16n8k16).
//
// For every (batch, head): gradients of L = <o, do> + <hT, dhT>, from what the forward saves:
//
//   w [B,H,T,DK]  u, v_new [B,H,T,DV]  x = A^-1 [B,H,T,C]  h [B,H,N,DK,DV], state before each chunk
//
// N = ceil(T / C) chunks of C rows, the last may be shorter. Of one chunk, with G the gates summed
// from its first row (ungated 0), gamma = e^G_n, Gamma_ij = e^(G_i - G_j), dh' the gradient of the
// state after it:
//
//   local      P = tril(Q K^T . Gamma)                         du_partial = s P^T dO
//   state      dU = du_partial + diag(e^(G_n - G)) K dh'       chunks last to first, from dhT
//              dh = gamma dh' + Q^T diag(s e^G) dO - W^T dU    dh0 after the first
//   gradients  dS = s tril(dO V_new^T) . Gamma
//              dQ = s diag(e^G) dO h^T + dS K
//              dk_partial = dS^T Q,  dk_corr = diag(e^(G_n - G)) V_new dh'^T
//              R_v = X^T dU,  R_w = X^T dW = -R_v h^T          as dW = -dU h^T
//              dV = diag(beta) R_v,  dk_wu = diag(beta e^G) R_w
//              E = -slt(R_w W^T + R_v U^T) . Gamma             instead of -X^T dX X^T
//              dk_A = diag(beta) E K + (diag(beta) E)^T K
//              dK = dk_partial + dk_corr + dk_wu + dk_A
//              dbeta = rowsum(R_w . diag(e^G) K) + rowsum(R_v . V) + rowsum(K . E K)
//              dG = rowsum(Q . dQ) - rowsum(K . (dk_partial + dk_corr - dk_wu))
//                   + rowsum(beta K . E K) - rowsum(K . (diag(beta) E)^T K)
//              dG_n += sum of rowsum(K . dk_corr) + gamma <dh', h>
//              dg_i = sum of dG_j, j >= i
//
// `local` and `gradients` have one block a chunk. `state` is the serial part. Its columns (of dh,
// DV of them) are independent of each other: a warp owns 16, keeps them transposed in its
// accumulators, where they are the A operand of the next product without any exchange, and never
// waits for another warp but for the tiles they share. Along the sequence it is affine in dh',
//
//   dh = N dh' + gamma dh' + const,   N = -W^T diag(e^(G_n - G)) K,
//
// so it is cut into segments of consecutive chunks: `segments` finds, for all of them at once, the
// constant (the recurrence from 0, the last segment's from dhT) and the transition (the recurrence
// without input from the columns of the identity); `state` then starts every segment from the carry
// that the segments behind it make, and runs them all at once.
//
// Numeric plan: sums in fp32, tensor-core operands in T. Rounded to T: P; du_partial (stored); dh'
// as an operand and stored, the running gradient is fp32; dU; diag(s e^G) dO; dS; R_v and R_w as
// operands, E and diag(beta) E likewise. Of several segments N and the carried gradient as
// operands, gamma and the constants are fp32. dQ, dK, dV are sums in fp32 rounded once; dbeta, dg,
// dh0 fp32.
#pragma once

#include "backward_gradients.cuh"
#include "backward_local.cuh"
#include "backward_state.cuh"

// ---- entries ------------------------------------------------------------------------------------

#define FAULTLINE_DELTANET_LOCAL(NAME, T, DK, DV, CHUNK)                                           \
  extern "C" __global__ void __launch_bounds__(2 * CHUNK) NAME(                                    \
      const float* gates, T* du_partial, float* decays, int t, int chunks, int gated, float scale, \
      const __grid_constant__ CUtensorMap q_map, const __grid_constant__ CUtensorMap k_map,        \
      const __grid_constant__ CUtensorMap do_map) {                                                \
    using namespace faultline::kernels::deltanet;                                                  \
    LocalKernel<T, DK, DV, CHUNK>::run(&q_map, &k_map, &do_map, gates, du_partial, decays, scale,  \
                                       {t, chunks, 1, chunks, gated});                             \
  }

#define FAULTLINE_DELTANET_SEGMENTS(NAME, T, DK, DV, CHUNK)                                        \
  extern "C" __global__ void __launch_bounds__(2 * (DK > DV ? DK : DV)) NAME(                      \
      const float* decays, const float* dhT, T* transitions, float* constants, float* factors,     \
      int t, int chunks, int segments, int segment_chunks, int gated, float scale,                 \
      const __grid_constant__ CUtensorMap q_map, const __grid_constant__ CUtensorMap k_map,        \
      const __grid_constant__ CUtensorMap w_map, const __grid_constant__ CUtensorMap do_map,       \
      const __grid_constant__ CUtensorMap du_partial_map) {                                        \
    using namespace faultline::kernels::deltanet;                                                  \
    StateKernel<T, DK, DV, CHUNK, BackwardDefect::none>::segments(                                 \
        {&k_map, &w_map, &q_map, &do_map, &du_partial_map, nullptr, nullptr, nullptr},             \
        {decays, dhT, transitions, constants, factors, nullptr}, scale,                            \
        {t, chunks, segments, segment_chunks, gated});                                             \
  }

#define FAULTLINE_DELTANET_STATE(NAME, T, DK, DV, CHUNK, DEFECT)                                   \
  extern "C" __global__ void __launch_bounds__(2 * DV) NAME(                                       \
      const float* decays, const float* dhT, float* constants, float* factors, float* dh0, int t,  \
      int chunks, int segments, int segment_chunks, int gated, float scale,                        \
      const __grid_constant__ CUtensorMap q_map, const __grid_constant__ CUtensorMap k_map,        \
      const __grid_constant__ CUtensorMap w_map, const __grid_constant__ CUtensorMap do_map,       \
      const __grid_constant__ CUtensorMap du_partial_map,                                          \
      const __grid_constant__ CUtensorMap transitions_map,                                         \
      const __grid_constant__ CUtensorMap dh_map, const __grid_constant__ CUtensorMap du_map) {    \
    using namespace faultline::kernels::deltanet;                                                  \
    StateKernel<T, DK, DV, CHUNK, BackwardDefect::DEFECT>::state(                                  \
        {&k_map, &w_map, &q_map, &do_map, &du_partial_map, &transitions_map, &dh_map, &du_map},    \
        {decays, dhT, nullptr, constants, factors, dh0}, scale,                                    \
        {t, chunks, segments, segment_chunks, gated});                                             \
  }

#define FAULTLINE_DELTANET_GRADIENTS(NAME, T, DK, DV, CHUNK, DEFECT)                               \
  extern "C" __global__ void __launch_bounds__(2 * CHUNK, (DK + DV == 128 ? 3 : 2) * 64 / CHUNK)   \
      NAME(const T* v, const T* beta, const float* gates, const T* x, const T* h, T* dq, T* dk,    \
           T* dv, float* dbeta, float* dg, int t, int chunks, float scale,                         \
           const __grid_constant__ CUtensorMap q_map, const __grid_constant__ CUtensorMap k_map,   \
           const __grid_constant__ CUtensorMap do_map,                                             \
           const __grid_constant__ CUtensorMap v_new_map,                                          \
           const __grid_constant__ CUtensorMap w_map, const __grid_constant__ CUtensorMap u_map,   \
           const __grid_constant__ CUtensorMap h_map, const __grid_constant__ CUtensorMap dh_map,  \
           const __grid_constant__ CUtensorMap du_map,                                             \
           const __grid_constant__ CUtensorMap du_partial_map) {                                   \
    using namespace faultline::kernels::deltanet;                                                  \
    GradientKernel<T, DK, DV, CHUNK, BackwardDefect::DEFECT>::run(                                 \
        {&q_map, &k_map, &do_map, &v_new_map, &w_map, &u_map, &h_map, &dh_map, &du_map,            \
         &du_partial_map},                                                                         \
        {v, beta, gates, x, h, dq, dk, dv, dbeta, dg}, scale,                                      \
        {t, chunks, 1, chunks, dg != nullptr});                                                    \
  }

#define FAULTLINE_DELTANET_BACKWARD_SIZE(DTYPE, T, DK, DV, CHUNK)                                  \
  FAULTLINE_DELTANET_LOCAL(deltanet_bwd_local_##DTYPE##_c##CHUNK##_dk##DK##_dv##DV, T, DK, DV,     \
                           CHUNK)                                                                  \
  FAULTLINE_DELTANET_SEGMENTS(deltanet_bwd_segments_##DTYPE##_c##CHUNK##_dk##DK##_dv##DV, T, DK,   \
                              DV, CHUNK)                                                           \
  FAULTLINE_DELTANET_STATE(deltanet_bwd_state_none_##DTYPE##_c##CHUNK##_dk##DK##_dv##DV, T, DK,    \
                           DV, CHUNK, none)                                                        \
  FAULTLINE_DELTANET_GRADIENTS(deltanet_bwd_gradients_none_##DTYPE##_c##CHUNK##_dk##DK##_dv##DV,   \
                               T, DK, DV, CHUNK, none)

// DK = DV = 64, and what is wider.
#define FAULTLINE_DELTANET_BACKWARD_MODULE(DTYPE, T)                                               \
  FAULTLINE_DELTANET_BACKWARD_SIZE(DTYPE, T, 64, 64, 32)                                           \
  FAULTLINE_DELTANET_BACKWARD_SIZE(DTYPE, T, 64, 64, 64)
#define FAULTLINE_DELTANET_BACKWARD_MODULE_WIDE(DTYPE, T)                                          \
  FAULTLINE_DELTANET_BACKWARD_SIZE(DTYPE, T, 64, 128, 32)                                          \
  FAULTLINE_DELTANET_BACKWARD_SIZE(DTYPE, T, 64, 128, 64)                                          \
  FAULTLINE_DELTANET_BACKWARD_SIZE(DTYPE, T, 128, 64, 32)                                          \
  FAULTLINE_DELTANET_BACKWARD_SIZE(DTYPE, T, 128, 64, 64)                                          \
  FAULTLINE_DELTANET_BACKWARD_SIZE(DTYPE, T, 128, 128, 32)                                         \
  FAULTLINE_DELTANET_BACKWARD_SIZE(DTYPE, T, 128, 128, 64)

// The mutants, for DK = DV = 64: one kernel each differs from the clean launches (all_three: two).
#define FAULTLINE_DELTANET_STATE_MUTANT(DTYPE, T, CHUNK, DEFECT)                                   \
  FAULTLINE_DELTANET_STATE(deltanet_bwd_state_##DEFECT##_##DTYPE##_c##CHUNK##_dk64_dv64, T, 64,    \
                           64, CHUNK, DEFECT)
#define FAULTLINE_DELTANET_GRADIENTS_MUTANT(DTYPE, T, CHUNK, DEFECT)                               \
  FAULTLINE_DELTANET_GRADIENTS(deltanet_bwd_gradients_##DEFECT##_##DTYPE##_c##CHUNK##_dk64_dv64,   \
                               T, 64, 64, CHUNK, DEFECT)
#define FAULTLINE_DELTANET_BACKWARD_MUTANTS_CHUNK(DTYPE, T, CHUNK)                                 \
  FAULTLINE_DELTANET_STATE_MUTANT(DTYPE, T, CHUNK, dh_coefficient)                                 \
  FAULTLINE_DELTANET_STATE_MUTANT(DTYPE, T, CHUNK, du_corr)                                        \
  FAULTLINE_DELTANET_GRADIENTS_MUTANT(DTYPE, T, CHUNK, a_inv)                                      \
  FAULTLINE_DELTANET_GRADIENTS_MUTANT(DTYPE, T, CHUNK, dw_cross)                                   \
  FAULTLINE_DELTANET_GRADIENTS_MUTANT(DTYPE, T, CHUNK, all_three)                                  \
  FAULTLINE_DELTANET_GRADIENTS_MUTANT(DTYPE, T, CHUNK, dk_corr)                                    \
  FAULTLINE_DELTANET_GRADIENTS_MUTANT(DTYPE, T, CHUNK, no_reverse_cumsum)
#define FAULTLINE_DELTANET_BACKWARD_MUTANTS(DTYPE, T)                                              \
  FAULTLINE_DELTANET_BACKWARD_MUTANTS_CHUNK(DTYPE, T, 32)                                          \
  FAULTLINE_DELTANET_BACKWARD_MUTANTS_CHUNK(DTYPE, T, 64)
