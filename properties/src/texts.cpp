// SPDX-License-Identifier: Apache-2.0
#include "texts.hpp"

#include <array>

namespace faultline::properties::detail {

std::string draw_text(Source& source, std::size_t longest) {
  static constexpr std::array kPieces{"a",  "b",  "Z",  "0",    "9",  "_",  "-",        ".",
                                      " ",  ",",  "=",  "%",    "\"", "\\", "/",        "'",
                                      "\n", "\t", "\r", "\x01", "{",  "]",  "\xc3\xa9", "&<"};
  std::string text;
  if (source.once_in(4)) return text;
  const std::uint64_t pieces = 1 + source.below(longest);
  for (std::uint64_t i = 0; i < pieces; ++i) text += source.pick(kPieces);
  return text;
}

std::vector<std::string> shorter_texts(const std::string& text) {
  // Cut between characters: a UTF-8 sequence stays whole.
  const auto cut = [&](std::size_t length) {
    while (length > 0 && (static_cast<unsigned char>(text[length]) & 0xc0) == 0x80) --length;
    return text.substr(0, length);
  };
  std::vector<std::string> shorter;
  if (text.empty()) return shorter;
  shorter.emplace_back();
  if (text.size() > 2) shorter.push_back(cut(text.size() / 2));
  if (text.size() > 1) shorter.push_back(cut(text.size() - 1));
  return shorter;
}

std::uint64_t draw_number(Source& source) {
  switch (source.below(4)) {
  case 0: return source.below(4);
  case 1: return ~std::uint64_t{0} - source.below(2);
  case 2: return source.bits() >> source.below(64);
  default: return source.bits();
  }
}

std::vector<std::uint64_t> smaller_numbers(std::uint64_t value) {
  std::vector<std::uint64_t> smaller;
  for (std::uint64_t gap = value; gap > 0; gap /= 2) smaller.push_back(value - gap);
  return smaller;
}

}  // namespace faultline::properties::detail
