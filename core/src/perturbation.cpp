// SPDX-License-Identifier: Apache-2.0
#include "faultline/core/perturbation.hpp"

#include <cmath>
#include <type_traits>

#include <fmt/format.h>

#include "enum_names.hpp"
#include "faultline/core/errors.hpp"
#include "text.hpp"

namespace faultline::core {

namespace {

/// Calls visit(key, member) for each field in printing order.
template <class P, class Visit>
void visit_fields(P& p, Visit&& visit) {
  visit("name", p.name);
  visit("sync_each", p.sync_each);
  visit("wait", p.wait);
  visit("wait_ns", p.wait_ns);
  visit("reload_module", p.reload_module);
  visit("pool_bytes", p.pool_bytes);
  visit("flush_l2", p.flush_l2);
  visit("co_resident", p.co_resident);
  visit("graph_trials", p.graph_trials);
  visit("batch", p.batch);
  visit("ctas_per_sm", p.ctas_per_sm);
  visit("fresh_inputs", p.fresh_inputs);
  visit("blocker_ns", p.blocker_ns);
  visit("free_sms", p.free_sms);
  visit("dirty_shared", p.dirty_shared);
  visit("policy", p.policy);
  visit("lateness", p.lateness);
  visit("offset_bytes", p.offset_bytes);
  visit("one_stream", p.one_stream);
  visit("calls", p.calls);
  visit("eager", p.eager);
  visit("delay_sites", p.delay_sites);
  visit("delay_site", p.delay_site);
  visit("delay_ns", p.delay_ns);
  visit("delay_seed", p.delay_seed);
}

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.' || c == ':' || c == '/' || c == '+';
}

/// Arm names are free text: what could be taken for a separator is written as %XX.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    result += is_plain(c)
                  ? std::string(1, c)
                  : fmt::format("%{:02x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
  }
  return result;
}

std::optional<std::string> unescaped(std::string_view text) {
  const auto digit = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
  };
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      result += text[i];
      continue;
    }
    if (i + 2 >= text.size() || digit(text[i + 1]) < 0 || digit(text[i + 2]) < 0) {
      return std::nullopt;
    }
    result += static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2]));
    i += 2;
  }
  return result;
}

template <class T>
std::string field_text(const T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    return escaped(value);
  } else if constexpr (std::is_same_v<T, bool>) {
    return value ? "1" : "0";
  } else if constexpr (std::is_enum_v<T>) {
    return std::string(detail::enum_name(value));
  } else {
    return detail::number_text(value);
  }
}

/// Sets `value`, or returns what was expected instead.
template <class T>
std::string set_field(T& value, std::string_view text) {
  if constexpr (std::is_same_v<T, std::string>) {
    auto plain = unescaped(text);
    if (!plain) {
      return "text with %XX escapes";
    }
    value = std::move(*plain);
  } else if constexpr (std::is_same_v<T, bool>) {
    if (text != "0" && text != "1") {
      return "0 or 1";
    }
    value = text == "1";
  } else if constexpr (std::is_enum_v<T>) {
    const auto parsed = detail::parse_enum<T>(text);
    if (!parsed) {
      return detail::enum_choices<T>();
    }
    value = *parsed;
  } else {
    const auto parsed = detail::parse_number<T>(text);
    // Written so that NaN is refused.
    if (!parsed || !(*parsed >= T{}) || !(*parsed <= std::numeric_limits<T>::max())) {
      return std::is_floating_point_v<T> ? "a number of at least 0" : "a whole number";
    }
    value = *parsed;
  }
  return {};
}

}  // namespace

std::string to_text(const Perturbation& perturbation) {
  // Both sides are walked together: the text holds what differs from the default.
  const Perturbation defaults;
  std::vector<std::string> texts, default_texts;
  std::string result;
  visit_fields(defaults,
               [&](const char*, const auto& value) { default_texts.push_back(field_text(value)); });
  std::size_t i = 0;
  visit_fields(perturbation, [&](const char* key, const auto& value) {
    const std::string text = field_text(value);
    if (text != default_texts[i++]) {
      result += fmt::format("{}{}={}", result.empty() ? "" : ",", key, text);
    }
  });
  return result.empty() ? "none" : result;
}

Perturbation parse_perturbation(std::string_view text) {
  Perturbation result;
  if (text.empty() || text == "none") {
    return result;
  }
  std::vector<std::string_view> known, seen;
  visit_fields(result, [&](const char* key, auto&) { known.emplace_back(key); });
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view pair = text.substr(begin, end - begin);
    begin = end + 1;
    const std::size_t equals = pair.find('=');
    if (equals == std::string_view::npos) {
      throw UsageError(
          fmt::format("'{}' in the perturbation '{}' is not of the form FIELD=VALUE", pair, text));
    }
    const std::string_view key = pair.substr(0, equals), value = pair.substr(equals + 1);
    bool found = false;
    std::string expected;
    visit_fields(result, [&](const char* name, auto& field) {
      if (key == name) {
        found = true;
        expected = set_field(field, value);
      }
    });
    if (!found) {
      const std::string nearest = detail::nearest_name(key, known);
      throw UsageError(
          fmt::format("unknown field '{}' in the perturbation '{}'{} Known: {}", key, text,
                      nearest.empty() ? "." : fmt::format("; did you mean '{}'?", nearest),
                      fmt::join(known, ", ")));
    }
    if (!expected.empty()) {
      throw UsageError(fmt::format("{}={} in a perturbation: expected {}", key, value, expected));
    }
    for (const std::string_view earlier : seen) {
      if (earlier == key) {
        throw UsageError(
            fmt::format("field '{}' is given twice in the perturbation '{}'", key, text));
      }
    }
    seen.push_back(key);
  }
  return result;
}

}  // namespace faultline::core
