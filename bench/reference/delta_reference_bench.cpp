// SPDX-License-Identifier: Apache-2.0
// Time of the DeltaNet adjoint in double, of its chunkwise form and of its error bounds.
//
//   taskset -c 0,1 delta_reference_bench [b=2] [h=4] [t=2048] [d=64] [repeats=3] [gated=0]
//
// autograd.py beside it times PyTorch's float64 autograd of the naive recurrence on the same cores.
#include <faultline/core/generator.hpp>
#include <faultline/core/tensor.hpp>
#include <faultline/reference/deltanet.hpp>
#include <faultline/reference/deltanet_bounds.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

using namespace faultline;

namespace {

std::vector<double> draw(core::Dtype dtype, core::Shape shape, const core::InputSpec& spec,
                         std::uint32_t index) {
  core::Tensor tensor(dtype, std::move(shape));
  core::generate_input(spec, 1, index, tensor);
  return tensor.to_doubles();
}

/// The least of `repeats` times, in milliseconds.
template <typename Work>
double best_ms(int repeats, Work&& work) {
  double best = 1e300;
  for (int i = 0; i < repeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double, std::milli> elapsed =
        std::chrono::steady_clock::now() - start;
    best = std::min(best, elapsed.count());
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  std::map<std::string, int> options{{"b", 2},  {"h", 4},       {"t", 2048},
                                     {"d", 64}, {"repeats", 3}, {"gated", 0}};
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const std::size_t equals = argument.find('=');
    const auto at = options.find(argument.substr(0, equals));
    if (equals == std::string::npos || at == options.end()) {
      fmt::print(stderr, "not understood: {} (known: b= h= t= d= repeats= gated=)\n", argument);
      return 2;
    }
    at->second = std::atoi(argument.c_str() + equals + 1);
  }
  const std::int64_t b = options["b"], h = options["h"], t = options["t"], d = options["d"];
  const int repeats = options["repeats"];
  const core::InputSpec unit{core::Distribution::unit_row, 0.0f, 1.0f, static_cast<int>(d), 1};
  const core::InputSpec normal{core::Distribution::normal, 0.0f, 1.0f};
  reference::DeltaInputs in;
  in.shape = {.b = b, .h = h, .t = t, .dk = d, .dv = d};
  const auto f16 = core::Dtype::f16;
  in.q = draw(f16, {b, h, t, d}, unit, 0);
  in.k = draw(f16, {b, h, t, d}, unit, 1);
  in.v = draw(f16, {b, h, t, d}, normal, 2);
  in.d_o = draw(f16, {b, h, t, d}, normal, 3);
  in.beta = draw(f16, {b, h, t}, {core::Distribution::uniform, 0.0f, 1.0f}, 4);
  if (options["gated"] != 0) {
    in.g = draw(core::Dtype::f32, {b, h, t}, {core::Distribution::uniform, -0.1f, 0.0f}, 5);
  }

  const double recurrent = best_ms(repeats, [&] { reference::recurrent_backward(in); });
  const double chunkwise = best_ms(repeats, [&] { reference::chunkwise_backward(in, {}); });
  fmt::print("B={} H={} T={} D={} gated={} double, best of {}\n", b, h, t, d, options["gated"],
             repeats);
  fmt::print("recurrence and adjoint     {:9.1f} ms\n", recurrent);
  fmt::print("chunkwise and adjoint      {:9.1f} ms\n", chunkwise);
  for (const core::Dtype dtype : {core::Dtype::f16, core::Dtype::bf16, core::Dtype::f32}) {
    const auto plan = reference::DeltaNumerics::stored_in(dtype, 64);
    const double bounds =
        best_ms(repeats, [&] { reference::delta_bounds(in, plan, {.backward = true}); });
    fmt::print("references and bounds {:4} {:9.1f} ms = {:.1f} recurrences\n", core::name_of(dtype),
               bounds, bounds / recurrent);
  }
  return 0;
}
