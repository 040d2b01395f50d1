// SPDX-License-Identifier: Apache-2.0
#include "faultline/stress/explain.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "case_probe.hpp"
#include "faultline/core/errors.hpp"
#include "faultline/stress/race.hpp"
#include "faultline/stress/statistics.hpp"
#include "run_arm.hpp"

namespace faultline::stress {
namespace {

using detail::CaseProbe;
using detail::ProbeResult;
using Role = Coordinate::Role;

constexpr std::int64_t kElementsForAny = std::int64_t{1} << 16;
constexpr std::size_t kSeeds = 8;          // other seeds tried
constexpr std::size_t kSchedules = 6;      // other schedules tried
constexpr std::size_t kNamedValues = 6;    // in a sentence
constexpr std::uint64_t kBeyondShare = 5;  // of the executions, for values beyond one threshold
constexpr std::size_t kConfigs = 16;       // other whole configs tried

/// What came of one value of a coordinate.
struct Shown {
  enum class Kind : std::uint8_t { untried, passes, fails, otherwise };
  Kind kind = Kind::untried;
  std::string as{};  ///< otherwise: the class

  friend bool operator==(const Shown&, const Shown&) = default;
};
using Try = std::function<Shown(const std::string& value)>;

std::string listed(const std::vector<std::string>& values) {
  const std::size_t shown = std::min(values.size(), kNamedValues);
  std::string text = fmt::format(
      "{}", fmt::join(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  if (shown < values.size()) text += fmt::format(" and {} more", values.size() - shown);
  return text;
}

/// The role that values tried one by one show, without an order among them.
Role role_of(const Coordinate& coordinate) {
  if (coordinate.failed_at.empty() && coordinate.passed_at.empty()) return Role::only_value;
  if (coordinate.passed_at.empty()) return Role::free;
  return coordinate.failed_at.empty() ? Role::needed : Role::some;
}

/// Tries values of one coordinate, each once.
class Redraw {
 public:
  Redraw(Coordinate& coordinate, Try attempt)
      : coordinate_(coordinate), attempt_(std::move(attempt)) {}

  /// Whether it fails at `value` as it does at its own. Empty: it could not be tried, or fails
  /// otherwise.
  std::optional<bool> operator()(const std::string& value) {
    if (value == coordinate_.value) return true;
    for (const auto& [tried, result] : results_) {
      if (tried == value) return result;
    }
    const Shown shown = attempt_(value);
    std::optional<bool> result;
    switch (shown.kind) {
    case Shown::Kind::untried: break;
    case Shown::Kind::passes: coordinate_.passed_at.push_back(value), result = false; break;
    case Shown::Kind::fails: coordinate_.failed_at.push_back(value), result = true; break;
    case Shown::Kind::otherwise:
      coordinate_.otherwise_at.push_back(fmt::format("{} ({})", value, shown.as));
      break;
    }
    results_.emplace_back(value, result);
    return result;
  }

 private:
  Coordinate& coordinate_;
  Try attempt_;
  std::vector<std::pair<std::string, std::optional<bool>>> results_;
};

std::int64_t number_of(const std::string& text) { return std::stoll(text); }

void sort_numbers(std::vector<std::string>& values) {
  std::sort(values.begin(), values.end(),
            [](const std::string& a, const std::string& b) { return number_of(a) < number_of(b); });
}

/// Some multiple decides: every value that fails is one and none that passes, or the other way
/// round, with two multiples tried.
std::optional<std::int64_t> deciding_multiple(const Coordinate& coordinate, std::int64_t own,
                                              const std::set<std::int64_t>& candidates) {
  const auto splits = [](std::int64_t m, const std::vector<std::int64_t>& multiples,
                         const std::vector<std::int64_t>& others) {
    return multiples.size() >= 2 && !others.empty() &&
           std::all_of(multiples.begin(), multiples.end(), [&](auto v) { return v % m == 0; }) &&
           std::none_of(others.begin(), others.end(), [&](auto v) { return v % m == 0; });
  };
  std::vector<std::int64_t> failed{own}, passed;
  for (const std::string& value : coordinate.failed_at) failed.push_back(number_of(value));
  for (const std::string& value : coordinate.passed_at) passed.push_back(number_of(value));
  for (const std::int64_t m : candidates) {
    if (m >= 2 && (splits(m, failed, passed) || splits(m, passed, failed))) return m;
  }
  return std::nullopt;
}

/// Neighbours, halves and doubles, the ends of the domain, and the multiples of `tiles` around it.
std::vector<std::int64_t> values_around(const core::ParameterSpec& spec, std::int64_t own,
                                        const std::set<std::int64_t>& tiles) {
  std::set<std::int64_t> values;
  if (!spec.allowed.empty()) {
    values.insert(spec.allowed.begin(), spec.allowed.end());
  } else {
    const std::int64_t m = spec.multiple_of;
    const auto add = [&](std::int64_t value) {
      value = value / m * m;
      if (value >= spec.minimum && value <= spec.maximum) values.insert(value);
    };
    for (const std::int64_t value :
         {spec.minimum, own - 2 * m, own - m, own + m, own + 2 * m, own / 2, 2 * own, 4 * own}) {
      add(value);
    }
    for (const std::int64_t tile : tiles) {
      const std::int64_t below = own / tile * tile;
      // A multiple is no threshold: half a tile beyond it, where much of a tail is.
      for (const std::int64_t multiple : {below, below + tile, below + 2 * tile}) {
        add(multiple);
        add(multiple + std::max(m, tile / 2));
      }
    }
  }
  values.erase(own);
  return {values.begin(), values.end()};
}

/// What is left of a threshold that bisection found, which takes for granted that a case fails on
/// one side only, when values on both sides are asked that may tell otherwise.
Role role_beyond(const core::ParameterSpec& spec, const std::set<std::int64_t>& tiles, bool from,
                 Coordinate& coordinate, Redraw& redraw, const std::function<bool()>& go_on) {
  for (const bool passing_side : {true, false}) {
    for (const std::int64_t value : detail::beyond_threshold(
             spec, coordinate.threshold, passing_side ? tiles : std::set<std::int64_t>{},
             from != passing_side)) {
      if (!go_on()) break;
      redraw(std::to_string(value));
    }
  }
  const auto on_failing_side = [&](const std::string& text) {
    const std::int64_t value = number_of(text);
    return from ? value >= coordinate.threshold : value <= coordinate.threshold;
  };
  if (std::any_of(coordinate.passed_at.begin(), coordinate.passed_at.end(), on_failing_side)) {
    return Role::some;
  }
  if (std::all_of(coordinate.failed_at.begin(), coordinate.failed_at.end(), on_failing_side)) {
    return from ? Role::from : Role::up_to;
  }
  return from ? Role::from_and_below : Role::up_to_and_above;
}

/// Ask for the values around an integer, then bisect where one threshold explains them. Values
/// beyond it are asked as long as `go_on` says so.
void explain_integer(const core::ParameterSpec& spec, const std::set<std::int64_t>& tiles,
                     Coordinate& coordinate, const Try& attempt,
                     const std::function<bool()>& go_on) {
  const std::int64_t own = number_of(coordinate.value);
  Redraw redraw(coordinate, attempt);
  for (const std::int64_t value : values_around(spec, own, tiles)) redraw(std::to_string(value));
  coordinate.role = role_of(coordinate);
  if (coordinate.role == Role::some) {
    std::int64_t least_failing = own, largest_failing = own;
    for (const std::string& value : coordinate.failed_at) {
      least_failing = std::min(least_failing, number_of(value));
      largest_failing = std::max(largest_failing, number_of(value));
    }
    bool all_below = true, all_above = true;
    std::int64_t nearest_below = 0, nearest_above = 0;
    for (const std::string& text : coordinate.passed_at) {
      const std::int64_t value = number_of(text);
      all_below = all_below && value < least_failing;
      all_above = all_above && value > largest_failing;
      nearest_below = all_below ? std::max(nearest_below, value) : 0;
      nearest_above = nearest_above == 0 ? value : std::min(nearest_above, value);
    }
    const auto bisect = [&](std::int64_t failing, std::int64_t passing) {
      const std::int64_t step = spec.allowed.empty() ? spec.multiple_of : 0;
      while (step > 0 && std::abs(failing - passing) > step) {
        const std::int64_t middle = (failing + passing) / 2 / step * step;
        if (middle == std::min(failing, passing)) break;
        const std::optional<bool> result = redraw(std::to_string(middle));
        if (!result) break;
        (*result ? failing : passing) = middle;
      }
      return failing;
    };
    if (all_below || all_above) {
      coordinate.threshold =
          all_below ? bisect(least_failing, nearest_below) : bisect(largest_failing, nearest_above);
      coordinate.role = role_beyond(spec, tiles, all_below, coordinate, redraw, go_on);
    }
    if (coordinate.role == Role::some) {
      const auto multiple = deciding_multiple(coordinate, own, tiles);
      coordinate.threshold = multiple.value_or(0);
      if (multiple) coordinate.role = Role::multiple;
    }
  }
  sort_numbers(coordinate.failed_at);
  sort_numbers(coordinate.passed_at);
}

std::vector<std::string> other_values(const core::ParameterSpec& spec) {
  std::vector<std::string> values = spec.choices;
  if (spec.kind == core::ParameterSpec::Kind::real) {
    values.push_back(fmt::format("{}", spec.real_minimum));
    values.push_back(fmt::format("{}", spec.real_maximum));
    values.push_back(fmt::format("{}", 0.5 * (spec.real_minimum + spec.real_maximum)));
  }
  values.push_back(spec.default_value);
  return values;
}

class Explainer {
 public:
  Explainer(core::Backend& backend, const kernels::SubjectRegistry& registry,
            const core::TrialToken& trial, const ExplainOptions& options)
      : probe_(backend, registry, options.run, options.repeats, options.executions),
        resolved_(detail::resolve_case(registry, trial)),
        trial_(trial) {
    most_elements_ = std::max(kElementsForAny, options.growth * probe_.elements(trial));
    tiles_ = detail::tiles_of(resolved_);
    beyond_ = std::max<std::uint64_t>(1, options.executions / kBeyondShare);
  }

  Explanation run() {
    explanation_.trial = trial_;
    const ProbeResult own = probe_.run(trial_);
    explanation_.failed = own.failed;
    explanation_.trials = own.trials;
    explanation_.rate = clopper_pearson_interval(std::min(own.failed, own.trials), own.trials);
    explanation_.finding = own.finding.value_or(core::FindingClass::unknown);
    if (std::string why = refusal(own); !why.empty()) {
      explanation_.refused = std::move(why);
    } else {
      explain_seed();
      explain_problem();
      explain_config();
      explain_data();
      explain_schedule();
      explain_call();
      leave_chance_open();
    }
    explanation_.executions = probe_.executions();
    return explanation_;
  }

 private:
  std::string refusal(const ProbeResult& own) const {
    if (!own.refused.empty()) return "the case could not be judged: " + own.refused;
    if (own.failed == 0) {
      return fmt::format("the case does not fail here: 0 of {} (rate below {:.2g})", own.trials,
                         zero_failure_upper_bound(own.trials));
    }
    if (own.always_fails()) return {};
    return fmt::format("it fails in {} of {} runs with everything kept ({:.3g} .. {:.3g} %): what "
                       "one other value shows would be chance. `faultline reduce` compares rates",
                       own.failed, own.trials, 100 * explanation_.rate.low,
                       100 * explanation_.rate.high);
  }

  Shown shown_by(const ProbeResult& result) const {
    if (!result.refused.empty()) return {};
    if (!result.fails()) return {Shown::Kind::passes, {}};
    const core::FindingClass finding = result.finding.value_or(core::FindingClass::unknown);
    if (finding == explanation_.finding) return {Shown::Kind::fails, {}};
    return {Shown::Kind::otherwise, std::string(core::name_of(finding))};
  }

  /// What the case with a change shows, with the seed of those at hand that fails, if one does.
  Shown shown(const core::TrialToken& changed) {
    if (probe_.spent()) {
      explanation_.budget_spent = true;
      return {};
    }
    if (probe_.elements(changed) > most_elements_) return {};
    Shown most;
    for (const std::uint64_t seed : seeds_) {
      core::TrialToken with_seed = changed;
      with_seed.seed = seed;
      const Shown now = shown_by(probe_.run(with_seed));
      if (now.kind == Shown::Kind::untried) break;
      if (most.kind != Shown::Kind::otherwise || now.kind == Shown::Kind::fails) most = now;
      if (now.kind == Shown::Kind::fails) break;
      if (probe_.spent() && seed != seeds_.back()) {
        // The seeds that are left might fail: a pass of some is none.
        explanation_.budget_spent = true;
        return {};
      }
    }
    return most;
  }

  Coordinate& add(std::string group, std::string name, std::string value) {
    Coordinate& coordinate = explanation_.coordinates.emplace_back();
    coordinate.group = std::move(group);
    coordinate.name = std::move(name);
    coordinate.value = std::move(value);
    return coordinate;
  }

  void explain_seed() {
    Coordinate& seed = add("trial", "seed", std::to_string(trial_.seed));
    seeds_ = {trial_.seed};
    Redraw redraw(seed, [&](const std::string& value) {
      core::TrialToken other = trial_;
      other.seed = static_cast<std::uint64_t>(number_of(value));
      return probe_.spent() ? Shown{} : shown_by(probe_.run(other));
    });
    for (std::uint64_t s = 1;
         s <= kSeeds + 1 && seed.failed_at.size() + seed.passed_at.size() < kSeeds; ++s) {
      redraw(std::to_string(s));
    }
    seed.role = role_of(seed);
    explanation_.other_seeds_failed = seed.failed_at.size();
    explanation_.other_seeds = seed.failed_at.size() + seed.passed_at.size();
    // Where other seeds pass, a value at which this one passes may still fail with another. Seeds
    // of which none but this one fails tell nothing more.
    if (seed.role != Role::some) return;
    for (const std::string& value : seed.failed_at) {
      seeds_.push_back(static_cast<std::uint64_t>(number_of(value)));
    }
    for (const std::string& value : seed.passed_at) {
      seeds_.push_back(static_cast<std::uint64_t>(number_of(value)));
    }
  }

  /// Where few seeds fail, what passes with those tried may be as bad as the rest.
  void leave_chance_open() {
    constexpr double kChance = 0.05;
    if (explanation_.other_seeds == 0) return;
    const double passing = 1.0 - static_cast<double>(explanation_.other_seeds_failed) /
                                     static_cast<double>(explanation_.other_seeds);
    if (std::pow(passing, static_cast<double>(seeds_.size())) <= kChance) return;
    for (Coordinate& coordinate : explanation_.coordinates) {
      if (coordinate.name != "seed" && !coordinate.passed_at.empty()) {
        coordinate.role = Role::unclear;
      }
    }
  }

  void explain_parameters(const std::string& group, const core::Domain& domain,
                          const core::Assignment& values, std::string core::TrialToken::*line,
                          bool is_config) {
    for (const core::ParameterSpec& spec : domain.parameters) {
      if (!values.has(spec.name)) continue;
      Coordinate& coordinate = add(group, spec.name, values.text(spec.name));
      if (probe_.spent()) {
        explanation_.budget_spent = true;
        continue;
      }
      const Try with = [&](const std::string& value) {
        core::Assignment changed = values;
        changed.set(spec.name, value);
        core::TrialToken other = trial_;
        other.*line = changed.line();
        return shown(other);
      };
      if (spec.kind == core::ParameterSpec::Kind::integer) {
        // A threshold is asked about further with a share of the budget.
        const auto go_on = [this, before = std::optional<std::uint64_t>()]() mutable {
          if (!before) before = probe_.executions();
          return probe_.executions() - *before < beyond_ && !probe_.spent();
        };
        explain_integer(spec, is_config ? std::set<std::int64_t>{} : tiles_, coordinate, with,
                        go_on);
      } else {
        Redraw redraw(coordinate, with);
        for (const std::string& value : other_values(spec)) redraw(value);
        coordinate.role = role_of(coordinate);
      }
      if (explanation_.budget_spent) coordinate.role = Role::not_tried;
    }
  }

  void explain_problem() {
    explain_parameters("problem", resolved_.subject->problem_domain, resolved_.problem.values,
                       &core::TrialToken::problem, false);
  }

  void explain_config() {
    explain_parameters("config", resolved_.subject->config_domain(resolved_.variant->name),
                       resolved_.config, &core::TrialToken::config, true);
    const auto alone = [](const Coordinate& one) {
      return one.group == "config" && one.role == Role::only_value && one.otherwise_at.empty();
    };
    if (std::any_of(explanation_.coordinates.begin(), explanation_.coordinates.end(), alone)) {
      explain_whole_configs(alone);
    }
  }

  /// Many subjects are built in some combinations of their tunables: the other ones as they are,
  /// for the parameters of which no other value could be tried by itself.
  void explain_whole_configs(const std::function<bool(const Coordinate&)>& alone) {
    Coordinate whole;
    whole.group = "config";
    whole.name = "(whole)";
    Redraw redraw(whole, [&](const std::string& line) {
      core::TrialToken other = trial_;
      other.config = line.substr(1, line.size() - 2);
      return shown(other);
    });
    std::size_t tried = 0;
    for (const core::Config& config :
         resolved_.subject->configs(resolved_.problem, resolved_.variant->name)) {
      if (config == resolved_.config || tried == kConfigs) continue;
      ++tried;
      const std::optional<bool> fails = redraw("[" + config.line() + "]");
      if (!fails) continue;
      for (Coordinate& one : explanation_.coordinates) {
        if (!alone(one) || !config.has(one.name) || config.text(one.name) == one.value) continue;
        std::vector<std::string>& values = *fails ? one.failed_at : one.passed_at;
        const std::string value = config.text(one.name);
        if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
      }
    }
    if (tried == 0) return;
    for (Coordinate& one : explanation_.coordinates) {
      if (!alone(one) || role_of(one) == Role::only_value) continue;
      one.role = Role::with_others;
      if (std::all_of(one.value.begin(), one.value.end(), [](char c) { return std::isdigit(c); })) {
        sort_numbers(one.failed_at);
        sort_numbers(one.passed_at);
      }
    }
    whole.role = explanation_.budget_spent ? Role::not_tried : role_of(whole);
    explanation_.coordinates.push_back(std::move(whole));
  }

  void explain_data() {
    Coordinate& data = add("trial", "data", std::string(core::name_of(trial_.data)));
    Redraw redraw(data, [&](const std::string& value) {
      core::TrialToken other = trial_;
      other.data = *core::parse_data_mode(value);
      return shown(other);
    });
    using enum core::DataMode;
    for (const core::DataMode mode :
         {normal, exact, address, digits, epoch, illconditioned, special}) {
      redraw(std::string(core::name_of(mode)));
    }
    data.role = explanation_.budget_spent ? Role::not_tried : role_of(data);
  }

  void explain_schedule() {
    const bool model = probe_.on_model();
    const auto name = [&](const core::Perturbation& p) {
      return model ? fmt::format("{}_{}", core::name_of(p.policy), core::name_of(p.lateness))
                   : core::to_text(p);
    };
    Coordinate& schedule =
        add("trial", model ? "schedule" : "perturbation", name(trial_.perturbation));
    std::vector<core::Perturbation> others;
    if (model) {
      for (std::uint64_t i = 0; i < kRaceSchedules && others.size() < kSchedules; ++i) {
        core::Perturbation other = trial_.perturbation;
        other.policy = race_schedule(i).policy;
        other.lateness = race_schedule(i).lateness;
        if (!(other == trial_.perturbation)) others.push_back(other);
      }
    } else {
      core::Perturbation plain;
      plain.fresh_inputs = trial_.perturbation.fresh_inputs;
      plain.calls = trial_.perturbation.calls;  // these have rows of their own
      plain.offset_bytes = trial_.perturbation.offset_bytes;
      others.push_back(plain);
    }
    std::size_t next = 0;
    Redraw redraw(schedule, [&](const std::string&) {
      core::TrialToken other = trial_;
      other.perturbation = others[next];
      return shown(other);
    });
    for (; next < others.size(); ++next) redraw(name(others[next]));
    schedule.role = explanation_.budget_spent ? Role::not_tried : role_of(schedule);
  }

  /// How often it is called and at which addresses, where the case says other than usual.
  void explain_call() {
    const auto explain = [&](const char* name, std::uint32_t core::Perturbation::*setting,
                             std::initializer_list<std::uint32_t> values) {
      const std::uint32_t own = trial_.perturbation.*setting;
      if (own == core::Perturbation{}.*setting) return;
      Coordinate& one = add("trial", name, std::to_string(own));
      std::uint32_t value = 0;
      Redraw redraw(one, [&](const std::string&) {
        core::TrialToken other = trial_;
        other.perturbation.*setting = value;
        return shown(other);
      });
      for (const std::uint32_t other : values) {
        value = other;
        if (value != own) redraw(std::to_string(value));
      }
      one.role = explanation_.budget_spent ? Role::not_tried : role_of(one);
    };
    explain("calls", &core::Perturbation::calls, {1, 2, 3});
    explain("offset_bytes", &core::Perturbation::offset_bytes, {0, 16, 128});
  }

  CaseProbe probe_;
  kernels::ResolvedTrial resolved_;
  core::TrialToken trial_;
  std::int64_t most_elements_ = 0;
  std::set<std::int64_t> tiles_;
  std::uint64_t beyond_ = 0;  // executions for the values beyond one threshold
  std::vector<std::uint64_t> seeds_;
  Explanation explanation_;
};

}  // namespace

std::string_view name_of(Role role) {
  switch (role) {
  case Role::free: return "free";
  case Role::needed: return "needed";
  case Role::from:
  case Role::up_to: return "threshold";
  case Role::multiple: return "multiple";
  case Role::some:
  case Role::from_and_below:
  case Role::up_to_and_above: return "some";
  case Role::with_others: return "combined";
  case Role::unclear: return "unclear";
  case Role::only_value: return "-";
  case Role::not_tried: return "not tried";
  }
  return "";
}

std::string Coordinate::text() const {
  const std::string otherwise =
      otherwise_at.empty() ? "" : "fails as another class at " + listed(otherwise_at);
  if (role == Role::not_tried) return "time or --executions ran out before";
  if (role == Role::only_value) {
    return otherwise.empty() ? "no other value could be tried here" : otherwise;
  }
  return role_text() + (otherwise.empty() ? "" : "; " + otherwise);
}

std::string Coordinate::role_text() const {
  const auto passes_beside = [&](bool below) {
    // Sorted: the nearest value on the other side of the threshold.
    std::string nearest;
    for (const std::string& value : passed_at) {
      const bool beyond = below ? number_of(value) < threshold : number_of(value) > threshold;
      if (beyond && (below || nearest.empty())) nearest = value;
    }
    return nearest;
  };
  switch (role) {
  case Role::free: return fmt::format("fails at every other value tried: {}", listed(failed_at));
  case Role::needed: return fmt::format("passes at every other value tried: {}", listed(passed_at));
  case Role::from:
    return fmt::format("fails from {} on; {} passes", threshold, passes_beside(true));
  case Role::up_to:
    return fmt::format("fails up to {}; {} passes", threshold, passes_beside(false));
  case Role::multiple: {
    const bool multiples_pass = number_of(passed_at.front()) % threshold == 0;
    return fmt::format(
        "{} at multiples of {} ({}), {} elsewhere ({})", multiples_pass ? "passes" : "fails",
        threshold, listed(multiples_pass ? passed_at : failed_at),
        multiples_pass ? "fails" : "passes", listed(multiples_pass ? failed_at : passed_at));
  }
  case Role::some:
    return fmt::format("fails at {}; passes at {}", listed(failed_at), listed(passed_at));
  case Role::from_and_below:
  case Role::up_to_and_above: {
    const bool below = role == Role::from_and_below;
    std::vector<std::string> beyond;
    for (const std::string& value : failed_at) {
      if (below ? number_of(value) < threshold : number_of(value) > threshold) {
        beyond.push_back(value);
      }
    }
    return fmt::format("no single threshold: fails at every value tried {} {}, and {} it at {}; "
                       "passes at {} and {} more",
                       below ? "from" : "up to", threshold, below ? "below" : "above",
                       listed(beyond), passes_beside(below), passed_at.size() - 1);
  }
  case Role::with_others:
    return fmt::format("never alone; in other whole configs {}{}{}",
                       failed_at.empty() ? "" : "fails at " + listed(failed_at),
                       failed_at.empty() || passed_at.empty() ? "" : "; ",
                       passed_at.empty() ? "" : "passes at " + listed(passed_at));
  case Role::unclear:
    return fmt::format("passes at {}{}", listed(passed_at),
                       failed_at.empty() ? "" : "; fails at " + listed(failed_at));
  case Role::only_value:
  case Role::not_tried: break;
  }
  return "";
}

std::optional<core::TrialToken> first_failure(core::Backend& backend,
                                              const kernels::ResolvedTrial& trial,
                                              const CaseRequest& request, const RunOptions& run) {
  detail::require_data_mode(request.data, trial.plan);
  core::TrialRequest trials;
  trials.seed = request.seed;
  trials.count = request.trials;
  trials.data = request.data;
  trials.perturbation.name = "verify";
  trials.perturbation.fresh_inputs = true;
  trials.race = backend.info().is_model ? request.race : core::RaceMode::off;
  trials.capture_limit = 0;
  trials.timeout_s = run.timeout_s;
  trials.stop = run.stop;
  const core::TrialResult result = detail::run_safely(backend, trial.plan, trials);
  if (result.failed > 0 && result.first_failed_trial != ~0ull) {
    return core::decode_token(
        detail::token_text(backend.info().name, trial.plan, trials, result.first_failed_trial));
  }
  if (result.skipped || result.trials == 0 || result.status != core::ExecutionStatus::completed) {
    std::string why = result.message.empty() ? result.note : result.message;
    if (why.empty())
      why = "the run was stopped, or its budget was spent, before the first was done";
    throw core::UnsupportedError(fmt::format("{}@{} {}: no trial could be judged: {}",
                                             trial.subject->name, trial.variant->name,
                                             trial.problem.values.line(), why));
  }
  return std::nullopt;
}

Explanation explain(core::Backend& backend, const kernels::SubjectRegistry& registry,
                    const core::TrialToken& trial, const ExplainOptions& options) {
  detail::require_backend(backend, trial);
  Explanation explanation = Explainer(backend, registry, trial, options).run();
  explanation.stopped = detail::stopped(options.run);
  return explanation;
}

std::string to_text(const Explanation& explanation) {
  const core::TrialToken& trial = explanation.trial;
  std::string text = fmt::format(
      "{}@{} {}{}, seed {}, trial {}: ", trial.subject, trial.variant, trial.problem,
      trial.config.empty() ? "" : fmt::format(" [{}]", trial.config), trial.seed, trial.trial);
  if (!explanation.refused.empty()) return text + "not explained: " + explanation.refused + "\n";
  text += fmt::format("fails as {}{}; {} executions\n", core::name_of(explanation.finding),
                      explanation.trials > 1
                          ? fmt::format(" in {} of {}", explanation.failed, explanation.trials)
                          : "",
                      explanation.executions);
  std::size_t name_width = 0, value_width = 0;
  for (const Coordinate& c : explanation.coordinates) {
    name_width = std::max(name_width, c.name.size());
    value_width = std::max(value_width, c.value.size());
  }
  for (const char* group : {"problem", "config", "trial"}) {
    for (const Coordinate& c : explanation.coordinates) {
      if (c.group != group) continue;
      text += fmt::format("  {:7}  {:{}}  {:{}}  {:9}  {}\n", c.group, c.name, name_width, c.value,
                          value_width, name_of(c.role), c.text());
    }
  }
  if (std::any_of(explanation.coordinates.begin(), explanation.coordinates.end(),
                  [](const Coordinate& c) { return c.role == Role::unclear; })) {
    text += fmt::format("  unclear: {} of {} other seeds fail, so that a value may pass by chance; "
                        "`faultline stress` measures rates\n",
                        explanation.other_seeds_failed, explanation.other_seeds);
  }
  if (explanation.finding == core::FindingClass::unknown) {
    text += fmt::format("  unknown: one trial does not tell the class; `faultline verify {0}@{1}` "
                        "sweeps problems and configs, and names those that a sweep shows (tail, "
                        "config), `faultline stress {0}@{1}` at this problem what changing one "
                        "thing at a time shows (layout)\n",
                        trial.subject, trial.variant);
  }
  if (explanation.budget_spent) {
    text += fmt::format("  {} before everything was tried\n",
                        explanation.stopped ? "stopped" : "the budget was spent");
  }
  return text;
}

}  // namespace faultline::stress
