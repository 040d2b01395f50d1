// SPDX-License-Identifier: Apache-2.0
//
// forward_stages [SEGMENTS...]
//
// Where the time of the chunkwise forward goes: each launch of kernels/deltanet/forward.cuh alone
// and all of them, B = 2, H = 4, as medians of CUDA-graph replays, after a check of both outputs
// against the recurrence in double. With arguments, one table for each number of segments instead
// of the default ones. Needs nothing but nvcc and this tree:
//
//   nvcc -std=c++20 -O3 -I. -Icore/include -gencode arch=compute_90a,code=sm_90a --cudart static
//        -o forward_stages bench/deltanet/forward_stages.cu
//
// Writes Markdown to standard output. Exit code 0, 1 when a check fails, 77 without a device.
#include "kernels/deltanet/forward.cuh"

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

namespace faultline::kernels::deltanet {

constexpr int kChunk = 64;

template <typename T>
__global__ void __launch_bounds__(2 * kChunk)
    prepare_entry(const T* beta, const float* g, T* w, T* u, T* x, float* gates, float* decays,
                  int length, int dk, int dv, const __grid_constant__ CUtensorMap k_map,
                  const __grid_constant__ CUtensorMap v_map) {
  prepare<T, kChunk, Inverse::substitution, Defect::none>(beta, g, w, u, x, gates, decays, length,
                                                          dk, dv, &k_map, &v_map);
}

template <typename T, int kD>
__global__ void __launch_bounds__(32 * (kTransitionWarps + 1))
    transitions_entry(const float* decays, T* transition, float4* local, int length, int gated,
                      int segment_chunks, const __grid_constant__ CUtensorMap w_map,
                      const __grid_constant__ CUtensorMap k_map,
                      const __grid_constant__ CUtensorMap u_map) {
  transitions<T, kChunk, kD, Defect::none>(decays, transition, local, length, kD, gated,
                                           segment_chunks, &w_map, &k_map, &u_map);
}

template <typename T, int kD>
__global__ void __launch_bounds__(32 * (kStateWarps + 2))
    states_entry(const float* decays, const float* h0, const float4* local, float* hT, int length,
                 int gated, int segment_chunks, const __grid_constant__ CUtensorMap w_map,
                 const __grid_constant__ CUtensorMap k_map,
                 const __grid_constant__ CUtensorMap u_map,
                 const __grid_constant__ CUtensorMap h_map,
                 const __grid_constant__ CUtensorMap v_new_map,
                 const __grid_constant__ CUtensorMap transition_map) {
  states<T, kChunk, kD, Defect::none>(decays, h0, local, hT, length, kD, gated, segment_chunks,
                                      &w_map, &k_map, &u_map, &h_map, &v_new_map, &transition_map);
}

template <typename T, int kD>
__global__ void __launch_bounds__(2 * kChunk)
    output_entry(const float* gates, T* o, int length, int gated, float scale,
                 const __grid_constant__ CUtensorMap q_map,
                 const __grid_constant__ CUtensorMap k_map,
                 const __grid_constant__ CUtensorMap h_map,
                 const __grid_constant__ CUtensorMap v_new_map) {
  output<T, kChunk, kD, Defect::none>(gates, o, length, kD, gated, scale, &q_map, &k_map, &h_map,
                                      &v_new_map);
}

/// offset + factor * (uniform on [-1, 1)), by a hash of (seed, index).
template <typename T>
__global__ void fill(T* out, int64_t count, uint64_t seed, float offset, float factor) {
  for (int64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    uint64_t z = (i + 1) * 0x9e3779b97f4a7c15ull ^ seed * 0xd1342543de82ef95ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    const float uniform = static_cast<float>(z >> 40) * 0x1p-23f - 1.0f;
    out[i] = from_float<T>(offset + factor * uniform);
  }
}

}  // namespace faultline::kernels::deltanet

namespace {

using namespace faultline::kernels::deltanet;

void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) {
    std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
    std::exit(1);
  }
}

/// cuTensorMapEncodeTiled, from the driver that is running.
decltype(&cuTensorMapEncodeTiled) encoder() {
  static const auto encode = [] {
    void* entry = nullptr;
    cudaDriverEntryPointQueryResult found{};
    check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000,
                                           cudaEnableDefault, &found),
          "cuTensorMapEncodeTiled");
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(entry);
  }();
  return encode;
}

template <typename T>
constexpr bool kIsHalf = std::is_same_v<T, __half>;

/// [matrices, rows, columns] in boxes of 64 columns, 128-byte swizzle.
template <typename T>
CUtensorMap map_of(T* data, int64_t columns, int64_t rows, int64_t matrices, int64_t box_rows) {
  const cuuint64_t dims[3] = {cuuint64_t(columns), cuuint64_t(rows), cuuint64_t(matrices)};
  const cuuint64_t strides[2] = {cuuint64_t(2 * columns), cuuint64_t(2 * columns * rows)};
  const cuuint32_t box[3] = {kPanelColumns, cuuint32_t(box_rows), 1}, steps[3] = {1, 1, 1};
  CUtensorMap map;
  const CUresult status = encoder()(
      &map, kIsHalf<T> ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 3,
      data, dims, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
      CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) {
    std::fprintf(stderr, "cuTensorMapEncodeTiled: error %d\n", status);
    std::exit(1);
  }
  return map;
}

template <typename T>
class Buffer {
 public:
  explicit Buffer(int64_t count) : count_(count) {
    check(cudaMalloc(&data_, count * sizeof(T)), "cudaMalloc");
    check(cudaMemset(data_, 0xff, count * sizeof(T)), "cudaMemset");
  }
  Buffer(int64_t count, uint64_t seed, float offset, float factor) : Buffer(count) {
    fill<T><<<512, 256>>>(data_, count, seed, offset, factor);
  }
  ~Buffer() { cudaFree(data_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  T* get() const { return data_; }
  std::vector<double> to_host() const {
    std::vector<T> raw(count_);
    check(cudaMemcpy(raw.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost), "cudaMemcpy");
    std::vector<double> values(count_);
    for (int64_t i = 0; i < count_; ++i) values[i] = static_cast<double>(float(raw[i]));
    return values;
  }

 private:
  T* data_ = nullptr;
  int64_t count_;
};

/// One problem with DK = DV = kD, its buffers and its launches.
template <typename T, int kD>
class Forward {
 public:
  Forward(int64_t heads, int64_t length, bool gated, int64_t segments)
      : heads_(heads),
        length_(length),
        gated_(gated),
        chunks_((length + kChunk - 1) / kChunk),
        segment_((chunks_ + segments - 1) / segments),
        segments_((chunks_ + segment_ - 1) / segment_) {}

  void prepare(cudaStream_t stream) const {
    const int bytes = prepare_shared_bytes(kChunk, kD, kD, false);
    allow(prepare_entry<T>, bytes);
    prepare_entry<T><<<dim3(heads_, chunks_), 2 * kChunk, bytes, stream>>>(
        beta_.get(), gated_ ? g_.get() : nullptr, w_.get(), u_.get(), x_.get(), gates_.get(),
        decays_.get(), length_, kD, kD, rows(k_), rows(v_));
  }
  void transitions(cudaStream_t stream) const {
    if (segments_ == 1) return;
    constexpr StatesLayout kLayout{kChunk, kD, false};
    allow(transitions_entry<T, kD>, kLayout.bytes());
    transitions_entry<T, kD><<<dim3(heads_, 2 * kD / 128, segments_ - 1),
                               32 * (kTransitionWarps + 1), kLayout.bytes(), stream>>>(
        decays_.get(), transition_.get(), reinterpret_cast<float4*>(local_.get()), length_, gated_,
        segment_, rows(w_), rows(k_), rows(u_));
  }
  void states(cudaStream_t stream) const {
    constexpr StatesLayout kLayout{kChunk, kD, true};
    allow(states_entry<T, kD>, kLayout.bytes());
    states_entry<T, kD><<<dim3(heads_, kD / kPanelColumns, segments_), 32 * (kStateWarps + 2),
                          kLayout.bytes(), stream>>>(
        decays_.get(), h0_.get(), reinterpret_cast<float4*>(local_.get()), hT_.get(), length_,
        gated_, segment_, rows(w_), rows(k_), rows(u_), states_map(), rows(v_new_),
        map_of(transition_.get(), kD, kD, heads_ * std::max<int64_t>(segments_ - 1, 1), kD));
  }
  void output(cudaStream_t stream) const {
    const int bytes = output_shared_bytes(kChunk, kD, kD);
    allow(output_entry<T, kD>, bytes);
    output_entry<T, kD><<<dim3(heads_, chunks_), 2 * kChunk, bytes, stream>>>(
        gates_.get(), o_.get(), length_, gated_, 1.0f, rows(q_), rows(k_), states_map(),
        rows(v_new_));
  }
  void all(cudaStream_t stream) const {
    prepare(stream);
    transitions(stream);
    states(stream);
    output(stream);
  }

  /// Worse relative L2 error of o and hT against the recurrence in double.
  double error() const {
    all(nullptr);
    check(cudaDeviceSynchronize(), "forward");
    const auto q = q_.to_host(), k = k_.to_host(), v = v_.to_host(), beta = beta_.to_host();
    const auto g = g_.to_host(), h0 = h0_.to_host(), o = o_.to_host(), hT = hT_.to_host();
    double o_error = 0, o_norm = 0, h_error = 0, h_norm = 0;
    for (int64_t head = 0; head < heads_; ++head) {
      std::vector<double> state(h0.begin() + head * kD * kD, h0.begin() + (head + 1) * kD * kD);
      std::vector<double> u(kD);
      for (int64_t row = head * length_; row < (head + 1) * length_; ++row) {
        if (gated_) {
          for (double& s : state) s *= std::exp(g[row]);
        }
        for (int j = 0; j < kD; ++j) {
          double e = v[row * kD + j];
          for (int i = 0; i < kD; ++i) e -= k[row * kD + i] * state[i * kD + j];
          u[j] = beta[row] * e;
        }
        std::vector<double> expected(kD);
        for (int i = 0; i < kD; ++i) {
          for (int j = 0; j < kD; ++j) {
            state[i * kD + j] += k[row * kD + i] * u[j];
            expected[j] += q[row * kD + i] * state[i * kD + j];
          }
        }
        for (int j = 0; j < kD; ++j) {
          o_error += std::pow(o[row * kD + j] - expected[j], 2);
          o_norm += expected[j] * expected[j];
        }
      }
      for (int i = 0; i < kD * kD; ++i) {
        h_error += std::pow(hT[head * kD * kD + i] - state[i], 2);
        h_norm += state[i] * state[i];
      }
    }
    return std::sqrt(std::max(o_error / o_norm, h_error / h_norm));
  }

  int64_t segments() const { return segments_; }

 private:
  template <typename Kernel>
  static void allow(Kernel kernel, int bytes) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
          "shared memory");
  }
  CUtensorMap rows(const Buffer<T>& buffer) const {
    return map_of(buffer.get(), kD, length_, heads_, kChunk);
  }
  CUtensorMap states_map() const { return map_of(h_.get(), kD, kD, heads_ * chunks_, kD); }

  int64_t heads_, length_;
  bool gated_;
  int64_t chunks_, segment_, segments_;
  int64_t rows_ = heads_ * length_;
  Buffer<T> q_{rows_ * kD, 1, 0.0f, 0.17f}, k_{rows_ * kD, 2, 0.0f, 0.17f};
  Buffer<T> v_{rows_ * kD, 3, 0.0f, 0.17f}, beta_{rows_, 4, 0.25f, 0.25f};
  Buffer<float> g_{rows_, 5, -0.5f, 0.5f}, h0_{heads_ * kD * kD, 6, 0.0f, 0.17f};
  Buffer<T> o_{rows_ * kD}, w_{rows_ * kD}, u_{rows_ * kD}, v_new_{rows_ * kD};
  Buffer<T> x_{rows_ * kChunk}, h_{heads_ * chunks_ * kD * kD};
  Buffer<T> transition_{heads_ * segments_ * kD * kD};
  Buffer<float> local_{heads_ * segments_ * kD * kD}, hT_{heads_ * kD * kD};
  Buffer<float> gates_{heads_ * chunks_ * kChunk};
  Buffer<float> decays_{heads_ * chunks_ * state_decay_record(kChunk)};
};

/// Median over graph replays, in microseconds, of one execution of `launches`.
double median_us(const std::function<void(cudaStream_t)>& launches) {
  constexpr int kPerGraph = 4, kWarmup = 3, kReplays = 31;
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  cudaEvent_t begin, end;
  check(cudaStreamCreate(&stream), "stream");
  check(cudaEventCreate(&begin), "event");
  check(cudaEventCreate(&end), "event");
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "capture");
  for (int i = 0; i < kPerGraph; ++i) launches(stream);
  check(cudaStreamEndCapture(stream, &graph), "capture");
  check(cudaGraphInstantiate(&executable, graph, 0), "graph");
  std::vector<float> samples;
  for (int i = 0; i < kWarmup + kReplays; ++i) {
    cudaEventRecord(begin, stream);
    check(cudaGraphLaunch(executable, stream), "replay");
    cudaEventRecord(end, stream);
    check(cudaEventSynchronize(end), "replay");
    float ms = 0.0f;
    cudaEventElapsedTime(&ms, begin, end);
    if (i >= kWarmup) samples.push_back(1e3f * ms / kPerGraph);
  }
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  cudaStreamDestroy(stream);
  std::nth_element(samples.begin(), samples.begin() + kReplays / 2, samples.end());
  return samples[kReplays / 2];
}

/// As preferred_segment() of kernels/deltanet/forward.cpp chooses them.
int64_t default_segments(int64_t heads, int64_t chunks, int d) {
  const int64_t segments = std::min<int64_t>(128 / (heads * (d / kPanelColumns)), chunks / 4);
  return segments >= 3 ? segments : 1;
}

template <typename T, int kD>
bool table(bool gated, int64_t asked_segments) {
  constexpr double kLimit = kIsHalf<T> ? 2e-3 : 2e-2;
  const char* const dtype = kIsHalf<T> ? "f16" : "bf16";
  const double worst = std::max(Forward<T, kD>(2, 1000, gated, 1).error(),
                                Forward<T, kD>(2, 1000, gated, 4).error());
  if (!(worst <= kLimit)) {
    std::printf("D%d %s: relative L2 error %.3g\n", kD, dtype, worst);
    return false;
  }
  for (const int64_t length : {2048, 4096, 8192, 16384}) {
    constexpr int64_t kHeads = 8;
    const int64_t segments = asked_segments > 0
                                 ? asked_segments
                                 : default_segments(kHeads, length / kChunk, kD);
    const Forward<T, kD> f(kHeads, length, gated, segments);
    const auto us = [&](auto launch) { return median_us(launch); };
    std::printf("| %sD%d %s | %ld | %ld | %.1f | %.1f | %.1f | %.1f | %.1f | %.1e |\n",
                gated ? "gated " : "", kD, dtype, long(length), long(f.segments()),
                us([&](cudaStream_t s) { f.prepare(s); }),
                f.segments() > 1 ? us([&](cudaStream_t s) { f.transitions(s); }) : 0.0,
                us([&](cudaStream_t s) { f.states(s); }), us([&](cudaStream_t s) { f.output(s); }),
                us([&](cudaStream_t s) { f.all(s); }), worst);
    std::fflush(stdout);
  }
  return true;
}

bool tables(int64_t segments) {
  std::printf("\n| | S | segments | prepare | transitions | states | output | all | rel. L2 |\n"
              "|---|---|---|---|---|---|---|---|---|\n");
  bool right = true;
  right &= table<__half, 64>(false, segments);
  right &= table<__nv_bfloat16, 64>(false, segments);
  right &= table<__half, 128>(false, segments);
  right &= table<__nv_bfloat16, 128>(false, segments);
  right &= table<__half, 128>(true, segments);
  right &= table<__nv_bfloat16, 128>(true, segments);
  return right;
}

}  // namespace

int main(int argc, char** argv) {
  cudaDeviceProp device{};
  if (cudaGetDeviceProperties(&device, 0) != cudaSuccess) {
    std::fprintf(stderr, "no CUDA device\n");
    return 77;
  }
  std::printf("%s, %d multiprocessors. B = 2, H = 4, chunk 64; microseconds.\n", device.name,
              device.multiProcessorCount);
  bool right = true;
  if (argc == 1) right = tables(0);
  for (int i = 1; i < argc; ++i) right &= tables(std::atol(argv[i]));
  return right ? 0 : 1;
}
