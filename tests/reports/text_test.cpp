// SPDX-License-Identifier: Apache-2.0
#include "text.hpp"

#include <gtest/gtest.h>

#include "sha256.hpp"

namespace faultline::reports {
namespace {

TEST(Text, PrintableHoldsNoControlCharacter) {
  EXPECT_EQ(printable("a\x1b[31mb\a\r\x7f", true), "a?[31mb???");
  EXPECT_EQ(printable("a\tb", true), "a   b");
  EXPECT_EQ(printable("abcd\te", true), "abcd    e");
  EXPECT_EQ(printable("\xff\xc3", true), "??");
}

TEST(Text, PrintableTakesOneColumnPerCodePoint) {
  EXPECT_EQ(printable("\u00e9\u2190\u2588", true), "\u00e9\u2190\u2588");
  EXPECT_EQ(columns_of("\u00e9\u2190\u2588"), 3);
  EXPECT_EQ(printable("\u4e2d\U0001f600e\u0301", true), "??e?");  // wide, wide, combining
  EXPECT_EQ(printable("\u202eabc", true), "?abc");                // right-to-left override
  EXPECT_EQ(printable("\u00e9\u2190", false), "??");
}

TEST(Text, HtmlIsEscaped) {
  EXPECT_EQ(escape_markup("<a href=\"x\">&'"), "&lt;a href=&quot;x&quot;&gt;&amp;&#39;");
  EXPECT_EQ(escape_markup("\x1b\u202e"), "[U+001B][U+202E]");
  EXPECT_EQ(escape_markup(std::string_view("a\0b", 3)), "a[U+0000]b");
  EXPECT_EQ(escape_markup("\xff"), "\ufffd");
  EXPECT_EQ(escape_markup("\xc0\xbcscript"), "\ufffd\ufffdscript");  // overlong '<'
}

TEST(Text, Sha256MatchesTheStandard) {
  EXPECT_EQ(sha256_base64(""), "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
  EXPECT_EQ(sha256_base64("abc"), "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=");
  EXPECT_EQ(sha256_base64(std::string(64, 'a')), "/+BU/nrgy23GXDr5th1SCfQ5hR20PQulmXM33xVGaOs=");
}

}  // namespace
}  // namespace faultline::reports
