// SPDX-License-Identifier: Apache-2.0
// Text of others, fit to be shown.
#pragma once

#include <string>
#include <string_view>

namespace faultline::reports {

/// UTF-8 without control characters (but tab and newline) and bidirectional controls: they become
/// visible, as "[U+001B]". Bytes that are no UTF-8 become U+FFFD.
std::string visible(std::string_view text);

}  // namespace faultline::reports
