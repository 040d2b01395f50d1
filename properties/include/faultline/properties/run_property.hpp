// SPDX-License-Identifier: Apache-2.0
// Run a RapidCheck property and look at what came of it, without a test framework.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <rapidcheck.h>

namespace faultline::properties {

enum class PropertyOutcome : std::uint8_t {
  held,       ///< in every case tried
  falsified,  ///< by the counterexample
  gave_up,    ///< too many cases were discarded: nothing was learnt
  broken,     ///< RapidCheck reported an error, or ran no case at all
};

struct PropertyResult {
  PropertyOutcome outcome = PropertyOutcome::broken;
  int cases = 0;  ///< in which it held
  std::string description{};
  /// Minimal after shrinking: type (or name) and text of each value drawn, in order.
  std::vector<std::pair<std::string, std::string>> counterexample{};
  /// What RapidCheck prints of it, the reproduce string included.
  std::string message{};
};

struct PropertySettings {
  std::uint64_t seed = 1;
  int cases = 100;
  bool shrink = true;
};

namespace detail {
PropertyResult read_result(const rc::detail::TestResult& result);
rc::detail::TestResult run_apart(const rc::detail::Property& property,
                                 const PropertySettings& settings);
}  // namespace detail

/// Run under these settings, whatever RC_PARAMS says. `testable` is what rc::check takes. It must
/// be a deterministic function of what it draws: RapidCheck cannot handle a flaky property (it
/// fails to shrink it and prints a reproduce string that does not reproduce).
template <typename Testable>
PropertyResult run_property(Testable&& testable, const PropertySettings& settings = {}) {
  return detail::read_result(
      detail::run_apart(rc::detail::toProperty(std::forward<Testable>(testable)), settings));
}

/// Run under RC_PARAMS, but with this many cases unless RC_PARAMS has max_success. `id` is what its
/// `reproduce` refers to.
template <typename Testable>
PropertyResult run_configured_property(const std::string& id, Testable&& testable, int cases) {
  rc::detail::TestMetadata metadata{id, id};
  rc::detail::TestParams parameters = rc::detail::configuration().testParams;
  if (cases > 0) parameters.maxSuccess = cases;
  return detail::read_result(
      rc::detail::checkTestable(std::forward<Testable>(testable), metadata, parameters));
}

}  // namespace faultline::properties
