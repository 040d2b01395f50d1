// SPDX-License-Identifier: Apache-2.0
#include "faultline/stress/reduce.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "case_probe.hpp"
#include "faultline/stress/race.hpp"
#include "faultline/stress/statistics.hpp"

namespace faultline::stress {
namespace {

using detail::CaseProbe;
using detail::ProbeResult;
using Kind = core::ParameterSpec::Kind;

/// One-sided, at 95 %.
double lower_bound(const ProbeResult& result) {
  return clopper_pearson_interval(std::min(result.failed, result.trials), result.trials, 0.90).low;
}

/// Without a change of the program or of its addresses, each in turn; either backend.
void add_unchanged_programs(const core::Perturbation& own,
                            std::vector<core::Perturbation>& plainer) {
  if (own.one_stream) plainer.emplace_back(own).one_stream = false;
  if (own.eager) plainer.emplace_back(own).eager = false;
  if (own.calls != 1) plainer.emplace_back(own).calls = 1;
  if (own.offset_bytes != 0) plainer.emplace_back(own).offset_bytes = 0;
  if (own.delay_sites == 0) return;
  core::Perturbation& undelayed = plainer.emplace_back(own);
  undelayed.delay_sites = undelayed.delay_site = undelayed.delay_ns = 0;
  undelayed.delay_seed = 0;
}

/// Schedules of the simulator, the plainest first.
std::vector<core::Perturbation> plainer_schedules(const core::Perturbation& own) {
  std::vector<core::Perturbation> plainer;
  add_unchanged_programs(own, plainer);
  using core::CopyLateness;
  using core::SchedulePolicy;
  for (const SchedulePolicy policy : {SchedulePolicy::round_robin, SchedulePolicy::random}) {
    for (const CopyLateness lateness :
         {CopyLateness::eager, CopyLateness::lazy, CopyLateness::random}) {
      core::Perturbation schedule = own;
      schedule.policy = policy;
      schedule.lateness = lateness;
      if (schedule == own) return plainer;
      plainer.push_back(std::move(schedule));
    }
  }
  return plainer;
}

/// The perturbation of a device without one of its parts, each in turn; without all of them first.
std::vector<core::Perturbation> plainer_perturbations(const core::Perturbation& own) {
  const core::Perturbation plain;
  std::vector<core::Perturbation> plainer;
  const auto add = [&](auto&& clear) {
    core::Perturbation one = own;
    clear(one);
    if (!(one == own)) plainer.push_back(std::move(one));
  };
  add([&](core::Perturbation& p) {
    const bool fresh = p.fresh_inputs;
    const std::string name = p.name;
    p = plain;
    p.name = name;
    p.fresh_inputs = fresh;
  });
  add([&](core::Perturbation& p) { p.co_resident = plain.co_resident; });
  add([&](core::Perturbation& p) { p.flush_l2 = plain.flush_l2; });
  add([&](core::Perturbation& p) { p.pool_bytes = plain.pool_bytes; });
  add([&](core::Perturbation& p) { p.graph_trials = plain.graph_trials; });
  add([&](core::Perturbation& p) { p.reload_module = plain.reload_module; });
  add([&](core::Perturbation& p) { p.wait = plain.wait, p.wait_ns = plain.wait_ns; });
  add([&](core::Perturbation& p) { p.sync_each = plain.sync_each; });
  add([&](core::Perturbation& p) { p.blocker_ns = plain.blocker_ns; });
  add([&](core::Perturbation& p) { p.free_sms = plain.free_sms; });
  add([&](core::Perturbation& p) { p.dirty_shared = plain.dirty_shared; });
  add([&](core::Perturbation& p) { p.batch = plain.batch, p.ctas_per_sm = plain.ctas_per_sm; });
  add_unchanged_programs(own, plainer);
  return plainer;
}

class Reducer {
 public:
  Reducer(core::Backend& backend, const kernels::SubjectRegistry& registry,
          const core::TrialToken& trial, const ReduceOptions& options)
      : probe_(backend, registry, options.run, options.repeats, options.executions),
        registry_(registry) {
    reduction_.original = reduction_.smallest = trial;
  }

  Reduction run() {
    const ProbeResult own = probe_.run(reduction_.original);
    note(own);
    if (!own.refused.empty()) {
      reduction_.refused = "the case could not be judged: " + own.refused;
    } else if (own.failed == 0) {
      reduction_.refused = fmt::format("the case does not fail here: 0 of {} (rate below {:.2g})",
                                       own.trials, zero_failure_upper_bound(own.trials));
    } else {
      reduction_.finding = own.finding.value_or(core::FindingClass::unknown);
      if (!probe_.on_model()) reduction_.floor = lower_bound(own) / 2;
      while (one_pass() && !probe_.spent()) {
      }
      reduction_.budget_spent = probe_.spent();
    }
    reduction_.executions = probe_.executions();
    return reduction_;
  }

 private:
  void note(const ProbeResult& result) {
    reduction_.failed = result.failed;
    reduction_.trials = result.trials;
  }

  /// Take `smaller` in place of the smallest so far when it fails in the same way.
  bool accept(const core::TrialToken& smaller, std::string change) {
    if (probe_.spent()) return false;
    // The simulator does what it did: asked again in the next pass it would be turned down again.
    const std::string token = probe_.on_model() ? core::encode(smaller) : "";
    if (turned_down_.count(token) > 0) return false;
    ReduceStep step;
    step.change = std::move(change);
    const ProbeResult result = probe_.run(smaller);
    if (!result.refused.empty()) {
      step.why = "refused: " + result.refused;
    } else if (result.failed == 0) {
      step.why = result.trials == 1 ? "passes" : fmt::format("0 of {}", result.trials);
    } else if (result.finding != reduction_.finding) {
      step.why = fmt::format("fails as {} instead",
                             core::name_of(result.finding.value_or(core::FindingClass::unknown)));
    } else if (lower_bound(result) < reduction_.floor) {
      step.why = fmt::format("{} of {}: its rate may be below {:.2g}", result.failed, result.trials,
                             reduction_.floor);
    } else {
      step.accepted = true;
      step.why = result.trials == 1
                     ? fmt::format("fails as {}", core::name_of(reduction_.finding))
                     : fmt::format("fails as {} in {} of {}", core::name_of(reduction_.finding),
                                   result.failed, result.trials);
      reduction_.smallest = smaller;
      note(result);
    }
    reduction_.steps.push_back(step);
    if (!step.accepted && !token.empty()) turned_down_.insert(token);
    return step.accepted;
  }

  bool one_pass() {
    bool any = false;
    const kernels::ResolvedTrial at_first = detail::resolve_case(registry_, reduction_.smallest);
    const core::Domain& problem = at_first.subject->problem_domain;
    for (const core::ParameterSpec& spec : problem.parameters) {
      any = shrink(spec, &core::TrialToken::problem, {}) || any;
    }
    // The config that a sweep begins with is the plainest.
    const kernels::ResolvedTrial now = detail::resolve_case(registry_, reduction_.smallest);
    const std::vector<core::Config> configs = now.subject->configs(now.problem, now.variant->name);
    any = whole_config(now, configs.front()) || any;
    for (const core::ParameterSpec& spec :
         now.subject->config_domain(now.variant->name).parameters) {
      const std::string first =
          configs.front().has(spec.name) ? configs.front().text(spec.name) : "";
      any = shrink(spec, &core::TrialToken::config, first) || any;
    }
    any = plainer_trial() || any;
    return any;
  }

  bool whole_config(const kernels::ResolvedTrial& now, const core::Config& first) {
    if (now.config == first || is_larger(now, first)) return false;
    core::TrialToken smaller = reduction_.smallest;
    smaller.config = first.line();
    return accept(smaller, fmt::format("config {} -> {}", now.config.line(), first.line()));
  }

  /// Whether some number of a config is larger in `first`: it would be a larger case.
  static bool is_larger(const kernels::ResolvedTrial& now, const core::Config& first) {
    for (const core::ParameterSpec& spec :
         now.subject->config_domain(now.variant->name).parameters) {
      if (spec.kind == Kind::integer && first.has(spec.name) && now.config.has(spec.name) &&
          first.integer(spec.name) > now.config.integer(spec.name)) {
        return true;
      }
    }
    return false;
  }

  /// The values of the problem, or of the config, as they are now.
  core::Assignment values(std::string core::TrialToken::*line) const {
    return core::Assignment(core::parse_assignments(reduction_.smallest.*line));
  }

  bool try_value(const core::ParameterSpec& spec, std::string core::TrialToken::*line,
                 const std::string& value) {
    core::Assignment changed = values(line);
    const std::string before = changed.text(spec.name);
    if (before == value) return false;
    changed.set(spec.name, value);
    core::TrialToken smaller = reduction_.smallest;
    smaller.*line = changed.line();
    return accept(smaller, fmt::format("{} {} -> {}", spec.name, before, value));
  }

  /// `target`: where a config parameter goes, unless that is larger; empty: to the smallest, or
  /// first, value.
  bool shrink(const core::ParameterSpec& spec, std::string core::TrialToken::*line,
              const std::string& target) {
    if (!values(line).has(spec.name)) return false;
    if (!target.empty() && spec.kind == Kind::integer &&
        core::Assignment({{spec.name, target}}).integer(spec.name) >
            values(line).integer(spec.name)) {
      return shrink_integer(spec, line);
    }
    if (!target.empty()) return try_value(spec, line, target);
    switch (spec.kind) {
    case Kind::integer: return shrink_integer(spec, line);
    case Kind::real: return try_value(spec, line, spec.default_value);
    case Kind::choice:
    case Kind::dtype: break;
    }
    const std::string own = values(line).text(spec.name);
    if (own == spec.default_value) return false;
    if (try_value(spec, line, spec.default_value)) return true;
    for (const std::string& choice : spec.choices) {
      if (choice == own) return false;
      if (choice == spec.default_value) continue;
      if (try_value(spec, line, choice)) return true;
    }
    return false;
  }

  /// The smallest value that fails by bisection; then values below it that bisection passed over,
  /// smallest first, and from one that fails again.
  bool shrink_integer(const core::ParameterSpec& spec, std::string core::TrialToken::*line) {
    bool any = bisect_integer(spec, line);
    while (!probe_.spent()) {
      const std::set<std::int64_t> tiles =
          detail::tiles_of(detail::resolve_case(registry_, reduction_.smallest));
      std::vector<std::int64_t> below =
          detail::beyond_threshold(spec, values(line).integer(spec.name), tiles, false);
      std::sort(below.begin(), below.end());
      const bool smaller = std::any_of(below.begin(), below.end(), [&](std::int64_t value) {
        return try_value(spec, line, std::to_string(value));
      });
      if (!smaller) return any;
      any = true;
      bisect_integer(spec, line);
    }
    return any;
  }

  /// The smallest value at once, then by halves of what is left, then by the step.
  bool bisect_integer(const core::ParameterSpec& spec, std::string core::TrialToken::*line) {
    bool any = false;
    if (!spec.allowed.empty()) {
      std::vector<std::int64_t> allowed = spec.allowed;
      std::sort(allowed.begin(), allowed.end());
      const std::int64_t own = values(line).integer(spec.name);
      for (const std::int64_t value : allowed) {
        if (value >= own) return false;
        if (try_value(spec, line, std::to_string(value))) return true;
      }
      return false;
    }
    const std::int64_t m = spec.multiple_of;
    const std::int64_t least = (spec.minimum + m - 1) / m * m;
    std::int64_t passing = least;  // nothing below it is tried again
    if (values(line).integer(spec.name) > least && try_value(spec, line, std::to_string(least))) {
      return true;
    }
    while (!probe_.spent()) {
      const std::int64_t own = values(line).integer(spec.name);
      if (own <= passing + m) return any;
      const std::int64_t middle = (passing + own) / 2 / m * m;
      const std::int64_t value = middle <= passing ? own - m : middle;
      if (try_value(spec, line, std::to_string(value))) {
        any = true;
      } else {
        passing = value;
      }
    }
    return any;
  }

  bool plainer_trial() {
    bool any = false;
    const core::TrialToken& now = reduction_.smallest;
    if (now.data != core::DataMode::normal) {
      core::TrialToken smaller = now;
      smaller.data = core::DataMode::normal;
      any = accept(smaller, fmt::format("data {} -> normal", core::name_of(now.data))) || any;
    }
    const std::vector<core::Perturbation> plainer = probe_.on_model()
                                                        ? plainer_schedules(now.perturbation)
                                                        : plainer_perturbations(now.perturbation);
    for (const core::Perturbation& perturbation : plainer) {
      core::TrialToken smaller = reduction_.smallest;
      smaller.perturbation = perturbation;
      if (!accept(smaller, fmt::format("{} -> {}", core::to_text(reduction_.smallest.perturbation),
                                       core::to_text(perturbation)))) {
        continue;
      }
      any = true;
      break;
    }
    for (const auto& [name, member, least] :
         {std::tuple("trial", &core::TrialToken::trial, std::uint64_t{0}),
          std::tuple("seed", &core::TrialToken::seed, std::uint64_t{1})}) {
      core::TrialToken smaller = reduction_.smallest;
      const std::uint64_t before = smaller.*member;
      if (before == least) continue;
      smaller.*member = least;
      any = accept(smaller, fmt::format("{} {} -> {}", name, before, least)) || any;
    }
    return any;
  }

  CaseProbe probe_;
  const kernels::SubjectRegistry& registry_;
  std::set<std::string> turned_down_;  // tokens
  Reduction reduction_;
};

}  // namespace

Reduction reduce(core::Backend& backend, const kernels::SubjectRegistry& registry,
                 const core::TrialToken& trial, const ReduceOptions& options) {
  detail::require_backend(backend, trial);
  return Reducer(backend, registry, trial, options).run();
}

}  // namespace faultline::stress
