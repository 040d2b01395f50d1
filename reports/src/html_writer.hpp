// SPDX-License-Identifier: Apache-2.0
// HTML in which nothing is printed by accident: markup comes from string literals only, text is
// escaped.
#pragma once

#include <fmt/format.h>

#include <concepts>
#include <string>
#include <string_view>

#include "text.hpp"

namespace faultline::reports {

/// Text that is fit to stand in HTML: made by the functions below and by nothing else.
class Safe {
 public:
  const std::string& text() const { return text_; }

 private:
  explicit Safe(std::string text) : text_(std::move(text)) {}
  friend Safe escaped(std::string_view text);
  friend Safe number(std::integral auto value);
  friend Safe percent(double share);
  template <std::size_t N>
  friend Safe literal(const char (&markup)[N]);
  std::string text_;
};

inline Safe escaped(std::string_view text) { return Safe(escape_markup(text)); }
inline Safe number(std::integral auto value) { return Safe(fmt::format("{}", value)); }
/// A place in [0, 1] as an SVG length: "37.25%".
inline Safe percent(double share) { return Safe(fmt::format("{:.2f}%", 100.0 * share)); }
/// One of several literals, chosen at run time.
template <std::size_t N>
Safe literal(const char (&markup)[N]) {
  return Safe(std::string(markup, N - 1));
}

/// Appends literals and safe text; a std::string does not compile.
class HtmlWriter {
 public:
  template <class... Parts>
  HtmlWriter& put(const Parts&... parts) {
    (append(parts), ...);
    return *this;
  }
  /// Style and script, which are ours.
  HtmlWriter& put_asset(std::string_view asset) {
    out_ += asset;
    return *this;
  }
  std::string take() { return std::move(out_); }

 private:
  template <std::size_t N>
  void append(const char (&literal)[N]) {
    out_.append(literal, N - 1);
  }
  void append(const Safe& safe) { out_ += safe.text(); }
  void append(const HtmlWriter& part) { out_ += part.out_; }

  std::string out_;
};

}  // namespace faultline::reports
