// SPDX-License-Identifier: Apache-2.0
// graph, state, stale_code, isolation, index32, device: faults whose wrong values can be foretold
// exactly. The subject states what each would give (TrialPlan::alternatives); the rule looks for
// wrong elements that hold just that, within the bound of the reference.
#include <map>

#include <fmt/format.h>

#include "../words.hpp"
#include "rule.hpp"

namespace faultline::diagnosis {
namespace {

struct AlternativeWords {
  const char* headline;  ///< {0}: subject, {1}: output, {2}: name of the alternative
  core::FindingClass runner_up;
  const char* runner_up_reason;
  const char* advice;
};

/// A few elements may agree with anything by chance.
constexpr double kLeastShare = 0.9;
constexpr std::uint64_t kLeastElements = 8;

std::optional<core::Finding> explained_by(const Facts& facts, core::FindingClass wanted,
                                          const AlternativeWords& words) {
  if (!facts.any_wrong()) return std::nullopt;
  // One name may foretell several outputs: together they must explain what is wrong in all.
  struct Pooled {
    const core::AlternativeEvidence* first = nullptr;
    std::uint64_t wrong = 0, matched = 0;
  };
  std::map<std::string, Pooled> pooled;
  for (const core::AlternativeEvidence& alternative : facts.evidence.alternatives) {
    if (alternative.finding != wanted || alternative.wrong == 0) continue;
    Pooled& pool = pooled[alternative.name];
    if (!pool.first || alternative.matched > pool.first->matched) pool.first = &alternative;
    pool.wrong += alternative.wrong;
    pool.matched += alternative.matched;
  }
  const core::AlternativeEvidence* best = nullptr;
  double best_share = 0.0;
  for (const auto& [name, pool] : pooled) {
    const double share = static_cast<double>(pool.matched) / static_cast<double>(pool.wrong);
    if (share <= best_share || pool.matched < kLeastElements) continue;
    best_share = share;
    best = pool.first;
  }
  if (!best || best_share < kLeastShare) return std::nullopt;

  core::Finding finding;
  finding.finding = wanted;
  finding.severity = core::Severity::error;
  finding.confidence = 0.98 * best_share;
  finding.headline = fmt::format(fmt::runtime(words.headline), subject_text(facts.evidence),
                                 best->output, best->name);
  finding.evidence.push_back(fmt::format(
      "{}: {} wrong elements hold the values of \"{}\" within the bound, and not those of the "
      "reference",
      best->output, share(best->matched, best->wrong), best->name));
  for (const core::OutputTotals* output : wrong_outputs(facts)) {
    finding.evidence.push_back(wrong_place(facts, *output));
  }
  finding.runner_up = words.runner_up;
  finding.runner_up_reason = words.runner_up_reason;
  finding.advice = words.advice;
  return finding;
}

}  // namespace

std::optional<core::Finding> find_graph(const Facts& facts) {
  return explained_by(
      facts, core::FindingClass::graph,
      {"a graph of {0} replays stale arguments: {1} is the result of {2}",
       core::FindingClass::race_stream,
       "a replay that overlapped another one would give a mixture, these are the whole result for "
       "the arguments of capture time",
       "Update the kernel nodes' parameters before the replay, or read the arguments from "
       "memory."});
}

std::optional<core::Finding> find_state_carried(const Facts& facts) {
  return explained_by(
      facts, core::FindingClass::state,
      {"a later call of {0} goes on from what an earlier one left: {1} is the result of {2}",
       core::FindingClass::stale_code,
       "the code is the right one: the values are those of a continued state",
       "Give each call a state of its own, or copy the caller's before the first write."});
}

std::optional<core::Finding> find_stale_code(const Facts& facts) {
  return explained_by(
      facts, core::FindingClass::stale_code,
      {"{0} runs code that was built for another call: {1} is the result of {2}",
       core::FindingClass::state,
       "no buffer carries anything over: the values are those of other code on these inputs",
       "Put everything that the code depends on into the key of the cache."});
}

std::optional<core::Finding> find_isolation(const Facts& facts) {
  return explained_by(facts, core::FindingClass::isolation,
                      {"{0} lets one group's data reach another's result: {1} is the result of {2}",
                       core::FindingClass::tail,
                       "the wrong elements are not those of a last, partial tile",
                       "Check the group index in every address and in every mask."});
}

std::optional<core::Finding> find_index32(const Facts& facts) {
  return explained_by(
      facts, core::FindingClass::index32,
      {"an index of {0} wraps at 32 bits: {1} is the result of {2}", core::FindingClass::layout,
       "a wrong pitch would move every row, these are right up to a distance of 2^32 bytes",
       "Widen the first factor of the address to 64 bits before the product."});
}

std::optional<core::Finding> find_device(const Facts& facts) {
  return explained_by(facts, core::FindingClass::device,
                      {"{0} reads a peer's buffer too early or too late: {1} is the result of {2}",
                       core::FindingClass::race_stream, "the buffer belongs to another device",
                       "Order the peer's write and this read by an event that both devices know."});
}

}  // namespace faultline::diagnosis
