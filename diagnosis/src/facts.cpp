// SPDX-License-Identifier: Apache-2.0
#include "facts.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>

#include <fmt/format.h>

#include "call_order.hpp"
#include "faultline/diagnosis/cell_text.hpp"
#include "faultline/diagnosis/experiment.hpp"
#include "faultline/diagnosis/totals.hpp"
#include "rules/rule.hpp"
#include "words.hpp"

namespace faultline::diagnosis {
namespace {

constexpr std::uint64_t kPoisons = 3;  // core::poison_word rotates through three

auto arm_key(const core::ArmEvidence& arm) {
  const core::TrialResult& r = arm.result;
  return std::tuple(core::to_text(arm.perturbation), r.trials, r.failed, r.first_failed_trial);
}

auto config_key(const core::ConfigEvidence& cell) {
  return std::tuple(cell.problem, cell.config, cell.result.trials, cell.result.failed);
}

auto provenance_key(const core::ProvenanceEvidence& p) {
  // Most matches first; the rest only makes the order total.
  return std::tuple(-static_cast<double>(p.matched), p.output, p.destination, p.source, p.wrong);
}

std::string arm_name(const core::ArmEvidence& arm) { return arm.perturbation.name; }

std::string rate_with_interval(const core::ArmEvidence& arm) {
  return fmt::format("{} of {} (95 % interval {:.2g} to {:.2g})", count(arm.result.wrong_values),
                     count(arm.result.trials), arm.wilson95.low, arm.wilson95.high);
}

}  // namespace

Facts::Facts(const core::Evidence& given) : evidence(given) {
  for (const core::ArmEvidence& arm : given.arms) {
    if (arm.result.skipped) {
      ++skipped;
    } else {
      arms.push_back(&arm);
    }
  }
  for (const core::ConfigEvidence& cell : given.configs) {
    if (cell.result.skipped) {
      ++skipped;
    } else {
      configs.push_back(&cell);
    }
  }
  std::stable_sort(arms.begin(), arms.end(),
                   [](auto* a, auto* b) { return arm_key(*a) < arm_key(*b); });
  std::stable_sort(configs.begin(), configs.end(),
                   [](auto* a, auto* b) { return config_key(*a) < config_key(*b); });
  for (const auto* arm : arms) results.push_back(&arm->result);
  for (const auto* cell : configs) results.push_back(&cell->result);

  for (const core::RaceReport& race : given.races) merge_race(races, race);
  if (races.empty()) {
    for (const auto* result : results) {
      for (const core::RaceReport& race : result->races) merge_race(races, race);
    }
  }
  sort_races(races);
  provenance = given.provenance;
  std::sort(provenance.begin(), provenance.end(),
            [](const auto& a, const auto& b) { return provenance_key(a) < provenance_key(b); });
  for (const core::TermEvidence& term : given.terms) terms.push_back(&term);
  std::stable_sort(terms.begin(), terms.end(), [](const auto* a, const auto* b) {
    return std::tie(a->problem, a->config) < std::tie(b->problem, b->config);
  });
  merge_accesses(accesses, given.accesses);
  std::sort(accesses.begin(), accesses.end(), [](const auto& a, const auto& b) {
    return std::tuple(a.where.file, a.where.line, a.instruction, a.is_write) <
           std::tuple(b.where.file, b.where.line, b.instruction, b.is_write);
  });
  outputs = total_outputs(results);

  for (const auto* result : results) {
    trials += result->trials;
    failed += result->failed;
    wrong_values += result->wrong_values;
    raced += result->raced;
    abnormal += result->abnormal;
    for (const core::OutputTotals& output : result->outputs) {
      compared_elements += output.compared_elements;
    }
  }
}

bool Facts::any_race_error() const {
  return std::any_of(races.begin(), races.end(), [](const auto& r) { return !r.note_only; });
}

bool Facts::wrong_without_race() const {
  return std::any_of(results.begin(), results.end(),
                     [](const auto* r) { return r->wrong_values > 0 && r->raced == 0; });
}

bool Facts::only_without_reference() const {
  std::uint64_t without = 0, judged = 0;
  for (const core::OutputTotals& output : outputs) {
    without += output.no_reference;
    judged += judged_wrong(output);
  }
  return without > 0 && judged == 0;
}

double Facts::poison_share() const {
  std::uint64_t poison = 0, bad = 0;
  for (const core::OutputTotals& output : outputs) {
    poison += output.poison;
    bad += judged_wrong(output);
  }
  return bad == 0 ? 0.0 : static_cast<double>(poison) / static_cast<double>(bad);
}

PoisonPattern poison_pattern(const core::TrialResult& result) {
  if (result.failed == 0 || result.failures.size() != result.failed || result.trials < kPoisons) {
    return PoisonPattern::unknown;
  }
  if (result.failed == result.trials) return PoisonPattern::every_trial;  // so under every poison
  if (result.trials < 2 * kPoisons) return PoisonPattern::unknown;
  std::array<std::uint64_t, kPoisons> failures{};
  for (const core::FailedTrial& failure : result.failures) ++failures[failure.trial % kPoisons];
  for (std::uint64_t n : failures) {
    if (n != 0 && n < result.trials / kPoisons) return PoisonPattern::unrelated;
  }
  return std::any_of(failures.begin(), failures.end(), [](auto n) { return n == 0; })
             ? PoisonPattern::poison_decides
             : PoisonPattern::unrelated;
}

namespace {

/// What such an arm does otherwise is another program, or, where the others do not lay poison in
/// shared memory, read from there: that it fails more often says nothing of when things happen.
bool not_of_timing(const Facts& facts, const core::ArmEvidence& arm) {
  if (arm.perturbation.calls > 1) return true;
  return arm.perturbation.dirty_shared &&
         std::any_of(facts.arms.begin(), facts.arms.end(),
                     [](const auto* other) { return !other->perturbation.dirty_shared; });
}

/// Of the arms with new inputs every trial, the one in which most trials came out otherwise than
/// those of the unperturbed arm with the same inputs and poison: too few for a claim about rates,
/// and yet something else decided. Not arms that are another program (more trials in a grid, a
/// module loaded anew, several calls). Nullptr: none, or equal inputs may give other bits.
const core::ArmEvidence* most_unlike_its_pair(const Facts& facts) {
  if (!facts.any_wrong() || !facts.evidence.declared_deterministic) return nullptr;
  const core::ArmEvidence* most = nullptr;
  const auto unlike = [](const core::ArmEvidence& arm) {
    return arm.failed_here_only + arm.failed_there_only;
  };
  for (const core::ArmEvidence* arm : facts.arms) {
    const core::Perturbation& p = arm->perturbation;
    if (!p.fresh_inputs || p.batch > 1 || p.ctas_per_sm > 0.0) continue;
    if (p.reload_module || not_of_timing(facts, *arm)) continue;
    if (unlike(*arm) > 0 && (!most || unlike(*arm) > unlike(*most))) most = arm;
  }
  return most;
}

/// Some trials with one of the poisons are wrong, and others with the same one are not.
bool differs_under_one_poison(const core::TrialResult& result) {
  const std::vector<core::FailedTrial>& failures = result.failures;
  if (failures.empty()) return false;
  // Beyond the last listed one nothing is known when the list was cut short.
  const std::uint64_t known =
      failures.size() == result.failed ? result.trials : failures.back().trial + 1;
  std::array<std::uint64_t, kPoisons> wrong{};
  for (const core::FailedTrial& failure : failures) {
    if (failure.trial < known && failure.bad_elements > 0) ++wrong[failure.trial % kPoisons];
  }
  for (std::uint64_t p = 0; p < kPoisons; ++p) {
    const std::uint64_t laid = known / kPoisons + (p < known % kPoisons ? 1 : 0);
    if (wrong[p] > 0 && wrong[p] < laid) return true;
  }
  return false;
}

/// One claim per arm is tried: alpha = 0.05 is shared among them.
bool rate_depends_on(const core::ArmEvidence& arm, const Facts& facts) {
  return arm.log_e >= std::log(20.0 * static_cast<double>(facts.arms.size()));
}

/// It replays graphs of trials, which issuing launch by launch does not.
bool replays_graphs(const Facts& facts, const std::string& arm_name) {
  return std::any_of(facts.arms.begin(), facts.arms.end(), [&](const auto* arm) {
    return arm->perturbation.name == arm_name && arm->perturbation.graph_trials > 0;
  });
}

}  // namespace

bool delays_decide(const Facts& facts) {
  if (!facts.any_wrong()) return false;
  using Kind = core::ExperimentEvidence::Kind;
  for (const core::ExperimentEvidence& row : facts.evidence.experiments) {
    const Effect effect = effect_of(row);
    if (row.kind == Kind::delay && effect == Effect::raised) return true;
    // Out of a graph, other kernels run in between: they leave other shared memory behind.
    if (row.kind == Kind::serialised && effect == Effect::cured &&
        !replays_graphs(facts, row.baseline)) {
      return true;
    }
  }
  return false;
}

bool poison_is_refuted(const Facts& facts) {
  if (delays_decide(facts)) return true;
  // Where shared memory is dirtied, all that a trial may read unwritten has the poison.
  const bool dirtied = std::any_of(facts.arms.begin(), facts.arms.end(), [](const auto* arm) {
    return arm->perturbation.dirty_shared && arm->result.wrong_values > 0;
  });
  // By chance, or where what shakes an arm has the period of the poison, it seems to decide in one.
  std::size_t decides = 0, differs = most_unlike_its_pair(facts) != nullptr ? 1 : 0;
  for (const core::ArmEvidence* arm : facts.arms) {
    if (dirtied && !arm->perturbation.dirty_shared) continue;
    if (poison_pattern(arm->result) == PoisonPattern::poison_decides) {
      ++decides;
    } else if (!arm->perturbation.fresh_inputs && differs_under_one_poison(arm->result)) {
      ++differs;
    }
  }
  return differs > decides;
}

bool shared_memory_explains_what_differs(const Facts& facts) {
  if (delays_decide(facts)) return false;
  bool dirtied = false, others = false;
  for (const core::ArmEvidence* arm : facts.arms) {
    const core::TrialResult& r = arm->result;
    if (!arm->perturbation.dirty_shared) {
      others = true;
    } else if (r.trials > 0) {
      if (r.wrong_values < r.trials) return false;
      dirtied = true;
    }
  }
  return dirtied && others && values_follow_poison(facts);
}

std::vector<std::string> timing_dependence(const Facts& facts) {
  if (calls_explain_what_differs(facts) || shared_memory_explains_what_differs(facts)) return {};
  std::vector<const core::ArmEvidence*> fixed;
  for (const core::ArmEvidence* arm : facts.arms) {
    if (!arm->perturbation.fresh_inputs && arm->result.trials > 0) fixed.push_back(arm);
  }
  std::vector<std::string> sentences;

  // In a short arm each poison was laid once: whether the poison decides is then asked of all arms
  // together, which have the same inputs.
  std::array<std::uint64_t, kPoisons> failures{}, laid{};
  for (const core::ArmEvidence* arm : fixed) {
    const core::TrialResult& r = arm->result;
    if (r.failures.size() != r.failed || arm->perturbation.calls > 1) continue;
    for (const core::FailedTrial& failure : r.failures) ++failures[failure.trial % kPoisons];
    for (std::uint64_t p = 0; p < kPoisons; ++p) {
      laid[p] += r.trials / kPoisons + (p < r.trials % kPoisons ? 1 : 0);
    }
  }
  bool poison_may_decide = true;
  for (std::size_t p = 0; p < kPoisons; ++p) {
    if (failures[p] > 0 && failures[p] < laid[p]) poison_may_decide = false;
  }

  const core::ArmEvidence* intermittent = nullptr;
  for (const core::ArmEvidence* arm : fixed) {
    const core::TrialResult& r = arm->result;
    const bool sometimes = r.wrong_values > 0 && r.wrong_values < r.trials;
    if (!sometimes || poison_pattern(r) == PoisonPattern::poison_decides) continue;
    if (r.trials < 2 * kPoisons && poison_may_decide) continue;
    if (!intermittent || r.wrong_values > intermittent->result.wrong_values) intermittent = arm;
  }
  if (intermittent) {
    sentences.push_back(
        fmt::format("with the same inputs every time, arm '{}' gave wrong values in {} trials: "
                    "something other than the data decides",
                    arm_name(*intermittent), rate_with_interval(*intermittent)));
  }

  const core::ArmEvidence *highest = nullptr, *lowest = nullptr;
  for (const core::ArmEvidence* arm : fixed) {
    if (not_of_timing(facts, *arm)) continue;
    if (!highest || arm->wilson95.low > highest->wilson95.low) highest = arm;
    if (!lowest || arm->wilson95.high < lowest->wilson95.high) lowest = arm;
  }
  if (highest && highest != lowest && highest->result.wrong_values > 0 &&
      poison_pattern(highest->result) != PoisonPattern::poison_decides &&
      highest->wilson95.low > lowest->wilson95.high) {
    sentences.push_back(fmt::format(
        "the rate depends on what runs around the kernel: '{}' {}, '{}' {}, on the same inputs",
        arm_name(*highest), rate_with_interval(*highest), arm_name(*lowest),
        rate_with_interval(*lowest)));
  }

  const core::ArmEvidence* strongest = nullptr;
  for (const core::ArmEvidence* arm : facts.arms) {
    if (arm->perturbation.dirty_shared && not_of_timing(facts, *arm)) continue;
    if (!strongest || arm->log_e > strongest->log_e) strongest = arm;
  }
  if (strongest && facts.any_wrong() && rate_depends_on(*strongest, facts)) {
    sentences.push_back(fmt::format(
        "paired by trial number with the unperturbed arm of equal inputs, '{}' failed alone in {} "
        "pairs and the other alone in {}: E = 10^{:.1f}, the failure rate DEPENDS on it (alpha "
        "0.05 over {} "
        "arms)",
        arm_name(*strongest), count(strongest->failed_here_only),
        count(strongest->failed_there_only), strongest->log_e / std::log(10.0), facts.arms.size()));
  }

  if (const core::ArmEvidence* arm = most_unlike_its_pair(facts)) {
    const std::uint64_t here = arm->failed_here_only, there = arm->failed_there_only;
    std::string only =
        here > 0
            ? fmt::format("{} wrong in '{}' alone",
                          plural(here, "trial") + (here == 1 ? " was" : " were"), arm_name(*arm))
            : "";
    if (there > 0) {
      only += fmt::format("{}{} wrong in the unperturbed arm alone", here > 0 ? ", and " : "",
                          here > 0 ? count(there)
                                   : plural(there, "trial") + (there == 1 ? " was" : " were"));
    }
    sentences.push_back("on equal inputs and poison, " + only);
  }

  for (const core::ExperimentEvidence& row : facts.evidence.experiments) {
    if (row.kind != core::ExperimentEvidence::Kind::delay || effect_of(row) != Effect::raised) {
      continue;
    }
    sentences.push_back(fmt::format("{} trials were wrong with {}, and {} without, on the same "
                                    "inputs: how far warps drift apart decides",
                                    share(row.after_wrong, row.after_trials), row.change,
                                    share(row.before_wrong, row.before_trials)));
  }

  // Where the order of a sum is left open, other bits on equal inputs are no sign of a race.
  if (!facts.evidence.declared_deterministic) return sentences;
  const auto& repeat = facts.evidence.repeat;
  if (repeat && facts.any_wrong() && repeat->distinct > kPoisons) {
    sentences.push_back(fmt::format(
        "{} on the same inputs gave {}, and the outputs held only {} patterns before",
        plural(repeat->repeats, "run"), plural(repeat->distinct, "different output"), kPoisons));
  }
  const auto& shape = facts.evidence.error_shape;
  if (shape && shape->same_poison_differing > 0) {
    sentences.push_back(fmt::format(
        "of {} pairs of failing trials with equal inputs and equal poison, {} gave different bits",
        count(shape->same_poison_pairs), count(shape->same_poison_differing)));
  }
  return sentences;
}

bool same_tiles_every_time(const Facts& facts) {
  bool any = false;
  for (const core::TrialResult* result : facts.results) {
    for (const core::OutputTotals& output : result->outputs) {
      if (output.bad_trials == 0) continue;
      for (const core::TileTotals& tile : output.tiles) {
        if (tile.bad_trials == 0) continue;
        any = true;
        if (tile.bad_trials != output.bad_trials) return false;
        if (tile.bad_elements % tile.bad_trials != 0) return false;
      }
    }
  }
  return any;
}

std::vector<const core::OutputTotals*> wrong_outputs(const Facts& facts) {
  std::vector<const core::OutputTotals*> wrong;
  for (const core::OutputTotals& output : facts.outputs) {
    if (judged_wrong(output) > 0) wrong.push_back(&output);
  }
  std::stable_sort(wrong.begin(), wrong.end(), [](const auto* a, const auto* b) {
    return std::tuple(b->bad_trials, b->bad_elements, a->name) <
           std::tuple(a->bad_trials, a->bad_elements, b->name);
  });
  return wrong;
}

std::string wrong_place(const Facts& facts, const core::OutputTotals& output) {
  if (!output.tiles.empty()) return "wrong elements lie in " + wrong_tiles_text(output);
  for (const core::ConfigEvidence* cell : facts.configs) {
    for (const core::OutputTotals& here : cell->result.outputs) {
      if (here.name != output.name || here.dtype != output.dtype || judged_wrong(here) == 0 ||
          here.tiles.empty())
        continue;
      return fmt::format("wrong elements lie, e.g. at {}, in {}",
                         cell_text(cell->problem, cell->config), wrong_tiles_text(here));
    }
  }
  return fmt::format("wrong elements lie in tiles of {} that differ between runs", output.name);
}

bool is_streamed(const Facts& facts, const std::string& output_name) {
  for (const core::OutputTotals& output : facts.outputs) {
    if (output.name == output_name) return output.geometry.pipeline_depth > 0;
  }
  return true;
}

BufferReuse buffer_reuse(const Facts& facts) {
  BufferReuse reuse;
  for (const core::ProvenanceEvidence& entry : facts.provenance) {
    reuse.wrong += entry.wrong;
    if (entry.source < 0 || entry.pipeline_depth <= 0) continue;
    if (entry.source == entry.destination) continue;
    if (entry.destination % entry.pipeline_depth != entry.source % entry.pipeline_depth) continue;
    reuse.matched_same_buffer += entry.matched;
    if (!reuse.strongest || entry.matched > reuse.strongest->matched) reuse.strongest = entry;
  }
  return reuse;
}

}  // namespace faultline::diagnosis
