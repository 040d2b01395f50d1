// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "faultline/simulator/module.hpp"
#include "ptx/ast.hpp"

namespace faultline::simulator {

struct Module::Implementation {
  ptx::Source source;
  std::string source_root;
  std::vector<std::string> known_sources;

  // The function with its body parsed. Throws ParseError when it does not exist.
  const ptx::Function& function(std::string_view name);
  // The source file of a .file number, as it should be printed.
  std::string file_name(int file) const;
};

}  // namespace faultline::simulator
