// SPDX-License-Identifier: Apache-2.0
#include "ptx/cursor.hpp"

#include <charconv>
#include <cstring>
#include <string>

namespace faultline::simulator::ptx {
namespace {

constexpr std::uint64_t kLargestVariable = std::uint64_t{1} << 40;

bool parse_hex(std::string_view digits, std::uint64_t& value) {
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  return result.ec == std::errc() && result.ptr == digits.data() + digits.size();
}

}  // namespace

bool Cursor::accept(std::string_view wanted) {
  if (at_end() || text() != wanted) return false;
  lexer_.take();
  return true;
}

void Cursor::expect(std::string_view wanted) {
  if (!accept(wanted)) lexer_.fail("expected '" + std::string(wanted) + "'");
}

std::string_view Cursor::take_word(std::string_view what) {
  if (lexer_.peek().kind != Token::Kind::word) lexer_.fail("expected " + std::string(what));
  return lexer_.take().text;
}

Number Cursor::take_number() {
  if (!at_number()) lexer_.fail("expected a number");
  std::string_view digits = text();
  Number number;
  bool valid = false;
  const char second = digits.size() > 1 ? digits[1] : '\0';
  if (digits[0] == '0' && (second == 'f' || second == 'F')) {
    number.is_float = true;
    valid = digits.size() == 10 && parse_hex(digits.substr(2), number.bits);
  } else if (digits[0] == '0' && (second == 'd' || second == 'D')) {
    number.is_float = number.is_double = true;
    valid = digits.size() == 18 && parse_hex(digits.substr(2), number.bits);
  } else if (digits.find('.') != std::string_view::npos) {
    double value = 0;
    const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    valid = result.ec == std::errc() && result.ptr == digits.data() + digits.size();
    number.is_float = number.is_double = true;
    std::memcpy(&number.bits, &value, sizeof value);
  } else {
    if (digits.back() == 'U' || digits.back() == 'u') digits.remove_suffix(1);
    int base = 10;
    if (digits.size() > 2 && digits[0] == '0' && (second == 'x' || second == 'X')) {
      base = 16;
      digits.remove_prefix(2);
    } else if (digits.size() > 2 && digits[0] == '0' && (second == 'b' || second == 'B')) {
      base = 2;
      digits.remove_prefix(2);
    } else if (digits.size() > 1 && digits[0] == '0') {
      base = 8;
    }
    const auto result =
        std::from_chars(digits.data(), digits.data() + digits.size(), number.bits, base);
    valid = result.ec == std::errc() && result.ptr == digits.data() + digits.size();
  }
  if (!valid) lexer_.fail("not a PTX number");
  lexer_.take();
  return number;
}

std::int64_t Cursor::take_integer() {
  const bool negative = accept("-");
  const Number number = take_number();
  if (number.is_float) lexer_.fail("expected an integer, got a floating-point constant");
  const auto value = static_cast<std::int64_t>(number.bits);
  return negative ? -value : value;
}

void Cursor::skip_past(std::string_view wanted) {
  while (!accept(wanted)) {
    if (at_end()) lexer_.fail("expected '" + std::string(wanted) + "'");
    lexer_.take();
  }
}

Variable Cursor::variable(std::string_view space) {
  Variable result;
  result.space = space;
  int element_bytes = 0;
  int vector_width = 1;
  while (!at_end() && text()[0] == '.') {
    if (accept(".align")) {
      result.align = static_cast<int>(take_integer());
      continue;
    }
    const std::string_view directive = lexer_.take().text.substr(1);
    if (directive == "v2" || directive == "v4") {
      vector_width = directive == "v2" ? 2 : 4;
    } else if (directive == "attribute") {
      skip_past(")");
    } else if (const auto type = parse_scalar(directive)) {
      element_bytes = bytes_of(*type);
    } else {
      lexer_.fail("unknown type or attribute '." + std::string(directive) + "' of a variable");
    }
  }
  if (element_bytes == 0) lexer_.fail("a variable has no type");
  element_bytes *= vector_width;
  if (result.align < 1 || result.align > (1 << 20)) lexer_.fail("impossible alignment");
  if (result.align < element_bytes) result.align = element_bytes;
  result.name = take_word("the name of a variable");
  std::uint64_t count = 1;
  bool open_dimension = false;
  while (accept("[")) {
    if (accept("]")) {
      open_dimension = true;
      continue;
    }
    const std::int64_t dimension = take_integer();
    if (dimension < 0) lexer_.fail("a negative dimension");
    count *= static_cast<std::uint64_t>(dimension);
    if (count > kLargestVariable) lexer_.fail("a variable larger than a terabyte");
    expect("]");
  }
  result.size = count * static_cast<std::uint64_t>(element_bytes);
  if (accept("=")) {
    initializer(result, element_bytes / vector_width);
    if (open_dimension) result.size = result.bytes.size();
  } else if (open_dimension) {
    result.external = true;
    result.size = 0;
  }
  return result;
}

void Cursor::initializer(Variable& variable, int element_bytes) {
  if (!accept("{")) {
    initializer_element(variable, element_bytes);
    return;
  }
  while (!accept("}")) {
    if (text() == "{") {
      initializer(variable, element_bytes);
    } else {
      initializer_element(variable, element_bytes);
    }
    if (text() != "}") expect(",");
  }
}

void Cursor::initializer_element(Variable& variable, int element_bytes) {
  std::uint64_t bits = 0;
  if (lexer_.peek().kind == Token::Kind::word) {
    Initializer entry{variable.bytes.size(), {}, 0};
    entry.symbol = lexer_.take().text;
    if (entry.symbol == "generic") {
      expect("(");
      entry.symbol = take_word("a symbol");
      expect(")");
    }
    if (accept("+")) entry.addend = take_integer();
    variable.addresses.push_back(entry);
  } else {
    const bool negative = accept("-");
    bits = take_number().bits;
    if (negative) bits = ~bits + 1;
  }
  for (int i = 0; i < element_bytes; ++i) {
    variable.bytes.push_back(static_cast<std::uint8_t>(bits >> (8 * i)));
  }
}

Variable Cursor::parameter() {
  Variable result;
  result.space = "param";
  int element_bytes = 0;
  while (!at_end() && text()[0] == '.') {
    if (accept(".align")) {
      result.align = static_cast<int>(take_integer());
    } else if (accept(".ptr")) {
      for (;;) {  // what the pointer points at says nothing about the parameter itself
        if (accept(".global") || accept(".shared") || accept(".const") || accept(".local"))
          continue;
        if (!accept(".align")) break;
        take_integer();
      }
    } else if (const auto type = parse_scalar(text().substr(1))) {
      element_bytes = bytes_of(*type);
      lexer_.take();
    } else {
      lexer_.fail("unknown attribute of a parameter");
    }
  }
  if (element_bytes == 0) lexer_.fail("a parameter has no type");
  if (result.align < element_bytes) result.align = element_bytes;
  result.name = take_word("the name of a parameter");
  result.size = static_cast<std::uint64_t>(element_bytes);
  while (accept("[")) {
    if (accept("]")) continue;
    const std::int64_t dimension = take_integer();
    if (dimension < 0 || dimension > (1 << 20)) lexer_.fail("impossible size of a parameter");
    result.size *= static_cast<std::uint64_t>(dimension);
    expect("]");
  }
  return result;
}

}  // namespace faultline::simulator::ptx
