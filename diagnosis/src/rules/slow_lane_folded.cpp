// SPDX-License-Identifier: Apache-2.0
// slow.lane_folded: several lanes of a warp do the same work, so that a fraction of them would do.
// A warning.
//
// Two facts together: in the loads from global memory, and in the stores to it, a warp
// instruction's active lanes share their addresses, on average two or more to each. Loads alone
// prove nothing: an outer product, or a vector that every row needs, is read by several lanes whose
// work differs. But lanes whose work differs store to different places; lanes that store to one
// address in one instruction have computed the same element, or race. A kernel whose folded lanes
// guard the store
// (`if (lane < 8)`) is not found.
#include <fmt/format.h>

#include <string_view>

#include "../words.hpp"
#include "rule.hpp"

namespace faultline::diagnosis {
namespace {

constexpr double kFold = 2.0;           // lanes to an address
constexpr std::uint64_t kFewest = 128;  // lanes that took part: four full warps

/// Global accesses of one kind, and the line with most lanes among those that are folded.
struct Side {
  std::uint64_t lanes = 0, distinct = 0;
  const core::AccessStatistics* largest = nullptr;
  double fold() const {
    return distinct > 0 ? static_cast<double>(lanes) / static_cast<double>(distinct) : 0.0;
  }
};

double fold_of(const core::AccessStatistics& access) {
  return static_cast<double>(access.lanes) / static_cast<double>(access.distinct_addresses);
}

// Plain loads or stores: atomics on one address are how lanes combine different work.
Side side_of(const Facts& facts, std::string_view mnemonic) {
  Side side;
  for (const core::AccessStatistics& access : facts.accesses) {
    if (access.space != core::MemorySpace::global || access.distinct_addresses == 0 ||
        !std::string_view(access.instruction).starts_with(mnemonic)) {
      continue;
    }
    side.lanes += access.lanes;
    side.distinct += access.distinct_addresses;
    if (fold_of(access) >= kFold &&
        (side.largest == nullptr || access.distinct_addresses > side.largest->distinct_addresses)) {
      side.largest = &access;
    }
  }
  return side;
}

}  // namespace

std::optional<core::Finding> find_slow_lane_folded(const Facts& facts) {
  const Side loads = side_of(facts, "ld."), stores = side_of(facts, "st.");
  if (loads.fold() < kFold || stores.fold() < kFold || stores.lanes < kFewest) return std::nullopt;
  const core::AccessStatistics& store = *stores.largest;
  const core::AccessStatistics& load = *loads.largest;

  core::Finding finding;
  finding.finding = core::FindingClass::slow_lane_folded;
  finding.severity = core::Severity::warning;
  finding.confidence = 0.9;
  finding.headline =
      fmt::format("{} folds its lanes: {:.1f} lanes of a warp store each element at {}",
                  subject_text(facts.evidence), fold_of(store), line_text({store.where}));
  const auto sentence = [](const core::AccessStatistics& access) {
    return fmt::format("{} at {}: {} lanes in {} requests went to {} addresses, {:.1f} to each",
                       access.instruction, line_text({access.where}), count(access.lanes),
                       count(access.requests), count(access.distinct_addresses), fold_of(access));
  };
  finding.evidence.push_back(sentence(store));
  finding.evidence.push_back(sentence(load));
  finding.evidence.push_back(
      fmt::format("over all global stores {:.1f} lanes to an address, over all global loads {:.1f}",
                  stores.fold(), loads.fold()));
  finding.runner_up = core::FindingClass::slow_uncoalesced;
  finding.runner_up_reason = "the lanes' addresses are the same, not far apart";
  finding.advice =
      "Give each lane work of its own: split the reduction over the lanes that share an element "
      "and "
      "combine them with shuffles. Look for a lane number taken modulo the tile's width.";
  return finding;
}

}  // namespace faultline::diagnosis
