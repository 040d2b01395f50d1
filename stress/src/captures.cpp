// SPDX-License-Identifier: Apache-2.0
#include "faultline/stress/captures.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "error_readings.hpp"
#include "error_templates.hpp"
#include "faultline/core/acceptance.hpp"
#include "faultline/core/errors.hpp"
#include "footprint.hpp"

namespace faultline::stress {
namespace {

/// What one input set should give.
struct Expectation {
  std::vector<core::ReferenceTensor> outputs;
  std::vector<core::TileHypothesis> hypotheses;
  std::vector<core::AlternativeResult> alternatives;
  /// What the trials before this one should have given, where each has inputs of its own.
  std::vector<std::vector<core::ReferenceTensor>> earlier;
};

/// Key of a provenance entry; -1, -1 collects what no hypothesis explains.
struct Move {
  std::uint32_t output = 0;
  std::int64_t destination = -1, source = -1;
  friend auto operator<=>(const Move&, const Move&) = default;
};

class Examiner {
 public:
  Examiner(const core::TrialPlan& plan, core::DataMode data, bool templates)
      : plan_(plan),
        poisons_(plan.buffers),
        output_indices_(plan.output_indices()),
        readings_(plan, data),
        footprints_(plan),
        templates_(plan),
        wants_templates_(templates) {
    for (std::uint32_t index : output_indices_) {
      depth_ = std::max(depth_, plan.buffers[index].tiles.pipeline_depth);
    }
  }

  void examine(const core::Capture& capture, const std::vector<core::Tensor>& inputs,
               const Expectation& expectation) {
    if (wants_templates_) {
      templates_.add(capture,
                     {.inputs = inputs,
                      .expected = expectation.outputs,
                      .hypotheses = expectation.hypotheses,
                      .previous = expectation.earlier.empty() ? nullptr : &expectation.earlier[0]});
    }
    for (std::uint32_t o = 0; o < output_indices_.size() && o < capture.outputs.size(); ++o) {
      examine_output(o, capture, expectation);
      std::vector<core::ReferenceTensor> earlier;
      for (const auto& outputs : expectation.earlier) earlier.push_back(outputs[o]);
      readings_.add(o, capture, expectation.outputs[o], earlier);
    }
  }

  std::vector<core::ProvenanceEvidence> provenance() const {
    // One entry per output and destination: the source that matches most elements.
    std::map<std::pair<std::uint32_t, std::int64_t>, core::ProvenanceEvidence> best;
    for (const auto& [move, matched] : matched_) {
      core::ProvenanceEvidence& entry = best[{move.output, move.destination}];
      entry.output = move.output;
      entry.output_name = plan_.buffers[output_indices_[move.output]].name;
      entry.destination = move.destination;
      entry.pipeline_depth = depth_;
      entry.wrong = wrong_.at({move.output, move.destination});
      if (matched > entry.matched || entry.matched == 0) {
        entry.matched = matched;
        entry.source = move.source;
      }
    }
    std::vector<core::ProvenanceEvidence> entries;
    for (auto& [key, entry] : best) {
      // A match of a minority of the elements may be chance: then nothing is claimed.
      if (entry.source >= 0 && 2 * entry.matched < entry.wrong) entry.source = -1;
      if (entry.source < 0) entry.matched = 0;
      entries.push_back(std::move(entry));
    }
    return entries;
  }

  core::ErrorShapeEvidence shape() {
    if (!errors_.empty()) {
      const auto middle = errors_.begin() + static_cast<std::ptrdiff_t>(errors_.size() / 2);
      std::nth_element(errors_.begin(), middle, errors_.end());
      shape_.median_error = *middle;
      shape_.largest_error = *std::max_element(errors_.begin(), errors_.end());
    }
    return shape_;
  }

  const std::vector<core::AlternativeEvidence>& alternatives() const { return alternatives_; }
  std::vector<core::ErrorReading> readings() const { return readings_.result(); }
  std::vector<core::FootprintEvidence> footprints() const { return footprints_.result(); }
  std::vector<core::TemplateEvidence> templates() const { return templates_.result(); }

  void add_pair(bool same_poison, bool differs) {
    (same_poison ? shape_.same_poison_pairs : shape_.other_poison_pairs)++;
    if (differs) (same_poison ? shape_.same_poison_differing : shape_.other_poison_differing)++;
  }

 private:
  void examine_output(std::uint32_t o, const core::Capture& capture,
                      const Expectation& expectation) {
    const core::BufferSpec& spec = plan_.buffers[output_indices_[o]];
    const core::Tensor& got = capture.outputs[o];
    const core::ReferenceTensor& reference = expectation.outputs[o];
    const core::ElementPoison poison(poisons_, output_indices_[o], capture.poison);
    std::map<std::int64_t, std::vector<std::int64_t>> wrong_by_tile;
    std::vector<std::int64_t> overwritten, all_wrong;
    for (std::int64_t i = 0; i < got.size(); ++i) {
      const auto n = static_cast<std::size_t>(i);
      const core::ElementCheck check = core::check_element(
          spec.dtype, got.bits(i), reference.expected[n], reference.bound[n], poison[i]);
      if (check.kind == core::ElementClass::no_reference) continue;  // nothing to say there
      if (is_guarded(reference, n)) {
        ++shape_.guarded;
        if (core::is_failure(check.kind)) overwritten.push_back(i);
        continue;
      }
      if (core::is_failure(check.kind)) {
        wrong_by_tile[spec.tiles.tile_of(i)].push_back(i);
        all_wrong.push_back(i);
        add_wrong(spec.dtype, got.at(i), reference.expected[n], check);
      } else if (is_power_of_two(
                     std::fabs(got.at(i) - core::round_to(spec.dtype, reference.expected[n])))) {
        ++shape_.rounding_explained;
      }
    }
    footprints_.add(o, std::move(all_wrong));
    if (!overwritten.empty()) {
      shape_.overwritten += overwritten.size();
      shape_.displaced += std::max({with_one_owner(got, reference, overwritten),
                                    of_another_pitch(spec, got, reference, overwritten),
                                    of_another_order(spec, got, reference, overwritten)});
    }
    for (const core::AlternativeResult& alternative : expectation.alternatives) {
      if (alternative.output >= output_indices_.size()) {
        throw core::UsageError(fmt::format("{}: the alternative '{}' speaks of output number {}, "
                                           "and there are {}",
                                           plan_.subject, alternative.name, alternative.output,
                                           output_indices_.size()));
      }
      if (alternative.output == o) add_alternative(alternative, got, reference, poison);
    }
    if (expectation.hypotheses.empty()) return;  // nothing is known of who could hold whose data
    for (const auto& [tile, wrong] : wrong_by_tile) {
      attribute(o, spec, tile, wrong, got, reference, poison, expectation.hypotheses);
    }
  }

  void add_wrong(core::Dtype dtype, double got, double expected, const core::ElementCheck& check) {
    ++shape_.wrong_elements;
    if (check.kind == core::ElementClass::poison) ++shape_.equal_poison;
    if (!std::isfinite(check.error)) return;
    errors_.push_back(check.error);
    shape_.smaller += std::fabs(got) < std::fabs(expected);
    // Errors of a few ulps are near a power of two whatever their cause.
    const double nearest = std::exp2(std::round(std::log2(check.error)));
    if (check.ulps > 4 && std::fabs(check.error - nearest) <= 0.5 * core::ulp_at(dtype, got)) {
      ++shape_.power_of_two_errors;
    }
  }

  static bool is_guarded(const core::ReferenceTensor& reference, std::size_t i) {
    return core::stays_untouched(reference.bound[i]);
  }

  /// Would element `owner` of the output have been accepted with the value that element `i` holds?
  static bool belongs_to(const core::Tensor& got, std::int64_t i,
                         const core::ReferenceTensor& reference, std::size_t owner) {
    constexpr std::uint64_t kNoPoison = ~0ull;  // no element of 32 bits or fewer
    return !is_guarded(reference, owner) &&
           !core::is_failure(core::check_element(got.dtype, got.bits(i), reference.expected[owner],
                                                 reference.bound[owner], kNoPoison)
                                 .kind);
  }

  /// `matched` of the `looked_at` overwritten elements, taken for all of them.
  static std::uint64_t of_all(std::uint64_t matched, std::uint64_t looked_at,
                              const std::vector<std::int64_t>& overwritten) {
    return looked_at == 0 ? 0 : matched * overwritten.size() / looked_at;
  }

  static std::size_t step_through(const std::vector<std::int64_t>& overwritten) {
    constexpr std::size_t kLookedAt = 256;
    return overwritten.size() / kLookedAt + 1;
  }

  /// Overwritten elements whose value is that of exactly one element of the output, each of these
  /// found only once: a padding full of one value is no displaced row.
  static std::uint64_t with_one_owner(const core::Tensor& got,
                                      const core::ReferenceTensor& reference,
                                      const std::vector<std::int64_t>& overwritten) {
    std::vector<std::pair<double, std::size_t>> values;
    double widest = 0.0;
    for (std::size_t n = 0; n < reference.expected.size(); ++n) {
      if (is_guarded(reference, n) || !std::isfinite(reference.expected[n])) continue;
      values.emplace_back(reference.expected[n], n);
      widest = std::max(widest, reference.bound[n]);
    }
    std::sort(values.begin(), values.end());
    std::uint64_t matched = 0, looked_at = 0;
    std::vector<bool> found(reference.expected.size(), false);
    for (std::size_t k = 0; k < overwritten.size(); k += step_through(overwritten)) {
      ++looked_at;
      const double stray = got.at(overwritten[k]);
      if (!std::isfinite(stray)) continue;
      const double reach = widest + 2.0 * core::ulp_at(got.dtype, stray);
      std::size_t owners = 0, owner = 0;
      for (auto value = std::lower_bound(values.begin(), values.end(),
                                         std::pair(stray - reach, std::size_t{0}));
           value != values.end() && value->first <= stray + reach && owners < 2; ++value) {
        if (!belongs_to(got, overwritten[k], reference, value->second)) continue;
        ++owners;
        owner = value->second;
      }
      if (owners != 1 || found[owner]) continue;
      found[owner] = true;
      ++matched;
    }
    return of_all(matched, looked_at, overwritten);
  }

  /// Overwritten elements that hold what the rows of the output would have laid there with another
  /// distance from each other: the distance that explains most.
  static std::uint64_t of_another_pitch(const core::BufferSpec& spec, const core::Tensor& got,
                                        const core::ReferenceTensor& reference,
                                        const std::vector<std::int64_t>& overwritten) {
    const std::int64_t cols = spec.tiles.cols;
    std::uint64_t most = 0, looked_at = 0;
    for (std::int64_t pitch = 1; pitch < 2 * cols; ++pitch) {
      std::uint64_t matched = 0;
      looked_at = 0;
      for (std::size_t k = 0; k < overwritten.size(); k += step_through(overwritten)) {
        ++looked_at;
        const std::int64_t i = overwritten[k];
        if (i % pitch >= cols) continue;  // between those rows
        const std::int64_t owner = i / pitch * cols + i % pitch;
        matched +=
            owner < got.size() && belongs_to(got, i, reference, static_cast<std::size_t>(owner));
      }
      most = std::max(most, matched);
    }
    return of_all(most, looked_at, overwritten);
  }

  /// The same with the columns laid one after another.
  static std::uint64_t of_another_order(const core::BufferSpec& spec, const core::Tensor& got,
                                        const core::ReferenceTensor& reference,
                                        const std::vector<std::int64_t>& overwritten) {
    constexpr std::int64_t kLongest = 4096;
    const std::int64_t rows = spec.tiles.rows, cols = spec.tiles.cols;
    std::uint64_t most = 0, looked_at = 0;
    for (std::int64_t pitch = 2; pitch < std::min(2 * rows, kLongest); ++pitch) {
      std::uint64_t matched = 0;
      looked_at = 0;
      for (std::size_t k = 0; k < overwritten.size(); k += step_through(overwritten)) {
        ++looked_at;
        const std::int64_t i = overwritten[k], row = i % pitch, col = i / pitch;
        matched += row < rows && col < cols &&
                   belongs_to(got, i, reference, static_cast<std::size_t>(row * cols + col));
      }
      most = std::max(most, matched);
    }
    return of_all(most, looked_at, overwritten);
  }

  void add_alternative(const core::AlternativeResult& alternative, const core::Tensor& got,
                       const core::ReferenceTensor& reference, const core::ElementPoison& poison) {
    const std::string& output = plan_.buffers[output_indices_[alternative.output]].name;
    if (alternative.values.size() != static_cast<std::size_t>(got.size())) {
      throw core::UsageError(fmt::format("{}: the alternative '{}' foretells {} values of output "
                                         "'{}', which has {}",
                                         plan_.subject, alternative.name, alternative.values.size(),
                                         output, got.size()));
    }
    auto known = std::find_if(alternatives_.begin(), alternatives_.end(), [&](const auto& a) {
      return a.name == alternative.name && a.output == output;
    });
    if (known == alternatives_.end()) {
      alternatives_.push_back({alternative.name, alternative.finding, output, 0, 0});
      known = alternatives_.end() - 1;
    }
    for (std::int64_t i = 0; i < got.size(); ++i) {
      const auto n = static_cast<std::size_t>(i);
      const double bound = reference.bound[n];
      if (core::stays_untouched(bound)) continue;
      const auto accepts = [&](double expected) {
        return core::check_element(got.dtype, got.bits(i), expected, bound, poison[i]).kind;
      };
      const core::ElementClass kind = accepts(reference.expected[n]);
      if (!core::is_failure(kind) || kind == core::ElementClass::no_reference) continue;
      ++known->wrong;
      known->matched += !core::is_failure(accepts(alternative.values[n]));
    }
  }

  /// Which hypothesis explains most wrong elements of this tile?
  void attribute(std::uint32_t o, const core::BufferSpec& spec, std::int64_t tile,
                 const std::vector<std::int64_t>& wrong, const core::Tensor& got,
                 const core::ReferenceTensor& reference, const core::ElementPoison& poison,
                 const std::vector<core::TileHypothesis>& hypotheses) {
    // An output that is streamed tile by tile holds the moved data itself, in the destination. Any
    // other one was computed from it, and every destination is possible.
    const bool streamed = spec.tiles.pipeline_depth > 0;
    const std::int64_t position = spec.tiles.position_of(tile);
    Move best{.output = o, .destination = streamed ? position : -1, .source = -1};
    std::uint64_t best_matched = 0;
    for (const core::TileHypothesis& h : hypotheses) {
      if (h.output != o || (streamed && h.destination != position)) continue;
      std::uint64_t matched = 0;
      for (std::int64_t i : wrong) {
        const auto n = static_cast<std::size_t>(i);
        const core::ElementCheck check = core::check_element(spec.dtype, got.bits(i), h.values[n],
                                                             reference.bound[n], poison[i]);
        if (!core::is_failure(check.kind)) ++matched;
      }
      if (streamed) matched_[{o, h.destination, h.source}] += matched;
      if (matched > best_matched) {
        best_matched = matched;
        best = {o, h.destination, h.source};
      }
    }
    if (streamed) {
      matched_[{o, position, -1}] += 0;
    } else {
      if (2 * best_matched < wrong.size()) best = {o, -1, -1};
      matched_[best] += best.source < 0 ? 0 : best_matched;
    }
    wrong_[{o, best.source < 0 && streamed ? position : best.destination}] += wrong.size();
  }

  static bool is_power_of_two(double x) {
    int exponent = 0;
    return x > 0.0 && std::isfinite(x) && std::frexp(x, &exponent) == 0.5;
  }

  const core::TrialPlan& plan_;
  core::PoisonMap poisons_;
  std::vector<std::uint32_t> output_indices_;
  std::int32_t depth_ = 0;
  std::map<Move, std::uint64_t> matched_;
  std::map<std::pair<std::uint32_t, std::int64_t>, std::uint64_t> wrong_;
  core::ErrorShapeEvidence shape_;
  std::vector<core::AlternativeEvidence> alternatives_;
  detail::ErrorReadings readings_;
  detail::Footprints footprints_;
  detail::ErrorTemplates templates_;
  bool wants_templates_ = true;
  std::vector<double> errors_;
};

/// What the last trials before that of the capture should have given, where every trial has inputs
/// of its own. With fixed inputs the seeds are nobody's, and nothing is like their results.
void add_earlier(const core::TrialPlan& plan, core::DataMode data, const core::Capture& capture,
                 Expectation& expectation) {
  const std::uint64_t most_back = data == core::DataMode::epoch ? 3 : 1;
  constexpr std::int64_t kElements = std::int64_t{1} << 20;
  std::int64_t elements = 0;
  for (const core::BufferSpec& buffer : plan.buffers) {
    if (buffer.role != core::BufferRole::workspace) elements += buffer.elements();
  }
  if (elements > kElements) return;
  for (std::uint64_t back = 1; back <= std::min(most_back, capture.trial); ++back) {
    const std::uint64_t seed =
        detail::input_seed_of_trial(capture.input_seed, capture.trial, capture.trial - back);
    expectation.earlier.push_back(plan.reference(make_inputs(plan, data, seed)));
  }
}

/// The same results? Where nobody wrote, in the padding of rows or in elements that were missed,
/// two captures hold their own poison: that is no result.
bool same_results(const core::PoisonMap& poisons, const std::vector<std::uint32_t>& outputs,
                  const core::Capture& a, const core::Capture& b) {
  for (std::size_t o = 0; o < a.outputs.size(); ++o) {
    const core::Tensor &x = a.outputs[o], &y = b.outputs[o];
    if (x.bytes == y.bytes) continue;
    const core::ElementPoison poison_x(poisons, outputs[o], a.poison);
    const core::ElementPoison poison_y(poisons, outputs[o], b.poison);
    for (std::int64_t i = 0; i < x.size(); ++i) {
      if (x.bits(i) == y.bits(i)) continue;
      const bool unwritten = x.bits(i) == poison_x[i] && y.bits(i) == poison_y[i];
      if (!unwritten) return false;
    }
  }
  return true;
}

}  // namespace

std::vector<core::Tensor> make_inputs(const core::TrialPlan& plan, core::DataMode data,
                                      std::uint64_t input_seed) {
  std::vector<core::Tensor> inputs;
  for (std::uint32_t index : plan.input_indices()) {
    const core::BufferSpec& buffer = plan.buffers[index];
    core::Tensor tensor(buffer.dtype, buffer.shape);
    core::generate_input(core::input_for(data, buffer), input_seed, index, tensor);
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

CaptureExamination examine_captures(const core::TrialPlan& plan, core::DataMode data,
                                    const std::vector<const core::TrialResult*>& results,
                                    bool templates) {
  constexpr std::size_t kInputSets = 8;
  constexpr std::size_t kPairsPerSet = 16;     ///< captures of one set compared pairwise
  constexpr std::size_t kSetsWithEarlier = 1;  ///< a reference takes its time
  std::size_t examined_sets = 0;
  std::map<std::uint64_t, std::vector<const core::Capture*>> by_inputs;
  for (const core::TrialResult* result : results) {
    for (const core::Capture& capture : result->captures) {
      if (by_inputs.size() < kInputSets || by_inputs.contains(capture.input_seed)) {
        by_inputs[capture.input_seed].push_back(&capture);
      }
    }
  }
  CaptureExamination examination;
  if (by_inputs.empty() || !plan.reference) return examination;

  const core::PoisonMap poisons(plan.buffers);
  const std::vector<std::uint32_t> outputs = plan.output_indices();
  Examiner examiner(plan, data, templates);
  for (const auto& [seed, captures] : by_inputs) {
    const std::vector<core::Tensor> inputs = make_inputs(plan, data, seed);
    Expectation expectation{.outputs = plan.reference(inputs),
                            .hypotheses = plan.hypotheses ? plan.hypotheses(inputs)
                                                          : std::vector<core::TileHypothesis>{},
                            .alternatives = plan.alternatives
                                                ? plan.alternatives(inputs)
                                                : std::vector<core::AlternativeResult>{},
                            .earlier = {}};
    if (examined_sets++ < kSetsWithEarlier && captures.size() == 1) {
      add_earlier(plan, data, *captures.front(), expectation);
    }
    for (const core::Capture* capture : captures) examiner.examine(*capture, inputs, expectation);
    for (std::size_t i = 0; i < captures.size() && i < kPairsPerSet; ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        examiner.add_pair(captures[i]->poison == captures[j]->poison,
                          !same_results(poisons, outputs, *captures[i], *captures[j]));
      }
    }
  }
  examination.provenance = examiner.provenance();
  examination.shape = examiner.shape();
  examination.alternatives = examiner.alternatives();
  examination.readings = examiner.readings();
  examination.footprints = examiner.footprints();
  examination.templates = examiner.templates();
  return examination;
}

}  // namespace faultline::stress
