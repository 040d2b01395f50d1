// SPDX-License-Identifier: Apache-2.0
// The environment of a property suite. RapidCheck ignores misspelt keys of RC_PARAMS and ends the
// process on malformed values, so both are checked before any test starts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace faultline::properties {

/// Keys of RC_PARAMS that RapidCheck knows.
const std::vector<std::string>& rc_params_keys();

/// UsageError that names the key and lists the allowed ones, or says which value is malformed.
void validate_rc_params(const std::string& text);

struct SuiteSettings {
  std::string rc_params{};    ///< as RapidCheck must get it: with a seed
  bool cases_given = false;   ///< RC_PARAMS has max_success, which then holds for every property
  double cases_factor = 1.0;  ///< FAULTLINE_PROPERTY_CASES / 100
  bool reproducing = false;   ///< RC_PARAMS has reproduce: all other properties are skipped
};

/// Seed of every run that RC_PARAMS gives no other: a suite in CI tries the same cases each time.
inline constexpr std::uint64_t kDefaultSeed = 20291;

/// From the values of RC_PARAMS and FAULTLINE_PROPERTY_CASES (null: not set). The latter is a
/// number of cases in [1, 1000000]: how many a property with the usual 100 gets; the others in
/// proportion. UsageError on anything else.
SuiteSettings read_suite_settings(const char* rc_params, const char* property_cases);

/// The number of cases of a property that has `usual` ones, at least 1. 0: RC_PARAMS decides.
int scaled_cases(const SuiteSettings& settings, int usual);

}  // namespace faultline::properties
