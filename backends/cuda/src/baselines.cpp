// SPDX-License-Identifier: Apache-2.0
#include "faultline/cuda/baselines.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "arm_plan.hpp"
#include "cublas_library.hpp"
#include "faultline/core/errors.hpp"
#include "prepare.hpp"
#include "prepared_program.hpp"
#include "runtime.hpp"
#include "timing.hpp"

namespace faultline::cuda {

namespace {

constexpr std::size_t kWorkspaceBytes = std::size_t{64} << 20;
constexpr int kHeuristics = 8;

int data_type(core::Dtype dtype) {
  switch (dtype) {
  case core::Dtype::f16: return cublas::kReal16F;
  case core::Dtype::bf16: return cublas::kReal16BF;
  case core::Dtype::f32: return cublas::kReal32F;
  case core::Dtype::f64: break;
  }
  throw core::UsageError("the cuBLAS baseline computes f16, bf16 and f32, not f64");
}

void check_status(cublas::Status status, const char* what) {
  if (status != 0) {
    throw core::EnvironmentError(fmt::format("{} failed with cuBLAS status {}", what, status));
  }
}

/// Destroys a cuBLAS object with its own function.
class Owned {
 public:
  Owned(cublas::Handle handle, cublas::Status (*destroy)(cublas::Handle))
      : handle_(handle), destroy_(destroy) {}
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() {
    if (!device_abandoned()) {
      destroy_(handle_);
    }
  }
  cublas::Handle get() const { return handle_; }

 private:
  cublas::Handle handle_;
  cublas::Status (*destroy_)(cublas::Handle);
};

/// out[rows, cols] = alpha left right as the column-major product that BLAS computes. Row-major
/// matrices are the transposes of column-major ones: C = A B is C^T = B^T A^T, and y = A x takes
/// A^T from memory, transposed.
struct DeviceProduct {
  const std::byte *left = nullptr, *right = nullptr;
  std::byte* out = nullptr;
  int rows = 0, cols = 0, depth = 0;
  int type = 0;
  bool left_is_transposed = false;
  float alpha = 1.0f;

  int left_rows() const { return left_is_transposed ? depth : rows; }  // in memory
  int left_cols() const { return left_is_transposed ? rows : depth; }
};

DeviceProduct product_of(const GemvProblem& p) {
  DeviceProduct product;
  product.rows = static_cast<int>(p.n);
  product.cols = 1;
  product.depth = static_cast<int>(p.k);
  product.type = data_type(p.dtype);
  product.left_is_transposed = true;
  return product;
}

DeviceProduct product_of(const GemmProblem& p) {
  DeviceProduct product;
  product.rows = static_cast<int>(p.n);
  product.cols = static_cast<int>(p.m);
  product.depth = static_cast<int>(p.k);
  product.type = data_type(p.dtype);
  product.alpha = p.alpha;
  return product;
}

/// The product on one of the sets of inputs that are rotated over.
using ProductOnSet = std::function<DeviceProduct(std::uint64_t set)>;

/// What is timed: rotating sets, executions in a graph, samples.
struct Rotation {
  std::uint64_t sets = 1, launches = 1;
  unsigned samples = 1;
};

Rotation rotation_of(std::uint64_t set_bytes, const core::Backend::TimingRequest& request) {
  const std::uint64_t sets = timing_sets(set_bytes, request.cold, free_device_bytes() / 10 * 9);
  return {sets,
          request.graph_launches > 0 ? (request.graph_launches + sets - 1) / sets * sets
                                     : timing_launches(sets, set_bytes),
          request.samples};
}

/// A product described to cublasLt, and its heuristics.
class LtProduct {
 public:
  LtProduct(const CublasFunctions& functions, cublas::Handle lt, const DeviceProduct& shape)
      : f_(functions),
        lt_(lt),
        desc_(make_desc(shape), f_.lt_desc_destroy),
        left_(make_layout(shape.type, shape.left_rows(), shape.left_cols()), f_.lt_layout_destroy),
        right_(make_layout(shape.type, shape.depth, shape.cols), f_.lt_layout_destroy),
        out_(make_layout(shape.type, shape.rows, shape.cols), f_.lt_layout_destroy) {
    cublas::Handle handle = nullptr;
    check_status(f_.lt_preference_create(&handle), "cublasLtMatmulPreferenceCreate");
    const Owned preference(handle, f_.lt_preference_destroy);
    check_status(f_.lt_preference_set(preference.get(), cublas::kPreferenceMaxWorkspaceBytes,
                                      &kWorkspaceBytes, sizeof kWorkspaceBytes),
                 "cublasLtMatmulPreferenceSetAttribute");
    int found = 0;
    candidates_.resize(kHeuristics);
    check_status(f_.lt_heuristics(lt_, desc_.get(), left_.get(), right_.get(), out_.get(),
                                  out_.get(), preference.get(), kHeuristics, candidates_.data(),
                                  &found),
                 "cublasLtMatmulAlgoGetHeuristic");
    candidates_.resize(static_cast<std::size_t>(found));
  }

  const std::vector<cublas::HeuristicResult>& candidates() const { return candidates_; }

  cublas::Status run(const DeviceProduct& p, const cublas::HeuristicResult& candidate,
                     std::byte* workspace, cudaStream_t stream) const {
    const float zero = 0.0f;
    return f_.lt_matmul(lt_, desc_.get(), &p.alpha, p.left, left_.get(), p.right, right_.get(),
                        &zero, p.out, out_.get(), p.out, out_.get(), candidate.algorithm, workspace,
                        kWorkspaceBytes, stream);
  }

 private:
  cublas::Handle make_desc(const DeviceProduct& shape) const {
    cublas::Handle handle = nullptr;
    check_status(f_.lt_desc_create(&handle, cublas::kCompute32F, cublas::kReal32F),
                 "cublasLtMatmulDescCreate");
    const std::int32_t transpose = shape.left_is_transposed ? cublas::kOpT : cublas::kOpN;
    check_status(f_.lt_desc_set(handle, cublas::kMatmulDescTransA, &transpose, sizeof transpose),
                 "cublasLtMatmulDescSetAttribute");
    return handle;
  }
  cublas::Handle make_layout(int type, int rows, int cols) const {
    cublas::Handle handle = nullptr;
    check_status(f_.lt_layout_create(&handle, type, static_cast<std::uint64_t>(rows),
                                     static_cast<std::uint64_t>(cols), rows),
                 "cublasLtMatrixLayoutCreate");
    return handle;
  }

  const CublasFunctions& f_;
  cublas::Handle lt_;
  Owned desc_, left_, right_, out_;
  std::vector<cublas::HeuristicResult> candidates_;
};

class Baseline final : public CublasBaseline {
 public:
  Baseline()
      : library_(CublasLibrary::open(places())),
        f_(library_->functions()),
        facts_(open_device()),
        workspace_(kWorkspaceBytes, "cuBLAS's workspace"),
        cublas_(create(f_.create, "cublasCreate"), f_.destroy),
        lt_(create(f_.lt_create, "cublasLtCreate"), f_.lt_destroy) {
    check_status(f_.set_stream(cublas_.get(), stream_.get()), "cublasSetStream");
    check_status(f_.set_workspace(cublas_.get(), workspace_.data(), kWorkspaceBytes),
                 "cublasSetWorkspace");
  }

  std::string version() const override {
    return fmt::format("{} ({})", library_->version(), library_->path());
  }

  core::Tensor gemv(const core::Tensor& a, const core::Tensor& x) override {
    if (a.shape.size() != 2 || x.shape.size() != 1 || a.shape[1] != x.shape[0] ||
        a.dtype != x.dtype) {
      throw core::UsageError(
          fmt::format("gemv needs A [n, k] and x [k] of one dtype, not {} and {}",
                      core::to_string(a.shape), core::to_string(x.shape)));
    }
    core::Tensor y(a.dtype, {a.shape[0]});
    const DeviceMemory device_a(a.bytes.size(), "A"), device_x(x.bytes.size(), "x"),
        device_y(y.bytes.size(), "y");
    copy_to_device(device_a.data(), a.bytes, stream_.get());
    copy_to_device(device_x.data(), x.bytes, stream_.get());
    // Poison: a result that is not written must not look like one.
    check(cudaMemsetAsync(device_y.data(), 0xff, device_y.bytes(), stream_.get()),
          "cannot poison y");
    DeviceProduct product = product_of(GemvProblem{a.shape[0], a.shape[1], a.dtype});
    product.left = device_a.data();
    product.right = device_x.data();
    product.out = device_y.data();
    gemm_ex(product);
    wait_for(stream_.get(), std::chrono::seconds(60));
    copy_to_host(y.bytes, device_y.data(), stream_.get());
    return y;
  }

  std::vector<BaselineTiming> time_gemv(const GemvProblem& problem,
                                        const core::Backend::TimingRequest& request) override {
    const std::size_t element = core::size_of(problem.dtype);
    const std::uint64_t a_bytes = static_cast<std::uint64_t>(problem.n * problem.k) * element;
    const Rotation rotation = rotation_of(a_bytes, request);
    const DeviceMemory a(a_bytes * rotation.sets, "the baseline's matrices");
    const DeviceMemory x(static_cast<std::size_t>(problem.k) * element, "x");
    const DeviceMemory y(static_cast<std::size_t>(problem.n) * element, "y");
    for (std::uint64_t s = 0; s < rotation.sets; ++s) {
      draw(problem.dtype,
           {{{problem.n, problem.k}, {a.data() + s * a_bytes, a_bytes}},
            {{problem.k}, {x.data(), x.bytes()}}},
           s);
    }
    return time_products(
        [&](std::uint64_t set) {
          DeviceProduct product = product_of(problem);
          product.left = a.data() + set * a_bytes;
          product.right = x.data();
          product.out = y.data();
          return product;
        },
        rotation, {});
  }

  core::Tensor gemm(const core::Tensor& a, const core::Tensor& b, float alpha) override {
    if (a.shape.size() != 2 || b.shape.size() != 2 || a.shape[1] != b.shape[0] ||
        a.dtype != b.dtype) {
      throw core::UsageError(
          fmt::format("gemm needs A [m, k] and B [k, n] of one dtype, not {} and {}",
                      core::to_string(a.shape), core::to_string(b.shape)));
    }
    core::Tensor c(a.dtype, {a.shape[0], b.shape[1]});
    const DeviceMemory device_a(a.bytes.size(), "A"), device_b(b.bytes.size(), "B"),
        device_c(c.bytes.size(), "C");
    copy_to_device(device_a.data(), a.bytes, stream_.get());
    copy_to_device(device_b.data(), b.bytes, stream_.get());
    check(cudaMemsetAsync(device_c.data(), 0xff, device_c.bytes(), stream_.get()),
          "cannot poison C");
    DeviceProduct product =
        product_of(GemmProblem{a.shape[0], b.shape[1], a.shape[1], a.dtype, alpha});
    product.left = device_b.data();
    product.right = device_a.data();
    product.out = device_c.data();
    gemm_ex(product);
    wait_for(stream_.get(), std::chrono::seconds(60));
    copy_to_host(c.bytes, device_c.data(), stream_.get());
    return c;
  }

  std::vector<BaselineTiming> time_gemm(const GemmProblem& problem, const core::Program& epilogue,
                                        const core::Backend::TimingRequest& request) override {
    const std::uint64_t element = core::size_of(problem.dtype);
    const auto bytes_of = [&](std::int64_t rows, std::int64_t cols) {
      return (static_cast<std::uint64_t>(rows * cols) * element + 255) / 256 * 256;
    };
    const std::uint64_t a_bytes = bytes_of(problem.m, problem.k),
                        b_bytes = bytes_of(problem.k, problem.n), set_bytes = a_bytes + b_bytes;
    const Rotation rotation = rotation_of(set_bytes, request);
    const DeviceMemory inputs(set_bytes * rotation.sets, "the baseline's matrices");
    const DeviceMemory out(bytes_of(problem.m, problem.n), "the product");
    const DeviceMemory result(out.bytes(), "C");
    for (std::uint64_t s = 0; s < rotation.sets; ++s) {
      std::byte* a = inputs.data() + s * set_bytes;
      draw(problem.dtype,
           {{{problem.m, problem.k}, {a, a_bytes}},
            {{problem.k, problem.n}, {a + a_bytes, b_bytes}}},
           s);
    }
    ModuleCache modules(facts_);
    std::optional<PreparedProgram> after;
    if (!epilogue.operations.empty()) {
      const std::array<BoundBuffer, 2> bindings{
          {{out.data(), out.bytes()}, {result.data(), result.bytes()}}};
      after.emplace(epilogue, bindings, modules, kDefaultCarveout, FillWords{});
    }
    return time_products(
        [&](std::uint64_t set) {
          DeviceProduct product = product_of(problem);
          product.right = inputs.data() + set * set_bytes;
          product.left = product.right + a_bytes;
          product.out = out.data();
          return product;
        },
        rotation,
        after ? Followed{epilogue.name, [&](cudaStream_t s) { after->issue(s); }} : Followed{});
  }

 private:
  static std::vector<std::string> places() {
    const char* variable = std::getenv("FAULTLINE_CUBLAS_PATH");
    return cublas_places(variable != nullptr ? variable : "");
  }

  static cublas::Handle create(cublas::Status (*function)(cublas::Handle*), const char* what) {
    cublas::Handle handle = nullptr;
    check_status(function(&handle), what);
    return handle;
  }

  void gemm_ex(const DeviceProduct& p) {
    const float zero = 0.0f;
    check_status(f_.gemm_ex(cublas_.get(), p.left_is_transposed ? cublas::kOpT : cublas::kOpN,
                            cublas::kOpN, p.rows, p.cols, p.depth, &p.alpha, p.left, p.type,
                            p.left_rows(), p.right, p.type, p.depth, &zero, p.out, p.type, p.rows,
                            cublas::kCompute32F, cublas::kGemmDefault),
                 "cublasGemmEx");
  }

  /// Unit normals for input set `set`.
  void draw(core::Dtype dtype, const std::vector<std::pair<core::Shape, BoundBuffer>>& inputs,
            std::uint64_t set) {
    ModuleCache modules(facts_);
    DeviceKernels kernels(modules);
    core::TrialPlan plan;
    std::vector<BoundBuffer> buffers;
    for (const auto& [shape, memory] : inputs) {
      core::BufferSpec buffer;
      buffer.dtype = dtype;
      buffer.shape = shape;
      plan.buffers.push_back(std::move(buffer));
      buffers.push_back(memory);
    }
    abi::TrialRange range;
    range.campaign_seed = 1;
    range.first = set;
    prepare_buffers(plan, core::DataMode::normal, buffers, range, true, {}, kernels, stream_.get());
    wait_for(stream_.get(), std::chrono::seconds(60));
  }

  /// What is to follow each product, and its name; empty: nothing.
  struct Followed {
    std::string name{};
    std::function<void(cudaStream_t)> issue{};
  };

  /// cublasGemmEx and the fastest heuristic, alone and followed.
  std::vector<BaselineTiming> time_products(const ProductOnSet& on_set, const Rotation& rotation,
                                            const Followed& followed) {
    std::vector<BaselineTiming> timings;
    const auto time = [&](const std::function<void(std::uint64_t)>& product, const Followed& then) {
      return time_executions(
          [&](std::uint64_t set, cudaStream_t stream) {
            product(set);
            if (then.issue) then.issue(stream);
          },
          rotation.sets, rotation.launches, rotation.samples, true, true, stream_.get());
    };
    const auto add = [&](const std::string& method, const Followed& then, bool complete,
                         const core::Backend::Timing& timing) {
      timings.push_back({.method = then.issue ? method + ", then " + then.name : method,
                         .graph_ns = timing.graph_ns,
                         .event_ns = timing.event_ns,
                         .complete = complete});
    };
    const auto add_both = [&](const std::string& method,
                              const std::function<void(std::uint64_t)>& product,
                              const core::Backend::Timing& alone) {
      add(method, {}, !followed.issue, alone);
      if (followed.issue) add(method, followed, true, time(product, followed));
    };
    const auto ex = [&](std::uint64_t set) { gemm_ex(on_set(set)); };
    ex(0);  // outside the capture: the first call loads its kernel
    wait_for(stream_.get(), std::chrono::seconds(60));
    add_both("cublasGemmEx", ex, time(ex, {}));

    const LtProduct lt(f_, lt_.get(), on_set(0));
    core::Backend::Timing best;
    const cublas::HeuristicResult* fastest = nullptr;
    int usable = 0;
    for (const cublas::HeuristicResult& candidate : lt.candidates()) {
      const auto run = [&](std::uint64_t set) {
        return lt.run(on_set(set), candidate, workspace_.data(), stream_.get());
      };
      if (candidate.state != 0 || run(0) != 0) {
        continue;  // a heuristic that cannot run is no candidate
      }
      wait_for(stream_.get(), std::chrono::seconds(60));
      core::Backend::Timing timing =
          time([&](std::uint64_t set) { check_status(run(set), "cublasLtMatmul"); }, {});
      ++usable;
      if (!fastest || median(timing.graph_ns) < median(best.graph_ns)) {
        fastest = &candidate;
        best = std::move(timing);
      }
    }
    if (fastest) {
      add_both(
          fmt::format("cublasLt (best of {})", usable),
          [&](std::uint64_t set) {
            check_status(lt.run(on_set(set), *fastest, workspace_.data(), stream_.get()),
                         "cublasLtMatmul");
          },
          best);
    }
    return timings;
  }

  std::unique_ptr<CublasLibrary> library_;
  const CublasFunctions& f_;
  DeviceFacts facts_;
  Stream stream_;
  DeviceMemory workspace_;
  Owned cublas_, lt_;
};

}  // namespace

std::unique_ptr<CublasBaseline> CublasBaseline::load() { return std::make_unique<Baseline>(); }

}  // namespace faultline::cuda
