// SPDX-License-Identifier: Apache-2.0
// Processor time of what the host does for each element of each trial: making inputs, comparing and
// hashing outputs. Prints the median over 15 samples for tensors of 4096 elements, one thread.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <vector>

#include <fmt/format.h>

#include "faultline/core/comparison.hpp"
#include "faultline/core/tensor.hpp"

namespace {

using namespace faultline::core;

/// Processor time of this thread: other work on the machine does not count.
double thread_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

/// Nanoseconds per element.
template <class Work>
double measure(std::int64_t elements, Work&& work) {
  constexpr int kSamples = 15, kRepeats = 200;
  std::vector<double> samples;
  for (int sample = 0; sample < kSamples; ++sample) {
    const double start = thread_ns();
    for (int i = 0; i < kRepeats; ++i) {
      work(static_cast<std::uint64_t>(i));
    }
    samples.push_back((thread_ns() - start) / (kRepeats * static_cast<double>(elements)));
  }
  std::nth_element(samples.begin(), samples.begin() + kSamples / 2, samples.end());
  return samples[kSamples / 2];
}

std::uint64_t sink = 0;

}  // namespace

int main() {
  constexpr std::int64_t kRows = 64, kCols = 64, kCount = kRows * kCols;
  fmt::print("{:<6}{:>12}{:>12}{:>14}{:>16}{:>10}  ns per element, 4096 elements\n", "dtype",
             "normal", "uniform", "compare equal", "compare bounded", "hash");
  for (const Dtype dtype : {Dtype::f16, Dtype::bf16, Dtype::f32, Dtype::f64}) {
    BufferSpec spec;
    spec.name = "y";
    spec.dtype = dtype;
    spec.shape = {kRows, kCols};
    spec.tiles.rows = kRows;
    spec.tiles.cols = kCols;
    spec.tiles.tile_rows = 16;
    spec.tiles.tile_cols = kCols;
    Tensor exact(dtype, spec.shape), near(dtype, spec.shape);
    Tensor wide(Dtype::f64, spec.shape);
    generate_input({}, 1, 0, wide);
    ReferenceTensor reference;
    reference.expected = wide.to_doubles();
    for (std::int64_t i = 0; i < kCount; ++i) {
      const double expected = reference.expected[static_cast<std::size_t>(i)];
      reference.bound.push_back(0.02 * std::fabs(expected));
      exact.set(i, expected);
      near.set(i, expected * (i % 2 ? 1.015 : 0.985));
    }
    OutputTotals totals = make_output_totals(spec);
    const auto generate = [&](Distribution distribution) {
      Tensor out(dtype, spec.shape);
      return measure(kCount, [&](std::uint64_t seed) {
        generate_input({distribution, 0.0f, 1.0f}, seed, 0, out);
        sink += out.bits(7);
      });
    };
    const auto compare = [&](const Tensor& got) {
      return measure(kCount, [&](std::uint64_t) {
        sink +=
            compare_output(got, reference, spec.tiles, Poison::plain(dtype, 0xffffffffu), totals);
      });
    };
    fmt::print("{:<6}{:>12.2f}{:>12.2f}{:>14.2f}{:>16.2f}{:>10.2f}\n", name_of(dtype),
               generate(Distribution::normal), generate(Distribution::uniform), compare(exact),
               compare(near), measure(kCount, [&](std::uint64_t) { sink += output_hash(near); }));
    if (totals.bad_elements != 0) {
      fmt::print("unexpected: {} elements were not accepted\n", totals.bad_elements);
      return 1;
    }
  }
  return sink == 1;  // keeps the work
}
