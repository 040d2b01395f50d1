// SPDX-License-Identifier: Apache-2.0
// Sizes that the backward kernels and their launches agree on. For host and device.
#pragma once

#include "layout.hpp"

namespace faultline::kernels::deltanet {

/// Extents that the backward kernels take at run time; a kernel argument, so plain data.
struct BackwardShape {
  int t = 0;               ///< rows of a head
  int chunks = 0;          ///< N
  int segments = 1;        ///< of `state`
  int segment_chunks = 0;  ///< chunks of a segment; the last may have fewer
  int gated = 0;
};

/// Decays of one chunk, fp32, written by `local` and read by `state`, only when gated:
/// [C] s e^G, [C] e^(G_n - G), gamma, three unused.
FAULTLINE_HD constexpr int decay_record(int chunk) { return 2 * chunk + 4; }

/// Dynamic shared memory of `local`: K, Q, dO.
FAULTLINE_HD constexpr int local_shared_bytes(int chunk, int dk, int dv) {
  return 2 * tile_bytes(chunk, dk) + tile_bytes(chunk, dv);
}

/// Shared memory of `segments` and `state`: two stages, each K, W, Q, dO, du_partial and the
/// decays; in `state` then each warp's columns of dh' and dU on their way to memory, [DK, 16] and
/// [C, 16].
struct StateLayout {
  int chunk, dk, dv;
  FAULTLINE_HD constexpr int decay_offset() const {
    return 3 * tile_bytes(chunk, dk) + 2 * tile_bytes(chunk, dv);
  }
  FAULTLINE_HD constexpr int stage_bytes() const { return decay_offset() + 1024; }
  FAULTLINE_HD constexpr int out_bytes() const { return (dk + chunk) * kStateColumns * 2; }
  FAULTLINE_HD constexpr int segments_bytes() const { return 2 * stage_bytes(); }
  FAULTLINE_HD constexpr int state_bytes() const {
    return 2 * stage_bytes() + dv / kStateColumns * out_bytes();
  }
  /// A warp owns 16 columns: of DV, or of the DK of a transition.
  FAULTLINE_HD constexpr int segments_threads() const { return 2 * (dk > dv ? dk : dv); }
  FAULTLINE_HD constexpr int state_threads() const { return 2 * dv; }
};

/// Dynamic shared memory of `gradients`, as offsets of places; backward.cuh says what stands there
/// when.
struct GradientLayout {
  int chunk, dk, dv;
  bool local_dw;  ///< a mutant that reads du_partial too
  FAULTLINE_HD constexpr int key() const { return tile_bytes(chunk, dk); }
  FAULTLINE_HD constexpr int value() const { return tile_bytes(chunk, dv); }
  FAULTLINE_HD constexpr int state() const { return tile_bytes(dk, dv); }
  FAULTLINE_HD constexpr int k_at() const { return state(); }
  FAULTLINE_HD constexpr int first_at() const { return k_at() + key(); }
  FAULTLINE_HD constexpr int key_at() const { return first_at() + value(); }
  FAULTLINE_HD constexpr int value_at() const { return key_at() + key(); }
  FAULTLINE_HD constexpr int square_at() const { return value_at() + value(); }
  FAULTLINE_HD constexpr int du_partial_at() const { return square_at() + chunk * kPanelRowBytes; }
  FAULTLINE_HD constexpr int bytes() const { return du_partial_at() + (local_dw ? value() : 0); }
  FAULTLINE_HD constexpr int threads() const { return 2 * chunk; }
};

/// Dynamic shared memory of the plain gradients: R_v, R_w, dS, E in fp32.
FAULTLINE_HD constexpr int plain_gradients_bytes(int chunk, int dk, int dv) {
  return chunk * (dk + dv + 2 * (chunk + 1)) * 4;
}

}  // namespace faultline::kernels::deltanet
