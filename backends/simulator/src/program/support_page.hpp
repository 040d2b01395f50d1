// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace faultline::simulator {

// docs/ptx-support.md, written from opcodes.def.
std::string support_page();

}  // namespace faultline::simulator
