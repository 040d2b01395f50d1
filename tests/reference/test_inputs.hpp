// SPDX-License-Identifier: Apache-2.0
// Inputs for reference tests.
#pragma once

#include <faultline/core/generator.hpp>
#include <faultline/core/tensor.hpp>

#include <cstdint>
#include <utility>

namespace faultline::reference::test {

inline core::Tensor make_input(core::Dtype dtype, core::Shape shape, const core::InputSpec& spec,
                               std::uint64_t seed, std::uint32_t index) {
  core::Tensor tensor(dtype, std::move(shape));
  core::generate_input(spec, seed, index, tensor);
  return tensor;
}

inline constexpr core::InputSpec kNormal{core::Distribution::normal, 0.0f, 1.0f};
inline constexpr core::InputSpec kGate{core::Distribution::uniform, -1.0f, 0.0f};

}  // namespace faultline::reference::test
