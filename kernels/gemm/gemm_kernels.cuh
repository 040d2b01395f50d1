// SPDX-License-Identifier: Apache-2.0
//
// C = sigmoid(alpha A B) with fp32 accumulation and the epilogue in registers, and its mutants.
//
//   A [m, k], B [k, n], C [m, n] row-major                T in {__half, __nv_bfloat16, float}
//   preconditions: m, n, k >= 1, below 2^31 each; A, B and C 16-byte aligned, no overlap
//   grid = ceil(m / kM) * ceil(n / kN), block = Tiling::kThreads (1-D), dynamic shared memory =
//   shared_bytes(); arguments (const T* A, const T* B, T* C, int32 m, int32 n, int32 k, float
//   alpha, int32 sigmoid) for every entry; sigmoid = 0 stores alpha A B
//
// A block computes a kM x kN tile of C. Tiles of A and B, kK long in k, pass through kStages slots
// of shared memory by cp.async, 16 bytes at a time. f16 and bf16: mma.m16n8k16 fed by ldmatrix;
// f32: fma in registers (no TF32). Rows are 16-byte aligned exactly when their length is a multiple
// of kChunk<T>; an operand whose rows are not is copied element by element: correct, slower.
//
// Mutants: a template parameter `Defect`; each is one `kDefect` line below, described there.
//
// Numeric plan: products of exact T values; one fp32 chain over k per element (tensor cores: one
// rounding a step of 16 and what they cut off inside it); alpha; the sigmoid in fp32; one rounding
// to T.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "../common/element.cuh"
#include "../common/ptx.cuh"

namespace faultline::kernels::gemm {

enum class Defect {
  none,
  missing_barrier,
  epilogue_before_accumulate,
};

constexpr int kWarp = 32;

/// Elements of T in one 16-byte chunk: 8 or 4.
template <typename T>
inline constexpr int kChunk = 16 / static_cast<int>(sizeof(T));

/// What a block works on: its tile of C, the length of a k-tile, and the slots of the pipeline. Its
/// warps lie kWarpsM x kWarpsN over the tile.
template <int kM_, int kN_, int kK_, int kStages_, int kWarpsM_, int kWarpsN_>
struct Tiling {
  static constexpr int kM = kM_, kN = kN_, kK = kK_, kStages = kStages_;
  static constexpr int kWarpsM = kWarpsM_, kWarpsN = kWarpsN_;
  static constexpr int kThreads = kWarpsM * kWarpsN * kWarp;
  static_assert(kStages >= 2, "the next tile is requested while this one is used");
};

/// 1 / (1 + e^-x); 0 where e^-x overflows. Error: docs/tolerances.md, "gemm".
__device__ __forceinline__ float sigmoid(float x) {
  constexpr float kLog2e = 1.44269504f;
  return __frcp_rn(1.0f + exp2_approx(x * -kLog2e));
}

// ---- tiles in shared memory ---------------------------------------------------------------------

/// A kRows x kCols tile of T as 16-byte chunks, swizzled: the eight chunks that a quarter of a warp
/// touches in eight rows, or in one row, lie in eight different groups of four banks.
template <typename T, int kRows, int kCols>
struct SharedTile {
  static constexpr int kChunks = kCols / kChunk<T>;  // of a row
  static_assert(kChunks >= 4 && (kChunks & (kChunks - 1)) == 0);
  static constexpr int kBytes = kRows * kCols * static_cast<int>(sizeof(T));

  /// Where chunk `chunk` of row `row` lies.
  __device__ __forceinline__ static int place(int row, int chunk) {
    return row * kChunks + (kChunks == 4 ? chunk ^ (row / 2 % 4) : chunk ^ (row % 8));
  }
  __device__ __forceinline__ static T& element(uint4* tile, int row, int col) {
    return reinterpret_cast<T*>(tile + place(row, col / kChunk<T>))[col % kChunk<T>];
  }

  /// Requests the tile whose first element is (row0, col0) of a row-major matrix [rows, cols] by
  /// this thread's share of copies; elements outside the matrix become zeros.
  template <int kThreads>
  __device__ __forceinline__ static void request(uint4* tile, const T* __restrict__ matrix,
                                                 int rows, int cols, int row0, int col0) {
    const int tid = static_cast<int>(threadIdx.x);
    if (cols % kChunk<T> == 0) {
      static_assert(kRows * kChunks % kThreads == 0);
#pragma unroll
      for (int i = 0; i < kRows * kChunks / kThreads; ++i) {
        const int r = (tid + i * kThreads) / kChunks, c = (tid + i * kThreads) % kChunks;
        const int row = row0 + r, col = col0 + c * kChunk<T>;
        const bool inside = row < rows && col < cols;
        const T* source = inside ? matrix + static_cast<int64_t>(row) * cols + col : matrix;
        copy_chunk_async(tile + place(r, c), source, inside ? 16 : 0);
      }
    } else {  // rows are not 16-byte aligned: plain loads and stores
#pragma unroll 1
      for (int i = tid; i < kRows * kCols; i += kThreads) {
        const int r = i / kCols, c = i % kCols;
        const int row = row0 + r, col = col0 + c;
        const bool inside = row < rows && col < cols;
        element(tile, r, c) =
            inside ? __ldg(matrix + static_cast<int64_t>(row) * cols + col) : from_float<T>(0.0f);
      }
    }
  }
};

template <typename T, typename S>
using TileA = SharedTile<T, S::kM, S::kK>;  // k contiguous
template <typename T, typename S>
using TileB = SharedTile<T, S::kK, S::kN>;  // n contiguous
template <typename T, typename S>
using TileC = SharedTile<T, S::kM, S::kN>;

template <typename T, typename S>
constexpr int shared_bytes() {
  constexpr int kPipeline = S::kStages * (TileA<T, S>::kBytes + TileB<T, S>::kBytes);
  // 16-bit results pass through shared memory, once the pipeline has run dry.
  return sizeof(T) == 2 && TileC<T, S>::kBytes > kPipeline ? TileC<T, S>::kBytes : kPipeline;
}

// ---- a block's tile of C in registers -----------------------------------------------------------

/// f16 and bf16: each warp holds a kWarpM x kWarpN part as fragments of mma.m16n8k16.
template <typename T, typename S>
struct Accumulator {
  static constexpr int kWarpM = S::kM / S::kWarpsM, kWarpN = S::kN / S::kWarpsN;
  static constexpr int kDown = kWarpM / 16, kAcross = kWarpN / 8;
  static_assert(kWarpM % 16 == 0 && kWarpN % 16 == 0 && S::kK % 16 == 0);

  float sum[kDown][kAcross][4];

  __device__ __forceinline__ void clear() {
    transform([](float) { return 0.0f; });
  }

  template <typename Function>
  __device__ __forceinline__ void transform(Function&& function) {
#pragma unroll
    for (int i = 0; i < kDown; ++i) {
#pragma unroll
      for (int j = 0; j < kAcross; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) sum[i][j][e] = function(sum[i][j][e]);
      }
    }
  }

  /// sum += value(other's element)
  template <typename Function>
  __device__ __forceinline__ void add_each(const Accumulator& other, Function&& value) {
#pragma unroll
    for (int i = 0; i < kDown; ++i) {
#pragma unroll
      for (int j = 0; j < kAcross; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) sum[i][j][e] += value(other.sum[i][j][e]);
      }
    }
  }

  __device__ __forceinline__ static int first_row() {
    return static_cast<int>(threadIdx.x) / kWarp / S::kWarpsN * kWarpM;
  }
  __device__ __forceinline__ static int first_col() {
    return static_cast<int>(threadIdx.x) / kWarp % S::kWarpsN * kWarpN;
  }

  /// sum += a b for one k-tile.
  __device__ __forceinline__ void add_product(const uint4* a, const uint4* b) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    // Lane i of an ldmatrix names row i % 16 of a 16 x 16 block, in its chunk i / 16.
    const int row = lane % 16, half = lane / 16;
#pragma unroll
    for (int k0 = 0; k0 < S::kK; k0 += 16) {
      uint32_t a_part[kDown][4];        // 16 x 16 of A each
      uint32_t b_part[kAcross / 2][4];  // 16 x 16 of B each: two 16 x 8 fragments
#pragma unroll
      for (int i = 0; i < kDown; ++i) {
        ldmatrix(a_part[i], shared_address(a + TileA<T, S>::place(first_row() + i * 16 + row,
                                                                  k0 / 8 + half)));
      }
#pragma unroll
      for (int j = 0; j < kAcross / 2; ++j) {
        ldmatrix_trans(b_part[j],
                       shared_address(
                           b + TileB<T, S>::place(k0 + row, (first_col() + j * 16) / 8 + half)));
      }
#pragma unroll
      for (int i = 0; i < kDown; ++i) {
#pragma unroll
        for (int j = 0; j < kAcross; ++j) {
          mma<T>(sum[i][j], a_part[i], b_part[j / 2][j % 2 * 2], b_part[j / 2][j % 2 * 2 + 1]);
        }
      }
    }
  }

  /// Rounds to T and writes the tile whose first element is (row0, col0) of C [m, n]. `shared` has
  /// room for a tile of C and is free.
  __device__ __forceinline__ void store(T* C, uint4* shared, int m, int n, int row0,
                                        int col0) const {
    using Tile = TileC<T, S>;
    const int tid = static_cast<int>(threadIdx.x), lane = tid % kWarp;
#pragma unroll
    for (int i = 0; i < kDown; ++i) {
#pragma unroll
      for (int j = 0; j < kAcross; ++j) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {  // elements 0, 1 are of row lane / 4, elements 2, 3 eight on
          const int row = first_row() + i * 16 + h * 8 + lane / 4;
          const int col = first_col() + j * 8 + lane % 4 * 2;
          const T pair[2] = {from_float<T>(sum[i][j][2 * h]), from_float<T>(sum[i][j][2 * h + 1])};
          *reinterpret_cast<uint32_t*>(&Tile::element(shared, row, col)) =
              *reinterpret_cast<const uint32_t*>(pair);
        }
      }
    }
    __syncthreads();  // writers: all warps (the tile of C, above); readers: all threads, below
    if (n % kChunk<T> == 0) {
#pragma unroll 4
      for (int i = tid; i < S::kM * Tile::kChunks; i += S::kThreads) {
        const int r = i / Tile::kChunks, c = i % Tile::kChunks;
        const int row = row0 + r, col = col0 + c * kChunk<T>;
        if (row < m && col < n) {
          *reinterpret_cast<uint4*>(C + static_cast<int64_t>(row) * n + col) =
              shared[Tile::place(r, c)];
        }
      }
    } else {
#pragma unroll 1
      for (int i = tid; i < S::kM * S::kN; i += S::kThreads) {
        const int r = i / S::kN, c = i % S::kN;
        if (row0 + r < m && col0 + c < n) {
          C[static_cast<int64_t>(row0 + r) * n + col0 + c] = Tile::element(shared, r, c);
        }
      }
    }
  }
};

/// f32: 16 threads across; each holds kDown consecutive rows, and in them every 16th chunk of four
/// columns.
template <typename S>
struct Accumulator<float, S> {
  static constexpr int kThreadsAcross = 16;
  static constexpr int kDown = S::kM / (S::kThreads / kThreadsAcross);
  static constexpr int kAcross = S::kN / (kThreadsAcross * 4);
  static_assert(S::kM % (S::kThreads / kThreadsAcross) == 0 && kAcross >= 1);

  float sum[kDown][kAcross * 4];

  __device__ __forceinline__ void clear() {
    transform([](float) { return 0.0f; });
  }

  template <typename Function>
  __device__ __forceinline__ void transform(Function&& function) {
#pragma unroll
    for (int i = 0; i < kDown; ++i) {
#pragma unroll
      for (int j = 0; j < kAcross * 4; ++j) sum[i][j] = function(sum[i][j]);
    }
  }

  template <typename Function>
  __device__ __forceinline__ void add_each(const Accumulator& other, Function&& value) {
#pragma unroll
    for (int i = 0; i < kDown; ++i) {
#pragma unroll
      for (int j = 0; j < kAcross * 4; ++j) sum[i][j] += value(other.sum[i][j]);
    }
  }

  __device__ __forceinline__ static int first_row() {
    return static_cast<int>(threadIdx.x) / kThreadsAcross * kDown;
  }
  /// Of the columns, in chunks.
  __device__ __forceinline__ static int chunk(int j) {
    return static_cast<int>(threadIdx.x) % kThreadsAcross + j * kThreadsAcross;
  }
  __device__ __forceinline__ static float4 load(const uint4* chunk) {
    return *reinterpret_cast<const float4*>(chunk);
  }

  __device__ __forceinline__ void add_product(const uint4* a, const uint4* b) {
#pragma unroll 2
    for (int k4 = 0; k4 < S::kK / 4; ++k4) {
      float4 a_part[kDown];  // four of k each
#pragma unroll
      for (int i = 0; i < kDown; ++i) {
        a_part[i] = load(a + TileA<float, S>::place(first_row() + i, k4));
      }
#pragma unroll
      for (int kk = 0; kk < 4; ++kk) {
        float4 b_part[kAcross];
#pragma unroll
        for (int j = 0; j < kAcross; ++j) {
          b_part[j] = load(b + TileB<float, S>::place(k4 * 4 + kk, chunk(j)));
        }
#pragma unroll
        for (int i = 0; i < kDown; ++i) {
          const float x = kk == 0   ? a_part[i].x
                          : kk == 1 ? a_part[i].y
                          : kk == 2 ? a_part[i].z
                                    : a_part[i].w;
#pragma unroll
          for (int j = 0; j < kAcross; ++j) {
            sum[i][4 * j] = fmaf(x, b_part[j].x, sum[i][4 * j]);
            sum[i][4 * j + 1] = fmaf(x, b_part[j].y, sum[i][4 * j + 1]);
            sum[i][4 * j + 2] = fmaf(x, b_part[j].z, sum[i][4 * j + 2]);
            sum[i][4 * j + 3] = fmaf(x, b_part[j].w, sum[i][4 * j + 3]);
          }
        }
      }
    }
  }

  /// Straight from registers where rows are 16-byte aligned: half a warp writes 256 consecutive
  /// bytes. Otherwise through shared memory, one row of every thread at a time.
  __device__ __forceinline__ void store(float* C, uint4* shared, int m, int n, int row0,
                                        int col0) const {
    if (n % 4 == 0) {
#pragma unroll
      for (int i = 0; i < kDown; ++i) {
        const int row = row0 + first_row() + i;
#pragma unroll
        for (int j = 0; j < kAcross; ++j) {
          const int col = col0 + chunk(j) * 4;
          if (row < m && col < n) {
            *reinterpret_cast<float4*>(C + static_cast<int64_t>(row) * n + col) = four(i, j);
          }
        }
      }
      return;
    }
    constexpr int kRows = S::kThreads / kThreadsAcross;
    float* const rows = reinterpret_cast<float*>(shared);  // [kRows, kN]
    const int tid = static_cast<int>(threadIdx.x);
#pragma unroll
    for (int i = 0; i < kDown; ++i) {
#pragma unroll
      for (int j = 0; j < kAcross; ++j) {
        *reinterpret_cast<float4*>(rows + tid / kThreadsAcross * S::kN + chunk(j) * 4) =
            four(i, j);
      }
      __syncthreads();  // writers: all threads (rows, above); readers: all, below
#pragma unroll 1
      for (int e = tid; e < kRows * S::kN; e += S::kThreads) {
        const int row = row0 + e / S::kN * kDown + i, col = col0 + e % S::kN;
        if (row < m && col < n) C[static_cast<int64_t>(row) * n + col] = rows[e];
      }
      __syncthreads();  // readers: all threads (rows); writers: all, next iteration
    }
  }

  __device__ __forceinline__ float4 four(int i, int j) const {
    return make_float4(sum[i][4 * j], sum[i][4 * j + 1], sum[i][4 * j + 2], sum[i][4 * j + 3]);
  }
};

// ---- the kernel ---------------------------------------------------------------------------------

/// The tile of C that this block computes. Consecutive blocks go down kTogether tiles before they
/// step across, so that the blocks in flight share both operands in L2.
template <typename S>
__device__ __forceinline__ int2 first_element(int m, int n) {
  constexpr int kTogether = 8;
  const int down = (m + S::kM - 1) / S::kM, across = (n + S::kN - 1) / S::kN;
  const int block = static_cast<int>(blockIdx.x);
  const int panel = block / (kTogether * across), inside = block % (kTogether * across);
  const int height = min(kTogether, down - panel * kTogether);  // of the last panel: less
  return make_int2((panel * kTogether + inside % height) * S::kM, inside / height * S::kN);
}

template <typename T, typename S, Defect kDefect>
__device__ __forceinline__ void gemm(const T* __restrict__ A, const T* __restrict__ B,
                                     T* __restrict__ C, int m, int n, int k, float alpha,
                                     bool with_sigmoid) {
  constexpr int kChunksA = TileA<T, S>::kBytes / 16, kChunksB = TileB<T, S>::kBytes / 16;
  extern __shared__ __align__(128) uint4 slots[];
  uint4* const a_tiles = slots;                                  // [kStages] of TileA
  uint4* const b_tiles = slots + S::kStages * kChunksA;          // [kStages] of TileB

  const int2 first = first_element<S>(m, n);                     // row and column in C
  const int tiles = (k + S::kK - 1) / S::kK;

  // Requests k-tile t. One commit group a call, empty or not.
  const auto request_tile = [&](int t) {
    if (t < tiles) {
      const int slot = t % S::kStages;
      TileA<T, S>::template request<S::kThreads>(a_tiles + slot * kChunksA, A, m, k, first.x,
                                                 t * S::kK);
      TileB<T, S>::template request<S::kThreads>(b_tiles + slot * kChunksB, B, k, n, t * S::kK,
                                                 first.y);
    }
    commit_copies();
  };
  const auto epilogue = [=](float sum) {
    return with_sigmoid ? sigmoid(alpha * sum) : alpha * sum;
  };

  Accumulator<T, S> sum;
  sum.clear();
  [[maybe_unused]] Accumulator<T, S> total;  // epilogue_before_accumulate
  if constexpr (kDefect == Defect::epilogue_before_accumulate) total.clear();

#pragma unroll 1
  for (int t = 0; t < S::kStages - 1; ++t) request_tile(t);
#pragma unroll 1
  for (int t = 0; t < tiles; ++t) {
    wait_copies<S::kStages - 2>();  // this thread's copies of tile t have landed
    // Defect missing_barrier. Line changed: the barrier below is left out, as if wait_group spoke
    // for the whole block. It waits for the copies of the calling thread alone, so a warp reads
    // parts of tile t that other threads have only requested, and a fast warp requests tile t +
    // kStages - 1 into the slot of t - 1 that a slow one still reads. From: multistage pipelines
    // ported from one warp a block. Shows as: race.async (race.shared where an operand is copied
    // element by element), with several warps, in the first k-tile already.
    if constexpr (kDefect != Defect::missing_barrier) {
      // writers: all threads' copies of tile t; readers: all warps, below. And: readers: all warps
      // (slot of t - 1, in the iteration before); writers: all threads' copies requested next.
      __syncthreads();
    }
    request_tile(t + S::kStages - 1);
    sum.add_product(a_tiles + t % S::kStages * kChunksA, b_tiles + t % S::kStages * kChunksB);
    // Defect epilogue_before_accumulate. Lines added: the two below; the epilogue after the loop is
    // left out. It is applied to each k-tile's partial sum, and the results are added. From: an
    // epilogue fused into the loop over k instead of behind it. Shows as: wrong_term, right where k
    // fits in one tile.
    if constexpr (kDefect == Defect::epilogue_before_accumulate) {
      total.add_each(sum, epilogue);
      sum.clear();
    }
  }
  wait_copies<0>();
  __syncthreads();  // readers: all warps (the last tiles); writers: all warps (tile of C, in store)
  if constexpr (kDefect == Defect::epilogue_before_accumulate) {
    total.store(C, slots, m, n, first.x, first.y);
  } else {
    sum.transform(epilogue);
    sum.store(C, slots, m, n, first.x, first.y);
  }
}

/// C = sigmoid(logits), elementwise: the epilogue as a kernel of its own. grid = ceil(elements /
/// (256 kChunk<T>)), block = 256; both 16-byte aligned.
template <typename T>
__device__ __forceinline__ void sigmoid_pass(const T* __restrict__ logits, T* __restrict__ C,
                                             int64_t elements) {
  const int64_t first =
      (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * kChunk<T>;
  if (first + kChunk<T> <= elements) {
    uint4 chunk = *reinterpret_cast<const uint4*>(logits + first);
    T* values = reinterpret_cast<T*>(&chunk);
#pragma unroll
    for (int i = 0; i < kChunk<T>; ++i) values[i] = from_float<T>(sigmoid(to_float(values[i])));
    *reinterpret_cast<uint4*>(C + first) = chunk;
  } else {
    for (int64_t i = first; i < elements; ++i) C[i] = from_float<T>(sigmoid(to_float(logits[i])));
  }
}

/// Blocks of an M x N tile that a multiprocessor should hold. Left to itself ptxas takes more than
/// the 128 registers with which 512 threads fit; threads with more than 64 sums each need them. The
/// defect epilogue_before_accumulate keeps two sums for each element of C: with the bound of its
/// twin it would spill, which is not its defect.
constexpr int resident_blocks(int m, int n, int threads, Defect defect) {
  const int sums = m * n / threads * (defect == Defect::epilogue_before_accumulate ? 2 : 1);
  return sums <= 64 ? 512 / threads : 1;
}

}  // namespace faultline::kernels::gemm

// ---- entries ------------------------------------------------------------------------------------
// Names: gemm_<variant>_<dtype>_m<kM>_n<kN>_k<kK>_s<kStages>; README.md lists them.

#define FAULTLINE_GEMM_ENTRY(VARIANT, DEFECT, D, T, M, N, K, S, WM, WN)                           \
  extern "C" __global__ void __launch_bounds__(                                                   \
      (WM) * (WN) * 32, faultline::kernels::gemm::resident_blocks(                                \
                            M, N, (WM) * (WN) * 32, faultline::kernels::gemm::Defect::DEFECT))    \
      gemm_##VARIANT##_##D##_m##M##_n##N##_k##K##_s##S(                                           \
          const T* __restrict__ A, const T* __restrict__ B, T* __restrict__ C, int32_t m,         \
          int32_t n, int32_t k, float alpha, int32_t sigmoid) {                                   \
    using namespace faultline::kernels::gemm;                                                     \
    gemm<T, Tiling<M, N, K, S, WM, WN>, Defect::DEFECT>(A, B, C, m, n, k, alpha, sigmoid != 0);   \
  }

#define FAULTLINE_GEMM_SIGMOID(D, T)                                                        \
  extern "C" __global__ void __launch_bounds__(256)                                         \
      gemm_sigmoid_##D(const T* __restrict__ logits, T* __restrict__ C, int64_t elements) { \
    faultline::kernels::gemm::sigmoid_pass(logits, C, elements);                            \
  }

/// The clean entries of a 16-bit dtype: D is the name in the entries, T the device type.
#define FAULTLINE_GEMM_16_BIT_MODULE(D, T)                             \
  FAULTLINE_GEMM_ENTRY(fused, none, D, T, 128, 256, 32, 4, 2, 4)       \
  FAULTLINE_GEMM_ENTRY(fused, none, D, T, 128, 128, 32, 4, 2, 4)       \
  FAULTLINE_GEMM_ENTRY(fused, none, D, T, 128, 128, 64, 3, 2, 2)       \
  FAULTLINE_GEMM_ENTRY(fused, none, D, T, 64, 64, 32, 3, 2, 2)         \
  FAULTLINE_GEMM_SIGMOID(D, T)

/// The clean entries of f32.
#define FAULTLINE_GEMM_F32_MODULE()                                    \
  FAULTLINE_GEMM_ENTRY(fused, none, f32, float, 128, 128, 16, 3, 2, 4) \
  FAULTLINE_GEMM_ENTRY(fused, none, f32, float, 64, 64, 16, 3, 2, 2)   \
  FAULTLINE_GEMM_SIGMOID(f32, float)

/// One mutant of a 16-bit dtype, and of f32: in a small tiling and in a large one.
#define FAULTLINE_GEMM_16_BIT_MUTANT(DEFECT, D, T)                     \
  FAULTLINE_GEMM_ENTRY(DEFECT, DEFECT, D, T, 64, 64, 32, 3, 2, 2)      \
  FAULTLINE_GEMM_ENTRY(DEFECT, DEFECT, D, T, 128, 128, 32, 4, 2, 4)
#define FAULTLINE_GEMM_F32_MUTANT(DEFECT)                              \
  FAULTLINE_GEMM_ENTRY(DEFECT, DEFECT, f32, float, 64, 64, 16, 3, 2, 2) \
  FAULTLINE_GEMM_ENTRY(DEFECT, DEFECT, f32, float, 128, 128, 16, 3, 2, 4)

/// Every mutant in every dtype.
#define FAULTLINE_GEMM_MUTANTS_MODULE()                                          \
  FAULTLINE_GEMM_16_BIT_MUTANT(missing_barrier, f16, __half)                     \
  FAULTLINE_GEMM_16_BIT_MUTANT(missing_barrier, bf16, __nv_bfloat16)             \
  FAULTLINE_GEMM_F32_MUTANT(missing_barrier)                                     \
  FAULTLINE_GEMM_16_BIT_MUTANT(epilogue_before_accumulate, f16, __half)          \
  FAULTLINE_GEMM_16_BIT_MUTANT(epilogue_before_accumulate, bf16, __nv_bfloat16)  \
  FAULTLINE_GEMM_F32_MUTANT(epilogue_before_accumulate)
