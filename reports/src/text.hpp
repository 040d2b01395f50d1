// SPDX-License-Identifier: Apache-2.0
// Text from records is not ours: file names, source lines and problem strings may hold anything.
#pragma once

#include <string>
#include <string_view>

namespace faultline::reports {

/// UTF-8 to code points; each byte that is no UTF-8 becomes U+FFFD.
std::u32string decode_utf8(std::string_view text);
void append_utf8(std::string& out, char32_t code_point);

/// Fit to print on a terminal: one column per code point and no control character. Tabs become
/// blanks up to the next multiple of 4; escapes, bidirectional controls, wide and combining
/// characters become '?'. Without `unicode` the result is ASCII.
std::string printable(std::string_view text, bool unicode);
/// Columns of printable() text.
int columns_of(std::string_view printable_text);

/// Escaped for HTML text and double-quoted attributes. Control and bidirectional characters become
/// visible (U+001B prints as "[U+001B]"), so that source text cannot hide what it does.
std::string escape_html(std::string_view text);

}  // namespace faultline::reports
