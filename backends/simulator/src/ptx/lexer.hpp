// SPDX-License-Identifier: Apache-2.0
// PTX text -> tokens, on demand.
#pragma once

#include <cstdint>
#include <string_view>

namespace faultline::simulator::ptx {

struct Token {
  enum class Kind : std::uint8_t { word, number, string, punctuation, end };
  Kind kind = Kind::end;
  std::string_view text;
  std::size_t begin = 0;  // offset in the text
  int line = 1;
};

// A cursor over PTX text. A word carries its dotted modifiers (`ld.global.v4.f32`, `%tid.x`).
class Lexer {
 public:
  // `name` appears in errors. Throws ParseError where a comment or a string does not end.
  Lexer(std::string_view text, std::string_view name, std::size_t begin = 0, int line = 1);

  const Token& peek() const { return current_; }
  const Token& peek_next();
  Token take();
  // Offset just behind the token taken last.
  std::size_t consumed_end() const { return consumed_end_; }
  // Skips to behind the brace that closes a body whose `{` was taken last.
  void skip_body();
  [[noreturn]] void fail(std::string_view message) const;

 private:
  Token scan();
  void skip_blank();
  [[noreturn]] void fail_at(int line, std::string_view message) const;

  std::string_view text_;
  std::string_view name_;
  std::size_t position_;
  int line_;
  Token current_;
  Token next_;
  bool has_next_ = false;
  std::size_t consumed_end_ = 0;
};

}  // namespace faultline::simulator::ptx
