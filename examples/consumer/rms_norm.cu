// SPDX-License-Identifier: Apache-2.0
// Root-mean-square normalisation of rows:
//     y[r][c] = x[r][c] * w[c] / sqrt(mean_c x[r][c]^2 + epsilon)
//
// Grid: one block of 256 threads per row. Arguments: x [rows, cols], w [cols], y [rows, cols],
// cols, epsilon.

// Sum over the block, returned to every thread. kMissingBarrier is the planted bug: without the
// barrier a warp may sum `partial` before the others have written theirs.
template <bool kMissingBarrier>
__device__ float block_sum(float value) {
    __shared__ float partial[8];                  // one per warp
    for (int offset = 16; offset > 0; offset /= 2) {
        value += __shfl_xor_sync(0xffffffffu, value, offset);
    }
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
    if (!kMissingBarrier) __syncthreads();        // writers: lane 0 of each warp; readers: all
    float total = 0.0f;
    for (int warp = 0; warp < 8; ++warp) total += partial[warp];
    return total;
}

template <bool kMissingBarrier>
__device__ void rms_norm(const float* x, const float* w, float* y, int cols, float epsilon) {
    const float* row = x + static_cast<long long>(blockIdx.x) * cols;
    float* out = y + static_cast<long long>(blockIdx.x) * cols;
    float squares = 0.0f;
    for (int c = threadIdx.x; c < cols; c += 256) squares += row[c] * row[c];
    const float mean = block_sum<kMissingBarrier>(squares) / static_cast<float>(cols);
    const float scale = 1.0f / sqrtf(mean + epsilon);
    for (int c = threadIdx.x; c < cols; c += 256) out[c] = row[c] * scale * w[c];
}

extern "C" __global__ void rms_norm_clean(const float* x, const float* w, float* y, int cols,
                                          float epsilon) {
    rms_norm<false>(x, w, y, cols, epsilon);
}

extern "C" __global__ void rms_norm_missing_barrier(const float* x, const float* w, float* y,
                                                    int cols, float epsilon) {
    rms_norm<true>(x, w, y, cols, epsilon);
}
