// SPDX-License-Identifier: Apache-2.0
// One block hands a message to another through global memory and a flag. Even blocks send, odd ones
// receive.
#include <stdint.h>

namespace faultline::kernels::catalogue {

/// Pair p: X [p] -> mailbox [p] -> Y [p], each `length` long; flags [p] zero before the launch.
template <bool kProducerFence, bool kConsumerFence>
__device__ void message(const float* x, float* mailbox, unsigned* flags, float* y, int length) {
  const int pair = blockIdx.x / 2;
  const int64_t first = static_cast<int64_t>(pair) * length;
  volatile unsigned* flag = flags + pair;
  if (blockIdx.x % 2 == 0) {
    for (int i = threadIdx.x; i < length; i += blockDim.x) mailbox[first + i] = 2.0f * x[first + i];
    __syncthreads();
    if (threadIdx.x == 0) {
      if constexpr (kProducerFence) __threadfence();  // the message before the flag
      *flag = 1;
    }
  } else {
    if (threadIdx.x == 0) {
      while (*flag == 0) {
      }
      if constexpr (kConsumerFence) __threadfence();  // the flag before the message
    }
    __syncthreads();
    // Back to front: what another thread sent.
    for (int i = threadIdx.x; i < length; i += blockDim.x) {
      y[first + i] = mailbox[first + length - 1 - i];
    }
  }
}

}  // namespace faultline::kernels::catalogue

extern "C" {

__global__ void message_fenced(const float* x, float* mailbox, unsigned* flags, float* y,
                               int length) {
  faultline::kernels::catalogue::message<true, true>(x, mailbox, flags, y, length);
}

__global__ void message_no_fence(const float* x, float* mailbox, unsigned* flags, float* y,
                                 int length) {
  faultline::kernels::catalogue::message<false, false>(x, mailbox, flags, y, length);
}

__global__ void message_no_consumer_fence(const float* x, float* mailbox, unsigned* flags, float* y,
                                          int length) {
  faultline::kernels::catalogue::message<true, false>(x, mailbox, flags, y, length);
}

}  // extern "C"
