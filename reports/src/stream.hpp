// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>

namespace faultline::reports {

/// A terminal that understands escapes: not a file, not a pipe, not TERM=dumb.
bool is_capable_terminal(std::FILE* stream);

}  // namespace faultline::reports
