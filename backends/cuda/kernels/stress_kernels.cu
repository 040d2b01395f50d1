// SPDX-License-Identifier: Apache-2.0
// Company for the trials on the same device, and the kernels that measure what its memory can do.
//
// A stress kernel ends when its flag is raised or after `limit_ns`, whichever comes first: nothing
// on the host may be able to leave the device busy for ever. One thread a block polls the flag,
// which lies in device memory: threads that poll host memory starve the launches beside them.
#include <stdint.h>

#include "trial_abi.hpp"

namespace faultline::cuda {
namespace {

/// Nanoseconds of the device's global timer. PTX ISA, special register %globaltimer.
__device__ uint64_t global_timer_ns() {
  uint64_t t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}

/// True in every thread of the block once the block should end.
__device__ bool should_end(const volatile uint32_t* stop, uint64_t begin_ns, uint64_t limit_ns) {
  int end = 0;
  if (threadIdx.x == 0) end = *stop != 0 || global_timer_ns() - begin_ns > limit_ns;
  return __syncthreads_or(end);
}

/// Sets the bit of the multiprocessor that the block runs on. PTX ISA, special register %smid.
__device__ void mark_multiprocessor(uint32_t* bits) {
  uint32_t id;
  asm volatile("mov.u32 %0, %smid;" : "=r"(id));
  if (id < abi::kMaxMultiprocessors) atomicOr(bits + id / 32, 1u << id % 32);
}

/// A 16-byte load that leaves L1 alone. PTX ISA, ld.global.nc with an L1 eviction priority.
__device__ uint4 load_streaming(const uint4* p) {
  uint4 r;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w)
               : "l"(p));
  return r;
}

}  // namespace

/// Reads and writes all of a buffer of `words` (a power of two) 16-byte words, in rounds of 8 loads
/// and 4 stores a thread. `started` counts the blocks that run.
extern "C" __global__ void __launch_bounds__(256)
    faultline_stress_memory(uint4* buffer, uint64_t words, const volatile uint32_t* stop,
                            uint32_t* started, uint64_t limit_ns) {
  const uint64_t begin = global_timer_ns();
  if (threadIdx.x == 0) atomicAdd(started, 1u);
  const uint64_t stride = static_cast<uint64_t>(gridDim.x) * blockDim.x;
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  uint32_t sum = 0;
  do {
    uint4 x[8];
#pragma unroll
    for (int u = 0; u < 8; ++u) x[u] = buffer[(i + u * stride) & (words - 1)];
#pragma unroll
    for (int u = 0; u < 8; ++u) {
      sum ^= x[u].x ^ x[u].y;
      x[u].z += 1;
      if (u & 1) buffer[(i + u * stride) & (words - 1)] = x[u];
    }
    i += 8 * stride;
  } while (!should_end(stop, begin, limit_ns));
  if (sum == 0x12345678u) buffer[0].w = sum;  // keeps the loads alive
}

/// Fused multiply-adds from registers, 8 independent chains a thread.
extern "C" __global__ void __launch_bounds__(256)
    faultline_stress_compute(float* sink, const volatile uint32_t* stop, uint32_t* started,
                             uint64_t limit_ns) {
  const uint64_t begin = global_timer_ns();
  if (threadIdx.x == 0) atomicAdd(started, 1u);
  float x[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) x[i] = static_cast<float>(threadIdx.x + i);
  do {
    for (int round = 0; round < 512; ++round) {
#pragma unroll
      for (int i = 0; i < 8; ++i) x[i] = fmaf(x[i], 1.0001f, 0.5f);
    }
  } while (!should_end(stop, begin, limit_ns));
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < 8; ++i) sum += x[i];
  if (sum == 1.2345f) *sink = sum;  // keeps the arithmetic alive
}

/// Holds a multiprocessor: launched with all the dynamic shared memory that a block can have, so
/// that no other block fits beside it. One thread waits, seldom awake. `started` counts the blocks,
/// `held` is a set of abi::kMaxMultiprocessors bits of where they are.
extern "C" __global__ void __launch_bounds__(32)
    faultline_hold_multiprocessor(const volatile uint32_t* stop, uint32_t* started, uint32_t* held,
                                  uint64_t limit_ns) {
  if (threadIdx.x != 0) return;
  const uint64_t begin = global_timer_ns();
  mark_multiprocessor(held);
  __threadfence();  // release: who sees the count sees the bit
  atomicAdd(started, 1u);
  while (*stop == 0 && global_timer_ns() - begin <= limit_ns) __nanosleep(2000);
}

/// Where blocks are placed: each stays for a while, so that the next one goes elsewhere.
extern "C" __global__ void __launch_bounds__(32)
    faultline_find_multiprocessors(uint32_t* found, uint64_t stay_ns) {
  if (threadIdx.x != 0) return;
  const uint64_t begin = global_timer_ns();
  mark_multiprocessor(found);
  while (global_timer_ns() - begin < stay_ns) {
  }
}

/// Keeps a stream busy for `ns` nanoseconds of the device's timer, whatever the host does.
extern "C" __global__ void __launch_bounds__(32) faultline_block_stream(uint64_t ns) {
  if (threadIdx.x != 0) return;
  const uint64_t begin = global_timer_ns();
  while (global_timer_ns() - begin < ns) {
  }
}

/// Reads `words` 16-byte words once, 8 loads in flight a thread.
extern "C" __global__ void __launch_bounds__(512)
    faultline_read_once(const uint4* data, uint64_t words, uint32_t* sink) {
  const uint64_t stride = static_cast<uint64_t>(gridDim.x) * blockDim.x;
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  uint32_t sum = 0;
  for (; i + 7 * stride < words; i += 8 * stride) {
    uint4 x[8];
#pragma unroll
    for (int u = 0; u < 8; ++u) x[u] = load_streaming(data + i + u * stride);
#pragma unroll
    for (int u = 0; u < 8; ++u) sum ^= x[u].x ^ x[u].y ^ x[u].z ^ x[u].w;
  }
  for (; i < words; i += stride) {
    const uint4 x = load_streaming(data + i);
    sum ^= x.x ^ x.y ^ x.z ^ x.w;
  }
  if (sum == 0x12345678u) *sink = sum;
}

/// Copies `words` 16-byte words, 4 in flight a thread.
extern "C" __global__ void __launch_bounds__(512)
    faultline_copy_once(const uint4* from, uint4* to, uint64_t words) {
  const uint64_t stride = static_cast<uint64_t>(gridDim.x) * blockDim.x;
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; i + 3 * stride < words; i += 4 * stride) {
    uint4 x[4];
#pragma unroll
    for (int u = 0; u < 4; ++u) x[u] = load_streaming(from + i + u * stride);
#pragma unroll
    for (int u = 0; u < 4; ++u) to[i + u * stride] = x[u];
  }
  for (; i < words; i += stride) to[i] = load_streaming(from + i);
}

}  // namespace faultline::cuda
