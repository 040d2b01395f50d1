// SPDX-License-Identifier: Apache-2.0
// How sentences name a cell of a sweep, and a dtype.
#pragma once

#include <string>
#include <string_view>

#include "faultline/core/dtype.hpp"

namespace faultline::diagnosis {

/// "fp16", as findings and reports have it; "f16" is the value of a parameter.
constexpr std::string_view dtype_text(core::Dtype dtype) {
  switch (dtype) {
  case core::Dtype::f16: return "fp16";
  case core::Dtype::bf16: return "bf16";
  case core::Dtype::f32: return "fp32";
  case core::Dtype::f64: return "fp64";
  }
  return "?";
}

/// "n=64 k=3000 [rows=4]"; "n=64 k=3000" where the program has no tunables.
inline std::string cell_text(std::string_view problem, std::string_view config) {
  std::string text(problem);
  if (!config.empty()) {
    text += text.empty() ? "[" : " [";
    text += config;
    text += ']';
  }
  return text;
}

}  // namespace faultline::diagnosis
