// SPDX-License-Identifier: Apache-2.0
// Ill-conditioned problems with 113-bit arithmetic: how much of the double references is rounding,
// and that the two forms are the same mathematics far below a double's rounding.
#include <faultline/reference/deltanet.hpp>

#include <boost/multiprecision/cpp_bin_float.hpp>
#include <boost/multiprecision/eigen.hpp>
#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "delta_chunkwise.hpp"
#include "delta_recurrence.hpp"
#include "deltanet_inputs.hpp"

namespace faultline::reference {
namespace {

using Quad = boost::multiprecision::cpp_bin_float_quad;
using test::kRegimes;

/// One head's tensors in 113 bits.
class QuadHead {
 public:
  explicit QuadHead(const DeltaInputs& in)
      : shape_(in.shape),
        q_(widened(in.q)),
        k_(widened(in.k)),
        v_(widened(in.v)),
        beta_(widened(in.beta)),
        g_(widened(in.g)),
        h0_(widened(in.h0)),
        d_o_(widened(in.d_o)),
        dhT_(widened(in.dhT)),
        scale_(in.scale) {
    for (const DeltaOutput output : test::kAllOutputs) {
      arrays_[static_cast<std::size_t>(output)].resize(size_of(output));
    }
  }

  void recurrent() { recurrent_head_backward(head(), outputs()); }
  void chunkwise(std::int64_t chunk) {
    ChunkwiseHead<Quad> algorithm(head(), chunk, {}, DeltaWrongForm::none, outputs(), {});
    algorithm.forward();
    algorithm.backward();
  }
  const std::vector<Quad>& operator[](DeltaOutput output) const {
    return arrays_[static_cast<std::size_t>(output)];
  }

 private:
  static std::vector<Quad> widened(const std::vector<double>& x) { return {x.begin(), x.end()}; }

  std::size_t size_of(DeltaOutput output) const {
    switch (output) {
    case DeltaOutput::o:
    case DeltaOutput::dv: return v_.size();
    case DeltaOutput::dq:
    case DeltaOutput::dk: return q_.size();
    case DeltaOutput::dbeta: return beta_.size();
    case DeltaOutput::dg: return g_.size();
    case DeltaOutput::hT:
    case DeltaOutput::dh0: break;
    }
    return static_cast<std::size_t>(shape_.dk * shape_.dv);
  }
  DeltaHead<Quad> head() const {
    const auto or_null = [](const std::vector<Quad>& x) { return x.empty() ? nullptr : x.data(); };
    return {.t = shape_.t,
            .dk = shape_.dk,
            .dv = shape_.dv,
            .scale = scale_,
            .q = q_.data(),
            .k = k_.data(),
            .v = v_.data(),
            .beta = beta_.data(),
            .g = or_null(g_),
            .h0 = or_null(h0_),
            .d_o = d_o_.data(),
            .dhT = or_null(dhT_)};
  }
  DeltaHeadOutputs<Quad> outputs() {
    const auto at = [&](DeltaOutput output) {
      std::vector<Quad>& array = arrays_[static_cast<std::size_t>(output)];
      return array.empty() ? nullptr : array.data();
    };
    return {.o = at(DeltaOutput::o),
            .hT = at(DeltaOutput::hT),
            .dq = at(DeltaOutput::dq),
            .dk = at(DeltaOutput::dk),
            .dv = at(DeltaOutput::dv),
            .dbeta = at(DeltaOutput::dbeta),
            .dg = at(DeltaOutput::dg),
            .dh0 = at(DeltaOutput::dh0)};
  }

  DeltaShape shape_;
  std::vector<Quad> q_, k_, v_, beta_, g_, h0_, d_o_, dhT_;
  Quad scale_;
  std::vector<Quad> arrays_[kDeltaOutputCount];
};

/// max |a - b| / max |b|.
template <typename Values>
double relative(const Values& a, const std::vector<Quad>& b) {
  Quad difference = 0, largest = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    difference = std::max(difference, Quad(abs(Quad(a[i]) - b[i])));
    largest = std::max(largest, Quad(abs(b[i])));
  }
  return difference == 0 ? 0.0 : static_cast<double>(Quad(difference / largest));
}

TEST(DeltaQuad, DoubleIsRightWhereTheProblemIsIllConditioned) {
  for (const test::Regime& regime : kRegimes) {
    const std::string_view name = regime.name;
    if (name.starts_with("small") || name == "unit" || name == "unit, -0.1 U") continue;
    const DeltaInputs in = test::make_delta_inputs(
        regime, {.shape = {.t = 72, .dk = 16, .dv = 12}, .scale = 0.25, .states = true});
    QuadHead recurrent(in), chunkwise(in);
    recurrent.recurrent();
    chunkwise.chunkwise(64);
    const DeltaOutputs got = recurrent_backward(in);
    const DeltaOutputs got_chunkwise = chunkwise_backward(in, {.chunk = 64}).outputs;
    for (const DeltaOutput output : test::kAllOutputs) {
      if (got[output].empty()) continue;
      EXPECT_LE(relative(chunkwise[output], recurrent[output]), 1e-30)
          << name_of(output) << ": " << name;
      EXPECT_LE(relative(got[output], recurrent[output]), 1e-13) << name_of(output) << ": " << name;
      EXPECT_LE(relative(got_chunkwise[output], recurrent[output]), 1e-12)
          << name_of(output) << ": " << name;
    }
  }
}

// Half-common unit keys, beta = 1, C = 64: repeated squaring loses half of a double's digits here,
// substitution none.
TEST(DeltaQuad, InverseOfCorrelatedKeysBySubstitution) {
  DeltaInputs in =
      test::make_delta_inputs(kRegimes[7], {.shape = {.t = 64, .dk = 32, .dv = 4}, .states = true});
  in.beta.assign(64, 1.0);
  QuadHead quad(in);
  quad.recurrent();
  const DeltaOutputs got = chunkwise_backward(in, {.chunk = 64}).outputs;
  for (const DeltaOutput output : test::kAllOutputs) {
    if (!got[output].empty()) {
      EXPECT_LE(relative(got[output], quad[output]), 1e-13) << name_of(output);
    }
  }
}

}  // namespace
}  // namespace faultline::reference
