// SPDX-License-Identifier: Apache-2.0
// How sentences name a cell of a sweep.
#pragma once

#include <string>
#include <string_view>

namespace faultline::diagnosis {

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
