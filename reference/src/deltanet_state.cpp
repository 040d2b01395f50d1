// SPDX-License-Identifier: Apache-2.0
#include <faultline/reference/deltanet_state.hpp>

#include <faultline/core/errors.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace faultline::reference {

namespace {

/// Rows [begin, begin + rows) of every head of an array [heads, T, width]; empty stays empty.
std::vector<double> rows_of(const std::vector<double>& all, const DeltaShape& shape,
                            std::int64_t width, std::int64_t begin, std::int64_t rows) {
  std::vector<double> part;
  if (all.empty()) return part;
  for (std::int64_t head = 0; head < shape.heads(); ++head) {
    const auto first = all.begin() + (head * shape.t + begin) * width;
    part.insert(part.end(), first, first + rows * width);
  }
  return part;
}

}  // namespace

DeltaOutputs narrow_state_forward(const DeltaInputs& inputs, std::int64_t chunk,
                                  core::Dtype state) {
  const DeltaShape& shape = inputs.shape;
  if (chunk < 1) throw core::UsageError(fmt::format("a chunk needs a row, got chunk = {}", chunk));
  DeltaOutputs outputs;
  outputs.o.resize(static_cast<std::size_t>(shape.heads() * shape.t * shape.dv));
  outputs.hT = inputs.h0;
  for (std::int64_t begin = 0; begin < shape.t; begin += chunk) {
    const std::int64_t rows = std::min(chunk, shape.t - begin);
    DeltaInputs part;
    part.shape = shape;
    part.shape.t = rows;
    part.scale = inputs.scale;
    part.q = rows_of(inputs.q, shape, shape.dk, begin, rows);
    part.k = rows_of(inputs.k, shape, shape.dk, begin, rows);
    part.v = rows_of(inputs.v, shape, shape.dv, begin, rows);
    part.beta = rows_of(inputs.beta, shape, 1, begin, rows);
    part.g = rows_of(inputs.g, shape, 1, begin, rows);
    part.h0 = outputs.hT;
    const DeltaOutputs done = chunkwise_forward(part, {.chunk = chunk}).outputs;
    for (std::int64_t head = 0; head < shape.heads(); ++head) {
      std::copy_n(done.o.begin() + head * rows * shape.dv, rows * shape.dv,
                  outputs.o.begin() + (head * shape.t + begin) * shape.dv);
    }
    outputs.hT = done.hT;
    for (double& x : outputs.hT) x = core::round_to(state, x);
  }
  return outputs;
}

core::ErrorHypothesis narrow_state_hypothesis(const DeltaInputs& inputs, std::int64_t chunk,
                                              std::span<const DeltaOutput> outputs,
                                              core::Dtype state, std::int64_t value_limit) {
  core::ErrorHypothesis hypothesis{.name = fmt::format("{}_state", core::name_of(state)),
                                   .terms = "the state that chunks hand on",
                                   .kind = core::ErrorHypothesis::Kind::low_precision,
                                   .effect = {}};
  const DeltaOutputs narrow = narrow_state_forward(inputs, chunk, state);
  const DeltaOutputs right = chunkwise_forward(inputs, {.chunk = chunk}).outputs;
  std::int64_t values = 0;
  for (const DeltaOutput output : outputs) {
    std::vector<double> effect;
    if (output == DeltaOutput::o || output == DeltaOutput::hT) {
      effect = narrow[output];
      for (std::size_t i = 0; i < effect.size(); ++i) effect[i] -= right[output][i];
      if (std::all_of(effect.begin(), effect.end(), [](double e) { return e == 0.0; })) {
        effect.clear();
      }
    }
    values += static_cast<std::int64_t>(effect.size());
    hypothesis.effect.push_back(std::move(effect));
  }
  if (values > value_limit) {
    hypothesis.effect.assign(outputs.size(), {});
    hypothesis.left_out = "not evaluated: too many values";
  }
  return hypothesis;
}

}  // namespace faultline::reference
