// SPDX-License-Identifier: Apache-2.0
#include "text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace faultline::reports {
namespace {

constexpr char32_t kReplacement = 0xfffd;

// Code points that every terminal font draws in one column: Latin, Greek, Cyrillic, punctuation,
// arrows, mathematical operators, box drawing and blocks. Emoji among them (watch, hourglass, ...)
// are two columns wide.
bool takes_one_column(char32_t c) {
  constexpr std::array<std::pair<char32_t, char32_t>, 9> kRanges = {{{0x20, 0x7e},
                                                                     {0xa1, 0xac},
                                                                     {0xae, 0x2ff},
                                                                     {0x370, 0x482},
                                                                     {0x48a, 0x52f},
                                                                     {0x2010, 0x2027},
                                                                     {0x2030, 0x205e},
                                                                     {0x2070, 0x2319},
                                                                     {0x2500, 0x25fc}}};
  return std::any_of(kRanges.begin(), kRanges.end(),
                     [c](const auto& range) { return c >= range.first && c <= range.second; });
}

bool is_bidirectional_control(char32_t c) {
  return c == 0x61c || c == 0x200e || c == 0x200f || (c >= 0x202a && c <= 0x202e) ||
         (c >= 0x2066 && c <= 0x2069);
}

bool is_control(char32_t c) { return c < 0x20 || (c >= 0x7f && c < 0xa0); }

/// Would act on the text around it instead of being seen.
bool is_hidden(char32_t c) {
  return (is_control(c) && c != '\t' && c != '\n') || is_bidirectional_control(c);
}

std::string code_point_text(char32_t c) {
  return fmt::format("[U+{:04X}]", static_cast<std::uint32_t>(c));
}

}  // namespace

std::u32string decode_utf8(std::string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = [&](std::size_t k) { return static_cast<unsigned char>(text[k]); };
    const unsigned lead = byte(i);
    const int length = lead < 0x80                   ? 1
                       : lead >= 0xf0 && lead < 0xf5 ? 4
                       : lead >= 0xe0 && lead < 0xf0 ? 3
                       : lead >= 0xc2 && lead < 0xe0 ? 2
                                                     : 0;
    bool good = length > 0 && i + static_cast<std::size_t>(length) <= text.size();
    char32_t code = length == 1 ? lead : lead & (0x7fu >> length);
    for (int k = 1; good && k < length; ++k) {
      const unsigned next = byte(i + static_cast<std::size_t>(k));
      good = (next & 0xc0) == 0x80;
      code = code << 6 | (next & 0x3f);
    }
    constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
    good =
        good && code >= kSmallest[length] && code <= 0x10ffff && !(code >= 0xd800 && code < 0xe000);
    out.push_back(good ? code : kReplacement);
    i += good ? static_cast<std::size_t>(length) : 1;
  }
  return out;
}

void append_utf8(std::string& out, char32_t c) {
  const auto put = [&out](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xc0 | c >> 6);
    put(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    put(0xe0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3f));
    put(0x80 | (c & 0x3f));
  } else {
    put(0xf0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3f));
    put(0x80 | (c >> 6 & 0x3f));
    put(0x80 | (c & 0x3f));
  }
}

std::string printable(std::string_view text, bool unicode) {
  std::string out;
  out.reserve(text.size());
  int column = 0;
  for (const char32_t c : decode_utf8(text)) {
    if (c == '\t') {
      const int blanks = 4 - column % 4;
      out.append(static_cast<std::size_t>(blanks), ' ');
      column += blanks;
      continue;
    }
    ++column;
    if (c == '\n' || c == 0xa0) {
      out.push_back(' ');
    } else if (takes_one_column(c) && (unicode || c < 0x80)) {
      append_utf8(out, c);
    } else {
      out.push_back('?');
    }
  }
  return out;
}

int columns_of(std::string_view text) {
  return static_cast<int>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

std::string visible(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char32_t c : decode_utf8(text)) {
    if (is_hidden(c)) {
      out += code_point_text(c);
    } else {
      append_utf8(out, c);
    }
  }
  return out;
}

std::string escape_markup(std::string_view text, bool attribute) {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  for (const char32_t c : decode_utf8(text)) {
    switch (c) {
    case '&': out += "&amp;"; continue;
    case '<': out += "&lt;"; continue;
    case '>': out += "&gt;"; continue;
    case '"': out += "&quot;"; continue;
    case '\'': out += "&#39;"; continue;
    default: break;
    }
    if (attribute && (c == '\t' || c == '\n')) {
      out += c == '\t' ? "&#9;" : "&#10;";
    } else if (is_hidden(c) || c == 0xfffe || c == 0xffff) {
      out += code_point_text(c);
    } else {
      append_utf8(out, c);
    }
  }
  return out;
}

}  // namespace faultline::reports
