// SPDX-License-Identifier: Apache-2.0
// The sum of a vector over two ranks, exchanged through an inbox that the peer writes.
extern "C" {

/// This rank's sums over its parts, kept and pushed into the peer's inbox.
/// grid (ceil(n / 128)), block (128). x [parts, n]; own, peer_inbox [n].
__global__ void __launch_bounds__(128)
    allreduce2_push(const float* __restrict__ x, float* __restrict__ own,
                    float* __restrict__ peer_inbox, int parts, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float sum = 0.0f;
  for (int p = 0; p < parts; ++p) sum += x[p * n + i];
  own[i] = sum;
  peer_inbox[i] = sum;
}

/// y = own + inbox.
__global__ void __launch_bounds__(128)
    allreduce2_add(const float* __restrict__ own, const float* __restrict__ inbox,
                   float* __restrict__ y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = own[i] + inbox[i];
}

}  // extern "C"
