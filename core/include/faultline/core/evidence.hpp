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
  /// arms with new inputs every trial): trials with wrong values here only, and there only; log of
  /// the e-value of "the rates differ" (docs/statistics.md). All 0 without such an arm.
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

/// How many wrong elements hold the values of a host-side alternative (AlternativeResult), and not
/// those of the reference.
struct AlternativeEvidence {
  std::string name{};
  FindingClass finding = FindingClass::unknown;
  std::string output{};
  std::uint64_t wrong = 0, matched = 0;  ///< elements, over all captures
  friend bool operator==(const AlternativeEvidence&, const AlternativeEvidence&) = default;
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
  std::uint64_t smaller = 0;      ///< wrong, finite elements with |got| < |expected|
  std::uint64_t overwritten = 0;  ///< elements that the kernel must not write, and wrote
  /// Elements that must stay untouched, in the captures examined.
  std::uint64_t guarded = 0;
  /// Overwritten elements that hold, within its bound, what belongs to just one other element, or
  /// to the one that rows of another pitch would have laid there.
  std::uint64_t displaced = 0;
  friend bool operator==(const ErrorShapeEvidence&, const ErrorShapeEvidence&) = default;
};

/// One way to read the wrong elements of an output that is exact for those it explains: what the
/// bits themselves say, and what inputs coded to be told apart say (docs/data-modes.md).
struct ErrorReading {
  enum class Kind : std::uint8_t {
    one_bit,        ///< one bit differs from the rounded reference; `detail`: which
    offset,         ///< got - expected is one `value`
    scale,          ///< got is 2^detail times the expected value, one factor in each tile
    saturated,      ///< one `value` wherever more was expected
    slice_missing,  ///< slice `detail` of the reduction was left out (digit-coded inputs)
    slice_doubled,  ///< slice `detail` was added twice
    slice_stale,    ///< slice `other` was added in the place of slice `detail`
    other_address,  ///< what belongs to the element `detail` further on (address-coded inputs)
    other_trial,    ///< what the trial `detail` earlier should have given (epoch-coded inputs)
    unwritten,      ///< poison of a place that nobody had written: of tile `detail` of buffer
                    ///< `source`, or of what `source` names where `detail` is -1; `wrong` counts
                    ///< all wrong elements but those that hold their own poison, `other` the tiles
                    ///< of that buffer; `value` places may share a code (0: the tile is certain)
  };
  Kind kind = Kind::offset;
  std::string output{};
  std::uint64_t wrong = 0;    ///< finite wrong elements looked at, of this output
  std::uint64_t matched = 0;  ///< those that this reading explains
  std::uint64_t tiles = 0;    ///< in which they lie
  std::int64_t detail = 0, other = 0;
  double value = 0.0;
  std::string source{};  ///< unwritten: a buffer, or "shared memory"
  friend bool operator==(const ErrorReading&, const ErrorReading&) = default;
};
std::string_view name_of(ErrorReading::Kind kind);

/// Which blocks of an output the wrong elements of captured trials fill: of many ways to cut the
/// output, the one that describes where they lie in the fewest bits (docs/verdicts.md).
struct FootprintEvidence {
  enum class Kind : std::uint8_t {
    scattered,   ///< no blocks describe it better than one density for the whole output
    everywhere,  ///< the same, and nine tenths of the elements are wrong
    tile,        ///< the output's own tiles (TileGeometry)
    group,       ///< whole groups of tiles, or one index of leading axes: heads, batches
    buffer,      ///< the tiles of a group that share a pipeline buffer
    position,    ///< the tiles at one position of every group
    place,       ///< rows (or columns) at one place of every so many, as of every tile
    last_tile,   ///< the last tiles alone: of the rows, of the columns, of each group
    strip,       ///< 8, 16 or 32 rows of a tile: what one warp holds
    rows,        ///< whole rows
    columns,     ///< whole columns
    block,       ///< blocks of another shape
  };
  std::string output{};
  Kind kind = Kind::scattered;
  std::int64_t block_rows = 0, block_cols = 0;  ///< of one block; 0: the whole extent, or no block
  std::uint64_t trials = 0;                     ///< captured ones looked at
  std::uint64_t patterns = 0;  ///< sets of wrong elements among them, each counted once below
  std::uint64_t wrong = 0, compared = 0;   ///< elements
  std::uint64_t hit = 0, blocks = 0;       ///< blocks with wrong elements, and all
  std::vector<std::int64_t> hit_blocks{};  ///< the first that are hit most often, ascending
  double density = 0.0;                    ///< share of a hit block's elements that is wrong
  Kind runner_up = Kind::scattered;
  std::int64_t runner_up_rows = 0, runner_up_cols = 0;
  double log10_ratio = 0.0;  ///< of the likelihoods of the two, what naming each costs included
  friend bool operator==(const FootprintEvidence&, const FootprintEvidence&) = default;
};
std::string_view name_of(FootprintEvidence::Kind kind);

/// How much of the error of an output's worst tile one template explains: R^2 = 1 - |r - t|^2 /
/// |r|^2, where r = got - expected and t are measured in units of what the comparison allows.
struct TemplateEvidence {
  enum class Kind : std::uint8_t {
    slice_missing,    ///< slices `detail` to `other` of the reduction left out
    slice_doubled,    ///< slice `detail` added twice
    slice_stale,      ///< slice `other` of the streamed input in the place of slice `detail`
    rounded_f16,      ///< the sum rounded to f16 after each slice
    rounded_bf16,     ///< the same with bf16
    previous_output,  ///< what the trial before should have given
    other_tile,       ///< what belongs to tile `other` of the output
    tile_input,       ///< computed with the data of tile `other` in the place of tile `detail`
    transposed,       ///< rows and columns exchanged
    zero,             ///< zeros
  };
  Kind kind = Kind::zero;
  std::string output{};
  std::int64_t tile = 0;  ///< of the output; -1: all of it, because its tiles are small
  std::int64_t detail = 0, other = 0;
  /// Torn: only these rows of the tile hold it. 0 rows: all of them.
  std::int64_t first_row = 0, rows = 0;
  std::uint64_t elements = 0;  ///< of the tile that were fitted
  double r_squared = 0.0;
  friend bool operator==(const TemplateEvidence&, const TemplateEvidence&) = default;
};
std::string_view name_of(TemplateEvidence::Kind kind);

/// A cure or a knob: an arm that failed, run again with one thing changed, on equal inputs.
struct ExperimentEvidence {
  enum class Kind : std::uint8_t {
    serialised,  ///< no two launches overlap, and whatever else ran beside them still does
    one_block,   ///< a problem whose launches have one block each
    one_stage,   ///< a pipeline of one stage
    eager,       ///< launches instead of the replay of a graph
    twin,        ///< another implementation of the same
    knob,        ///< one setting of a perturbation alone
    delay,       ///< nanosleep in front of synchronisation sites of the PTX
    contiguous,  ///< the same values without the pitches, offsets and strides of the problem
    offset,      ///< buffers at other addresses
    first_call,  ///< each trial is the first call of a freshly loaded module
    second_call  ///< each trial calls twice on the same buffers, and the second call is judged
  };
  Kind kind = Kind::knob;
  std::string change{};    ///< what differs: "synchronised after every launch"
  std::string baseline{};  ///< name of the arm it is compared with
  std::uint64_t before_trials = 0, before_wrong = 0;
  std::uint64_t after_trials = 0, after_wrong = 0;  ///< trials with wrong values
  std::string token{};                              ///< of the first failing trial after
  std::string place{};     ///< delays: the source line of one site that is enough; else empty
  std::string left_out{};  ///< why it did not run; then the counts after are 0
  friend bool operator==(const ExperimentEvidence&, const ExperimentEvidence&) = default;
};
std::string_view name_of(ExperimentEvidence::Kind kind);

/// One error hypothesis (ErrorHypothesis) held against one output of a cell's failing trials.
/// Residual and effect are measured in units of what the comparison allows: element by element,
/// bound plus half an output ulp.
struct TermOutputEvidence {
  std::string output{};
  double visibility = 0.0;   ///< largest |effect| over bound; 0: the effect is exactly zero here
  std::uint64_t wrong = 0;   ///< elements of the examined trials that were not accepted
  double coefficient = 0.0;  ///< least squares of got - expected on the effect, this output alone
  double r_squared = 0.0;    ///< 1 - |residual - coefficient effect|^2 / |residual|^2
  friend bool operator==(const TermOutputEvidence&, const TermOutputEvidence&) = default;
};

/// One error hypothesis held against one cell of a sweep, or against a campaign (problem and config
/// empty): how far could it be seen at all, and how well does it explain what is wrong?
struct TermEvidence {
  std::string problem{}, config{};
  std::string name{};   ///< "A_inv"
  std::string terms{};  ///< "dk_A, dbeta_A"
  ErrorHypothesis::Kind kind = ErrorHypothesis::Kind::term;
  double visibility = 0.0;  ///< the largest of its outputs'
  /// Elements of all wrong outputs that one coefficient was fitted to, and those left out because
  /// they or their reference are not finite or equal the poison. 0: nothing was wrong here, and the
  /// figures below mean nothing.
  std::uint64_t elements = 0, excluded = 0;
  double coefficient = 0.0, r_squared = 0.0, standard_error = 0.0;
  /// The effect on the first and on the last row of each chunk alone.
  double first_row_coefficient = 0.0, first_row_r_squared = 0.0;
  double last_row_coefficient = 0.0, last_row_r_squared = 0.0;
  /// Of low precisions and roundings, whose signs may drift apart: the size of the residual over
  /// that of the effect, and the share of |residual|^2 that the bound and 7 such sizes leave room
  /// for; 0 where the residual is no larger than the bound alone allows.
  double size_ratio = 0.0, size_explained = 0.0;
  std::vector<TermOutputEvidence> outputs{};  ///< left out where nothing was wrong
  std::string left_out{};  ///< why it was not evaluated (ErrorHypothesis::left_out); else empty
  friend bool operator==(const TermEvidence&, const TermEvidence&) = default;
};

/// The best fit of a cell's residuals by several terms at once.
struct TermCombinationEvidence {
  std::string problem{}, config{};
  std::vector<std::string> names{};
  std::vector<double> coefficients{};  ///< one for each name
  double r_squared = 0.0;
  friend bool operator==(const TermCombinationEvidence&, const TermCombinationEvidence&) = default;
};

/// Relative L2 error of an output against the length of the sequence or reduction: the whole tensor
/// and all trials pooled.
struct GrowthEvidence {
  std::string output{};
  std::string config{};
  std::string others{};  ///< the problem without its length: rows with equal `others` compare
  std::int64_t length = 0;
  std::int64_t chunks = 0;  ///< ceil(length / tile)
  double relative_l2 = 0.0;
  double worst_ratio = 0.0;  ///< worst error over bound
  bool wrong = false;
  friend bool operator==(const GrowthEvidence&, const GrowthEvidence&) = default;
};

/// One intermediate of one cell, or one of its final outputs, in the order of the algorithm.
struct IntermediateEvidence {
  std::string problem{}, config{};
  std::string name{};
  bool is_output = false;
  std::uint64_t compared = 0, wrong = 0;  ///< elements over all trials
  double worst_ratio = 0.0;
  /// Positions in their group of the first and the last wrong tile (-1: none), and how many there
  /// are.
  std::int64_t first_tile = -1, last_tile = -1, tiles = 0;
  std::string tile_axis{};  ///< what a tile is, "chunk of 64 rows"
  friend bool operator==(const IntermediateEvidence&, const IntermediateEvidence&) = default;
};

/// A limit of the reference (ReferenceNote), found with the first inputs of one cell.
struct ReferenceNoteEvidence {
  std::string problem{}, config{};
  std::string output{};  ///< empty: of the reference as a whole
  ReferenceNote::Kind kind = ReferenceNote::Kind::blind;
  std::string text{};
  friend bool operator==(const ReferenceNoteEvidence&, const ReferenceNoteEvidence&) = default;
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
  /// Inputs outside what the subject declares to accept (TrialPlan::contract), a sentence each.
  std::vector<std::string> contract_violations{};
  std::vector<AlternativeEvidence> alternatives{};
  /// Launches that load their module anew, and launches in all, per call of the subject: static
  /// facts of its program.
  std::uint64_t reloading_launches = 0, launches = 0;
  std::uint64_t streams = 1;  ///< that a call uses
  /// Some kernel of a call has shared memory, static or dynamic: without it nothing there can race.
  bool shared_memory = true;
  std::optional<RepeatEvidence> repeat{};
  std::optional<ErrorShapeEvidence> error_shape{};
  std::vector<std::string>
      null_outputs_accepted;  ///< fake outputs (zeros, constant, shuffled) that would pass
  std::vector<ReferenceNoteEvidence> reference_notes{};
  /// Distinct asynchronous instructions (cp.async..., wgmma...) in the PTX of the kernels that ran:
  /// a static fact. Empty: no asynchronous unit can be at fault.
  std::vector<std::string> asynchronous_instructions{};
  /// The error hypothesis that a mutant stands for (Variant::hypothesis); empty: none. Where its
  /// effect stays below the bound, the run cannot have judged it.
  std::string hypothesis{};
  /// What the variant declares of itself at one of these problems (kernels::Variant::weak_at);
  /// empty: nothing.
  std::string declared_weakness{};
  /// Checks of the test itself that were not made, each with its reason: a sentence.
  std::vector<std::string> not_examined{};
  std::vector<TermEvidence> terms{};
  std::vector<TermCombinationEvidence> term_combinations{};
  std::vector<GrowthEvidence> growth{};
  std::vector<IntermediateEvidence> intermediates{};
  std::vector<ErrorReading> readings{};         ///< most matched first, of each output
  std::vector<FootprintEvidence> footprints{};  ///< of each output with wrong elements
  std::vector<TemplateEvidence> templates{};    ///< best first, of each output
  std::vector<ExperimentEvidence> experiments{};
  bool interrupted = false;
};

}  // namespace faultline::core
