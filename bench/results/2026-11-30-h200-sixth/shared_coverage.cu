// SPDX-License-Identifier: Apache-2.0
// How much of the shared memory that a kernel reads unwritten do several ways of dirtying it cover?
// nvcc -arch=sm_90a -O3 shared_coverage.cu; its output on an H200 is shared_coverage.txt. "whole",
// one block of all shared memory on each multiprocessor, is what faultline_dirty_shared does, which
// now takes the last 1 KiB as well: here a block has 1 KiB less than it can have.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>
#define CK(x)                                                                                      \
  do {                                                                                             \
    cudaError_t e = (x);                                                                           \
    if (e != cudaSuccess) {                                                                        \
      printf("%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(e));                             \
      return 1;                                                                                    \
    }                                                                                              \
  } while (0)
struct Meet {
  unsigned long long arrived, met, missed;
};
__device__ uint64_t gt() {
  uint64_t t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}
__global__ void dirty(uint32_t word, uint32_t bytes, Meet* m) {
  extern __shared__ uint4 mem[];
  uint32_t b = (uint32_t)__cvta_generic_to_shared(mem);
  for (uint32_t at = 16 * threadIdx.x; at < bytes; at += 16 * blockDim.x)
    asm volatile("st.shared.v4.b32 [%0], {%1,%1,%1,%1};" ::"r"(b + at), "r"(word) : "memory");
  if (threadIdx.x == 0) {
    uint64_t s = gt();
    volatile unsigned long long* met = &m->met;
    unsigned long long before = *met;
    __threadfence();
    unsigned long long a = atomicAdd(&m->arrived, 1ull);
    if (a + 1 == gridDim.x) {
      m->arrived = 0;
      __threadfence();
      atomicAdd(&m->met, 1ull);
    } else
      while (*met == before)
        if (gt() - s > 20000) {
          atomicAdd(&m->missed, 1ull);
          break;
        }
  }
  __syncthreads();
}
__global__ void scribble(uint32_t bytes) {
  extern __shared__ uint4 mem[];
  uint32_t b = (uint32_t)__cvta_generic_to_shared(mem);
  for (uint32_t at = 16 * threadIdx.x; at < bytes; at += 16 * blockDim.x)
    asm volatile("st.shared.v4.b32 [%0], {%1,%1,%1,%1};" ::"r"(b + at), "r"(0xC2280000u)
                 : "memory");
}
// counts words of its shared memory that are not `word`
__global__ void probe(uint32_t word, uint32_t bytes, unsigned long long* bad,
                      unsigned long long* badblocks) {
  extern __shared__ uint4 mem[];
  uint32_t b = (uint32_t)__cvta_generic_to_shared(mem);
  __shared__ int any;
  uint32_t n = 0;
  for (uint32_t at = 4 * threadIdx.x; at < bytes; at += 4 * blockDim.x) {
    uint32_t v;
    asm volatile("ld.shared.b32 %0,[%1];" : "=r"(v) : "r"(b + at) : "memory");
    n += v != word;
  }
  for (int o = 16; o; o /= 2) n += __shfl_xor_sync(~0u, n, o);
  if ((threadIdx.x & 31) == 0 && n) {
    atomicAdd(bad, (unsigned long long)n);
  }
  (void)any;
  (void)badblocks;
  if ((threadIdx.x & 31) == 0 && n && threadIdx.x == 0) atomicAdd(badblocks, 1ull);
}
int main() {
  int sms;
  CK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
  int optin;
  CK(cudaDeviceGetAttribute(&optin, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
  Meet* m;
  unsigned long long* bad;
  CK(cudaMalloc(&m, sizeof(Meet)));
  CK(cudaMalloc(&bad, 16));
  CK(cudaMemset(m, 0, sizeof(Meet)));
  for (auto f : {(const void*)scribble, (const void*)probe, (const void*)dirty})
    CK(cudaFuncSetAttribute(f, cudaFuncAttributeMaxDynamicSharedMemorySize, optin - 1024));
  printf("sms %d optin %d\n", sms, optin);
  cudaStream_t st;
  CK(cudaStreamCreate(&st));
  auto occ = [&](uint32_t bytes, int threads) {
    int n = 0;
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, dirty, threads, bytes);
    return n;
  };
  for (int probe_carve : {-1, 100}) {
    CK(cudaFuncSetAttribute(probe, cudaFuncAttributePreferredSharedMemoryCarveout, probe_carve));
    for (uint32_t S : {128u, 1024u, 4096u, 16384u, 49152u, 102400u, 200 * 1024u})
      for (int grid : {8, 132, 1000}) {
        printf("probe S=%u grid=%d carve %d:", S, grid, probe_carve);
        for (std::string strat :
             {"none", "same", "same_carve100", "whole", "fill32", "fill16", "whole2"}) {
          if (grid != 132 && strat == "whole2") continue;
          CK(cudaMemset(bad, 0, 16));
          CK(cudaMemset(m, 0, sizeof(Meet)));
          const int iters = 60;
          int badtrials = 0;
          unsigned long long last = 0;
          float ms = 0;
          for (int it = 0; it < iters; ++it) {
            uint32_t word = it % 3 == 0 ? 0xffffffffu : it % 3 == 1 ? 0x7b7f7b7fu : 0xfff9fff9u;
            // leftovers: all memory, then many small blocks
            scribble<<<sms, 256, optin - 1024, st>>>(optin - 1024);
            scribble < <<sms * 32, 64, S<6000 ? S : 6000, st>>>(S < 6000 ? S : 6000);
            auto same = [&](int carve) {
              cudaFuncSetAttribute(dirty, cudaFuncAttributePreferredSharedMemoryCarveout, carve);
              int t = 64;
              int n = occ(S, t);
              dirty<<<sms * n, t, S, st>>>(word, S, m);
            };
            auto sized = [&](uint32_t bytes, int carve, int t) {
              cudaFuncSetAttribute(dirty, cudaFuncAttributePreferredSharedMemoryCarveout, carve);
              int n = occ(bytes, t);
              dirty<<<sms * n, t, bytes, st>>>(word, bytes, m);
            };
            if (strat == "same") same(-1);
            if (strat == "same_carve100") same(100);
            if (strat == "whole") sized(optin - 1024, 100, 256);
            if (strat == "whole2") {
              sized(optin - 1024, 100, 256);
              same(-1);
            }
            if (strat == "fill32") sized((233472 / 32 - 1024) / 128 * 128, 100, 64);
            if (strat == "fill16") sized((233472 / 16 - 1024) / 128 * 128, 100, 128);
            probe<<<grid, 128, S, st>>>(word, S, bad, bad + 1);
            unsigned long long now;
            CK(cudaMemcpyAsync(&now, bad, 8, cudaMemcpyDeviceToHost, st));
            CK(cudaStreamSynchronize(st));
            badtrials += now != last;
            last = now;
          }
          unsigned long long h[2];
          Meet hm;
          CK(cudaMemcpy(h, bad, 16, cudaMemcpyDeviceToHost));
          CK(cudaMemcpy(&hm, m, sizeof hm, cudaMemcpyDeviceToHost));
          printf("  %s %d/%d (%.3f%% words, missed %llu)", strat.c_str(), badtrials, iters,
                 100.0 * h[0] / ((double)iters * grid * S / 4), hm.missed);
        }
        printf("\n");
        fflush(stdout);
      }
  }
  // time: dirty + probe in a stream
  for (uint32_t S : {128u, 16384u, 102400u})
    for (std::string strat : {"none", "same", "whole", "fill32", "fill16"}) {
      cudaEvent_t a, b;
      cudaEventCreate(&a);
      cudaEventCreate(&b);
      CK(cudaStreamSynchronize(st));
      int t = strat == "whole" ? 256 : strat == "fill16" ? 128 : 64;
      uint32_t bytes = strat == "same"     ? S
                       : strat == "whole"  ? optin - 1024
                       : strat == "fill32" ? (233472 / 32 - 1024) / 128 * 128
                                           : (233472 / 16 - 1024) / 128 * 128;
      CK(cudaFuncSetAttribute(dirty, cudaFuncAttributePreferredSharedMemoryCarveout,
                              strat == "same" ? -1 : 100));
      CK(cudaFuncSetAttribute(probe, cudaFuncAttributePreferredSharedMemoryCarveout, -1));
      int n = occ(bytes, t);
      CK(cudaMemset(m, 0, sizeof(Meet)));
      for (int rep = 0; rep < 2; ++rep) {
        cudaEventRecord(a, st);
        for (int i = 0; i < 500; ++i) {
          if (strat != "none") dirty<<<sms * n, t, bytes, st>>>(1, bytes, m);
          probe<<<132, 128, S, st>>>(1, S, bad, bad + 1);
        }
        cudaEventRecord(b, st);
        CK(cudaStreamSynchronize(st));
      }
      float ms;
      cudaEventElapsedTime(&ms, a, b);
      printf("time S=%u %s (%d blocks a SM): %.2f us\n", S, strat.c_str(), n, ms * 2);
    }
  CK(cudaDeviceSynchronize());
  return 0;
}
