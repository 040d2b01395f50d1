// SPDX-License-Identifier: Apache-2.0
// Column sums in one launch: the block that draws the last ticket adds up what all blocks left. The
// counter of tickets is a variable of the module: it outlives the call.
#include <stdint.h>

namespace faultline::kernels::catalogue {

constexpr int kRows = 16;  // of a block

/// X [rows, cols] -> parts [blocks, cols] -> y [cols]; a block of any number of threads for each 16
/// rows. `tickets` counts the blocks that have left their part.
template <bool kReset>
__device__ void ticket_sum(const float* __restrict__ x, float* parts, float* __restrict__ y,
                           int rows, int cols, unsigned* tickets) {
  const int first = blockIdx.x * kRows;
  const int end = first + kRows < rows ? first + kRows : rows;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) {
    float sum = 0.0f;
    for (int r = first; r < end; ++r) sum += x[static_cast<int64_t>(r) * cols + c];
    parts[static_cast<int64_t>(blockIdx.x) * cols + c] = sum;
  }
  __shared__ bool last;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();  // the parts before the ticket
    last = atomicAdd(tickets, 1u) == gridDim.x - 1;
    __threadfence();  // the ticket before the parts of others
  }
  __syncthreads();
  if (!last) return;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) {
    float sum = 0.0f;
    for (int b = 0; b < gridDim.x; ++b) sum += parts[static_cast<int64_t>(b) * cols + c];
    y[c] = sum;
  }
  if (kReset && threadIdx.x == 0) atomicExch(tickets, 0u);  // for the next call
}

// One each: what one variant leaves behind must not reach the other.
__device__ unsigned tickets_reset = 0, tickets_not_reset = 0;

}  // namespace faultline::kernels::catalogue

extern "C" {

__global__ void ticket_sum_reset(const float* x, float* parts, float* y, int rows, int cols) {
  using namespace faultline::kernels::catalogue;
  ticket_sum<true>(x, parts, y, rows, cols, &tickets_reset);
}

__global__ void ticket_sum_not_reset(const float* x, float* parts, float* y, int rows, int cols) {
  using namespace faultline::kernels::catalogue;
  ticket_sum<false>(x, parts, y, rows, cols, &tickets_not_reset);
}

}  // extern "C"
