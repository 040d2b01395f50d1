// SPDX-License-Identifier: Apache-2.0
//
// PTX instructions that CUDA C++ has no function for, one wrapper each; what they do and how they
// order memory is in the section of the PTX ISA that the comment names. Sections are cited by
// title: their numbers change between versions.
//
// Barriers and tiles are in shared memory of the block. A wrapper with a "memory" clobber is not
// moved across other accesses to memory by the compiler.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace faultline::kernels {

/// The address that instructions on shared memory take. PTX ISA: cvta.
__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// ---- mbarriers ----------------------------------------------------------------------------------

/// A phase completes after `arrivals` arrivals and all bytes that it was told to expect. PTX ISA:
/// mbarrier.init.
__device__ __forceinline__ void mbarrier_init(uint64_t* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
               :
               : "r"(shared_address(barrier)), "r"(arrivals)
               : "memory");
}

/// The current phase waits for `bytes` of copies more; no arrival. PTX ISA: mbarrier.expect_tx.
__device__ __forceinline__ void mbarrier_expect(uint64_t* barrier, int bytes) {
  asm volatile("mbarrier.expect_tx.shared::cta.b64 [%0], %1;"
               :
               : "r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}

/// One arrival; release at CTA scope. PTX ISA: mbarrier.arrive.
__device__ __forceinline__ void mbarrier_arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" : : "r"(barrier) : "memory");
}
__device__ __forceinline__ void mbarrier_arrive(uint64_t* barrier) {
  mbarrier_arrive(shared_address(barrier));
}

/// mbarrier_expect() and one arrival. PTX ISA: mbarrier.arrive (expect_tx).
__device__ __forceinline__ void mbarrier_arrive_expect(uint64_t* barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
               :
               : "r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}

/// Returns when the phase of this parity is complete; acquire at CTA scope. PTX ISA:
/// mbarrier.try_wait.
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

// ---- fences and barriers ------------------------------------------------------------------------

/// Makes initialised mbarriers visible to asynchronous copies. PTX ISA: fence (mbarrier_init).
__device__ __forceinline__ void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/// Orders this thread's plain accesses to shared memory before later accesses by asynchronous
/// copies. PTX ISA: fence.proxy.async.
__device__ __forceinline__ void fence_proxy_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/// Joins `threads` threads of the block on one of its 16 barriers; 0 is __syncthreads. PTX ISA:
/// barrier, bar.sync.
__device__ __forceinline__ void named_barrier_sync(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" : : "r"(barrier), "r"(threads) : "memory");
}

// ---- asynchronous copies ------------------------------------------------------------------------

/// 16 bytes to shared memory: `source_bytes` (0 or 16) of them from `source`, the rest zeros. PTX
/// ISA: cp.async.
__device__ __forceinline__ void copy_chunk_async(void* destination, const void* source,
                                                 int source_bytes) {
  const uint32_t shared = shared_address(destination);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(shared), "l"(source), "r"(source_bytes)
               : "memory");
}

/// Ends a group of this thread's copy_chunk_async(). PTX ISA: cp.async.commit_group.
__device__ __forceinline__ void commit_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

/// All but the kPending newest groups of this thread have landed. PTX ISA: cp.async.wait_group.
template <int kPending>
__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" : : "n"(kPending) : "memory");
}

/// `bytes` (a multiple of 16) from global to shared memory, both 16-byte aligned; completes on
/// `barrier`. PTX ISA: cp.async.bulk.
__device__ __forceinline__ void copy_bulk(void* destination, const void* source, int bytes,
                                          uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
      :
      : "r"(shared_address(destination)), "l"(source), "r"(bytes), "r"(shared_address(barrier))
      : "memory");
}

/// The box at (column, row) of a 2-D map, zeros outside it; completes on `barrier`. PTX ISA:
/// cp.async.bulk.tensor.
__device__ __forceinline__ void copy_box(void* destination, const CUtensorMap* map, int column,
                                         int row, uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3}], [%4];"
      :
      : "r"(shared_address(destination)), "l"(map), "r"(column), "r"(row),
        "r"(shared_address(barrier))
      : "memory");
}

/// The box at (column, row, matrix) of a 3-D map, likewise.
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

/// From shared memory to the box at (column, row, matrix) of a 3-D map; what lies outside the map
/// is not written. PTX ISA: cp.async.bulk.tensor.
__device__ __forceinline__ void store_box(const CUtensorMap* map, int column, int row, int matrix,
                                          const void* source) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%1, %2, %3}], [%4];"
               :
               : "l"(map), "r"(column), "r"(row), "r"(matrix), "r"(shared_address(source))
               : "memory");
}

/// Ends a group of this thread's stores. PTX ISA: cp.async.bulk.commit_group.
__device__ __forceinline__ void commit_stores() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/// All but the kPending newest groups have read their sources. PTX ISA: cp.async.bulk.wait_group.
template <int kPending>
__device__ __forceinline__ void wait_stores_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" : : "n"(kPending) : "memory");
}

/// All stores of this thread are complete. PTX ISA: cp.async.bulk.wait_group.
__device__ __forceinline__ void wait_stores() {
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

// ---- loads and stores ---------------------------------------------------------------------------

/// 16 bytes that are read once: past L1, through the read-only path. volatile keeps a batch of
/// loads in front of the arithmetic that uses them. PTX ISA: ld.global.nc.
__device__ __forceinline__ uint4 load_streamed(const void* address) {
  uint4 r;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w)
               : "l"(address));
  return r;
}

/// Written out: nvcc splits the store of a uint4 made of shuffled words into four. PTX ISA: st.
__device__ __forceinline__ void store_global_16(void* to, const uint32_t (&x)[4]) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};"
               :
               : "l"(to), "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3])
               : "memory");
}

/// Shared memory by address. PTX ISA: ld, st.
__device__ __forceinline__ uint4 load_shared_16(uint32_t address) {
  uint4 x;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
               : "r"(address)
               : "memory");
  return x;
}
__device__ __forceinline__ void store_shared_16(uint32_t address, uint4 x) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};"
               :
               : "r"(address), "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w)
               : "memory");
}
__device__ __forceinline__ uint32_t load_shared_4(uint32_t address) {
  uint32_t x;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(x) : "r"(address) : "memory");
  return x;
}
__device__ __forceinline__ void store_shared_4(uint32_t address, uint32_t x) {
  asm volatile("st.shared.u32 [%0], %1;" : : "r"(address), "r"(x) : "memory");
}

// ---- matrices -----------------------------------------------------------------------------------

/// Four 8x8 matrices of 16-bit elements from shared memory; lane i gives the address of row i % 8
/// of matrix i / 8. PTX ISA: ldmatrix.
__device__ __forceinline__ void ldmatrix(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}
/// Their transposes.
__device__ __forceinline__ void ldmatrix_trans(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

/// The transposes of four 8x8 matrices to shared memory; addresses as in ldmatrix(). PTX ISA:
/// stmatrix.
__device__ __forceinline__ void stmatrix_trans(uint32_t address, uint32_t r0, uint32_t r1,
                                               uint32_t r2, uint32_t r3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};"
               :
               : "r"(address), "r"(r0), "r"(r1), "r"(r2), "r"(r3)
               : "memory");
}

/// c += a b, m16n8k16 of 16-bit elements, fp32 accumulators. PTX ISA: mma, and matrix fragments for
/// mma.m16n8k16.
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

/// c += a b, m16n8k8 of tf32. PTX ISA: mma, and matrix fragments for mma.m16n8k8.
__device__ __forceinline__ void mma_tf32(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                         uint32_t b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// ---- arithmetic ---------------------------------------------------------------------------------

/// 2^x, 2^-22 relative; results below 2^-126 are 0. PTX ISA: ex2.
__device__ __forceinline__ float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace faultline::kernels
