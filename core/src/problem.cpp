// SPDX-License-Identifier: Apache-2.0
#include "faultline/core/problem.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "faultline/core/errors.hpp"
#include "text.hpp"

namespace faultline::core {

namespace {

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    text += (text.empty() ? "" : ", ") + name;
  }
  return text;
}

/// "config parameter 'stages' of gemv" from the context "config of gemv".
std::string parameter_text(std::string_view name, std::string_view context) {
  const std::size_t of = context.find(" of ");
  if (of == std::string_view::npos) {
    return fmt::format("parameter '{}' of {}", name, context);
  }
  return fmt::format("{} parameter '{}'{}", context.substr(0, of), name, context.substr(of));
}

/// Canonical text of `value`, or nothing when it lies outside the domain.
std::optional<std::string> canonical(const ParameterSpec& spec, const std::string& value) {
  switch (spec.kind) {
  case ParameterSpec::Kind::integer: {
    const auto number = detail::parse_number<std::int64_t>(value);
    if (!number) {
      return std::nullopt;
    }
    if (!spec.allowed.empty()) {
      const bool listed =
          std::find(spec.allowed.begin(), spec.allowed.end(), *number) != spec.allowed.end();
      return listed ? std::optional(std::to_string(*number)) : std::nullopt;
    }
    const bool inside = *number >= spec.minimum && *number <= spec.maximum &&
                        (spec.multiple_of <= 1 || *number % spec.multiple_of == 0);
    return inside ? std::optional(std::to_string(*number)) : std::nullopt;
  }
  case ParameterSpec::Kind::choice: {
    const bool listed =
        std::find(spec.choices.begin(), spec.choices.end(), value) != spec.choices.end();
    return listed ? std::optional(value) : std::nullopt;
  }
  case ParameterSpec::Kind::dtype: {
    const auto dtype = parse_dtype(value);
    if (!dtype) {
      return std::nullopt;
    }
    const std::string name(name_of(*dtype));
    const bool listed = spec.choices.empty() || std::find(spec.choices.begin(), spec.choices.end(),
                                                          name) != spec.choices.end();
    return listed ? std::optional(name) : std::nullopt;
  }
  case ParameterSpec::Kind::real: {
    if (std::find(spec.choices.begin(), spec.choices.end(), value) != spec.choices.end()) {
      return value;
    }
    const auto number = detail::parse_number<double>(value);
    // Written so that NaN is refused.
    if (number && *number >= spec.real_minimum && *number <= spec.real_maximum) {
      return detail::number_text(*number);
    }
    return std::nullopt;
  }
  }
  return std::nullopt;
}

}  // namespace

std::string ParameterSpec::domain_text() const {
  switch (kind) {
  case Kind::integer: {
    if (!allowed.empty()) {
      std::vector<std::string> values;
      for (const std::int64_t value : allowed) {
        values.push_back(std::to_string(value));
      }
      return values.size() == 1 ? "the integer " + values[0]
                                : "one of the integers " + joined(values);
    }
    std::string text = fmt::format("integer in [{}, {}]", minimum, maximum);
    if (multiple_of > 1) {
      text += fmt::format(", a multiple of {}", multiple_of);
    }
    return text;
  }
  case Kind::choice: return "one of " + joined(choices);
  case Kind::dtype:
    return "dtype, one of " + (choices.empty() ? "f16, bf16, f32, f64" : joined(choices));
  case Kind::real:
    return fmt::format("real number in [{}, {}]{}{}", detail::number_text(real_minimum),
                       detail::number_text(real_maximum), choices.empty() ? "" : ", or ",
                       joined(choices));
  }
  return {};
}

const ParameterSpec* Domain::find(std::string_view name) const {
  for (const ParameterSpec& parameter : parameters) {
    if (parameter.name == name) {
      return &parameter;
    }
  }
  return nullptr;
}

bool Assignment::has(std::string_view name) const {
  return std::any_of(values_.begin(), values_.end(),
                     [&](const Value& value) { return value.first == name; });
}

const std::string& Assignment::text(std::string_view name) const {
  for (const auto& [key, value] : values_) {
    if (key == name) {
      return value;
    }
  }
  throw UsageError(
      fmt::format("there is no parameter '{}' in '{}'", name, values_.empty() ? "" : line()));
}

std::int64_t Assignment::integer(std::string_view name) const {
  const std::string& value = text(name);
  if (const auto number = detail::parse_number<std::int64_t>(value)) {
    return *number;
  }
  throw UsageError(fmt::format("{}={} is not an integer", name, value));
}

double Assignment::real(std::string_view name) const {
  const std::string& value = text(name);
  if (const auto number = detail::parse_number<double>(value)) {
    return *number;
  }
  throw UsageError(fmt::format("{}={} is not a number", name, value));
}

Dtype Assignment::dtype(std::string_view name) const {
  const std::string& value = text(name);
  if (const auto dtype = parse_dtype(value)) {
    return *dtype;
  }
  throw UsageError(fmt::format("{}={} is not a dtype: f16, bf16, f32 or f64", name, value));
}

void Assignment::set(std::string_view name, std::string value) {
  for (auto& [key, old] : values_) {
    if (key == name) {
      old = std::move(value);
      return;
    }
  }
  values_.emplace_back(std::string(name), std::move(value));
}

void Assignment::set(std::string_view name, std::int64_t value) {
  set(name, std::to_string(value));
}

std::string Assignment::line() const {
  std::string text;
  for (const auto& [name, value] : values_) {
    text += (text.empty() ? "" : " ") + name + "=" + value;
  }
  return text;
}

Assignment complete(const Domain& domain, const std::vector<Assignment::Value>& given,
                    std::string_view context) {
  std::vector<std::string_view> known;
  for (const ParameterSpec& parameter : domain.parameters) {
    known.push_back(parameter.name);
  }
  for (std::size_t i = 0; i < given.size(); ++i) {
    const auto& [name, value] = given[i];
    if (!domain.find(name)) {
      const std::string nearest = detail::nearest_name(name, known);
      std::string message =
          fmt::format("unknown {} (given {}={})", parameter_text(name, context), name, value);
      if (known.empty()) {
        message += ": it has no parameters";
      } else {
        message += nearest.empty() ? "." : fmt::format("; did you mean '{}'?", nearest);
      }
      if (!known.empty()) {
        message += fmt::format(" Known: {}", fmt::join(known, ", "));
      }
      throw UsageError(message);
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (given[j].first == name) {
        throw UsageError(fmt::format("{} is given twice: {}={} and {}={}",
                                     parameter_text(name, context), name, given[j].second, name,
                                     value));
      }
    }
  }

  std::vector<Assignment::Value> values;
  values.reserve(domain.parameters.size());
  for (const ParameterSpec& parameter : domain.parameters) {
    const std::string* value = &parameter.default_value;
    for (const auto& [name, text] : given) {
      if (name == parameter.name) {
        value = &text;
      }
    }
    if (value == &parameter.default_value && value->empty()) {
      throw UsageError(fmt::format("{} has no value and no default: give {}=VALUE, {}",
                                   parameter_text(parameter.name, context), parameter.name,
                                   parameter.domain_text()));
    }
    auto text = canonical(parameter, *value);
    if (!text) {
      throw UsageError(fmt::format("{}={} is outside the domain of {}: {}", parameter.name, *value,
                                   parameter_text(parameter.name, context),
                                   parameter.domain_text()));
    }
    values.emplace_back(parameter.name, std::move(*text));
  }
  return Assignment(std::move(values));
}

std::string nearest_name(std::string_view name, const std::vector<std::string_view>& known) {
  return detail::nearest_name(name, known);
}

std::vector<Assignment::Value> parse_assignments(std::string_view text) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; };
  std::vector<Assignment::Value> values;
  std::size_t position = 0;
  bool after_comma = false;
  for (;;) {
    while (position < text.size() && is_blank(text[position])) {
      ++position;
    }
    if (position == text.size()) {
      if (after_comma) {
        throw UsageError(
            fmt::format("nothing follows the last comma of '{}': expected NAME=VALUE", text));
      }
      return values;
    }
    std::size_t end = position;
    while (end < text.size() && !is_blank(text[end]) && text[end] != ',') {
      ++end;
    }
    const std::string_view pair = text.substr(position, end - position);
    const std::size_t equals = pair.find('=');
    if (equals == std::string_view::npos || equals == 0 || equals + 1 == pair.size() ||
        pair.find('=', equals + 1) != std::string_view::npos) {
      throw UsageError(fmt::format("'{}' is not of the form NAME=VALUE (in '{}')", pair, text));
    }
    values.emplace_back(std::string(pair.substr(0, equals)), std::string(pair.substr(equals + 1)));
    while (end < text.size() && is_blank(text[end])) {
      ++end;
    }
    after_comma = end < text.size() && text[end] == ',';
    position = after_comma ? end + 1 : end;
  }
}

std::string Problem::line() const {
  const std::string assignments = values.line();
  return assignments.empty() ? subject : subject + " " + assignments;
}

}  // namespace faultline::core
