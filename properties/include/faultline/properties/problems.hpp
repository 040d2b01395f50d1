// SPDX-License-Identifier: Apache-2.0
// Problems of any registered subject, drawn from its own domain.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "faultline/kernels/subject.hpp"
#include "faultline/properties/value_domain.hpp"

namespace faultline::core {

// What counterexamples print: RapidCheck looks for this name beside the type.
void showValue(const Problem& problem, std::ostream& out);

}  // namespace faultline::core

namespace faultline::properties {

/// How far one integer parameter goes, and whose edges it is drawn from.
struct ParameterLimit {
  std::string name;
  std::int64_t maximum = 1;
  std::vector<std::int64_t> tiles{};
};

/// The part of a subject's problem domain that is drawn.
struct ProblemLimits {
  /// Integer parameters not listed go up to their default, at least 9, with the powers of two as
  /// tiles.
  std::vector<ParameterLimit> parameters{};
  /// Subject::traffic_bytes of a problem is at most this.
  double traffic_bytes = 192.0 * 1024.0;
  /// dtype parameters: only these; empty: all of the domain.
  std::vector<core::Dtype> dtypes{};
};

/// Whether one call runs over a sequence: the problem has a length t.
bool is_sequence(const kernels::Subject& subject);

/// Limits at which one trial costs the simulator milliseconds (sequences: tenths of a second), with
/// the tile lengths that the subject's kernels are built for. Every value that the domain lists is
/// within the limit of bytes: it is at least what the smallest problem of the widest values moves.
ProblemLimits simulator_limits(const kernels::Subject& subject);

/// The limits widened to hold the problem with these values (the others at their defaults), whose
/// integers become edges: what a mutant that shows there needs. Values of configs are passed over.
ProblemLimits with_values(ProblemLimits limits, const kernels::Subject& subject,
                          const std::vector<core::Assignment::Value>& values);

/// Problems of the subject inside its domain and the limits. Integers are drawn by tile_edges();
/// where a problem is too large, integers are halved, in a drawn order, until it is not; where that
/// is not enough, listed integers and dtypes step down. UsageError when the smallest problem is too
/// large. Prints as the problem line. Shrinks one parameter at a time: integers as
/// smaller_values(), choices and dtypes towards the first one, reals towards a named value, then 1,
/// then integers. The subject must outlive the domain.
ValueDomain<core::Problem> problems(const kernels::Subject& subject, ProblemLimits limits);

}  // namespace faultline::properties
