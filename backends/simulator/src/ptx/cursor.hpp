// SPDX-License-Identifier: Apache-2.0
// What the two parsers (module level and function body) share: numbers, types, declarations.
#pragma once

#include "ptx/ast.hpp"
#include "ptx/lexer.hpp"

namespace faultline::simulator::ptx {

struct Number {
  std::uint64_t bits = 0;
  bool is_float = false;
  bool is_double = false;
};

class Cursor {
 public:
  Cursor(const Source& source, std::size_t begin, int line)
      : lexer_(source.text, source.name, begin, line) {}

  Lexer& lexer() { return lexer_; }
  std::string_view text() const { return lexer_.peek().text; }
  bool at_end() const { return lexer_.peek().kind == Token::Kind::end; }
  bool at_number() const { return lexer_.peek().kind == Token::Kind::number; }
  bool accept(std::string_view text);
  void expect(std::string_view text);
  std::string_view take_word(std::string_view what);
  Number take_number();
  std::int64_t take_integer();
  void skip_past(std::string_view text);

  // `[.align n] .type name [dims] [= initialiser]` behind the state space.
  Variable variable(std::string_view space);
  // `.param ...` of a function head or of a call sequence, behind `.param`.
  Variable parameter();

 private:
  void initializer(Variable& variable, int element_bytes);
  void initializer_element(Variable& variable, int element_bytes);

  Lexer lexer_;
};

}  // namespace faultline::simulator::ptx
