// SPDX-License-Identifier: Apache-2.0
// PTX tokens -> ptx::Source. Bodies are parsed one by one, when somebody needs them.
#pragma once

#include <string>

#include "ptx/ast.hpp"

namespace faultline::simulator::ptx {

// Reads module-level declarations and the heads of functions; bodies are skipped. Throws
// ParseError.
void parse_module(Source& source);

// Parses the body of one function in place. Throws ParseError.
void parse_body(Source& source, Function& function);

}  // namespace faultline::simulator::ptx
