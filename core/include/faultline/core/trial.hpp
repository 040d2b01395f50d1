// SPDX-License-Identifier: Apache-2.0
// Trials: what a backend is asked to run many times, and the compact result that comes back.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "faultline/core/acceptance.hpp"
#include "faultline/core/execution.hpp"
#include "faultline/core/perturbation.hpp"
#include "faultline/core/problem.hpp"
#include "faultline/core/program.hpp"
#include "faultline/core/tensor.hpp"
#include "faultline/core/verdict.hpp"

namespace faultline::core {

/// A prediction of what one whole output would hold had tile `source` been used where tile
/// `destination` belongs (positions inside a group). For provenance: which tile's data did a wrong
/// tile hold?
struct TileHypothesis {
  std::uint32_t output = 0;  ///< index among the outputs
  std::int64_t destination = 0;
  std::int64_t source = 0;
  std::vector<double> values{};  ///< one per element of the output
};

/// What one whole output would hold had one named thing gone wrong on the host's side: the
/// arguments of capture time replayed, the code of another call run, the state of the call before
/// used. When the wrong elements hold these values, the name of the thing is the finding.
struct AlternativeResult {
  std::string name{};  ///< "the scale of capture time"
  FindingClass finding = FindingClass::unknown;
  std::uint32_t output = 0;      ///< index among the outputs
  std::vector<double> values{};  ///< one per element of the output; NaN: says nothing there
};

/// A named part of the mathematics, and what it does to the outputs: what a missing or wrong term
/// looks like. diagnosis/ regresses the residual got - expected on these.
struct ErrorHypothesis {
  enum class Kind : std::uint8_t {
    term,        ///< `effect` is the term's contribution, expected - ablated: coefficient -1 of the
                 ///< residual on it says missing, +1 doubled
    wrong_form,  ///< `effect` is wrong - expected: coefficient 1 says computed in this wrong form
    low_precision,  ///< the same of sums or a state kept in too low a precision
    rounding,       ///< `effect` is the size (root mean square) of the rounding errors of a way of
                    ///< computing that amplifies them, as emulated; their signs cannot be foretold
  };
  std::string name{};   ///< "A_inv"
  std::string terms{};  ///< "dk_A, dbeta_A": the named terms of the reference behind it
  Kind kind = Kind::term;
  /// One per output, in order; empty where the effect is exactly zero, else one value per element.
  std::vector<std::vector<double>> effect{};
  /// Why there is no effect here though the computation may depend on it: "moves what A_inv moves",
  /// "too many values". Then `effect` is empty and nothing is said about this hypothesis.
  std::string left_out{};
};

/// What the derivation of a reference and its bound found out about one output.
struct ReferenceNote {
  enum class Kind : std::uint8_t {
    blind,     ///< a null output would be accepted: agreement says nothing about this output
    unusable,  ///< reference or bound failed a check of its own: nothing may be concluded from it
    wide,      ///< the bound is sound and wide next to the values: small errors stay unseen
  };
  std::string output{};  ///< empty: of the reference as a whole
  Kind kind = Kind::blind;
  std::string text{};  ///< what was found, a sentence
};

/// Everything needed to run trials of one (subject, variant, problem, config). Data and pure
/// functions.
///
/// Bindings of `program`: the buffers in order. Bindings of `device_oracle`: the buffers in order,
/// then for each output in order its expected values and its bounds (f64 arrays of the output's
/// element count).
struct TrialPlan {
  std::string subject{}, variant{};
  Problem problem{};
  Config config{};
  std::vector<BufferSpec> buffers{};
  bool declared_deterministic = true;

  /// The subject on `batch` trials laid back to back in every buffer (batch <= max_batch).
  std::function<Program(std::uint32_t batch)> program{};
  std::uint32_t max_batch = 1;

  /// Double-precision oracle as device code; empty function: the backend compares on the host.
  std::function<Program(std::uint32_t batch)> device_oracle{};

  /// Double-precision Eigen reference: inputs (in buffer order, inputs only) -> one tensor per
  /// output.
  std::function<std::vector<ReferenceTensor>(const std::vector<Tensor>& inputs)> reference{};

  /// Provenance hypotheses for given inputs; may be empty.
  std::function<std::vector<TileHypothesis>(const std::vector<Tensor>& inputs)> hypotheses{};

  /// What in these inputs lies outside what the subject declares to accept, a sentence each; may be
  /// empty. Results for such inputs say nothing about the kernel.
  std::function<std::vector<std::string>(const std::vector<Tensor>& inputs)> contract{};

  /// Host-side alternatives for given inputs; may be empty.
  std::function<std::vector<AlternativeResult>(const std::vector<Tensor>& inputs)> alternatives{};

  /// Named terms and wrong forms for given inputs; may be empty.
  std::function<std::vector<ErrorHypothesis>(const std::vector<Tensor>& inputs)> error_hypotheses{};

  /// What `reference` knows of its own limits for given inputs; may be empty.
  std::function<std::vector<ReferenceNote>(const std::vector<Tensor>& inputs)> reference_notes{};

  /// Workspace buffers that hold an intermediate of the algorithm, as indices of `buffers` in the
  /// order in which the algorithm computes them; each has its tile geometry set. The reference of
  /// each, in that order, comes from `intermediate_reference`. See with_intermediates().
  std::vector<std::uint32_t> intermediates{};
  std::function<std::vector<ReferenceTensor>(const std::vector<Tensor>& inputs)>
      intermediate_reference{};

  std::vector<std::uint32_t> input_indices() const;
  std::vector<std::uint32_t> output_indices() const;
};

/// The plan with its intermediates as outputs that are poisoned and compared like the others (the
/// device oracle, which does not know them, is dropped). UsageError when the plan has none.
TrialPlan with_intermediates(const TrialPlan& plan);

/// The plan with its host reference of the first inputs it is asked for kept, and given again for
/// equal inputs (compared byte by byte): the fixed inputs of a campaign, whose arms all need the
/// same one. Copies of the result share what is kept.
TrialPlan with_kept_reference(TrialPlan plan);

/// Data mode of inputs: the subject's default distributions, or data made to tell something
/// (docs/data-modes.md).
enum class DataMode : std::uint8_t {
  normal,          ///< the subject's own distributions
  exact,           ///< small integers: every order of summation gives the same bits
  address,         ///< value = index mod 2048
  digits,          ///< slice s of the reduction adds exactly 4^s
  epoch,           ///< one integer for a whole tensor and trial: stale data name their trial
  illconditioned,  ///< magnitudes spread over 2^16, with cancellation
  special,         ///< zeros of both signs, subnormals and large values among ordinary ones
};
std::string_view name_of(DataMode mode);
std::optional<DataMode> parse_data_mode(std::string_view text);
/// The distribution of a buffer under a data mode.
/// UsageError for digits where the buffer's reduction axis cannot carry the code.
InputSpec input_for(DataMode mode, const BufferSpec& buffer);
/// Why these inputs cannot be drawn in this mode (digits needs a buffer with a reduction axis);
/// empty: they can.
std::string why_not(DataMode mode, const std::vector<BufferSpec>& buffers);

/// Race checking on the simulator.
enum class RaceMode : std::uint8_t { off, lenient, strict };
std::string_view name_of(RaceMode mode);

struct TrialRequest {
  std::uint64_t seed = 1;  ///< campaign seed; trial i uses trial_seed(seed, i)
  std::uint64_t first_trial = 0;
  std::uint64_t count = 1;
  DataMode data = DataMode::normal;
  Perturbation perturbation{};
  RaceMode race = RaceMode::strict;
  std::uint32_t capture_limit = 16;  ///< failing trials whose outputs are kept for provenance
  std::uint64_t gate_samples =
      1;  ///< trials on which the device oracle is checked against the host reference
  /// A device counts errors by size (OutputTotals::ratio_bins) in every such trial; 0: in none. The
  /// host, where it compares, in all.
  std::uint32_t histogram_every = 32;
  double timeout_s = 60.0;                  ///< per execution
  bool access_statistics = false;           ///< collect ExecutionReport::accesses (simulator)
  const std::atomic<bool>* stop = nullptr;  ///< set by Ctrl-C: finish the current trial and return
  std::function<void(std::uint64_t done, std::uint64_t failed)> progress{};
};

/// Per-tile totals of one output over many trials.
struct TileTotals {
  std::uint64_t bad_trials = 0;
  std::uint64_t bad_elements = 0;
  std::uint64_t not_finite = 0;
  std::uint64_t poison = 0;
  std::uint64_t no_reference = 0;  ///< bad, because reference or bound is unusable there
  double worst_ratio = 0.0;        ///< worst error over bound, all elements (accepted ones too)
  double worst_ulps = 0.0;
  std::int64_t first_bad_index = -1;
  friend bool operator==(const TileTotals&, const TileTotals&) = default;
};

/// One output over many trials.
struct OutputTotals {
  std::string name{};
  Dtype dtype = Dtype::f32;
  TileGeometry geometry{};
  std::uint64_t compared_elements = 0;  ///< zero is never green
  std::uint64_t bad_trials = 0;
  std::uint64_t bad_elements = 0;
  std::uint64_t not_finite = 0;
  std::uint64_t poison = 0;
  std::uint64_t no_reference = 0;  ///< bad, because reference or bound is unusable there
  double worst_ratio = 0.0;
  double worst_ulps = 0.0;
  double worst_error = 0.0;  ///< |got - expected|, unrounded reference
  double worst_rounded_error =
      0.0;  ///< |got - RN(expected)|: what a test against a rounded reference sees
  double worst_error_expected = 0.0;  ///< reference value where worst_error occurred
  /// Sums of (got - expected)^2 and expected^2 over the elements with a finite error: context for
  /// readers, never part of a verdict on an element.
  double sum_squared_error = 0.0, sum_squared_expected = 0.0;
  /// Elements by error over bound and by ulps, in the bins of error_bin() (comparison.hpp); bins
  /// beyond the last one are 0. Perhaps not of every element compared, and empty when of none.
  std::vector<std::uint64_t> ratio_bins{}, ulp_bins{};
  /// The bins hold the trials whose number is a multiple of this; above 1, beside them those
  /// failing trials that were compared again on the host.
  std::uint32_t bins_every = 1;
  std::vector<TileTotals> tiles{};  ///< geometry.tile_count() of them

  /// Root of the quotient of the two sums; 0 when there was nothing to sum, infinite when only the
  /// reference is zero.
  double relative_l2() const;
};

/// One failing trial kept for a closer look. Inputs are regenerated from the seed.
struct Capture {
  std::uint64_t trial = 0;
  std::uint64_t input_seed = 0;
  std::uint32_t poison = 0;       ///< poison word laid before the launch
  std::vector<Tensor> outputs{};  ///< in output order, one trial's slice
};

/// A tile that was wrong in one trial.
struct WrongTile {
  std::uint32_t output = 0;  ///< index among the outputs
  std::int64_t tile = 0;
  std::uint64_t bad_elements = 0;
  double worst_ratio = 0.0;  ///< worst error over bound in this trial
  friend bool operator==(const WrongTile&, const WrongTile&) = default;
};

struct FailedTrial {
  std::uint64_t trial = 0;
  std::uint64_t input_seed = 0;
  ExecutionStatus status = ExecutionStatus::completed;
  std::uint64_t bad_elements = 0;
  bool raced = false;
  std::vector<std::uint32_t> bad_outputs{};
  bool changed_inputs = false;  ///< an input no longer held what was laid there before the launch
  /// By output and tile, all or none of them; see add_failure(). Empty: nothing wrong, or not kept.
  std::vector<WrongTile> wrong_tiles{};
};

/// An input that the subject wrote to.
struct ChangedInput {
  std::string name{};
  std::uint64_t trials = 0;
  std::uint64_t elements = 0;       ///< in the first such trial
  std::int64_t first_element = -1;  ///< likewise
  friend bool operator==(const ChangedInput&, const ChangedInput&) = default;
};

/// The different outputs that one set of inputs gave, each by its hash (output_hash.hpp): what is
/// kept of them to tell runs apart that no single request sees together.
struct OutputHashes {
  static constexpr std::size_t kKept = 16;  ///< of one input set, and input sets of one result
  std::uint64_t input_seed = 0;
  std::vector<std::uint64_t> hashes{};  ///< the kKept smallest, ascending: whatever came first
  friend bool operator==(const OutputHashes&, const OutputHashes&) = default;
};

/// Add what an output's hash tells, within the limits of OutputHashes::kKept.
void add_output_hash(std::vector<OutputHashes>& known, std::uint64_t input_seed,
                     std::uint64_t hash);

/// Result of TrialRequest. Counts are over trials finished; nothing finished is lost when `status`
/// is not completed.
struct TrialResult {
  std::uint64_t trials = 0;        ///< finished, however they ended
  std::uint64_t failed = 0;        ///< any failure: values, race error, deadlock, fault
  std::uint64_t wrong_values = 0;  ///< trials with at least one element not accepted
  std::uint64_t raced = 0;         ///< trials with a race error reported
  std::uint64_t abnormal = 0;      ///< deadlock, fault, timeout
  std::vector<OutputTotals> outputs{};
  std::vector<RaceReport>
      races{};  ///< merged over trials, deterministic order; count = occurrences
  std::vector<AccessStatistics> accesses{};
  std::vector<ChangedInput> changed_inputs{};  ///< each counts as a failure
  /// Trials after which the inputs were compared with what was laid there.
  std::uint64_t inputs_checked = 0;
  static constexpr std::size_t kFailuresKept = 1024, kWrongTilesKept = 2048;
  std::vector<FailedTrial> failures{};  ///< the first kFailuresKept; see add_failure()
  std::vector<Capture> captures{};
  /// Bitwise repeat check: distinct output hashes per input set. 0: not measured.
  std::uint64_t input_sets = 0, distinct_outputs = 0;
  std::vector<OutputHashes> output_hashes{};  ///< of the first input sets
  std::uint64_t gate_samples = 0;
  double gate_worst = 0.0;  ///< worst relative difference of device oracle and Eigen reference
  ExecutionStatus status =
      ExecutionStatus::completed;  ///< worst: unsupported/error make the arm inconclusive/error
  std::string message{};
  std::vector<std::string> details{};
  std::uint64_t first_failed_trial = ~0ull;
  std::uint64_t batch = 1;  ///< as resolved (ctas_per_sm)
  /// What the arm is there for was shown to happen: a stress kernel ran beside the trials,
  /// multiprocessors were held, all shared memory was dirtied. True where nothing was asked for.
  bool overlap_proven = true;
  /// Of Perturbation::free_sms: multiprocessors that were held, the fewest at any time; 0: none.
  std::uint64_t held_sms = 0;
  /// Of Perturbation::blocker_ns: launches that were issued to the last operation while the blocker
  /// still held, of those where that was looked at.
  std::uint64_t ran_ahead = 0, ran_ahead_of = 0;
  std::string note{};  ///< e.g. why the arm was skipped or the overlap was not proven
  bool skipped = false;
  std::uint64_t elapsed_ns = 0;  ///< provenance
  std::uint64_t thread_instructions = 0;
};

/// Keep a failing trial, unless kFailuresKept are kept already; without its wrong tiles where more
/// than kWrongTilesKept would be kept in all.
void add_failure(TrialResult& result, FailedTrial failure);

/// Count an input whose bytes after the launch, `now`, are not those `laid` before it.
void add_changed_input(TrialResult& result, const BufferSpec& input,
                       std::span<const std::byte> laid, std::span<const std::byte> now);
/// Add what was found earlier or elsewhere.
void add_changed_input(TrialResult& result, const ChangedInput& changed);

}  // namespace faultline::core
