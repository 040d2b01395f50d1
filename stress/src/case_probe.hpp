// SPDX-License-Identifier: Apache-2.0
// One case run by itself and judged by itself: what explain and reduce ask again and again.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "faultline/core/backend.hpp"
#include "faultline/core/token.hpp"
#include "faultline/core/verdict.hpp"
#include "faultline/kernels/subject.hpp"
#include "faultline/stress/campaign.hpp"

namespace faultline::stress::detail {

struct ProbeResult {
  std::string refused{};  ///< it could not be run or judged: outside the domain or contract, error
  std::uint64_t failed = 0, trials = 0;
  std::optional<core::FindingClass> finding{};  ///< of the first error

  bool fails() const { return refused.empty() && failed > 0; }
  bool always_fails() const { return refused.empty() && trials > 0 && failed == trials; }
};

class CaseProbe {
 public:
  CaseProbe(core::Backend& backend, const kernels::SubjectRegistry& registry, RunOptions run,
            std::uint64_t repeats, std::uint64_t executions);

  ProbeResult run(const core::TrialToken& trial);
  /// Elements of all buffers of the case; 0 when it is refused.
  std::int64_t elements(const core::TrialToken& trial) const;

  bool spent() const;
  std::uint64_t executions() const { return done_; }
  bool on_model() const { return backend_.info().is_model; }

 private:
  core::Backend& backend_;
  const kernels::SubjectRegistry& registry_;
  RunOptions run_;
  std::uint64_t repeats_, limit_, done_ = 0;
};

kernels::ResolvedTrial resolve_case(const kernels::SubjectRegistry& registry,
                                    const core::TrialToken& trial);

/// The tiles of a case and the other numbers of its config: values whose multiples may decide.
std::set<std::int64_t> tiles_of(const kernels::ResolvedTrial& trial);

/// Values of an integer below `value` (with `above`: above it) at which a case may fail yet though
/// bisection found it to pass there: multiples of 16, 8, 4 and 2, whole tiles with what is beside
/// them, and the same about half of it. The likeliest first, each once, within the domain; none
/// where that lists its values.
std::vector<std::int64_t> beyond_threshold(const core::ParameterSpec& spec, std::int64_t value,
                                           const std::set<std::int64_t>& tiles, bool above);

/// UsageError when the token is of another backend.
void require_backend(const core::Backend& backend, const core::TrialToken& trial);

}  // namespace faultline::stress::detail
