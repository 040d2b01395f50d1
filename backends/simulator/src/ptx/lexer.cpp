// SPDX-License-Identifier: Apache-2.0
#include "ptx/lexer.hpp"

#include <string>

#include "faultline/simulator/module.hpp"

namespace faultline::simulator::ptx {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_word_char(char c) {
  return is_digit(c) || is_letter(c) || c == '_' || c == '$' || c == '%';
}
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\f'; }

}  // namespace

Lexer::Lexer(std::string_view text, std::string_view name, std::size_t begin, int line)
    : text_(text), name_(name), position_(begin), line_(line) {
  current_ = scan();
}

void Lexer::fail_at(int line, std::string_view message) const {
  throw ParseError(std::string(name_) + ":" + std::to_string(line) + ": " + std::string(message));
}

void Lexer::fail(std::string_view message) const {
  std::string near = current_.kind == Token::Kind::end
                         ? std::string("the end of the text")
                         : "'" + std::string(current_.text.substr(0, 40)) + "'";
  fail_at(current_.line, std::string(message) + " near " + near);
}

const Token& Lexer::peek_next() {
  if (!has_next_) {
    next_ = scan();
    has_next_ = true;
  }
  return next_;
}

Token Lexer::take() {
  Token token = current_;
  consumed_end_ = token.begin + token.text.size();
  if (has_next_) {
    current_ = next_;
    has_next_ = false;
  } else {
    current_ = scan();
  }
  return token;
}

void Lexer::skip_blank() {
  while (position_ < text_.size()) {
    const char c = text_[position_];
    const char following = position_ + 1 < text_.size() ? text_[position_ + 1] : '\0';
    if (is_blank(c)) {
      if (c == '\n') ++line_;
      ++position_;
    } else if (c == '/' && following == '/') {
      while (position_ < text_.size() && text_[position_] != '\n') ++position_;
    } else if (c == '/' && following == '*') {
      const int opened = line_;
      const std::size_t close = text_.find("*/", position_ + 2);
      if (close == std::string_view::npos) fail_at(opened, "a comment does not end");
      for (; position_ < close + 2; ++position_) {
        if (text_[position_] == '\n') ++line_;
      }
    } else {
      return;
    }
  }
}

Token Lexer::scan() {
  skip_blank();
  Token token;
  token.begin = position_;
  token.line = line_;
  if (position_ >= text_.size()) return token;
  const auto at = [&](std::size_t i) { return i < text_.size() ? text_[i] : '\0'; };
  const char c = text_[position_];
  std::size_t end = position_ + 1;
  if (c == '"') {
    while (end < text_.size() && text_[end] != '"' && text_[end] != '\n') {
      end += text_[end] == '\\' ? 2 : 1;
    }
    if (at(end) != '"') fail_at(line_, "a string does not end");
    ++end;
    token.kind = Token::Kind::string;
  } else if (is_digit(c)) {
    while (is_word_char(at(end)) || (at(end) == '.' && is_digit(at(end + 1)))) ++end;
    token.kind = Token::Kind::number;
  } else if (is_word_char(c) || (c == '.' && (is_letter(at(end)) || at(end) == '_'))) {
    for (;;) {  // a directive ends at its next dot: `.reg.b16` is two
      if (is_word_char(at(end))) {
        ++end;
      } else if (c != '.' && at(end) == '.' && is_word_char(at(end + 1))) {
        ++end;
      } else if (at(end) == ':' && at(end + 1) == ':' && is_word_char(at(end + 2))) {
        end += 2;
      } else {
        break;
      }
    }
    token.kind = Token::Kind::word;
  } else if (c > ' ' && c < 0x7f) {
    token.kind = Token::Kind::punctuation;
  } else {
    fail_at(line_, "byte " + std::to_string(static_cast<unsigned char>(c)) +
                       " does not belong in PTX text (is this a binary file?)");
  }
  token.text = text_.substr(position_, end - position_);
  position_ = end;
  return token;
}

void Lexer::skip_body() {
  const int opened = line_;
  int depth = 1;
  for (;;) {
    if (current_.kind == Token::Kind::end) fail_at(opened, "a body does not end: '}' is missing");
    if (current_.text == "{") ++depth;
    if (current_.text == "}" && --depth == 0) break;
    take();
  }
  take();
}

}  // namespace faultline::simulator::ptx
