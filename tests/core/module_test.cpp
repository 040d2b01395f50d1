// SPDX-License-Identifier: Apache-2.0
#include "faultline/core/module.hpp"

#include <filesystem>
#include <fstream>
#include <span>
#include <string_view>
#include <utility>

#include <unistd.h>
#include <zstd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "faultline/core/errors.hpp"
#include "faultline/core/program.hpp"

namespace faultline::core {
namespace {

EmbeddedBytes as_is(std::string_view text) { return {std::as_bytes(std::span(text)), 0}; }

TEST(Module, EmbeddedDataIsKept) {
  const EmbeddedSource sources[] = {{"kernels/a.cu", as_is("one  \n\ttwo\t\r\n\nlast")}};
  const EmbeddedModule embedded{"a", as_is(".version 9.0\n"), as_is("\1\2"), sources};
  const ModuleRef module = make_module(embedded);
  EXPECT_EQ(module->name, "a");
  EXPECT_EQ(module->ptx, ".version 9.0\n");
  EXPECT_EQ(module->cubin.size(), 2u);
  EXPECT_EQ(source_line(*module, "kernels/a.cu", 1), "one");
  EXPECT_EQ(source_line(*module, "kernels/a.cu", 2), "\ttwo");
  EXPECT_EQ(source_line(*module, "kernels/a.cu", 3), "");
  EXPECT_EQ(source_line(*module, "kernels/a.cu", 4), "last");
  for (const int line : {-1, 0, 5, 1000}) {
    EXPECT_EQ(source_line(*module, "kernels/a.cu", line), "");
  }
  EXPECT_EQ(source_line(*module, "a.cu", 1), "");
}

TEST(Module, HashTellsCodeApart) {
  const std::string_view one = "\1", two = "\2";
  const auto hash = [](std::string_view ptx, std::string_view cubin) {
    return make_module({"m", as_is(ptx), as_is(cubin), {}})->hash;
  };
  EXPECT_EQ(hash("abc", one), hash("abc", one));
  EXPECT_NE(hash("abc", one), hash("abd", one));
  EXPECT_NE(hash("abc", one), hash("abc", two));
  EXPECT_NE(hash("abc", ""), hash("abc", one));
  EXPECT_NE(hash("abc\x01", ""), hash("abc", one));
  EXPECT_EQ(hash("", "").size(), 16u);
  EXPECT_EQ(hash("abc", "").find_first_not_of("0123456789abcdef"), std::string::npos);
}

TEST(Module, PackedDataIsUnpackedOrRefused) {
  const std::string text(1000, 'a');
  std::string frame(ZSTD_compressBound(text.size()), '\0');
  frame.resize(ZSTD_compress(frame.data(), frame.size(), text.data(), text.size(), 3));
  const auto packed = [&](std::size_t size) {
    return EmbeddedBytes{std::as_bytes(std::span(std::as_const(frame))), size};
  };
  EXPECT_EQ(unpack(packed(text.size())), text);
  EXPECT_EQ(unpack({}), "");
  const std::string hash = make_module({"m", as_is(text), {}, {}})->hash;
  EXPECT_EQ(make_module({"m", packed(text.size()), {}, {}})->hash, hash);
  EXPECT_THROW(unpack(packed(text.size() + 1)), EnvironmentError);
  EXPECT_THROW(unpack(packed(text.size() - 1)), EnvironmentError);
  frame[0] ^= 1;
  EXPECT_THROW(unpack(packed(text.size())), EnvironmentError);
}

TEST(Module, AsynchronousInstructionsOfOneKernel) {
  Module module;
  module.ptx =
      ".visible .entry copies(.param .u64 p)\n{\n { cp.async.bulk.shared::cluster.global [a];}\n"
      " cp.async.bulk.commit_group;\n cp.async.ca.shared.global [b], [c], 16;\n"
      " cp.async.wait_group 0;\n cp.async.bulk.tensor.2d.shared::cluster.global [d];\n}\n"
      ".visible .entry copies_not(\n)\n{\n ld.global.f32 %f1, [%rd1];\n}\n"
      ".visible .entry multiplies()\n{ wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {}; }\n";
  using ::testing::ElementsAre;
  using ::testing::IsEmpty;
  EXPECT_THAT(asynchronous_instructions(module, "copies"),
              ElementsAre("cp.async", "cp.async.bulk", "cp.async.bulk.tensor"));
  EXPECT_THAT(asynchronous_instructions(module, "copies_not"), IsEmpty());
  EXPECT_THAT(asynchronous_instructions(module, "multiplies"), ElementsAre("wgmma.mma_async"));
  EXPECT_THAT(asynchronous_instructions(module, "cop"), IsEmpty());
}

TEST(Module, PtxFilesBringTheirSources) {
  const auto folder = std::filesystem::temp_directory_path() /
                      ("faultline-module-test-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const std::string source = (folder / "k.cu").string();
  std::ofstream(source) << "first\nsecond\n";
  const std::string ptx =
      ".version 9.0\n\t.file\t1 \"" + source + "\"\n.file 2 \"not_there.cuh\"\n.file broken\n";
  std::ofstream(folder / "k.ptx") << ptx;
  const ModuleRef module = load_ptx_module((folder / "k.ptx").string());
  EXPECT_EQ(module->name, "k.ptx");
  EXPECT_EQ(module->ptx, ptx);
  EXPECT_EQ(source_line(*module, source, 2), "second");
  EXPECT_EQ(module->sources.size(), 1u);
  std::ofstream(folder / "empty.ptx");
  EXPECT_EQ(load_ptx_module((folder / "empty.ptx").string())->ptx, "");
  for (const auto& bad : {folder / "missing.ptx", folder}) {
    try {
      load_ptx_module(bad.string());
      ADD_FAILURE() << bad;
    } catch (const EnvironmentError& error) {
      EXPECT_EQ(error.code(), ExitCode::error);
      EXPECT_THAT(error.what(), ::testing::HasSubstr(bad.string()));
    }
  }
  std::filesystem::remove_all(folder);
}

TEST(Program, IdsStayUnique) {
  Program program;
  EXPECT_EQ(program.add(EventRecordOperation{1}), 0u);
  EXPECT_EQ(program.add(EventWaitOperation{1}, 2), 1u);
  program.operations.erase(program.operations.begin());
  EXPECT_EQ(program.add(FillOperation{}), 2u);
  EXPECT_EQ(program.operations[0].stream, 2u);
}

TEST(Program, ScalarsKeepTheirBits) {
  EXPECT_EQ(scalar(std::int32_t{-1}), (ScalarArgument{0xffffffffu, 4}));
  EXPECT_EQ(scalar(std::int64_t{-1}), (ScalarArgument{~0ull, 8}));
  EXPECT_EQ(scalar(1.0f), (ScalarArgument{0x3f800000u, 4}));
  EXPECT_EQ(scalar(-0.0), (ScalarArgument{1ull << 63, 8}));
}

}  // namespace
}  // namespace faultline::core
