// SPDX-License-Identifier: Apache-2.0
// Sizes that the kernels of this family and their launches agree on. For host and device.
#pragma once

#include <faultline/core/hd.hpp>

namespace faultline::kernels::deltanet {

constexpr int kPanelColumns = 64;    ///< 16-bit elements of a swizzled row
constexpr int kPanelRowBytes = 128;
constexpr int kStateColumns = 16;    ///< of DV: what one warp carries through the recurrence

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

/// Shared memory of `states` with that many computing warps: stages, each W, K, the U columns of
/// each warp and G; then the outgoing h and v_new of each warp.
struct StatesLayout {
  int chunk, dk, warps;
  FAULTLINE_HD constexpr int slice_bytes() const { return chunk * kStateColumns * 2; }
  FAULTLINE_HD constexpr int gate_bytes() const { return chunk * 4; }
  FAULTLINE_HD constexpr int state_bytes() const { return dk * kStateColumns * 2; }
  FAULTLINE_HD constexpr int loaded_bytes() const {
    return 2 * tile_bytes(chunk, dk) + warps * slice_bytes() + gate_bytes();
  }
  FAULTLINE_HD constexpr int stage_bytes() const { return (loaded_bytes() + 1023) / 1024 * 1024; }
  FAULTLINE_HD constexpr int outgoing_bytes() const {
    return warps * (state_bytes() + slice_bytes());
  }
  /// As many as 200 KB hold, at most 6.
  FAULTLINE_HD constexpr int stages() const {
    const int fit = (200 * 1024 - outgoing_bytes()) / stage_bytes();
    return fit < 6 ? fit : 6;
  }
  FAULTLINE_HD constexpr int bytes() const { return stages() * stage_bytes() + outgoing_bytes(); }
};

/// Dynamic shared memory of `output`: Q, K, h, v_new.
FAULTLINE_HD constexpr int output_shared_bytes(int chunk, int dk, int dv) {
  return 2 * tile_bytes(chunk, dk) + tile_bytes(dk, dv) + tile_bytes(chunk, dv);
}

}  // namespace faultline::kernels::deltanet
