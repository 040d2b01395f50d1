// SPDX-License-Identifier: Apache-2.0
//
// Building blocks of the DeltaNet kernels: 16-bit tiles in shared memory, their fragments for the
// tensor cores, and copies of tiles.
//
// Tile: [kRows, columns] of 16-bit elements in panels of 64 columns, as the 128-byte swizzle of a
// tensor copy lays them out. A row of a panel is 128 bytes; its 16-byte unit u stands at u ^ (row %
// 8), so that eight rows of one unit, which ldmatrix reads at once, lie in different banks.
//
// Fragments of mma.m16n8k16 (PTX ISA: matrix fragments), g = lane / 4, t = lane % 4:
//   A [16, 16]  a0 (g, 2t..)  a1 (g + 8, 2t..)  a2 (g, 2t + 8..)  a3 (g + 8, 2t + 8..)
//   B [16, 8]   b0 (2t.., g)  b1 (2t + 8.., g)
//   C [16, 8]   c0, c1 (g, 2t..)   c2, c3 (g + 8, 2t..)
// Two C fragments side by side, rounded, are an A fragment: products chain without shared memory.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "../common/element.cuh"
#include "../common/ptx.cuh"
#include "layout.hpp"

namespace faultline::kernels::deltanet {

constexpr int kWarp = 32;
constexpr float kLog2E = 1.4426950408889634f;

__device__ __forceinline__ int lane_id() { return static_cast<int>(threadIdx.x) % kWarp; }
__device__ __forceinline__ int warp_id() { return static_cast<int>(threadIdx.x) / kWarp; }
/// The same in a register that the compiler knows to be equal in all lanes, so that branches on it
/// are uniform. All lanes of the warp call it together.
__device__ __forceinline__ int uniform_warp_id() { return __shfl_sync(0xffffffffu, warp_id(), 0); }

/// e^x, 2^-22 relative; results below 2^-126 are 0.
__device__ __forceinline__ float exp_of(float x) { return exp2_approx(x * kLog2E); }

// ---- pairs of 16-bit elements -------------------------------------------------------------------

/// Two floats rounded to nearest, `low` in the low half.
template <typename T>
__device__ __forceinline__ uint32_t pack(float low, float high);
template <>
__device__ __forceinline__ uint32_t pack<__half>(float low, float high) {
  const __half2 pair = __floats2half2_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}
template <>
__device__ __forceinline__ uint32_t pack<__nv_bfloat16>(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}

template <typename T>
__device__ __forceinline__ float2 unpack(uint32_t pair);
template <>
__device__ __forceinline__ float2 unpack<__half>(uint32_t pair) {
  return __half22float2(*reinterpret_cast<const __half2*>(&pair));
}
template <>
__device__ __forceinline__ float2 unpack<__nv_bfloat16>(uint32_t pair) {
  return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&pair));
}

// ---- products of fragments ----------------------------------------------------------------------

/// c0 += a b0, c1 += a b1 for the two n8 tiles that one ldmatrix of B gives.
template <typename T>
__device__ __forceinline__ void mma_pair(float (&c0)[4], float (&c1)[4], const uint32_t (&a)[4],
                                         const uint32_t (&b)[4]) {
  mma<T>(c0, a, b[0], b[1]);
  mma<T>(c1, a, b[2], b[3]);
}

/// The A fragment [16, 16] of two C fragments [16, 8] side by side, rounded to T.
template <typename T>
__device__ __forceinline__ void as_operand(uint32_t (&a)[4], const float (&left)[4],
                                           const float (&right)[4]) {
  a[0] = pack<T>(left[0], left[1]);
  a[1] = pack<T>(left[2], left[3]);
  a[2] = pack<T>(right[0], right[1]);
  a[3] = pack<T>(right[2], right[3]);
}

// ---- tiles --------------------------------------------------------------------------------------

/// A tile of 16-bit elements with kRows rows, a multiple of 8. The base is aligned to 1024 bytes.
template <int kRows>
struct Tile {
  uint32_t base = 0;  ///< shared address

  static constexpr int kPanelBytes = kRows * kPanelRowBytes;

  __device__ __forceinline__ uint32_t address(int row, int column) const {
    const int unit = column % kPanelColumns / 8;
    return base + static_cast<uint32_t>(column / kPanelColumns * kPanelBytes +
                                        row * kPanelRowBytes + (unit ^ row % 8) * 16);
  }

  // Fragments at (row, column), both multiples of 16. The swizzle makes the address of a lane there
  // (lane's address at (0, 0) of the panel) xor (2 column), plus constants.

  /// A [m0.., k0..] of a tile stored [m, k].
  __device__ __forceinline__ void load_a(uint32_t (&a)[4], int m0, int k0) const {
    ldmatrix(a, at(rows_first(), m0, k0));
  }
  /// A [m0.., k0..] of a tile stored [k, m].
  __device__ __forceinline__ void load_a_trans(uint32_t (&a)[4], int m0, int k0) const {
    ldmatrix_trans(a, at(columns_first(), k0, m0));
  }
  /// The reverse of load_a_trans.
  __device__ __forceinline__ void store_a_trans(const uint32_t (&a)[4], int m0, int k0) const {
    stmatrix_trans(at(columns_first(), k0, m0), a[0], a[1], a[2], a[3]);
  }
  /// B [k0.., n0..] of a tile stored [k, n]: b[0], b[1] of columns n0.., b[2], b[3] of n0 + 8...
  __device__ __forceinline__ void load_b(uint32_t (&b)[4], int k0, int n0) const {
    ldmatrix_trans(b, at(rows_first(), k0, n0));
  }
  /// B [k0.., n0..] of a tile stored [n, k].
  __device__ __forceinline__ void load_b_trans(uint32_t (&b)[4], int k0, int n0) const {
    ldmatrix(b, at(columns_first(), n0, k0));
  }

 private:
  /// The four 8x8 matrices of a [16, 16] block, rows first: matrix 1 lies below matrix 0.
  __device__ __forceinline__ uint32_t rows_first() const {
    return address(lane_id() % 16, lane_id() / 16 * 8);
  }
  /// Columns first: matrix 1 lies beside matrix 0.
  __device__ __forceinline__ uint32_t columns_first() const {
    return address(lane_id() / 16 * 8 + lane_id() % 8, lane_id() / 8 % 2 * 8);
  }
  static __device__ __forceinline__ uint32_t at(uint32_t lane_address, int row, int column) {
    return (lane_address ^ static_cast<uint32_t>(column % kPanelColumns * 2)) +
           static_cast<uint32_t>(column / kPanelColumns * kPanelBytes + row * kPanelRowBytes);
  }
};

/// acc [16, 8 N] += a b for one step of 16 in k: b is rows k0.. of `tile`, stored [k, n], from
/// column n0 on.
template <typename T, int N, int kRows>
__device__ __forceinline__ void add_product(float (&acc)[N][4], const uint32_t (&a)[4],
                                            const Tile<kRows>& tile, int k0, int n0 = 0) {
#pragma unroll
  for (int n = 0; n < N * 8; n += 16) {
    uint32_t b[4];
    tile.load_b(b, k0, n0 + n);
    mma_pair<T>(acc[n / 8], acc[n / 8 + 1], a, b);
  }
}
/// The same with `tile` stored [n, k].
template <typename T, int N, int kRows>
__device__ __forceinline__ void add_product_trans(float (&acc)[N][4], const uint32_t (&a)[4],
                                                  const Tile<kRows>& tile, int k0) {
#pragma unroll
  for (int n = 0; n < N * 8; n += 16) {
    uint32_t b[4];
    tile.load_b_trans(b, k0, n);
    mma_pair<T>(acc[n / 8], acc[n / 8 + 1], a, b);
  }
}

/// Loads rows [row, row + kRows) of matrix `matrix`, all `columns` of it; call from one thread,
/// after the barrier has been told to expect tile_bytes(kRows, columns).
template <int kRows>
__device__ __forceinline__ void copy_tile(unsigned char* destination, const CUtensorMap* map,
                                          int columns, int row, int matrix, uint64_t* barrier) {
  for (int panel = 0; panel < columns / kPanelColumns; ++panel) {
    copy_box(destination + panel * Tile<kRows>::kPanelBytes, map, panel * kPanelColumns, row,
             matrix, barrier);
  }
}

/// Transposes a 4x4 matrix of words whose row is a lane of a quad: x[j] of lane t becomes x[t] of
/// lane j. Turns the pairs of four C fragments into 16 contiguous bytes a lane.
__device__ __forceinline__ void transpose_quad(uint32_t (&x)[4]) {
  const bool odd = (lane_id() & 1) != 0, upper = (lane_id() & 2) != 0;
  const uint32_t a = __shfl_xor_sync(0xffffffffu, odd ? x[0] : x[1], 1);
  const uint32_t b = __shfl_xor_sync(0xffffffffu, odd ? x[2] : x[3], 1);
  (odd ? x[0] : x[1]) = a;
  (odd ? x[2] : x[3]) = b;
  const uint32_t c = __shfl_xor_sync(0xffffffffu, upper ? x[0] : x[2], 2);
  const uint32_t d = __shfl_xor_sync(0xffffffffu, upper ? x[1] : x[3], 2);
  (upper ? x[0] : x[2]) = c;
  (upper ? x[1] : x[3]) = d;
}

/// Stores 16 rows of kTiles C fragments, rounded to T, 16 bytes a lane. `out` points at the first
/// row and column, `stride` is in elements; rows from `rows` on are left alone.
template <typename T, int kTiles>
__device__ __forceinline__ void store_rows(T* out, int64_t stride, int rows,
                                           const float (&c)[kTiles][4]) {
  static_assert(kTiles % 4 == 0, "four fragments make 16 bytes a lane");
  const int g = lane_id() / 4, t = lane_id() % 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = g + half * 8;
#pragma unroll
    for (int first = 0; first < kTiles; first += 4) {
      uint32_t x[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        x[j] = pack<T>(c[first + j][2 * half], c[first + j][2 * half + 1]);
      }
      transpose_quad(x);
      if (row < rows) {
        store_global_16(out + row * stride + (first + t) * 8, x);
      }
    }
  }
}

}  // namespace faultline::kernels::deltanet
