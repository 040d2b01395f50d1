// SPDX-License-Identifier: Apache-2.0
// Matrix instructions and tensor copies against the layouts that the PTX ISA draws.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "faultline/core/errors.hpp"
#include "faultline/simulator/tensor_map.hpp"
#include "harness.hpp"
#include "numerics/float_format.hpp"

namespace faultline::simulator::testing {
namespace {

// A 16x16 matrix of 16-bit numbers row * 16 + column in shared memory, 32 bytes a row.
const std::string kFill = R"(
  mov.u32 %r21, data; shl.b32 %r2, %r31, 4; add.u32 %r3, %r21, %r2;
  mul.wide.u32 %rd1, %r31, 16; add.u64 %rd1, %rd1, %rd30;
  ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd1];
  st.shared.v4.u32 [%r3], {%r4, %r5, %r6, %r7};
  bar.sync 0;
)";
const std::string kStore = "mul.wide.u32 %rd2, %r31, 16; add.u64 %rd2, %rd2, %rd31; "
                           "st.global.v4.u32 [%rd2], {%r10, %r11, %r12, %r13};";
const std::string kData = ".shared .align 128 .b8 data[512];\n";

LaunchSetup numbered() {
  LaunchSetup setup;
  for (std::uint32_t k = 0; k < 128; ++k) setup.in[k] = (2 * k + 1) << 16 | 2 * k;
  return setup;
}

TEST(Ldmatrix, FourTilesPlainAndTransposed) {
  // Lane l gives the address of row l % 16, columns 8 * (l / 16): tiles (0,0), (8,0), (0,8), (8,8).
  const std::string address =
      "and.b32 %r14, %r31, 15; shl.b32 %r14, %r14, 5; shr.u32 %r15, %r31, 4; shl.b32 %r15, %r15, "
      "4; add.u32 %r14, %r14, %r15; add.u32 %r14, %r14, %r21;";
  for (const bool transposed : {false, true}) {
    const auto run = launch(kernel(kFill + address + "ldmatrix.sync.aligned.m8n8.x4" +
                                       (transposed ? ".trans" : "") +
                                       ".shared.b16 {%r10, %r11, %r12, %r13}, [%r14];" + kStore,
                                   kData),
                            numbered());
    ASSERT_EQ(run.report.status, ExecutionStatus::completed) << run.report.message;
    for (std::uint32_t lane = 0; lane < 32; ++lane) {
      for (std::uint32_t tile = 0; tile < 4; ++tile) {
        const std::uint32_t row0 = tile % 2 * 8, column0 = tile / 2 * 8;
        const auto value = [&](std::uint32_t i, std::uint32_t j) {
          return (row0 + i) * 16 + column0 + j;
        };
        const std::uint32_t i = lane / 4, j = lane % 4 * 2;
        const std::uint32_t low = transposed ? value(j, i) : value(i, j);
        const std::uint32_t high = transposed ? value(j + 1, i) : value(i, j + 1);
        ASSERT_EQ(run.out[4 * lane + tile], high << 16 | low) << lane << " " << tile;
      }
    }
  }
}

TEST(Stmatrix, IsTheInverseOfLdmatrix) {
  const std::string address =
      "and.b32 %r14, %r31, 15; shl.b32 %r14, %r14, 5; shr.u32 %r15, %r31, 4; shl.b32 %r15, %r15, "
      "4; add.u32 %r14, %r14, %r15; add.u32 %r14, %r14, %r21;";
  const auto run = launch(kernel(kFill + address + R"(
      ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r10, %r11, %r12, %r13}, [%r14];
      bar.warp.sync -1;
      stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%r14], {%r10, %r11, %r12, %r13};
      bar.warp.sync -1;
      ld.shared.v4.u32 {%r10, %r11, %r12, %r13}, [%r3];)" +
                                     kStore,
                                 kData),
                          numbered());
  ASSERT_EQ(run.report.status, ExecutionStatus::completed) << run.report.message;
  EXPECT_TRUE(run.report.races.empty());
  for (std::uint32_t k = 0; k < 128; ++k) EXPECT_EQ(run.out[k], (2 * k + 1) << 16 | 2 * k);
}

// D = A B + C with small integers, exact in every format. A(i,k) = i - k, B(k,j) = k + 2 j, C = i
// j.
TEST(Mma, AllSupportedShapes) {
  struct Shape {
    const char* name;
    int k;
    int kind;
    bool half;
  };
  for (const Shape shape : {Shape{"m16n8k16.row.col.f32.f16.f16.f32", 16, 0, false},
                            Shape{"m16n8k8.row.col.f32.f16.f16.f32", 8, 0, false},
                            Shape{"m16n8k16.row.col.f32.bf16.bf16.f32", 16, 1, false},
                            Shape{"m16n8k8.row.col.f32.bf16.bf16.f32", 8, 1, false},
                            Shape{"m16n8k8.row.col.f32.tf32.tf32.f32", 8, 2, false},
                            Shape{"m16n8k4.row.col.f32.tf32.tf32.f32", 4, 2, false},
                            Shape{"m16n8k16.row.col.f16.f16.f16.f16", 16, 0, true}}) {
    LaunchSetup setup;
    const auto a = [](int i, int k) { return static_cast<float>(i % 4 - k % 4); };
    const auto b = [](int k, int j) { return static_cast<float>(k % 4 + 2 * (j % 3)); };
    const auto c = [](int i, int j) { return static_cast<float>(i + j); };
    const auto narrow = [&](float x) { return shape.kind == 1 ? to_bfloat16(x) : to_half(x); };
    const int a_regs = shape.kind == 2 ? shape.k / 2 : shape.k / 4, b_regs = a_regs / 2,
              c_regs = shape.half ? 2 : 4;
    for (int lane = 0; lane < 32; ++lane) {
      const int g = lane / 4, t = lane % 4;
      std::uint32_t* at = &setup.in[static_cast<std::size_t>(lane) * 16];
      for (int r = 0; r < a_regs; ++r) {
        const int row = g + 8 * (r % 2);
        if (shape.kind == 2)
          at[r] = bits_of(a(row, t + 4 * (r / 2)));
        else
          at[r] = static_cast<std::uint32_t>(narrow(a(row, 2 * t + 1 + 8 * (r / 2)))) << 16 |
                  narrow(a(row, 2 * t + 8 * (r / 2)));
      }
      for (int r = 0; r < b_regs; ++r) {
        if (shape.kind == 2)
          at[4 + r] = bits_of(b(t + 4 * r, g));
        else
          at[4 + r] = static_cast<std::uint32_t>(narrow(b(2 * t + 1 + 8 * r, g))) << 16 |
                      narrow(b(2 * t + 8 * r, g));
      }
      for (int r = 0; r < 4; ++r) {
        const float value = c(g + 8 * (r / 2), 2 * t + r % 2);
        if (!shape.half)
          at[8 + r] = bits_of(value);
        else if (r % 2 == 0)
          at[8 + r / 2] = static_cast<std::uint32_t>(to_half(c(g + 8 * (r / 2), 2 * t + 1))) << 16 |
                          to_half(value);
      }
    }
    const auto list = [](int first, int count) {
      std::string text = "{";
      for (int k = 0; k < count; ++k) text += (k ? ", %r" : "%r") + std::to_string(first + k);
      return text + "}";
    };
    const auto run =
        launch(kernel("mul.wide.u32 %rd1, %r31, 64; add.u64 %rd1, %rd1, %rd30;\n"
                      "ld.global.v4.u32 {%r0, %r1, %r2, %r3}, [%rd1]; ld.global.v4.u32 {%r4, %r5, "
                      "%r6, %r7}, [%rd1+16];\n"
                      "ld.global.v4.u32 {%r14, %r15, %r16, %r17}, [%rd1+32];\nmma.sync.aligned." +
                      std::string(shape.name) + " " + list(10, c_regs) + ", " + list(0, a_regs) +
                      ", " + list(4, b_regs) + ", " + list(14, c_regs) + ";\n" + kStore),
               setup);
    ASSERT_EQ(run.report.status, ExecutionStatus::completed) << run.report.message;
    for (int lane = 0; lane < 32; ++lane) {
      for (int r = 0; r < 4; ++r) {
        const int i = lane / 4 + 8 * (r / 2), j = lane % 4 * 2 + r % 2;
        float expected = c(i, j);
        for (int k = 0; k < shape.k; ++k) expected += a(i, k) * b(k, j);
        const auto base = static_cast<std::size_t>(lane) * 4;
        const float got =
            shape.half ? from_half(static_cast<std::uint16_t>(
                             run.out[base + static_cast<std::size_t>(r / 2)] >> (16 * (r % 2))))
                       : float_from_bits(run.out[base + static_cast<std::size_t>(r)]);
        ASSERT_EQ(got, expected) << shape.name << " lane " << lane << " register " << r;
      }
    }
  }
}

// ---- tensor copies
// --------------------------------------------------------------------------------

// An 8 x 64 tensor of 16-bit numbers; a box of 4 x 64 at (-2 or 6, ...) to see out-of-bounds
// filling.
Launched tensor_copy(int x, int y, TensorMapSpec::Swizzle swizzle, bool store,
                     bool break_map = false) {
  Device device;
  const std::uint64_t in = device.allocate("in", 4096);
  const std::uint64_t out = device.allocate("out", 4096);
  std::vector<std::uint16_t> values(2048);
  for (std::size_t k = 0; k < values.size(); ++k) values[k] = static_cast<std::uint16_t>(k + 1);
  device.write(in, std::as_bytes(std::span(values)));
  device.fill(out, 4096, 0);
  TensorMapSpec map;
  map.address = store ? out : in;
  map.element_bytes = 2;
  map.rank = 2;
  map.dims = {64, 8};
  map.strides_bytes = {128};
  map.box = {64, 4};
  map.swizzle = swizzle;
  TensorMapBytes bytes = encode_tensor_map(map);
  if (break_map) bytes[0] = std::byte{0};
  const std::string text =
      ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 in, .param "
      ".u64 out, .param .align 64 .b8 map[128])\n{\n"
      ".reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %rd<16>;\n.shared .align 8 .b8 full[8]; "
      ".shared .align 1024 .b8 tile[512];\n"
      "ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; mov.b64 %rd3, map; cvta.param.u64 %rd3, "
      "%rd3;\n"
      "mov.u32 %r1, full; mov.u32 %r2, tile; mov.u32 %r3, %tid.x; setp.ne.u32 %p1, %r3, 0;\n"
      "@%p1 bra R; mbarrier.init.shared.b64 [%r1], 1; fence.proxy.async; R: bar.sync 0;\n" +
      std::string(store ? "mul.lo.u32 %r4, %r3, 16; add.u32 %r4, %r4, %r2; mul.wide.u32 %rd4, %r3, "
                          "16; add.u64 %rd4, %rd4, %rd1;\n"
                          "ld.global.v4.u32 {%r5, %r6, %r7, %r8}, [%rd4]; st.shared.v4.u32 [%r4], "
                          "{%r5, %r6, %r7, %r8};\n"
                          "fence.proxy.async; bar.sync 0; @%p1 bra E;\n"
                          "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd3, {X, "
                          "Y}], [%r2];\n"
                          "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;\nE: ret;\n}\n"
                        : "@%p1 bra W; mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 512;\n"
                          "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_"
                          "tx::bytes [%r2], [%rd3, {X, Y}], [%r1];\n"
                          "W: mbarrier.try_wait.parity.shared.b64 %p2, [%r1], 0; @!%p2 bra W;\n"
                          "mul.lo.u32 %r4, %r3, 16; add.u32 %r4, %r4, %r2; ld.shared.v4.u32 {%r5, "
                          "%r6, %r7, %r8}, [%r4];\n"
                          "mul.wide.u32 %rd4, %r3, 16; add.u64 %rd4, %rd4, %rd2; st.global.v4.u32 "
                          "[%rd4], {%r5, %r6, %r7, %r8};\nret;\n}\n");
  std::string placed = text;
  placed.replace(placed.find("{X, Y}"), 6,
                 "{" + std::to_string(x) + ", " + std::to_string(y) + "}");
  LaunchSpec spec{Module::parse(placed), "k", {1, 1, 1}, {32, 1, 1}, {1, 1, 1}, 0, {}};
  spec.parameters.resize(spec.module.parameter_bytes("k"));
  std::memcpy(spec.parameters.data(), &in, 8);
  std::memcpy(spec.parameters.data() + 8, &out, 8);
  std::memcpy(spec.parameters.data() + 64, bytes.data(), 128);
  Launched result;
  result.report = device.launch(spec, {});
  result.out.resize(1024);
  device.read(out, std::as_writable_bytes(std::span(result.out)));
  return result;
}

std::uint16_t half_of(const Launched& run, std::size_t k) {
  return static_cast<std::uint16_t>(run.out[k / 2] >> (16 * (k % 2)));
}

TEST(TensorCopies, LoadsWithSwizzleAndZeroFill) {
  for (const auto swizzle : {TensorMapSpec::Swizzle::none, TensorMapSpec::Swizzle::bytes_128}) {
    for (const int y : {0, 6, -1}) {
      for (const int x : {0, -8, 16}) {
        const auto run = tensor_copy(x, y, swizzle, false);
        ASSERT_EQ(run.report.status, ExecutionStatus::completed) << run.report.message;
        EXPECT_TRUE(run.report.races.empty());
        for (int row = 0; row < 4; ++row) {
          for (int column = 0; column < 64; ++column) {
            const int chunk = column / 8;
            const int placed = swizzle == TensorMapSpec::Swizzle::none ? chunk : chunk ^ row % 8;
            const int r = y + row, c = x + column;
            const bool inside = r >= 0 && r < 8 && c >= 0 && c < 64;
            const auto at = static_cast<std::size_t>(row * 64 + placed * 8 + column % 8);
            ASSERT_EQ(half_of(run, at), inside ? r * 64 + c + 1 : 0)
                << x << " " << y << " " << row << " " << column;
          }
        }
      }
    }
  }
}

TEST(TensorCopies, StoresSkipWhatIsOutside) {
  const auto run = tensor_copy(0, 6, TensorMapSpec::Swizzle::none, true);
  ASSERT_EQ(run.report.status, ExecutionStatus::completed) << run.report.message;
  for (std::size_t k = 0; k < 512; ++k) EXPECT_EQ(half_of(run, k), k < 6 * 64 ? 0 : k - 6 * 64 + 1);
}

TEST(TensorCopies, ForeignMapsAreRefused) {
  const auto run = tensor_copy(0, 0, TensorMapSpec::Swizzle::none, false, true);
  EXPECT_EQ(run.report.status, ExecutionStatus::fault);
  EXPECT_THAT(run.report.message, ::testing::HasSubstr("not encoded by this simulator"));
}

TEST(TensorMaps, DocumentedConstraintsAreChecked) {
  TensorMapSpec good;
  good.address = 1 << 20;
  good.element_bytes = 2;
  good.rank = 2;
  good.dims = {64, 8};
  good.strides_bytes = {128};
  good.box = {64, 4};
  good.swizzle = TensorMapSpec::Swizzle::bytes_128;
  EXPECT_NO_THROW(encode_tensor_map(good));
  const auto refuse = [&](auto change, const char* words) {
    TensorMapSpec bad = good;
    change(bad);
    EXPECT_THAT([&] { encode_tensor_map(bad); },
                ::testing::ThrowsMessage<core::UsageError>(::testing::HasSubstr(words)));
  };
  refuse([](TensorMapSpec& s) { s.address += 8; }, "16-byte aligned");
  refuse([](TensorMapSpec& s) { s.rank = 6; }, "rank");
  refuse([](TensorMapSpec& s) { s.strides_bytes[0] = 120; }, "multiple of 16");
  refuse([](TensorMapSpec& s) { s.box[1] = 257; }, "1 to 256");
  refuse([](TensorMapSpec& s) { s.box[0] = 128; }, "swizzle span");
  refuse([](TensorMapSpec& s) { s.box[0] = 4; }, "multiple of 16");
  refuse([](TensorMapSpec& s) { s.dims[1] = 0; }, "extent");
}

}  // namespace
}  // namespace faultline::simulator::testing
