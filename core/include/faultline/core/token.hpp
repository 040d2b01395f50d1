// SPDX-License-Identifier: Apache-2.0
// A trial's token: one printable word that replays it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "faultline/core/perturbation.hpp"
#include "faultline/core/problem.hpp"
#include "faultline/core/trial.hpp"

namespace faultline::core {

/// Everything that identifies a trial. Problem and config are kept as lines and validated again at
/// replay.
struct TrialToken {
  std::string backend{};  ///< "simulator" or "cuda"
  std::string subject{}, variant{};
  std::string problem{};  ///< "b=1 h=1 dk=64 ..." without the subject
  std::string config{};
  std::uint64_t seed = 1;
  std::uint64_t trial = 0;
  DataMode data = DataMode::normal;
  Perturbation perturbation{};
  RaceMode race = RaceMode::strict;
  std::string module_hash{};  ///< which code ran; replay warns when it differs
  friend bool operator==(const TrialToken&, const TrialToken&) = default;
};

/// "fl1." + base64url of the fields + check digits; decode(encode(t)) == t.
std::string encode(const TrialToken& token);
/// UsageError that says what is wrong with it (prefix, truncated, check digits, unknown field).
TrialToken decode_token(std::string_view text);

}  // namespace faultline::core
