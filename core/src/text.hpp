// SPDX-License-Identifier: Apache-2.0
// Exact numbers as text, and near misses of names.
#pragma once

#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace faultline::core::detail {

/// The whole of `text` as a decimal number; nothing when anything is left over or out of range.
template <class T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end) {
    return std::nullopt;
  }
  return value;
}

/// Shortest text that reads back as the same number.
template <class T>
std::string number_text(T value) {
  char buffer[64];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, value);
  return std::string(buffer, result.ptr);
}

/// Known name nearest to `name` by edit distance, when near enough to be a slip of the keyboard;
/// else "".
std::string nearest_name(std::string_view name, const std::vector<std::string_view>& known);

/// 64-bit FNV-1a over the bytes, starting from `state`.
inline constexpr std::uint64_t kFnvOffset = 0xcbf29ce484222325ull;
inline std::uint64_t fnv1a(std::string_view bytes, std::uint64_t state = kFnvOffset) {
  for (const char c : bytes) {
    state = (state ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  }
  return state;
}

/// base64url without padding (RFC 4648, section 5).
std::string base64url(std::string_view bytes);
/// Nothing for a character outside the alphabet, an impossible length or stray bits at the end.
std::optional<std::string> from_base64url(std::string_view text);

}  // namespace faultline::core::detail
