// SPDX-License-Identifier: Apache-2.0
// Text from records is not ours: file names, source lines and problem strings may hold anything.
#pragma once

#include <string>
#include <string_view>

#include "faultline/reports/visible.hpp"

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

/// visible() text, escaped for HTML and for XML 1.0, which does not admit U+FFFE and U+FFFF: they
/// become visible too. Fit for text and for quoted attributes; with `attribute` tabs and newlines
/// become references, so that XML attributes keep them. No "]]>" is left.
std::string escape_markup(std::string_view text, bool attribute = false);

}  // namespace faultline::reports
