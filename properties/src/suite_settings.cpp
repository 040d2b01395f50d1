// SPDX-License-Identifier: Apache-2.0
#include "faultline/properties/suite_settings.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <rapidcheck.h>

#include "faultline/core/errors.hpp"
#include "faultline/core/problem.hpp"

namespace faultline::properties {
namespace {

constexpr const char* kBlanks = " \t\n\r";

/// The keys of "key=value key='value with blanks' key", as RapidCheck splits them.
std::vector<std::string> keys_of(const std::string& text) {
  std::vector<std::string> keys;
  std::size_t at = 0;
  while ((at = text.find_first_not_of(kBlanks, at)) != std::string::npos) {
    const std::size_t end = std::min(text.find_first_of(" \t\n\r=", at), text.size());
    keys.push_back(text.substr(at, end - at));
    at = end;
    if (at == text.size() || text[at] != '=') continue;
    ++at;
    if (at < text.size() && (text[at] == '\'' || text[at] == '"')) {
      const char quote = text[at++];
      while (at < text.size() && text[at] != quote) at += text[at] == '\\' ? 2 : 1;
      at = std::min(at + 1, text.size());
    } else {
      while (at < text.size() && std::string_view(kBlanks).find(text[at]) == std::string::npos) {
        at += text[at] == '\\' ? 2 : 1;
      }
      at = std::min(at, text.size());
    }
  }
  return keys;
}

bool has(const std::vector<std::string>& keys, std::string_view key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

}  // namespace

const std::vector<std::string>& rc_params_keys() {
  static const std::vector<std::string> keys{
      "seed",     "max_success",      "max_size",          "max_discard_ratio",
      "noshrink", "verbose_progress", "verbose_shrinking", "reproduce"};
  return keys;
}

void validate_rc_params(const std::string& text) {
  const std::vector<std::string_view> known(rc_params_keys().begin(), rc_params_keys().end());
  std::vector<std::string> seen;
  for (const std::string& key : keys_of(text)) {
    if (!has(rc_params_keys(), key)) {
      const std::string nearest = core::nearest_name(key, known);
      throw core::UsageError(
          fmt::format("RC_PARAMS has the unknown key '{}'{} Allowed: {}", key,
                      nearest.empty() ? "." : fmt::format("; did you mean '{}'?", nearest),
                      fmt::join(known, ", ")));
    }
    if (has(seen, key)) {
      throw core::UsageError(fmt::format("RC_PARAMS has the key '{}' twice", key));
    }
    seen.push_back(key);
  }
  try {
    const rc::detail::Configuration read = rc::detail::configFromString(text);
    if (read.testParams.maxSuccess < 1) {
      throw core::UsageError(
          fmt::format("RC_PARAMS has max_success={}: a property must be tried at "
                      "least once",
                      read.testParams.maxSuccess));
    }
  } catch (const rc::detail::ConfigurationException& error) {
    throw core::UsageError(fmt::format("RC_PARAMS '{}' is malformed: {}. Expected KEY=VALUE "
                                       "separated by blanks; keys: {}",
                                       text, error.what(), fmt::join(known, ", ")));
  }
}

SuiteSettings read_suite_settings(const char* rc_params, const char* property_cases) {
  SuiteSettings settings;
  settings.rc_params = rc_params ? rc_params : "";
  validate_rc_params(settings.rc_params);
  const std::vector<std::string> keys = keys_of(settings.rc_params);
  settings.cases_given = has(keys, "max_success");
  settings.reproducing = has(keys, "reproduce");
  if (!has(keys, "seed")) {
    settings.rc_params = fmt::format("seed={}{}{}", kDefaultSeed,
                                     settings.rc_params.empty() ? "" : " ", settings.rc_params);
  }
  if (property_cases) {
    const std::string_view text = property_cases;
    int cases = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), cases);
    if (error != std::errc{} || end != text.data() + text.size() || cases < 1 || cases > 1000000) {
      throw core::UsageError(fmt::format("FAULTLINE_PROPERTY_CASES is '{}': it takes the number of "
                                         "cases of a usual property, 1 to 1000000 (default 100)",
                                         text));
    }
    settings.cases_factor = cases / 100.0;
  }
  return settings;
}

int scaled_cases(const SuiteSettings& settings, int usual) {
  if (settings.cases_given) return 0;
  const double cases = std::round(usual * settings.cases_factor);
  return static_cast<int>(std::clamp(cases, 1.0, 1.0e9));
}

}  // namespace faultline::properties
