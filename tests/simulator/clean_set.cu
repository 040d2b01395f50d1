// SPDX-License-Identifier: Apache-2.0
// Correct code as libraries write it: CUB, cooperative groups, libcu++ barriers, pipelines and bulk
// copies, and well-known patterns by hand. The race detector must be silent about every kernel
// here; a report would be a false one. All take (in, out) of 4096 floats each and run on 4 CTAs of
// 256 threads.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/pipeline>

#include <cub/cub.cuh>

#include <utility>

namespace cg = cooperative_groups;

constexpr int kThreads = 256;

extern "C" __global__ void cub_block_sum(const float* in, float* out) {
  using Reduce = cub::BlockReduce<float, kThreads>;
  __shared__ typename Reduce::TempStorage storage;
  const float sum = Reduce(storage).Sum(in[blockIdx.x * kThreads + threadIdx.x]);
  if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

extern "C" __global__ void cub_block_scan(const float*, float* out) {
  using Scan = cub::BlockScan<int, kThreads>;
  __shared__ typename Scan::TempStorage storage;
  int before = 0;
  Scan(storage).ExclusiveSum(static_cast<int>(threadIdx.x), before);
  out[blockIdx.x * kThreads + threadIdx.x] = static_cast<float>(before);
}

extern "C" __global__ void cub_block_sort(const float* in, float* out) {
  using Sort = cub::BlockRadixSort<float, kThreads, 2>;
  __shared__ typename Sort::TempStorage storage;
  float keys[2] = {in[threadIdx.x * 2], in[threadIdx.x * 2 + 1]};
  Sort(storage).Sort(keys);
  out[blockIdx.x * 512 + threadIdx.x * 2] = keys[0];
  out[blockIdx.x * 512 + threadIdx.x * 2 + 1] = keys[1];
}

extern "C" __global__ void group_reduce(const float* in, float* out) {
  const auto tile = cg::tiled_partition<8>(cg::this_thread_block());
  const float sum = cg::reduce(tile, in[threadIdx.x], cg::plus<float>());
  out[blockIdx.x * kThreads + threadIdx.x] = sum;
}

extern "C" __global__ void group_memcpy_async(const float* in, float* out) {
  __shared__ alignas(16) float tile[512];
  const auto block = cg::this_thread_block();
  cg::memcpy_async(block, tile, in + blockIdx.x * 512, sizeof(tile));
  cg::wait(block);
  out[blockIdx.x * kThreads + threadIdx.x] = tile[threadIdx.x] + tile[511 - threadIdx.x];
}

extern "C" __global__ void barrier_exchange(const float* in, float* out) {
  using Barrier = cuda::barrier<cuda::thread_scope_block>;
  __shared__ Barrier barrier;
  __shared__ alignas(16) float tile[kThreads];
  if (threadIdx.x == 0) init(&barrier, blockDim.x);
  __syncthreads();
  cuda::memcpy_async(tile + threadIdx.x, in + threadIdx.x, sizeof(float), barrier);
  barrier.arrive_and_wait();
  const float mirrored = tile[kThreads - 1 - threadIdx.x];
  barrier.arrive_and_wait();
  tile[threadIdx.x] = mirrored;
  barrier.arrive_and_wait();
  out[blockIdx.x * kThreads + threadIdx.x] = tile[threadIdx.x ^ 7];
}

extern "C" __global__ void bulk_copy(const float* in, float* out) {
  using Barrier = cuda::barrier<cuda::thread_scope_block>;
  __shared__ Barrier barrier;
  __shared__ alignas(128) float tile[kThreads];
  if (threadIdx.x == 0) {
    init(&barrier, blockDim.x);
    cuda::device::experimental::fence_proxy_async_shared_cta();
  }
  __syncthreads();
  Barrier::arrival_token token;
  if (threadIdx.x == 0) {
    cuda::device::memcpy_async_tx(tile, in, cuda::aligned_size_t<16>(sizeof(tile)), barrier);
    token = cuda::device::barrier_arrive_tx(barrier, 1, sizeof(tile));
  } else {
    token = barrier.arrive();
  }
  barrier.wait(std::move(token));
  out[blockIdx.x * kThreads + threadIdx.x] = tile[threadIdx.x ^ 3];
}

extern "C" __global__ void two_stage_pipeline(const float* in, float* out) {
  __shared__ alignas(16) float stage[2][kThreads];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
  const auto block = cg::this_thread_block();
  auto pipeline = cuda::make_pipeline(block, &state);
  const auto load = [&](int tile) {
    pipeline.producer_acquire();
    cuda::memcpy_async(block, stage[tile % 2], in + tile % 2 * kThreads,
                       cuda::aligned_size_t<16>(sizeof(stage[0])), pipeline);
    pipeline.producer_commit();
  };
  load(0);
  load(1);
  float sum = 0;
  for (int tile = 0; tile < 6; ++tile) {
    pipeline.consumer_wait();
    sum += stage[tile % 2][threadIdx.x ^ 1];
    pipeline.consumer_release();
    if (tile < 4) load(tile + 2);
  }
  out[blockIdx.x * kThreads + threadIdx.x] = sum;
}

// The last block to finish adds up what the others left (CUDA samples, threadFenceReduction).
__device__ unsigned finished_blocks = 0;

extern "C" __global__ void last_block_sum(const float* in, float* out) {
  __shared__ bool is_last;
  __shared__ float tile[kThreads];
  tile[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  for (int k = kThreads / 2; k > 0; k >>= 1) {
    if (threadIdx.x < k) tile[threadIdx.x] += tile[threadIdx.x + k];
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    out[1 + blockIdx.x] = tile[0];
    __threadfence();
    is_last = atomicAdd(&finished_blocks, 1) == gridDim.x - 1;
    __threadfence();  // the barrier below is a fence for this block only
  }
  __syncthreads();
  if (is_last && threadIdx.x == 0) {
    float total = 0;
    for (unsigned k = 0; k < gridDim.x; ++k) total += static_cast<volatile float*>(out)[1 + k];
    out[0] = total;
    finished_blocks = 0;
  }
}

// The last block releases a flag that the others wait for.
extern "C" __global__ void flag_between_blocks(const float*, float* out) {
  cuda::atomic_ref<float> flag(out[0]);
  if (threadIdx.x != 0) return;
  if (blockIdx.x == gridDim.x - 1) {
    out[5] = 3.0f;
    flag.store(1.0f, cuda::memory_order_release);
  } else {
    while (flag.load(cuda::memory_order_acquire) == 0.0f) {}
    out[8 + blockIdx.x] = out[5];
  }
}

extern "C" __global__ void shared_histogram(const float*, float* out) {
  __shared__ unsigned bins[64];
  if (threadIdx.x < 64) bins[threadIdx.x] = 0;
  __syncthreads();
  atomicAdd(&bins[(threadIdx.x * 7) & 63], 1u);
  __syncthreads();
  if (threadIdx.x < 64) atomicAdd(&out[threadIdx.x], static_cast<float>(bins[threadIdx.x]));
}

extern "C" __global__ void transpose(const float* in, float* out) {
  __shared__ float tile[16][17];
  const int x = threadIdx.x % 16, y = threadIdx.x / 16;
  tile[y][x] = in[y * 16 + x];
  __syncthreads();
  out[blockIdx.x * kThreads + y * 16 + x] = tile[x][y];
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) cluster_exchange(const float* in, float* out) {
  __shared__ float tile[kThreads];
  const auto cluster = cg::this_cluster();
  tile[threadIdx.x] = in[threadIdx.x] + static_cast<float>(cluster.block_rank());
  cluster.sync();
  const float* other = cluster.map_shared_rank(tile, cluster.block_rank() ^ 1);
  const float value = other[threadIdx.x];
  cluster.sync();
  out[blockIdx.x * kThreads + threadIdx.x] = value;
}
