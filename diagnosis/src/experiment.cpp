// SPDX-License-Identifier: Apache-2.0
#include "faultline/diagnosis/experiment.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include <fmt/format.h>

#include "call_order.hpp"
#include "cures.hpp"
#include "facts.hpp"
#include "faultline/diagnosis/diagnose.hpp"
#include "words.hpp"

namespace faultline::diagnosis {
namespace {

using Change = core::ExperimentEvidence::Kind;

bool fixed_inputs_ran(const Facts& facts) {
  return std::any_of(facts.arms.begin(), facts.arms.end(), [](const core::ArmEvidence* arm) {
    return !arm->perturbation.fresh_inputs && arm->result.trials >= 2;
  });
}

bool memory_stress_tried(const core::Evidence& evidence) {
  return std::any_of(evidence.arms.begin(), evidence.arms.end(), [](const core::ArmEvidence& arm) {
    return arm.perturbation.co_resident == core::CoResident::memory_stress;
  });
}

bool blocker_tried(const core::Evidence& evidence) {
  return std::any_of(evidence.arms.begin(), evidence.arms.end(),
                     [](const core::ArmEvidence& arm) { return arm.perturbation.blocker_ns > 0; });
}

bool called_twice(const core::Evidence& evidence) {
  return std::any_of(evidence.arms.begin(), evidence.arms.end(),
                     [](const core::ArmEvidence& arm) { return arm.perturbation.calls > 1; });
}

/// Wrong values, and no rule knows why.
bool without_a_name(const core::Evidence& evidence) {
  const core::Verdict verdict = diagnose(evidence);
  return std::any_of(verdict.findings.begin(), verdict.findings.end(), [](const auto& finding) {
    return finding.finding == core::FindingClass::unknown;
  });
}

/// Every ragged cell failed and no cell without a tail was tried.
bool only_ragged_sizes(const Facts& facts) {
  bool any = false;
  for (const core::ConfigEvidence* cell : facts.configs) {
    if (cell->tile_k <= 0 || cell->reduction <= 0) return false;
    if (cell->reduction % cell->tile_k == 0) return false;
    any = any || cell->failed;
  }
  return any;
}

double rate_of(const core::ArmEvidence& arm) {
  return static_cast<double>(arm.result.wrong_values) /
         static_cast<double>(std::max<std::uint64_t>(arm.result.trials, 1));
}

/// The arm whose failure is to be cured: one input set, wrong most often. One with delays inside
/// the kernel, which make other blocks and configs fail in other ways, only where no other is wrong
/// in a tenth of its trials; one of several calls, which another may spoil, only where none of one
/// call is wrong.
const core::ArmEvidence* failing_arm(const Facts& facts) {
  constexpr double kOften = 0.1;
  const core::ArmEvidence *most = nullptr, *delayed = nullptr, *later = nullptr;
  for (const core::ArmEvidence* arm : facts.arms) {
    const core::Perturbation& p = arm->perturbation;
    if (p.fresh_inputs || arm->result.wrong_values == 0) continue;
    const core::ArmEvidence*& best = p.calls > 1 ? later : p.delay_sites != 0 ? delayed : most;
    if (!best || rate_of(*arm) > rate_of(*best)) best = arm;
  }
  if (!most && !delayed) return later;
  if (!most || (delayed && rate_of(*most) < kOften && rate_of(*delayed) > rate_of(*most))) {
    return delayed;
  }
  return most;
}

/// The settings in which a perturbation of a device differs from a tight loop, one by one.
struct Knob {
  const char* name;
  std::function<bool(const core::Perturbation&)> is_set;
  std::function<void(core::Perturbation&, const core::Perturbation&)> copy;
};

const std::vector<Knob>& knobs() {
  using P = core::Perturbation;
  static const std::vector<Knob> all = {
      {"the stress kernel beside it",
       [](const P& p) { return p.co_resident != core::CoResident::none; },
       [](P& to, const P& from) { to.co_resident = from.co_resident; }},
      {"cold inputs from a pool", [](const P& p) { return p.pool_bytes > 0; },
       [](P& to, const P& from) { to.pool_bytes = from.pool_bytes; }},
      {"a flushed L2", [](const P& p) { return p.flush_l2; },
       [](P& to, const P& from) { to.flush_l2 = from.flush_l2; }},
      {"graphs of trials", [](const P& p) { return p.graph_trials > 0; },
       [](P& to, const P& from) { to.graph_trials = from.graph_trials; }},
      {"host delays", [](const P& p) { return p.wait_ns > 0; },
       [](P& to, const P& from) {
         to.wait = from.wait;
         to.wait_ns = from.wait_ns;
       }},
      {"a blocker in front of it", [](const P& p) { return p.blocker_ns > 0; },
       [](P& to, const P& from) { to.blocker_ns = from.blocker_ns; }},
      {"few multiprocessors", [](const P& p) { return p.free_sms > 0; },
       [](P& to, const P& from) { to.free_sms = from.free_sms; }},
      {"dirtied shared memory", [](const P& p) { return p.dirty_shared; },
       [](P& to, const P& from) { to.dirty_shared = from.dirty_shared; }},
      {"delays inside the kernel", [](const P& p) { return p.delay_sites != 0; },
       [](P& to, const P& from) {
         to.delay_sites = from.delay_sites;
         to.delay_site = from.delay_site;
         to.delay_ns = from.delay_ns;
         to.delay_seed = from.delay_seed;
       }}};
  return all;
}

/// How many trials, of the arm and of the change each, it takes for none to fail to mean something:
/// some 14 failures of the arm against none are enough for effect_of(). An arm that was chosen for
/// its rate has a lower one in truth.
std::uint64_t trials_for(const core::ArmEvidence& arm, bool model) {
  constexpr double kFailures = 20.0, kLeast = 12.0;
  const double most = model ? 48.0 : 4000.0;
  const double rate = std::max(arm.wilson95.low, 1e-6);
  return static_cast<std::uint64_t>(std::clamp(std::ceil(kFailures / rate), kLeast, most));
}

class Changes {
 public:
  explicit Changes(const Facts& facts) : facts_(facts), evidence_(facts.evidence) {}

  std::optional<Experiment> next() const {
    if (evidence_.mode != "stress") return std::nullopt;
    const core::ArmEvidence* base = failing_arm(facts_);
    if (!base) return std::nullopt;
    for (Experiment& change : all(*base)) {
      // On few multiprocessors each trial takes up to so many times as long.
      for (const std::uint32_t free : {base->perturbation.free_sms, change.perturbation.free_sms}) {
        if (free > 0) change.trials = std::min(change.trials, kTrialsOfEachFree * free);
      }
      if (!tried(change)) return std::move(change);
    }
    return std::nullopt;
  }

 private:
  Experiment make(const core::ArmEvidence& base, Change kind, std::string text,
                  std::string reason) const {
    Experiment change;
    change.kind = Experiment::Kind::change;
    change.change = kind;
    change.change_text = std::move(text);
    change.baseline = base.perturbation.name;
    change.perturbation = base.perturbation;
    change.trials = trials_for(base, evidence_.backend_is_model);
    change.reason = std::move(reason);
    return change;
  }

  /// In the order in which they are run: what separates most comes first.
  std::vector<Experiment> all(const core::ArmEvidence& base) const {
    std::vector<Experiment> changes;
    const core::Perturbation& p = base.perturbation;
    const bool model = evidence_.backend_is_model;
    const bool timed = !timing_dependence(facts_).empty();
    const std::string beside =
        p.co_resident == core::CoResident::none
            ? ""
            : fmt::format(", {} still beside it", core::name_of(p.co_resident));
    if (timed && model && evidence_.streams > 1) {
      changes.push_back(make(base, Change::serialised, "one stream for all operations",
                             "launches that overlap no more tell a race between launches from one "
                             "inside a launch"));
      changes.back().perturbation.one_stream = true;
    }
    if (timed && !model && !p.sync_each) {
      changes.push_back(make(base, Change::serialised, "synchronising after every launch" + beside,
                             "launches that overlap no more, under the same contention, tell a "
                             "race between launches from one inside a launch"));
      changes.back().perturbation.sync_each = true;
      changes.back().perturbation.graph_trials = 0;
    }
    const CallOrder calls = call_order(facts_);
    if (calls.decides) return changes;  // nothing is left to find out
    if (calls.open) add_calls(base, changes);
    if (p.graph_trials > 0) {
      changes.push_back(make(base, Change::eager, "launching instead of replaying graphs of trials",
                             "trials that follow one another without the host are gone"));
      changes.back().perturbation.graph_trials = 0;
    }
    if (!timed) {
      changes.push_back(make(base, Change::contiguous, "contiguous data",
                             "what goes away with a pitch or an offset lies in an address"));
    }
    if (!timed && addresses_matter()) {
      changes.push_back(make(base, Change::offset, "buffers that begin 16 bytes further on",
                             "what goes away with an alignment relies on it"));
      changes.back().perturbation.offset_bytes = p.offset_bytes + 16;
    }
    changes.push_back(make(base, Change::one_block, "one block in each launch",
                           "what still fails lies inside a block"));
    changes.push_back(make(base, Change::one_stage, "one pipeline stage",
                           "a buffer that is reused too early has nothing to be reused for"));
    if (timed) {
      changes.push_back(make(base, Change::twin, "another implementation",
                             "inputs, reference and bound are those of the failure"));
      add_knobs(base, changes);
      if (!model) add_provocations(base, changes);
    }
    if (timed || p.delay_sites != 0 || shared_memory_explains_what_differs(facts_)) {
      changes.push_back(make(base, Change::delay, "delays inside the kernel",
                             "a race inside a launch depends on how far its warps drift apart"));
      // Into a tight loop, under a schedule that adds nothing; those of the arm, if it has some.
      core::Perturbation& alone = changes.back().perturbation;
      alone = {};
      alone.policy = model ? core::SchedulePolicy::round_robin : p.policy;
      alone.lateness = model ? core::CopyLateness::eager : p.lateness;
      alone.delay_sites = p.delay_sites;
      alone.delay_site = p.delay_site;
      alone.delay_ns = p.delay_ns;
      alone.delay_seed = p.delay_seed;
    }
    return changes;
  }

  /// The first call of a fresh module, and the second, where the first is not known to be wrong. On
  /// a model every trial begins with fresh modules.
  void add_calls(const core::ArmEvidence& base, std::vector<Experiment>& changes) const {
    const bool model = evidence_.backend_is_model;
    const char* reason = "a first call that is right and a second that is not tell what one leaves "
                         "behind from what each gets wrong";
    if (!model || base.perturbation.calls > 1) {
      changes.push_back(
          make(base, Change::first_call,
               model ? "one call in each trial" : "a module that is loaded anew for each trial",
               reason));
      changes.back().perturbation = fresh_module(base.perturbation);
    }
    if (!model) {
      changes.push_back(make(base, Change::second_call,
                             "a second call in each trial, of a module that is loaded anew",
                             reason));
      changes.back().perturbation = fresh_module(base.perturbation);
      changes.back().perturbation.calls = 2;
    }
  }

  /// One call, and nothing beside it that would wait for a module to be loaded.
  core::Perturbation fresh_module(core::Perturbation p) const {
    p.calls = 1;
    if (evidence_.backend_is_model) return p;
    core::Perturbation fresh;
    fresh.name = p.name;
    fresh.reload_module = true;
    return fresh;
  }

  /// Whether other addresses can tell anything: of a failure that goes away with the layout they
  /// tell alignment from distance; of one whose layout cannot be changed and that has no name, they
  /// tell whether addresses matter at all.
  bool addresses_matter() const {
    const Effect contiguous = effect_of(evidence_, Change::contiguous);
    if (contiguous == Effect::cured || contiguous == Effect::lowered) return true;
    return contiguous == Effect::not_run && without_a_name(evidence_);
  }

  void add_knobs(const core::ArmEvidence& base, std::vector<Experiment>& changes) const {
    const core::Perturbation& p = base.perturbation;
    const auto set = std::count_if(knobs().begin(), knobs().end(),
                                   [&](const Knob& knob) { return knob.is_set(p); });
    if (set < 2) return;
    for (const Knob& knob : knobs()) {
      if (!knob.is_set(p)) continue;
      Experiment alone = make(base, Change::knob, fmt::format("{} alone", knob.name),
                              "which of the arm's settings it is that counts");
      core::Perturbation only;
      only.policy = p.policy;
      only.lateness = p.lateness;
      knob.copy(only, p);
      alone.perturbation = only;
      // Where an arm did just that, its rate is known.
      const bool known = std::any_of(facts_.arms.begin(), facts_.arms.end(), [&](const auto* arm) {
        core::Perturbation other = arm->perturbation;
        other.name = only.name;
        return other == only;
      });
      if (!known) changes.push_back(std::move(alone));
    }
  }

  /// What no arm did, where the race that it brings out is still possible.
  void add_provocations(const core::ArmEvidence& base, std::vector<Experiment>& changes) const {
    const auto in_an_arm = [&](const auto& set) {
      return std::any_of(facts_.arms.begin(), facts_.arms.end(),
                         [&](const core::ArmEvidence* arm) { return set(arm->perturbation); });
    };
    if (evidence_.streams > 1 && !in_an_arm([](const auto& p) { return p.blocker_ns > 0; })) {
      changes.push_back(make(base, Change::knob, "a blocker of 50 us in front of each trial",
                             "a race between launches depends on how far the host is ahead"));
      changes.back().perturbation.blocker_ns = 50'000;
    }
    const bool inside_a_block = is_no_cure(effect_of(evidence_, Change::one_block));
    if (!inside_a_block && base.perturbation.co_resident == core::CoResident::none &&
        !in_an_arm([](const auto& p) { return p.free_sms > 0; })) {
      changes.push_back(make(base, Change::knob, "8 multiprocessors left to it",
                             "a race between blocks depends on the order in which they run"));
      changes.back().perturbation.free_sms = 8;
    }
  }

  bool tried(const Experiment& change) const {
    return std::any_of(evidence_.experiments.begin(), evidence_.experiments.end(),
                       [&](const core::ExperimentEvidence& row) {
                         return row.kind == change.change &&
                                (row.kind != Change::knob || row.change == change.change_text);
                       });
  }

  const Facts& facts_;
  const core::Evidence& evidence_;
};

core::Interval wilson(std::uint64_t wrong, std::uint64_t trials) {
  if (trials == 0) return {0.0, 1.0};
  constexpr double z = 2.9551668474978343;  // two-sided, of 1 - kChangeAlpha
  const double n = static_cast<double>(trials), p = static_cast<double>(wrong) / n;
  const double centre = (p + z * z / (2 * n)) / (1 + z * z / n);
  const double half = z / (1 + z * z / n) * std::sqrt(p * (1 - p) / n + z * z / (4 * n * n));
  return {std::max(0.0, centre - half), std::min(1.0, centre + half)};
}

}  // namespace

std::string_view name_of(Experiment::Kind kind) {
  switch (kind) {
  case Experiment::Kind::repeat_fixed_inputs: return "repeat_fixed_inputs";
  case Experiment::Kind::memory_stress: return "memory_stress";
  case Experiment::Kind::blocker: return "blocker";
  case Experiment::Kind::second_call: return "second_call";
  case Experiment::Kind::race_check: return "race_check";
  case Experiment::Kind::config_sweep: return "config_sweep";
  case Experiment::Kind::whole_tiles: return "whole_tiles";
  case Experiment::Kind::more_trials: return "more_trials";
  case Experiment::Kind::change: return "change";
  }
  return "?";
}

std::optional<Experiment> next_experiment(const core::Evidence& evidence) {
  const Facts facts(evidence);
  if (evidence.interrupted || facts.trials == 0 || facts.any_race_error()) return std::nullopt;
  Experiment next;

  if (facts.any_wrong()) {
    if (only_ragged_sizes(facts)) {
      next.kind = Experiment::Kind::whole_tiles;
      next.reason =
          "only sizes that are not a multiple of the tile were tried: one that is decides "
          "between a tail and a wrong design";
      return next;
    }
    if (!facts.arms.empty() && !fixed_inputs_ran(facts)) {
      // Repeat under the arm that failed most often, with one input set.
      const core::ArmEvidence* most = facts.arms.front();
      for (const core::ArmEvidence* arm : facts.arms) {
        if (arm->result.wrong_values > most->result.wrong_values) most = arm;
      }
      next.kind = Experiment::Kind::repeat_fixed_inputs;
      next.perturbation = most->perturbation;
      next.perturbation.fresh_inputs = false;
      next.perturbation.name += "_fixed";
      next.trials = 200;
      next.reason = "every trial had new inputs: repeating one input set decides between the data "
                    "and the timing";
      return next;
    }
    if (!facts.configs.empty() && facts.arms.empty() && !facts.only_without_reference()) {
      next.kind = Experiment::Kind::repeat_fixed_inputs;
      next.trials = 18;
      next.reason =
          "every trial had new inputs: repeating one that failed decides between the data "
          "and the timing";
      return next;
    }
    if (std::optional<Experiment> change = Changes(facts).next()) return change;
    if (!timing_dependence(facts).empty()) {
      if (evidence.backend_is_model) return std::nullopt;
      next.kind = Experiment::Kind::race_check;
      next.reason = "the failures depend on timing: the simulator's race check names both lines";
      return next;
    }
    std::set<std::string> configs;
    for (const core::ConfigEvidence* cell : facts.configs) configs.insert(cell->config);
    if (configs.size() < 2) {
      next.kind = Experiment::Kind::config_sweep;
      next.reason =
          "one config was tried: a sweep decides between a wrong config and a wrong design";
      return next;
    }
    return std::nullopt;
  }

  if (!evidence.backend_is_model && evidence.mode == "stress" && !memory_stress_tried(evidence)) {
    next.kind = Experiment::Kind::memory_stress;
    next.perturbation.name = "memory_stress";
    next.perturbation.co_resident = core::CoResident::memory_stress;
    next.trials = 1000;
    next.reason =
        "nothing failed, and memory traffic beside the trials, the strongest arm, has not "
        "run";
    return next;
  }
  if (!evidence.backend_is_model && evidence.mode == "stress" && evidence.streams > 1 &&
      !blocker_tried(evidence)) {
    next.kind = Experiment::Kind::blocker;
    next.perturbation.name = "blocker_50us";
    next.perturbation.blocker_ns = 50'000;
    next.trials = 1000;
    next.reason =
        "nothing failed, and nothing has held one of its streams up while the others went "
        "on";
    return next;
  }
  if (evidence.mode == "stress" && !called_twice(evidence)) {
    next.kind = Experiment::Kind::second_call;
    next.perturbation.name = "called_twice";
    next.perturbation.calls = 2;
    next.perturbation.reload_module = !evidence.backend_is_model;
    next.trials = evidence.backend_is_model ? 4 : 100;
    next.reason = "nothing failed, and no trial has called it a second time on the same buffers";
    return next;
  }
  return std::nullopt;
}

Effect effect_of(const core::ExperimentEvidence& row) {
  if (!row.left_out.empty() || row.after_trials == 0) return Effect::not_run;
  const core::Interval before = wilson(row.before_wrong, row.before_trials),
                       after = wilson(row.after_wrong, row.after_trials);
  if (row.after_wrong == 0) {
    if (row.before_wrong == 0) {  // to provoke nothing is an effect; of a cure it says nothing
      const bool provokes =
          row.kind == Change::knob || row.kind == Change::delay || row.kind == Change::second_call;
      return provokes ? Effect::unchanged : Effect::open;
    }
    const double high = -std::expm1(std::log(kChangeAlpha) / static_cast<double>(row.after_trials));
    return high < before.low ? Effect::cured : Effect::open;
  }
  if (after.high < before.low) return Effect::lowered;
  if (after.low > before.high) return Effect::raised;
  return Effect::unchanged;
}

}  // namespace faultline::diagnosis
