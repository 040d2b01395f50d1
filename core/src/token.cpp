// SPDX-License-Identifier: Apache-2.0
// Layout of a token: "fl1." + base64url(fields + check). A field is a tag byte, a length (LEB128)
// and that many bytes; a field at its default is left out; tags ascend. The check is the low 32
// bits of a hash of the fields.
#include "faultline/core/token.hpp"

#include <fmt/format.h>

#include "enum_names.hpp"
#include "faultline/core/errors.hpp"
#include "text.hpp"

namespace faultline::core {

namespace {

constexpr std::string_view kPrefix = "fl1.";
constexpr std::size_t kCheckBytes = 4;
constexpr std::size_t kMaximumLength = 1 << 16;

std::string check_of(std::string_view fields) {
  const std::uint64_t hash = mix64(detail::fnv1a(fields));
  std::string check;
  for (std::size_t i = 0; i < kCheckBytes; ++i) {
    check += static_cast<char>(hash >> (8 * i) & 0xff);
  }
  return check;
}

/// Calls visit(tag, member text) for each field. Members that are not text pass through `Text`
/// below.
template <class Token, class Visit>
void visit_parts(Token& token, Visit&& visit) {
  visit(1, token.backend);
  visit(2, token.subject);
  visit(3, token.variant);
  visit(4, token.problem);
  visit(5, token.config);
  visit(6, token.seed);
  visit(7, token.trial);
  visit(8, token.data);
  visit(9, token.perturbation);
  visit(10, token.race);
  visit(11, token.module_hash);
}

template <class T>
std::string part_text(const T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    return value;
  } else if constexpr (std::is_same_v<T, Perturbation>) {
    return to_text(value);
  } else if constexpr (std::is_enum_v<T>) {
    return std::string(detail::enum_name(value));
  } else {
    return detail::number_text(value);
  }
}

template <class T>
bool set_field(T& value, std::string text) {
  if constexpr (std::is_same_v<T, std::string>) {
    value = std::move(text);
    return true;
  } else if constexpr (std::is_same_v<T, Perturbation>) {
    value = parse_perturbation(text);
    return true;
  } else {
    std::optional<T> parsed;
    if constexpr (std::is_enum_v<T>) {
      parsed = detail::parse_enum<T>(text);
    } else {
      parsed = detail::parse_number<T>(text);
    }
    if (parsed) {
      value = *parsed;
    }
    return parsed.has_value();
  }
}

[[noreturn]] void refuse(const std::string& why) {
  throw UsageError(
      fmt::format("not a trial token: {}. A token is the whole word 'fl1....' that a report "
                  "prints.",
                  why));
}

}  // namespace

std::string encode(const TrialToken& token) {
  const TrialToken defaults;
  std::vector<std::string> default_texts;
  visit_parts(defaults, [&](int, const auto& value) { default_texts.push_back(part_text(value)); });
  std::string fields;
  std::size_t i = 0;
  visit_parts(token, [&](int tag, const auto& value) {
    const std::string text = part_text(value);
    if (text == default_texts[i++]) {
      return;
    }
    fields += static_cast<char>(tag);
    std::size_t length = text.size();
    do {
      fields += static_cast<char>((length & 0x7f) | (length > 0x7f ? 0x80 : 0));
      length >>= 7;
    } while (length > 0);
    fields += text;
  });
  return std::string(kPrefix) + detail::base64url(fields + check_of(fields));
}

TrialToken decode_token(std::string_view text) {
  if (!text.starts_with(kPrefix)) {
    const std::size_t dot = text.find('.');
    if (text.starts_with("fl") && dot != std::string_view::npos && dot < 8) {
      refuse(fmt::format("version '{}' is not known here, only 'fl1'", text.substr(0, dot)));
    }
    refuse("it does not begin with 'fl1.'");
  }
  if (text.size() > kMaximumLength) {
    refuse(fmt::format("it is {} characters long", text.size()));
  }
  const auto bytes = detail::from_base64url(text.substr(kPrefix.size()));
  if (!bytes) {
    refuse("it holds a character that tokens do not have, or was cut off");
  }
  if (bytes->size() < kCheckBytes) {
    refuse("it was cut off");
  }
  const std::string_view fields = std::string_view(*bytes).substr(0, bytes->size() - kCheckBytes);
  if (check_of(fields) != bytes->substr(fields.size())) {
    refuse("its check digits do not fit: it was cut off or changed");
  }

  TrialToken token;
  int last_tag = 0;
  for (std::size_t position = 0; position < fields.size();) {
    const int tag = static_cast<unsigned char>(fields[position++]);
    std::size_t length = 0;
    int shift = 0;
    bool more = true;
    while (more) {
      if (position == fields.size() || shift > 21) {
        refuse(fmt::format("field {} has no length", tag));
      }
      const auto byte = static_cast<unsigned char>(fields[position++]);
      length |= static_cast<std::size_t>(byte & 0x7f) << shift;
      shift += 7;
      more = (byte & 0x80) != 0;
    }
    if (length > fields.size() - position) {
      refuse(fmt::format("field {} is longer than the token", tag));
    }
    if (tag <= last_tag) {
      refuse(fmt::format("field {} is out of order", tag));
    }
    last_tag = tag;
    bool known = false, good = false;
    const std::string value(fields.substr(position, length));
    position += length;
    visit_parts(token, [&](int field_tag, auto& member) {
      if (field_tag == tag) {
        known = true;
        good = set_field(member, value);
      }
    });
    if (!known) {
      refuse(fmt::format("field {} is unknown: a newer faultline may have written it", tag));
    }
    if (!good) {
      refuse(fmt::format("field {} has the bad value '{}'", tag, value));
    }
  }
  return token;
}

}  // namespace faultline::core
