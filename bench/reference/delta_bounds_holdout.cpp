// SPDX-License-Identifier: Apache-2.0
// Hold-out of the DeltaNet bounds: emulated healthy kernels on inputs apart from those that the
// tests use, for as long as it is given. Prints the alarms and the largest err/s per dtype and
// output, and the regime of each.
//
//   delta_bounds_holdout [seconds=60] [first_seed=1000000]
#include <faultline/core/acceptance.hpp>
#include <faultline/reference/deltanet_bounds.hpp>

#include "deltanet_emulation.hpp"
#include "deltanet_inputs.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>

using namespace faultline;
using namespace faultline::reference;
using namespace faultline::reference::test;

namespace {

struct Worst {
  std::int64_t elements = 0, alarms = 0;
  double in_scales = 0.0, relative_scale = 0.0;
  std::string where{};
};

struct Size {
  std::int64_t t, dk, dv, chunk;
};
constexpr Size kSizes[] = {{1, 32, 32, 32},   {32, 32, 32, 32},   {33, 32, 64, 32},
                           {64, 64, 64, 32},  {100, 64, 64, 64},  {127, 32, 32, 32},
                           {256, 64, 64, 64}, {300, 64, 32, 32},  {1000, 64, 64, 64},
                           {512, 64, 64, 32}, {192, 128, 128, 64}};

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 60.0;
  std::uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1000000;
  std::map<std::pair<core::Dtype, std::string>, Worst> table;
  std::map<core::Dtype, std::int64_t> cases, unusable;
  const auto start = std::chrono::steady_clock::now();
  const auto elapsed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  while (elapsed() < seconds) {
    for (const Regime& regime : kRegimes) {
      for (const core::Dtype dtype : {core::Dtype::f16, core::Dtype::bf16, core::Dtype::f32}) {
        const std::uint64_t bits = core::mix64(++seed);
        const Size& size = kSizes[bits % std::size(kSizes)];
        const bool states = (bits >> 8 & 1) != 0;
        const double scale =
            (bits >> 9 & 1) != 0 ? 1.0 : 1.0 / std::sqrt(static_cast<double>(size.dk));
        const DeltaInputs in =
            stored_inputs(make_delta_inputs(regime, {.shape = {1, 1, size.t, size.dk, size.dv},
                                                     .scale = scale,
                                                     .states = states,
                                                     .seed = seed}),
                          dtype);
        Emulation how{.dtype = dtype, .chunk = size.chunk};
        how.x_in_f32 = (bits >> 10 & 3) == 0;
        how.decay_on_v_new = (bits >> 12 & 1) != 0;
        how.serial_sums = (bits >> 13 & 3) == 0;
        DeltaNumerics plan = DeltaNumerics::stored_in(dtype, static_cast<int>(size.chunk));
        plan.decay_on_v_new = how.decay_on_v_new;
        const DeltaBounds bounds = delta_bounds(in, plan, {.backward = true, .seed = seed});
        ++cases[dtype];
        if (!bounds.report.usable()) {
          ++unusable[dtype];
          for (const std::string& sentence : bounds.report.sentences()) {
            fmt::print("# {} {} seed {}: {}\n", core::name_of(dtype), regime.name, seed, sentence);
          }
          continue;
        }
        DeltaOutputs got = EmulatedKernel(how)(in);
        for (std::size_t o = 0; o < bounds.outputs.size(); ++o) {
          const NamedReference& reference = bounds.outputs[o];
          const DeltaOutput which = *parse_delta_output(reference.name);
          const bool f32 = which == DeltaOutput::hT || which == DeltaOutput::dh0 ||
                           which == DeltaOutput::dbeta || which == DeltaOutput::dg;
          const core::Dtype stored = f32 ? core::Dtype::f32 : dtype;
          Worst& worst = table[{dtype, reference.name}];
          for (std::size_t i = 0; i < got[which].size(); ++i) {
            const double value = got[which][i], expected = reference.values.expected[i],
                         bound = reference.values.bound[i];
            ++worst.elements;
            worst.alarms +=
                core::is_failure(core::check_element(stored, core::encode(stored, value), expected,
                                                     bound, ~std::uint64_t{0})
                                     .kind);
            const double error = std::abs(value - expected);
            const double in_scales = error == 0.0 ? 0.0 : kBoundLambda * error / bound;
            if (!(in_scales <= worst.in_scales)) {
              worst.in_scales = in_scales;
              worst.where = fmt::format("{} t={} d={} C={} seed={}", regime.name, size.t, size.dk,
                                        size.chunk, seed);
            }
          }
        }
      }
    }
  }
  fmt::print("{:.0f} s, seeds up to {}\n", elapsed(), seed);
  for (const auto& [dtype, count] : cases) {
    fmt::print("{}: {} cases, {} not usable\n", core::name_of(dtype), count, unusable[dtype]);
  }
  fmt::print("{:5} {:6} {:>11} {:>7} {:>7}  {}\n", "dtype", "output", "elements", "alarms", "err/s",
             "where");
  for (const auto& [key, worst] : table) {
    fmt::print("{:5} {:6} {:11} {:7} {:7.2f}  {}\n", core::name_of(key.first), key.second,
               worst.elements, worst.alarms, worst.in_scales, worst.where);
  }
  return 0;
}
