// SPDX-License-Identifier: Apache-2.0
//
// Building blocks of the DeltaNet kernels: 16-bit tiles in shared memory, their fragments for the
// tensor cores, asynchronous tile copies, and the inverse of a unit lower triangular matrix.
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
//
// PTX ISA sections are cited by title; their numbers change between versions.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "../common/element.cuh"
#include "layout.hpp"

namespace faultline::kernels::deltanet {

constexpr int kWarp = 32;
constexpr float kLog2E = 1.4426950408889634f;

__device__ __forceinline__ int lane_id() { return static_cast<int>(threadIdx.x) % kWarp; }
__device__ __forceinline__ int warp_id() { return static_cast<int>(threadIdx.x) / kWarp; }
/// The same in a register that the compiler knows to be equal in all lanes, so that branches on it
/// are uniform. All lanes of the warp call it together.
__device__ __forceinline__ int uniform_warp_id() { return __shfl_sync(0xffffffffu, warp_id(), 0); }

// PTX ISA: ex2. e^x, 2^-22 relative; results below 2^-126 are 0.
__device__ __forceinline__ float exp_of(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * kLog2E));
  return y;
}

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

// ---- mbarriers and asynchronous copies ----------------------------------------------------------

// PTX ISA: mbarrier.init
__device__ __forceinline__ void mbarrier_init(uint64_t* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
               :
               : "r"(shared_address(barrier)), "r"(arrivals)
               : "memory");
}

// PTX ISA: mbarrier.arrive. Release at CTA scope, count 1.
__device__ __forceinline__ void mbarrier_arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];"
               :
               : "r"(shared_address(barrier))
               : "memory");
}

// PTX ISA: mbarrier.arrive, with expect_tx: the phase also waits for `bytes` of copies.
__device__ __forceinline__ void mbarrier_arrive_expect(uint64_t* barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
               :
               : "r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}

// PTX ISA: mbarrier.try_wait. Acquire at CTA scope; returns when the phase of this parity is
// complete.
__device__ __forceinline__ void mbarrier_wait(uint64_t* barrier, int parity) {
  uint32_t done = 0;
  while (done == 0) {
    asm volatile(
        "{\n"
        ".reg .pred complete;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 complete, [%1], %2;\n"
        "selp.u32 %0, 1, 0, complete;\n"
        "}"
        : "=r"(done)
        : "r"(shared_address(barrier)), "r"(parity)
        : "memory");
  }
}

// PTX ISA: fence (mbarrier_init form). Makes initialised barriers visible to asynchronous copies.
__device__ __forceinline__ void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// PTX ISA: fence.proxy.async. Orders this thread's plain accesses to shared memory before later
// accesses by asynchronous copies.
__device__ __forceinline__ void fence_proxy_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// PTX ISA: barrier / bar.sync. Joins `threads` threads of the block on one of its 16 barriers; 0 is
// __syncthreads.
__device__ __forceinline__ void named_barrier_sync(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" : : "r"(barrier), "r"(threads) : "memory");
}

// PTX ISA: cp.async.bulk
__device__ __forceinline__ void copy_bulk(void* destination, const void* source, int bytes,
                                          uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
      :
      : "r"(shared_address(destination)), "l"(source), "r"(bytes), "r"(shared_address(barrier))
      : "memory");
}

// PTX ISA: cp.async.bulk.tensor. The box at (column, row, matrix) of the map; zeros outside it.
__device__ __forceinline__ void copy_box(void* destination, const CUtensorMap* map, int column,
                                         int row, int matrix, uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4}], [%5];"
      :
      : "r"(shared_address(destination)), "l"(map), "r"(column), "r"(row), "r"(matrix),
        "r"(shared_address(barrier))
      : "memory");
}

// PTX ISA: cp.async.bulk.tensor. Shared to global; what lies outside the map is not written.
__device__ __forceinline__ void store_box(const CUtensorMap* map, int column, int row, int matrix,
                                          const void* source) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%1, %2, %3}], [%4];"
               :
               : "l"(map), "r"(column), "r"(row), "r"(matrix), "r"(shared_address(source))
               : "memory");
}

// PTX ISA: cp.async.bulk.commit_group
__device__ __forceinline__ void commit_stores() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// PTX ISA: cp.async.bulk.wait_group. All but the last kPending groups have read their sources.
template <int kPending>
__device__ __forceinline__ void wait_stores_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" : : "n"(kPending) : "memory");
}

// PTX ISA: cp.async.bulk.wait_group. All stores of this thread are complete.
__device__ __forceinline__ void wait_stores() {
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

// ---- ldmatrix, stmatrix, mma --------------------------------------------------------------------

// PTX ISA: ldmatrix. Four 8x8 matrices of 16-bit elements; lane i gives the address of row i % 8 of
// matrix i / 8.
__device__ __forceinline__ void ldmatrix(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}
__device__ __forceinline__ void ldmatrix_trans(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

// PTX ISA: stmatrix. The transpose of each of four 8x8 matrices; addresses as in ldmatrix.
__device__ __forceinline__ void stmatrix_trans(uint32_t address, uint32_t r0, uint32_t r1,
                                               uint32_t r2, uint32_t r3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};"
               :
               : "r"(address), "r"(r0), "r"(r1), "r"(r2), "r"(r3)
               : "memory");
}

// PTX ISA: mma, m16n8k16. c += a b, fp32 accumulators.
template <typename T>
__device__ __forceinline__ void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                    uint32_t b1);
template <>
__device__ __forceinline__ void mma<__nv_bfloat16>(float (&c)[4], const uint32_t (&a)[4],
                                                   uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <>
__device__ __forceinline__ void mma<__half>(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                            uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

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

// PTX ISA: st. Written out: nvcc splits the store of a uint4 made of shuffled words into four.
__device__ __forceinline__ void store_global_16(void* to, const uint32_t (&x)[4]) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};"
               :
               : "l"(to), "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3])
               : "memory");
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

// ---- fp32 products on the tensor cores ----------------------------------------------------------

/// x = high + low to 2^-21 relative, both tf32: 10 bits after the point, the low 13 bits clear. By
/// integer operations, because cvt.rna.tf32 is a dozen instructions; x is finite.
struct Split {
  uint32_t high, low;
};
__device__ __forceinline__ Split split(float x) {
  const uint32_t high = (__float_as_uint(x) + 0x1000u) & 0xffffe000u;  // to nearest
  return {high, __float_as_uint(x - __uint_as_float(high)) & 0xffffe000u};
}

// PTX ISA: mma, m16n8k8 in tf32. c += a b.
__device__ __forceinline__ void mma_tf32(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                         uint32_t b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// An A fragment [16, 8] in fp32 whose columns stand in the order of a C fragment: lane (g, t)
/// holds columns 2t and 2t + 1. The rows of B are taken in that order too, so a C fragment is one
/// as it is.
struct SplitOperand {
  uint32_t high[4], low[4];
  __device__ __forceinline__ explicit SplitOperand(const float (&c)[4]) {
    const int from[4] = {0, 2, 1, 3};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const Split s = split(c[from[i]]);
      high[i] = s.high;
      low[i] = s.low;
    }
  }
};

/// c += a b with b [8, 8] at `b` in shared memory, row stride kStride: three tf32 products,
/// 2^-21 relative.
template <int kStride>
__device__ __forceinline__ void mma_fp32(float (&c)[4], const SplitOperand& a, const float* b) {
  const int g = lane_id() / 4, t = lane_id() % 4;
  const Split b0 = split(b[2 * t * kStride + g]);
  const Split b1 = split(b[(2 * t + 1) * kStride + g]);
  mma_tf32(c, a.low, b0.high, b1.high);
  mma_tf32(c, a.high, b0.low, b1.low);
  mma_tf32(c, a.high, b0.high, b1.high);
}

/// The C fragment of the [16, 8] block at `a` in shared memory.
template <int kStride>
__device__ __forceinline__ void load_fp32(float (&c)[4], const float* a) {
  const int g = lane_id() / 4, t = lane_id() % 4;
  const float2 upper = *reinterpret_cast<const float2*>(a + g * kStride + 2 * t);
  const float2 lower = *reinterpret_cast<const float2*>(a + (g + 8) * kStride + 2 * t);
  c[0] = upper.x;
  c[1] = upper.y;
  c[2] = lower.x;
  c[3] = lower.y;
}
template <int kStride>
__device__ __forceinline__ void store_fp32(float* a, const float (&c)[4]) {
  const int g = lane_id() / 4, t = lane_id() % 4;
  *reinterpret_cast<float2*>(a + g * kStride + 2 * t) = make_float2(c[0], c[1]);
  *reinterpret_cast<float2*>(a + (g + 8) * kStride + 2 * t) = make_float2(c[2], c[3]);
}

/// c [16, 8 kTiles] += a [16, 8 kSteps] b [8 kSteps, 8 kTiles], both in shared memory.
template <int kStride, int kTiles, int kSteps>
__device__ __forceinline__ void product_fp32(float (&c)[kTiles][4], const float* a,
                                             const float* b) {
#pragma unroll
  for (int k = 0; k < kSteps; ++k) {
    float fragment[4];
    load_fp32<kStride>(fragment, a + 8 * k);
    const SplitOperand operand(fragment);
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      mma_fp32<kStride>(c[n], operand, b + 8 * k * kStride + 8 * n);
    }
  }
}
/// The same with `a` in registers, as C fragments.
template <int kStride, int kTiles, int kSteps>
__device__ __forceinline__ void product_fp32(float (&c)[kTiles][4], const float (&a)[kSteps][4],
                                             const float* b) {
#pragma unroll
  for (int k = 0; k < kSteps; ++k) {
    const SplitOperand operand(a[k]);
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      mma_fp32<kStride>(c[n], operand, b + 8 * k * kStride + 8 * n);
    }
  }
}

// ---- the inverse of I + M -----------------------------------------------------------------------

/// One level of the blocked substitution: below two inverted diagonal blocks X11, X22 of kBlock
/// rows, X21 = -(X22 M21) X11. `m` points at X11. Warps `part` of kBlock * kBlock / 256 share the
/// block: each has 16 rows and 16 columns of X21.
template <int kStride, int kBlock>
__device__ __forceinline__ void invert_below(float* m, int part) {
  constexpr int kParts = kBlock / 16;
  const int row = part / kParts * 16, column = part % kParts * 16;
  const float* x22 = m + kBlock * kStride + kBlock;
  float* m21 = m + kBlock * kStride;
  float left[kBlock / 8][4] = {};                        // X22 M21, 16 rows of it
  product_fp32<kStride, kBlock / 8, kBlock / 8>(left, x22 + row * kStride, m21);
  float x21[2][4] = {};                                  // 16 rows, 16 columns
  product_fp32<kStride, 2, kBlock / 8>(x21, left, m + column);
  if constexpr (kParts == 1) {
    __syncwarp();  // readers: this warp (M21); writer: this warp (X21 in its place)
  } else {
    __syncthreads();  // readers: all warps (M21); writers: all warps (X21 in its place)
  }
#pragma unroll
  for (int n = 0; n < 2; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) x21[n][i] = -x21[n][i];
    store_fp32<kStride>(m21 + row * kStride + column + 8 * n, x21[n]);
  }
}

/// X = (I + M)^-1 by blocked forward substitution, in place and in fp32: M [kChunk, kChunk] in
/// shared memory, strictly lower and zero elsewhere, with stride matrix_stride(kChunk); all
/// kChunk / 16 warps of the block call it together, each with its index. Diagonal blocks of 16 rows
/// by substitution, a thread a column; below them block products with fp32 accuracy. Begins and
/// ends with a barrier.
template <int kChunk>
__device__ __forceinline__ void invert_unit_lower(float* m, int warp) {
  static_assert(kChunk == 32 || kChunk == 64, "one or two levels below blocks of 16");
  constexpr int kStride = matrix_stride(kChunk);
  __syncthreads();  // writers: all (M); readers: all
  const int tid = static_cast<int>(threadIdx.x);
  if (tid < kChunk) {  // whole warps; the 16 threads of a block are in one warp
    float* block = m + tid / 16 * 16 * (kStride + 1);
    const int column = tid % 16;
    float x[16];                                         // one column of the inverse
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      float sum = i == column ? 1.0f : 0.0f;
#pragma unroll
      for (int k = 0; k < i; ++k) sum = fmaf(-block[i * kStride + k], x[k], sum);
      x[i] = sum;
    }
    __syncwarp();  // readers: the block's 16 threads (M); writers: the same (X in its place)
#pragma unroll
    for (int i = 0; i < 16; ++i) block[i * kStride + column] = x[i];
  }
  __syncthreads();  // writers: kChunk threads (diagonal blocks); readers: all
  if (warp < kChunk / 32) invert_below<kStride, 16>(m + warp * 32 * (kStride + 1), 0);
  __syncthreads();  // writers: kChunk / 32 warps; readers: all
  if constexpr (kChunk == 64) {
    invert_below<kStride, 32>(m, warp);
    __syncthreads();  // writers, readers: all
  }
}

/// The same by repeated squaring, X = prod_r (I + P^(2^r)), P = -M: exact for exact arithmetic,
/// since M is nilpotent, and unstable where the powers grow (correlated keys). `power` and `x` are
/// two further matrices of that stride; the result is in `x`, which has zeros above the diagonal.
template <int kChunk>
__device__ __forceinline__ void invert_by_squaring(float* m, float* power, float* x, int warp) {
  constexpr int kStride = matrix_stride(kChunk);
  constexpr int kTiles = kChunk / 8;
  const int row = warp * 16;
  const int g = lane_id() / 4, t = lane_id() % 4;
  float* p = m;
  float* next = power;
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {                     // P = -M, X = I + P, this warp's rows
    float fragment[4];
    load_fp32<kStride>(fragment, p + row * kStride + 8 * n);
#pragma unroll
    for (int i = 0; i < 4; ++i) fragment[i] = -fragment[i];
    store_fp32<kStride>(p + row * kStride + 8 * n, fragment);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (row + g + i / 2 * 8 == 8 * n + 2 * t + i % 2) fragment[i] += 1.0f;
    }
    store_fp32<kStride>(x + row * kStride + 8 * n, fragment);
  }
#pragma unroll 1
  for (int covered = 2; covered < kChunk; covered *= 2) {
    __syncthreads();  // writers: all warps, a row block each (p); readers: all
    float square[kTiles][4] = {};
    product_fp32<kStride, kTiles, kTiles>(square, p + row * kStride, p);
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      store_fp32<kStride>(next + row * kStride + 8 * n, square[n]);
    }
    __syncthreads();  // writers: all warps (next); readers: all. And p's readers are done
    float sum[kTiles][4];
#pragma unroll
    for (int n = 0; n < kTiles; ++n) load_fp32<kStride>(sum[n], x + row * kStride + 8 * n);
    product_fp32<kStride, kTiles, kTiles>(sum, x + row * kStride, next);
    __syncwarp();  // readers, writers: this warp (its rows of x)
#pragma unroll
    for (int n = 0; n < kTiles; ++n) store_fp32<kStride>(x + row * kStride + 8 * n, sum[n]);
    float* const swap = p;
    p = next;
    next = swap;
  }
  __syncthreads();  // writers: all warps (x); readers: all
}

}  // namespace faultline::kernels::deltanet
