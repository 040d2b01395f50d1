// SPDX-License-Identifier: Apache-2.0
// Correct library-style kernels straight from nvcc: right values, and silence, on every schedule.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>

#include "faultline/simulator/device.hpp"
#include "simulator_clean_set_modules.hpp"

namespace faultline::simulator {
namespace {

constexpr std::size_t kFloats = 4096;

float input(std::size_t k) { return static_cast<float>(k * 7919 % 1024) / 1024.0f - 0.5f; }

float sum_of(std::size_t begin, std::size_t count) {  // exact: multiples of 2^-10
  float sum = 0;
  for (std::size_t k = 0; k < count; ++k) sum += input(begin + k);
  return sum;
}

// What out[k] must be; NaN: not looked at.
using Expected = std::function<float(std::size_t)>;

const std::map<std::string, Expected>& expectations() {
  static const std::map<std::string, Expected> all = {
      {"cub_block_sum", [](std::size_t k) { return k < 4 ? sum_of(256 * k, 256) : 0.0f; }},
      {"cub_block_scan",
       [](std::size_t k) {
         const auto t = static_cast<float>(k % 256);
         return k < 1024 ? t * (t - 1) / 2 : 0.0f;
       }},
      {"cub_block_sort",
       [](std::size_t k) {
         if (k >= 2048) return 0.0f;
         std::vector<float> keys;
         for (std::size_t j = 0; j < 512; ++j) keys.push_back(input(j));
         std::nth_element(keys.begin(), keys.begin() + static_cast<long>(k % 512), keys.end());
         return keys[k % 512];
       }},
      {"group_reduce", [](std::size_t k) { return k < 1024 ? sum_of(k % 256 / 8 * 8, 8) : 0.0f; }},
      {"group_memcpy_async",
       [](std::size_t k) {
         const std::size_t base = k / 256 * 512, t = k % 256;
         return k < 1024 ? input(base + t) + input(base + 511 - t) : 0.0f;
       }},
      {"barrier_exchange",
       [](std::size_t k) { return k < 1024 ? input(255 - ((k % 256) ^ 7)) : 0.0f; }},
      {"bulk_copy", [](std::size_t k) { return k < 1024 ? input((k % 256) ^ 3) : 0.0f; }},
      {"two_stage_pipeline",
       [](std::size_t k) {
         const std::size_t t = (k % 256) ^ 1;
         return k < 1024 ? 3 * (input(t) + input(256 + t)) : 0.0f;
       }},
      {"last_block_sum",
       [](std::size_t k) {
         const float sum = sum_of(0, 256);
         return k == 0 ? 4 * sum : k <= 4 ? sum : 0.0f;
       }},
      {"flag_between_blocks",
       [](std::size_t k) { return k == 0                         ? 1.0f
                                  : k == 5 || (k >= 8 && k < 11) ? 3.0f
                                                                 : 0.0f; }},
      {"shared_histogram", [](std::size_t k) { return k < 64 ? 16.0f : 0.0f; }},
      {"transpose",
       [](std::size_t k) { return k < 1024 ? input(k % 16 * 16 + k % 256 / 16) : 0.0f; }},
      {"cluster_exchange",
       [](std::size_t k) {
         const auto other = static_cast<float>((k / 256 % 2) ^ 1);
         return k < 1024 ? input(k % 256) + other : 0.0f;
       }},
  };
  return all;
}

class CleanSet : public ::testing::TestWithParam<std::string> {};

TEST_P(CleanSet, IsRightAndSilentOnEverySchedule) {
  const std::string& entry = GetParam();
  static const Module module =
      Module::parse(core::unpack(embedded::clean_set().ptx), "clean_set.ptx");
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    Device device;
    const std::uint64_t in = device.allocate("in", kFloats * 4);
    const std::uint64_t out = device.allocate("out", kFloats * 4);
    std::vector<float> values(kFloats);
    for (std::size_t k = 0; k < kFloats; ++k) values[k] = input(k);
    device.write(in, std::as_bytes(std::span(values)));
    device.fill(out, kFloats * 4, 0);
    LaunchSpec spec{module, entry, {4, 1, 1}, {256, 1, 1}, {1, 1, 1}, 0, {}};
    if (entry == "cluster_exchange") spec.cluster = {2, 1, 1};
    spec.parameters.resize(16);
    std::memcpy(spec.parameters.data(), &in, 8);
    std::memcpy(spec.parameters.data() + 8, &out, 8);
    Options options;
    options.policy = static_cast<core::SchedulePolicy>(seed % 4);
    options.lateness = static_cast<core::CopyLateness>(seed / 4 % 3);
    options.seed = seed;
    const LaunchReport report = device.launch(spec, options);
    ASSERT_EQ(report.status, core::ExecutionStatus::completed) << report.message;
    ASSERT_TRUE(report.races.empty())
        << report.races[0].missing_edge << "\n  first  " << report.races[0].first.where[0].file
        << ":" << report.races[0].first.where[0].line << " " << report.races[0].first.instruction
        << "\n  second " << report.races[0].second.where[0].file << ":"
        << report.races[0].second.where[0].line << " " << report.races[0].second.instruction;
    device.read(out, std::as_writable_bytes(std::span(values)));
    for (std::size_t k = 0; k < kFloats; ++k) {
      ASSERT_EQ(values[k], expectations().at(entry)(k)) << entry << " out[" << k << "]";
    }
  }
}

std::vector<std::string> names() {
  std::vector<std::string> result;
  for (const auto& [name, expected] : expectations()) result.push_back(name);
  return result;
}

INSTANTIATE_TEST_SUITE_P(Kernels, CleanSet, ::testing::ValuesIn(names()),
                         [](const auto& instance) { return instance.param; });

// Every kernel of the source is in the table above.
TEST(CleanSetTable, IsComplete) {
  const Module module = Module::parse(core::unpack(embedded::clean_set().ptx), "clean_set.ptx");
  for (const std::string& entry : module.entries()) {
    if (entry.starts_with("_Z")) continue;  // an empty kernel of CUB
    EXPECT_TRUE(expectations().contains(entry)) << entry;
  }
}

}  // namespace
}  // namespace faultline::simulator
