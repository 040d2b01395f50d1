// SPDX-License-Identifier: Apache-2.0
// Small PTX kernels for tests: one instruction on 32 lanes, or a whole body.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "faultline/simulator/device.hpp"

namespace faultline::simulator::testing {

using core::CopyLateness;
using core::ExecutionStatus;
using core::RaceKind;
using core::RaceMode;
using core::RaceReport;
using core::SchedulePolicy;

// A module with one entry `k(.param .u64 in, .param .u64 out)`. Registers of every type are
// declared
// (%r0..%r31, %rd, %rs, %f, %fd, %p); %rd30 and %rd31 hold the two pointers, %r31 is %tid.x.
inline std::string kernel(const std::string& body, const std::string& variables = {},
                          const std::string& functions = {}) {
  return ".version 9.0\n.target sm_90a\n.address_size 64\n.file 1 \"/src/kernels/test.cu\"\n" +
         functions +
         ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n"
         ".reg .pred %p<8>;\n.reg .b16 %rs<32>;\n.reg .b32 %r<32>;\n.reg .b32 %f<32>;\n"
         ".reg .b64 %rd<32>;\n.reg .b64 %fd<16>;\n" +
         variables +
         "ld.param.u64 %rd30, [in];\nld.param.u64 %rd31, [out];\nmov.u32 %r31, %tid.x;\n" + body +
         "\nret;\n}\n";
}

struct Launched {
  LaunchReport report;
  std::vector<std::uint32_t> out;
};

struct LaunchSetup {
  std::uint32_t threads = 32;
  std::uint32_t ctas = 1;
  std::uint32_t cluster = 1;
  std::uint32_t dynamic_shared = 0;
  std::vector<std::uint32_t> in = std::vector<std::uint32_t>(1024);
  std::size_t out_words = 1024;
  Options options;
};

inline Launched launch(const std::string& ptx, const LaunchSetup& setup = {}) {
  Device device;
  const std::uint64_t in = device.allocate("in", setup.in.size() * 4);
  const std::uint64_t out = device.allocate("out", setup.out_words * 4);
  device.write(in, std::as_bytes(std::span(setup.in)));
  device.fill(out, setup.out_words * 4, 0);
  LaunchSpec spec{Module::parse(ptx, "test.ptx", "/src"),
                  "k",
                  {setup.ctas, 1, 1},
                  {setup.threads, 1, 1},
                  {setup.cluster, 1, 1},
                  setup.dynamic_shared,
                  {}};
  spec.parameters.resize(16);
  std::memcpy(spec.parameters.data(), &in, 8);
  std::memcpy(spec.parameters.data() + 8, &out, 8);
  Launched result;
  result.report = device.launch(spec, setup.options);
  result.out.resize(setup.out_words);
  device.read(out, std::as_writable_bytes(std::span(result.out)));
  return result;
}

// Runs `code` on lanes; lane l finds its operands in %r0, %r1, %r2 (32 bits), %rd0, %rd1, %rd2
// (64 bits) and %rs0, %rs1, %rs2 (16 bits), all with the same bits, and leaves its result in %r9
// (`bits` 32) or %rd9 (64).
inline std::vector<std::uint64_t> evaluate(const std::string& code,
                                           const std::vector<std::vector<std::uint64_t>>& lanes,
                                           int bits = 32) {
  std::string body = "mul.wide.u32 %rd20, %r31, 24;\nadd.u64 %rd20, %rd20, %rd30;\n";
  for (int k = 0; k < 3; ++k) {
    const std::string n = std::to_string(k);
    body += "ld.global.u64 %rd" + n + ", [%rd20+" + std::to_string(8 * k) + "];\n";
    body += "cvt.u32.u64 %r" + n + ", %rd" + n + ";\ncvt.u16.u64 %rs" + n + ", %rd" + n + ";\n";
  }
  body += "mov.u32 %r9, 0;\nmov.u64 %rd9, 0;\n" + code + "\n";
  if (bits == 32) body += "cvt.u64.u32 %rd9, %r9;\n";
  body +=
      "mul.wide.u32 %rd21, %r31, 8;\nadd.u64 %rd21, %rd21, %rd31;\nst.global.u64 [%rd21], %rd9;";
  LaunchSetup setup;
  setup.options.race = RaceMode::off;
  setup.in.assign(32 * 6, 0);
  for (std::size_t l = 0; l < lanes.size() && l < 32; ++l) {
    for (std::size_t k = 0; k < lanes[l].size(); ++k) {
      std::memcpy(&setup.in[6 * l + 2 * k], &lanes[l][k], 8);
    }
  }
  const Launched run = launch(kernel(body), setup);
  std::vector<std::uint64_t> result;
  if (run.report.status != ExecutionStatus::completed) return result;
  for (std::size_t l = 0; l < lanes.size(); ++l) {
    std::uint64_t value;
    std::memcpy(&value, &run.out[2 * l], 8);
    result.push_back(value);
  }
  return result;
}

inline std::uint64_t evaluate_one(const std::string& code, std::vector<std::uint64_t> operands,
                                  int bits = 32) {
  const auto result = evaluate(code, {std::move(operands)}, bits);
  return result.empty() ? 0xdeadbeefdeadbeefull : result[0];
}

}  // namespace faultline::simulator::testing
