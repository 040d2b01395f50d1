// SPDX-License-Identifier: Apache-2.0
#include "faultline/core/trial.hpp"

namespace faultline::core {

namespace {

std::vector<std::uint32_t> indices_of(const std::vector<BufferSpec>& buffers, BufferRole role) {
  std::vector<std::uint32_t> indices;
  for (std::uint32_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].role == role) {
      indices.push_back(i);
    }
  }
  return indices;
}

}  // namespace

std::vector<std::uint32_t> TrialPlan::input_indices() const {
  return indices_of(buffers, BufferRole::input);
}

std::vector<std::uint32_t> TrialPlan::output_indices() const {
  return indices_of(buffers, BufferRole::output);
}

InputSpec input_for(DataMode mode, const BufferSpec& buffer) {
  if (mode != DataMode::normal && buffer.exponent) {
    return {Distribution::constant, 0.0f, 0.0f};
  }
  switch (mode) {
  case DataMode::normal: return buffer.input;
  case DataMode::exact:
    // Products of two are at most 4: a float32 sum of up to 2^22 of them is exact in any order.
    return {Distribution::small_int, 2.0f, 0.0f};
  case DataMode::address: return {Distribution::index, 0.0f, 1.0f};
  }
  return buffer.input;
}

}  // namespace faultline::core
