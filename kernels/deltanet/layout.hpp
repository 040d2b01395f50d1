// SPDX-License-Identifier: Apache-2.0
// Sizes that the kernels of this family and their launches agree on. For host and device.
#pragma once

#include <faultline/core/hd.hpp>

namespace faultline::kernels::deltanet {

constexpr int kPanelColumns = 64;  ///< 16-bit elements of a swizzled row
constexpr int kPanelRowBytes = 128;
constexpr int kStateColumns = 16;  ///< of DV: what one warp carries through the recurrence

/// Bytes of a tile [rows, columns] of 16-bit elements in panels of 64 columns.
FAULTLINE_HD constexpr int tile_bytes(int rows, int columns) {
  return columns / kPanelColumns * rows * kPanelRowBytes;
}

/// Row stride of an fp32 matrix [C, C] in shared memory, in elements: rows are 4 banks apart.
FAULTLINE_HD constexpr int matrix_stride(int chunk) { return chunk + 4; }
FAULTLINE_HD constexpr int matrix_bytes(int chunk) { return chunk * matrix_stride(chunk) * 4; }

/// Dynamic shared memory of `prepare`: K, V, then one matrix (three with repeated squaring).
FAULTLINE_HD constexpr int prepare_shared_bytes(int chunk, int dk, int dv, bool squaring) {
  return tile_bytes(chunk, dk) + tile_bytes(chunk, dv) + (squaring ? 3 : 1) * matrix_bytes(chunk);
}

/// fp32 decays of one chunk, written by `prepare` when gated: e^(G_n - G_i) [C], e^G_n, three
/// unused.
FAULTLINE_HD constexpr int state_decay_record(int chunk) { return chunk + 4; }

constexpr int kStateWarps = 4;       ///< computing warps of a block of `states`: one panel of DV
constexpr int kTransitionWarps = 8;  ///< of `transitions`: two panels of [DV | DK]

/// Shared memory of `transitions` and `states`: stages, each W, K (or, in the scan over segments, a
/// transition in their place), the block's columns of U and the decays; then, in `states`, slots of
/// the outgoing columns of h and v_new.
struct StatesLayout {
  int chunk, dk;
  bool outgoing;  ///< states
  FAULTLINE_HD constexpr int tiles_bytes() const { return 2 * tile_bytes(chunk, dk); }
  FAULTLINE_HD constexpr int panel_bytes() const { return tile_bytes(chunk, kPanelColumns); }
  FAULTLINE_HD constexpr int decays_offset() const {
    return tiles_bytes() + (outgoing ? 1 : 2) * panel_bytes();
  }
  FAULTLINE_HD constexpr int stage_bytes() const { return decays_offset() + 1024; }
  FAULTLINE_HD constexpr int state_bytes() const { return tile_bytes(dk, kPanelColumns); }
  FAULTLINE_HD constexpr int slot_bytes() const {
    return outgoing ? state_bytes() + panel_bytes() : 0;
  }
  FAULTLINE_HD constexpr int slots() const { return 2; }
  /// As many as one block a multiprocessor can have, at most 5.
  FAULTLINE_HD constexpr int stages() const {
    const int fit = (220 * 1024 - slots() * slot_bytes()) / stage_bytes();
    return fit < 5 ? fit : 5;
  }
  FAULTLINE_HD constexpr int bytes() const {
    return stages() * stage_bytes() + slots() * slot_bytes();
  }
};

/// Dynamic shared memory of `output`: Q, K, h, v_new.
FAULTLINE_HD constexpr int output_shared_bytes(int chunk, int dk, int dv) {
  return 2 * tile_bytes(chunk, dk) + tile_bytes(dk, dv) + tile_bytes(chunk, dv);
}

}  // namespace faultline::kernels::deltanet
