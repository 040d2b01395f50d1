// SPDX-License-Identifier: Apache-2.0
// `faultline reference`: what it writes is the reference, in either layout; what it refuses.
#include <faultline/app/main.hpp>
#include <faultline/core/generator.hpp>
#include <faultline/reference/deltanet.hpp>
#include <faultline/reference/gemv.hpp>
#include <faultline/reference/gla_decode.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "files.hpp"
#include "npy.hpp"

namespace faultline::app {
namespace {

using core::Dtype;
using ::testing::HasSubstr;

struct Finished {
  int code = 0;
  std::string out, err;
};

class ReferenceCommand : public ::testing::Test {
 protected:
  /// `faultline reference WORDS... --inputs in --outputs out`
  Finished run(std::vector<std::string> words) {
    words.insert(words.begin(), {"faultline", "reference"});
    for (const char* word : {"--inputs", "in", "--outputs", "out"}) {
      const bool is_path = word[0] != '-';
      words.push_back(is_path ? (folder_ / word).string() : word);
    }
    return run_line(words);
  }
  static Finished run_line(std::vector<std::string> words) {
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    Finished finished;
    finished.code = app::run(static_cast<int>(argv.size()), argv.data(), {});
    finished.out = testing::internal::GetCapturedStdout();
    finished.err = testing::internal::GetCapturedStderr();
    return finished;
  }

  void SetUp() override { std::filesystem::create_directory(folder_ / "in"); }

  core::Tensor draw(const std::string& name, Dtype dtype, core::Shape shape,
                    core::InputSpec spec = {core::Distribution::normal, 0.0f, 0.3f}) {
    core::Tensor tensor(dtype, std::move(shape));
    core::generate_input(spec, 1, static_cast<std::uint32_t>(tensors_.size()), tensor);
    tensors_[name] = tensor;
    test::save(folder_ / ("in/" + name + ".npy"), tensor);
    return tensor;
  }
  /// B=2 H=3 T=5 DK=4 DV=3, dtypes mixed.
  void draw_delta() {
    draw("q", Dtype::f16, {2, 3, 5, 4});
    draw("k", Dtype::f32, {2, 3, 5, 4});
    draw("v", Dtype::f64, {2, 3, 5, 3});
    draw("beta", Dtype::f16, {2, 3, 5}, {core::Distribution::uniform, 0.0f, 1.0f});
    draw("g", Dtype::f32, {2, 3, 5}, {core::Distribution::uniform, -1.0f, 0.0f});
    draw("h0", Dtype::f32, {2, 3, 4, 3});
    draw("do", Dtype::f16, {2, 3, 5, 3});
    draw("dhT", Dtype::f32, {2, 3, 4, 3});
  }
  reference::DeltaInputs delta(bool gated, double scale) const {
    const auto at = [&](const char* name) { return &tensors_.at(name); };
    return reference::delta_inputs({.q = at("q"),
                                    .k = at("k"),
                                    .v = at("v"),
                                    .beta = at("beta"),
                                    .g = gated ? at("g") : nullptr,
                                    .h0 = at("h0"),
                                    .d_o = at("do"),
                                    .dhT = at("dhT")},
                                   scale);
  }
  core::Tensor output(const std::string& name) const {
    return read_npy(folder_ / ("out/" + name + ".npy"));
  }
  bool has_output(const std::string& name) const {
    return std::filesystem::exists(folder_ / ("out/" + name + ".npy"));
  }
  void remove(const std::string& name) {
    std::filesystem::remove(folder_ / ("in/" + name + ".npy"));
  }

  test::TemporaryFolder folder_;
  std::map<std::string, core::Tensor> tensors_;
};

TEST_F(ReferenceCommand, BackwardWritesEveryOutput) {
  draw_delta();
  for (const bool gated : {false, true}) {
    const Finished finished =
        run({gated ? "gated_deltanet_bwd" : "deltanet_bwd", "b=2", "dk=4", "scale=0.5"});
    EXPECT_EQ(finished.code, 0) << finished.err;
    EXPECT_THAT(finished.out, HasSubstr("b=2 h=3 t=5 dk=4 dv=3 scale=0.5"));
    const reference::DeltaOutputs expected = reference::recurrent_backward(delta(gated, 0.5));
    EXPECT_EQ(output("o").to_doubles(), expected.o);
    EXPECT_EQ(output("hT").to_doubles(), expected.hT);
    EXPECT_EQ(output("dq").to_doubles(), expected.dq);
    EXPECT_EQ(output("dk").to_doubles(), expected.dk);
    EXPECT_EQ(output("dv").to_doubles(), expected.dv);
    EXPECT_EQ(output("dbeta").to_doubles(), expected.dbeta);
    EXPECT_EQ(output("dh0").to_doubles(), expected.dh0);
    EXPECT_EQ(has_output("dg"), gated);
    if (gated) {
      EXPECT_EQ(output("dg").to_doubles(), expected.dg);
    }
    EXPECT_EQ(output("dv").shape, (core::Shape{2, 3, 5, 3}));
    EXPECT_EQ(output("dbeta").shape, (core::Shape{2, 3, 5}));
    EXPECT_EQ(output("dh0").shape, (core::Shape{2, 3, 4, 3}));
    EXPECT_EQ(output("dh0").dtype, Dtype::f64);
  }
}

TEST_F(ReferenceCommand, ForwardNeedsNoGradients) {
  draw_delta();
  remove("do");
  remove("dhT");
  EXPECT_EQ(run({"gated_deltanet_fwd", "scale=auto"}).code, 0);
  const reference::DeltaOutputs expected = reference::recurrent_forward(delta(true, 0.5));
  EXPECT_EQ(output("o").to_doubles(), expected.o);
  EXPECT_EQ(output("hT").to_doubles(), expected.hT);
  EXPECT_FALSE(has_output("dq"));
}

TEST_F(ReferenceCommand, AbsentStatesAreZeroAndSaidSo) {
  draw_delta();
  remove("h0");
  remove("dhT");
  const Finished finished = run({"deltanet_bwd"});
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_THAT(finished.out, HasSubstr("no h0.npy: zero"));
  EXPECT_THAT(finished.out, HasSubstr("no dhT.npy: zero"));
  reference::DeltaInputs in = delta(false, 1.0);
  in.h0.clear();
  in.dhT.clear();
  const reference::DeltaOutputs expected = reference::recurrent_backward(in);
  EXPECT_EQ(output("dk").to_doubles(), expected.dk);
  EXPECT_EQ(output("dh0").to_doubles(), expected.dh0);
}

/// [B, H, T, D] or [B, H, T] -> time before heads.
core::Tensor time_first(const core::Tensor& x) {
  core::Shape shape = x.shape;
  std::swap(shape[1], shape[2]);
  core::Tensor result(x.dtype, shape);
  const std::int64_t heads = x.shape[1], steps = x.shape[2];
  const std::int64_t width = x.shape.size() == 4 ? x.shape[3] : 1;
  for (std::int64_t b = 0; b < x.shape[0]; ++b) {
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t t = 0; t < steps; ++t) {
        for (std::int64_t d = 0; d < width; ++d) {
          result.set(((b * steps + t) * heads + h) * width + d,
                     x.at(((b * heads + h) * steps + t) * width + d));
        }
      }
    }
  }
  return result;
}

TEST_F(ReferenceCommand, TimeBeforeHeads) {
  draw_delta();
  ASSERT_EQ(run({"gated_deltanet_bwd"}).code, 0);
  std::map<std::string, core::Tensor> expected;
  for (const char* name : {"o", "dq", "dk", "dv", "dbeta", "dg"}) {
    expected[name] = time_first(output(name));
  }
  expected["hT"] = output("hT");
  expected["dh0"] = output("dh0");
  for (const char* name : {"q", "k", "v", "beta", "g", "do"}) {
    test::save(folder_ / (std::string("in/") + name + ".npy"), time_first(tensors_.at(name)));
  }
  const Finished finished = run({"gated_deltanet_bwd", "t=5", "h=3", "--layout", "bthd"});
  ASSERT_EQ(finished.code, 0) << finished.err;
  for (const auto& [name, tensor] : expected) {
    EXPECT_EQ(output(name).shape, tensor.shape) << name;
    EXPECT_EQ(output(name).to_doubles(), tensor.to_doubles()) << name;
  }
}

TEST_F(ReferenceCommand, DropsATerm) {
  draw_delta();
  const Finished finished = run({"gated_deltanet_bwd", "chunk=2", "--drop", "A_inv,dw_cross"});
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_THAT(finished.out, HasSubstr("chunk 2, without dk_A, dw_cross, dbeta_A, dG_A"));
  const reference::DeltaOutputs expected =
      reference::chunkwise_backward(
          delta(true, 1.0), {.chunk = 2, .dropped = reference::parse_delta_terms("A_inv+dw_cross")})
          .outputs;
  EXPECT_EQ(output("dk").to_doubles(), expected.dk);
  EXPECT_EQ(output("dg").to_doubles(), expected.dg);
}

TEST_F(ReferenceCommand, DecodeWithAndWithoutTime) {
  draw("q", Dtype::f16, {2, 3, 4});
  draw("k", Dtype::f16, {2, 3, 4});
  draw("v", Dtype::f16, {2, 3, 5});
  draw("beta", Dtype::f16, {2, 3}, {core::Distribution::uniform, 0.0f, 1.0f});
  draw("g", Dtype::f32, {2, 3}, {core::Distribution::uniform, -1.0f, 0.0f});
  draw("h0", Dtype::f32, {2, 3, 4, 5});
  Finished finished = run({"gated_deltanet_decode"});
  ASSERT_EQ(finished.code, 0) << finished.err;
  EXPECT_EQ(output("o").shape, (core::Shape{2, 3, 5}));
  EXPECT_EQ(output("hT").shape, (core::Shape{2, 3, 4, 5}));
  const std::vector<double> o = output("o").to_doubles(), state = output("hT").to_doubles();

  for (const char* name : {"q", "k", "v", "beta", "g"}) {
    core::Tensor tensor = tensors_.at(name);
    tensor.shape.insert(tensor.shape.begin() + 1, 1);  // [B, 1, H, ...]
    test::save(folder_ / (std::string("in/") + name + ".npy"), tensor);
  }
  finished = run({"gated_deltanet_decode", "t=1", "--layout", "bthd"});
  ASSERT_EQ(finished.code, 0) << finished.err;
  EXPECT_EQ(output("o").shape, (core::Shape{2, 1, 3, 5}));
  EXPECT_EQ(output("o").to_doubles(), o);
  EXPECT_EQ(output("hT").to_doubles(), state);
}

TEST_F(ReferenceCommand, GlaDecodeAndGemv) {
  const core::Tensor q = draw("q", Dtype::f16, {1, 2, 4}), k = draw("k", Dtype::f16, {1, 2, 4}),
                     v = draw("v", Dtype::f16, {1, 2, 3}), gk = draw("gk", Dtype::f32, {1, 2, 4}),
                     state = draw("h0", Dtype::f32, {1, 2, 4, 3});
  ASSERT_EQ(run({"gla_decode"}).code, 0);
  const std::vector<core::ReferenceTensor> expected = reference::gla_decode(
      {.q = q, .k = k, .v = v, .gk = gk, .state = state}, 0.5, reference::GlaBound{});
  EXPECT_EQ(output("o").to_doubles(), expected[0].expected);
  EXPECT_EQ(output("hT").to_doubles(), expected[1].expected);

  const core::Tensor a = draw("a", Dtype::f32, {6, 5}), x = draw("x", Dtype::f32, {5});
  ASSERT_EQ(run({"gemv", "n=6", "k=5"}).code, 0);
  EXPECT_EQ(output("y").to_doubles(), reference::gemv(a, x, {}).expected);
}

TEST_F(ReferenceCommand, RefusesInOneSentence) {
  draw_delta();
  const auto refuse = [&](std::vector<std::string> words, const std::string& message,
                          int code = 2) {
    const Finished finished = run(std::move(words));
    EXPECT_EQ(finished.code, code) << message;
    EXPECT_THAT(finished.err, HasSubstr(message));
    EXPECT_FALSE(has_output("o")) << message;
  };
  refuse({"deltanet"}, "there is no reference of 'deltanet'");
  refuse({"deltanet_bvd"}, "did you mean 'deltanet_bwd'?");
  refuse({"deltanet_bwd", "t=6"},
         "the command line says t=6, but " + (folder_ / "in/q.npy").string() + " says t=5");
  refuse({"deltanet_bwd", "t=0"}, "t=0: a whole number from 1 on is needed");
  refuse({"deltanet_bwd", "dim=4"}, "does not take 'dim'");
  refuse({"deltanet_bwd", "chunk=32"}, "chunk= belongs to --drop");
  refuse({"deltanet_bwd", "scale=nan"}, "a finite number or auto is needed");
  refuse({"deltanet_bwd", "--drop", "dk"}, "names no term of the DeltaNet adjoint");
  refuse({"deltanet_fwd", "--drop", "A_inv"}, "deltanet_fwd computes none");
  refuse({"deltanet_bwd", "--layout", "thbd"}, "--layout");
  refuse({"deltanet_decode"}, "deltanet_decode takes one step, t=1");
  refuse({"gemv"}, "a.npy: cannot be read (No such file or directory)");

  draw("k", Dtype::f32, {2, 3, 5, 8});
  refuse({"deltanet_bwd"}, "k.npy says dk=8, but ");
  draw("k", Dtype::f32, {2, 3, 20});
  refuse({"deltanet_bwd"}, "has shape [2, 3, 20]; [b, h, t, dk] is needed (--layout bhtd)");
  draw("k", Dtype::f32, {2, 3, 0, 4});
  refuse({"deltanet_bwd"}, "no elements at all");
  core::Tensor k = draw("k", Dtype::f16, {2, 3, 5, 4});
  k.set(25, std::nan(""));
  test::save(folder_ / "in/k.npy", k);
  refuse({"deltanet_bwd"}, "k.npy: holds NaN at index [0, 1, 1, 1]; inputs must be finite");
  k.set(25, INFINITY);
  test::save(folder_ / "in/k.npy", k);
  refuse({"deltanet_bwd"}, "holds infinity");
  draw("k", Dtype::f32, {2, 3, 5, 4});
  test::write_bytes(folder_ / "in/k.npy",
                    test::npy_prefix(test::npy_dictionary("<f4", {2, 3, 5, 4})) + "short");
  refuse({"deltanet_bwd"}, "it is truncated");
  test::write_bytes(folder_ / "in/k.npy",
                    test::npy_prefix(test::npy_dictionary("<f4", {2, 3, 5, 4}, true)));
  refuse({"deltanet_bwd"}, "Fortran order");
  test::write_bytes(folder_ / "in/k.npy",
                    test::npy_prefix(test::npy_dictionary("<i8", {2, 3, 5, 4})));
  refuse({"deltanet_bwd"}, "dtype '<i8'");
  remove("k");
  refuse({"deltanet_bwd"}, "k.npy: cannot be read (No such file or directory)");
  draw("k", Dtype::f32, {2, 3, 5, 4});
  remove("g");
  refuse({"gated_deltanet_fwd"}, "g.npy: cannot be read");

  test::write_bytes(folder_ / "out", "a file where the folder should be");
  refuse({"deltanet_bwd"}, "out", 3);
}

TEST_F(ReferenceCommand, AFileThatIsNotReadIsNoSilentZero) {
  draw_delta();
  const auto refuse = [&](const std::string& file, const std::string& message) {
    const Finished finished = run({"gated_deltanet_bwd"});
    EXPECT_EQ(finished.code, 2) << file;
    EXPECT_THAT(finished.err, HasSubstr((folder_ / "in" / file).string()));
    EXPECT_THAT(finished.err, HasSubstr(message));
    EXPECT_THAT(finished.err, HasSubstr("q, k, v, beta, g, h0, do, dhT, each as NAME.npy"));
    EXPECT_FALSE(has_output("o"));
    std::filesystem::remove(folder_ / "in" / file);
  };
  for (const char* file : {"dht.npy", "dhTT.npy", "dh0.npy", "DHT.NPY", "dhT.npz"}) {
    std::filesystem::rename(folder_ / "in/dhT.npy", folder_ / "in" / file);
    refuse(file, "rename it (to dhT.npy?)");
    draw("dhT", Dtype::f32, {2, 3, 4, 3});
  }
  draw("mask", Dtype::f32, {5});
  refuse("mask.npy", "would not be read: rename it or move it elsewhere");

  // Of another subject: named and left.
  const Finished finished = run({"deltanet_bwd"});
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_THAT(finished.err, HasSubstr("g.npy is not read: deltanet_bwd takes q, k, v, beta, h0"));
}

TEST_F(ReferenceCommand, ALinkToNothingIsNoSilentZero) {
  draw_delta();
  remove("h0");
  std::filesystem::create_symlink("gone.npy", folder_ / "in/h0.npy");
  const Finished finished = run({"gated_deltanet_fwd"});
  EXPECT_EQ(finished.code, 2);
  EXPECT_THAT(finished.err, HasSubstr("h0.npy: is a link to gone.npy"));
}

TEST_F(ReferenceCommand, TheFolderOfInputsMayTakeTheOutputs) {
  draw_delta();
  for (int i = 0; i < 2; ++i) {
    const Finished finished =
        run_line({"faultline", "reference", "gated_deltanet_bwd", "--inputs",
                  (folder_ / "in").string(), "--outputs", (folder_ / "in/.").string()});
    EXPECT_EQ(finished.code, 0) << finished.err;
    EXPECT_EQ(finished.err, "");
  }
}

TEST_F(ReferenceCommand, AFullDiskLeavesNothing) {
  draw_delta();
  ASSERT_EQ(run({"deltanet_bwd"}).code, 0);
  const std::vector<double> before = output("dq").to_doubles();
  draw("q", Dtype::f16, {2, 3, 5, 4}, {core::Distribution::uniform, 0.0f, 1.0f});
  // As a disk that is full after 2 KiB: the limit of a file's size, whose signal is ignored.
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  rlimit small = old;
  small.rlim_cur = 1000;
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  std::vector<std::string> words{"faultline", "reference", "deltanet_bwd"};
  // Not run(): gtest captures standard output and error in files.
  for (const char* word : {"--quiet", "--inputs", "in", "--outputs", "out"}) {
    words.push_back(word[0] == '-' ? word : (folder_ / word).string());
  }
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  const int code = app::run(static_cast<int>(argv.size()), argv.data(), {});
  setrlimit(RLIMIT_FSIZE, &old);
  signal(SIGXFSZ, handler);
  EXPECT_EQ(code, 3);
  EXPECT_EQ(output("dq").to_doubles(), before);
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "out")) {
    EXPECT_EQ(entry.path().extension(), ".npy") << entry.path();
    ++files;
  }
  EXPECT_EQ(files, 7u);
}

TEST_F(ReferenceCommand, NeedsItsFolders) {
  Finished finished = run_line({"faultline", "reference", "deltanet_bwd"});
  EXPECT_EQ(finished.code, 2);
  EXPECT_THAT(finished.err, HasSubstr("needs --inputs DIR and --outputs DIR"));
  finished = run_line({"faultline", "reference"});
  EXPECT_EQ(finished.code, 2);
  EXPECT_THAT(finished.err, HasSubstr("which reference? One of deltanet_fwd"));
  finished = run_line({"faultline", "reference", "--help"});
  EXPECT_EQ(finished.code, 0);
  for (const char* word : {"--inputs", "--outputs", "--layout", "--drop", "gated_"}) {
    EXPECT_THAT(finished.out, HasSubstr(word));
  }
}

}  // namespace
}  // namespace faultline::app
