// SPDX-License-Identifier: Apache-2.0
#include "json_text.hpp"

#include <algorithm>
#include <string_view>

#include "text.hpp"

namespace faultline::core::detail {

namespace {

constexpr std::size_t kLineLength = 160;

std::string scalar_text(const Json& value) {
  if (value.is_number_float()) {
    std::string text = number_text(value.get<double>());
    // A double stays one for readers that tell 3 from 3.0, and -0 keeps its sign.
    return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
  }
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

bool holds_scalars_only(const Json& value) {
  return std::none_of(value.begin(), value.end(),
                      [](const Json& element) { return element.is_structured(); });
}

std::string one_line(const Json& value) {
  std::string text(1, value.is_array() ? '[' : '{');
  bool first = true;
  for (const auto& item : value.items()) {
    text += first ? "" : ", ";
    first = false;
    if (value.is_object()) {
      text += Json(item.key()).dump(-1, ' ', false, Json::error_handler_t::replace) + ": ";
    }
    text += scalar_text(item.value());
  }
  return text + (value.is_array() ? ']' : '}');
}

bool all_numbers(const Json& value) {
  return value.is_array() && std::all_of(value.begin(), value.end(),
                                         [](const Json& element) { return element.is_number(); });
}

void append(const Json& value, std::size_t depth, std::string& text) {
  if (!value.is_structured()) {
    text += scalar_text(value);
    return;
  }
  if (holds_scalars_only(value)) {
    const std::string line = one_line(value);
    if (line.size() + depth <= kLineLength || all_numbers(value)) {
      text += line;
      return;
    }
  }
  text += value.is_array() ? '[' : '{';
  bool first = true;
  for (const auto& item : value.items()) {
    text += first ? "\n" : ",\n";
    first = false;
    text.append(depth + 1, ' ');
    if (value.is_object()) {
      text += Json(item.key()).dump(-1, ' ', false, Json::error_handler_t::replace) + ": ";
    }
    append(item.value(), depth + 1, text);
  }
  text += '\n';
  text.append(depth, ' ');
  text += value.is_array() ? ']' : '}';
}

}  // namespace

std::string json_text(const Json& value) {
  std::string text;
  append(value, 0, text);
  text += '\n';
  return text;
}

}  // namespace faultline::core::detail
