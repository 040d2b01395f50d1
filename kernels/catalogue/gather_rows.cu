// SPDX-License-Identifier: Apache-2.0
// Rows of a table by index, as in an embedding or the dispatch of a mixture of experts. The list of
// indices has padding, marked by an index that is no row.
#include <stdint.h>

namespace faultline::kernels::catalogue {

constexpr int kPadding = INT32_MAX;

/// grid (count). table [rows, cols]; out [count, cols]. A padding row becomes zeros.
template <bool kChecked>
__device__ void gather_rows(const float* __restrict__ table, const int* __restrict__ indices,
                            float* __restrict__ out, int rows, int cols) {
  const int index = indices[blockIdx.x];
  for (int col = threadIdx.x; col < cols; col += blockDim.x) {
    float value = 0.0f;
    if (!kChecked || (index >= 0 && index < rows)) {
      value = table[static_cast<int64_t>(index) * cols + col];
    }
    out[static_cast<int64_t>(blockIdx.x) * cols + col] = value;
  }
}

}  // namespace faultline::kernels::catalogue

extern "C" {

/// What fills the list: a row of the table for each wanted entry, padding for the others.
__global__ void gather_rows_indices(const float* rows, const float* wanted, int* indices,
                                    int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  indices[i] =
      wanted[i] != 0.0f ? static_cast<int>(rows[i]) : faultline::kernels::catalogue::kPadding;
}

__global__ void gather_rows_checked_index(const float* table, const int* indices, float* out,
                                          int rows, int cols) {
  faultline::kernels::catalogue::gather_rows<true>(table, indices, out, rows, cols);
}

__global__ void gather_rows_unchecked_index(const float* table, const int* indices, float* out,
                                            int rows, int cols) {
  faultline::kernels::catalogue::gather_rows<false>(table, indices, out, rows, cols);
}

}  // extern "C"
