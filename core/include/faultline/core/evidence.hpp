// SPDX-License-Identifier: Apache-2.0
// Evidence: facts with numbers, and nothing else. diagnosis/ turns it into findings.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "faultline/core/trial.hpp"

namespace faultline::core {

/// Two-sided interval of a proportion.
struct Interval {
  double low = 0.0, high = 1.0;
  friend bool operator==(const Interval&, const Interval&) = default;
};

/// One arm of a campaign.
struct ArmEvidence {
  Perturbation perturbation{};
  TrialResult result{};
  Interval wilson95{};   ///< of the failure rate
  double upper95 = 1.0;  ///< one-sided upper bound on the rate when nothing failed: 1 - 0.05^(1/n)
  std::string token{};   ///< of the first failing trial; empty when none failed
  /// Paired by trial number with the unperturbed arm of equal inputs ("none", or "fresh_inputs" for
  /// arms with new inputs every trial): trials that failed here only, and there only; log of the
  /// e-value of "the rates differ" (docs/statistics.md). All 0 without such an arm.
  std::uint64_t failed_here_only = 0, failed_there_only = 0;
  double log_e = 0.0;
};

/// One (problem, config) cell of a verify sweep.
struct ConfigEvidence {
  std::string problem{};  ///< values only, "n=3001 k=3000 dtype=f16"
  std::string config{};
  TrialResult result{};
  bool failed = false;
  /// Error vector of the first output at the wrong elements, for "same error in every config": got
  /// - expected over a fixed sample of elements (the same for all configs of a problem), unrounded.
  std::vector<double> error_sample{};
  std::string token{};
  std::int64_t tile_k = 0;     ///< length of the reduction tile in this config; 0: none
  std::int64_t reduction = 0;  ///< length of the reduction in this problem; 0: unknown
  std::int64_t tile_rows = 0;  ///< output rows per tile in this config; 0: none
  std::int64_t rows = 0;
};

/// Wrong tile `destination` held the data of tile `source`: `matched` of `wrong` wrong elements
/// agree with the hypothesis within the bound, over all captures.
struct ProvenanceEvidence {
  std::uint32_t output = 0;
  std::string output_name{};
  std::int64_t destination = 0;
  std::int64_t source = 0;  ///< -1: no hypothesis matched
  std::uint64_t wrong = 0, matched = 0;
  std::int32_t pipeline_depth = 0;  ///< destination mod depth names the buffer
  friend bool operator==(const ProvenanceEvidence&, const ProvenanceEvidence&) = default;
};

/// Same inputs, same everything, N times.
struct RepeatEvidence {
  std::uint64_t repeats = 0;
  std::uint64_t distinct = 0;  ///< distinct output bit patterns
  friend bool operator==(const RepeatEvidence&, const RepeatEvidence&) = default;
};

/// Wrong values of captures examined for structure.
struct ErrorShapeEvidence {
  std::uint64_t wrong_elements = 0;
  std::uint64_t power_of_two_errors = 0;  ///< |got - expected| within rounding of a power of two
  std::uint64_t equal_poison = 0;
  double median_error = 0.0, largest_error = 0.0;
  std::uint64_t rounding_explained =
      0;  ///< accepted elements whose rounded error is an exact power of two
  /// Pairs of failing trials with equal inputs: how many had equal poison, and of these how many
  /// gave other bits; likewise for pairs with different poison.
  std::uint64_t same_poison_pairs = 0, same_poison_differing = 0;
  std::uint64_t other_poison_pairs = 0, other_poison_differing = 0;
  friend bool operator==(const ErrorShapeEvidence&, const ErrorShapeEvidence&) = default;
};

/// Everything that a verdict is a pure function of.
struct Evidence {
  std::string subject{}, variant{};
  std::string problem{};  ///< first or only problem
  std::string backend{};
  bool backend_is_model = false;
  bool declared_deterministic = true;
  std::string mode{};  ///< "verify", "stress", "race", "replay"
  std::vector<ArmEvidence> arms{};
  std::vector<ConfigEvidence> configs{};
  std::vector<ProvenanceEvidence> provenance{};
  std::vector<RaceReport> races{};  ///< merged over arms and configs
  std::vector<AccessStatistics> accesses{};
  std::optional<RepeatEvidence> repeat{};
  std::optional<ErrorShapeEvidence> error_shape{};
  std::vector<std::string>
      null_outputs_accepted;  ///< fake outputs (zeros, constant, shuffled) that would pass
  /// Distinct asynchronous instructions (cp.async..., wgmma...) in the PTX of the kernels that ran:
  /// a static fact. Empty: no asynchronous unit can be at fault.
  std::vector<std::string> asynchronous_instructions{};
  bool interrupted = false;
};

}  // namespace faultline::core
