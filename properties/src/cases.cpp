// SPDX-License-Identifier: Apache-2.0
#include "faultline/properties/cases.hpp"

#include <algorithm>
#include <charconv>
#include <ostream>
#include <sstream>

#include <fmt/format.h>

#include "faultline/core/errors.hpp"
#include "faultline/properties/integers.hpp"

namespace faultline::properties {
namespace {

using core::DataMode;
using core::RaceMode;

const std::vector<DataMode> kAllData{DataMode::normal, DataMode::exact, DataMode::address};
constexpr std::int64_t kLargestSeed = 1 << 30;

IntegerRange seed_range() { return {1, kLargestSeed, 1, {}}; }

template <typename T>
std::uint64_t position_of(const std::vector<T>& values, const T& value) {
  return static_cast<std::uint64_t>(std::find(values.begin(), values.end(), value) -
                                    values.begin());
}

template <typename T>
std::vector<T> before(const std::vector<T>& values, const T& value) {
  const auto end = values.begin() + static_cast<std::ptrdiff_t>(position_of(values, value));
  return std::vector<T>(values.begin(), end);
}

std::uint64_t number(const std::string& option, const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) {
    throw core::UsageError(fmt::format("{} takes a whole number, not '{}'", option, text));
  }
  return value;
}

DataMode data_mode(const std::string& text) {
  const auto mode = core::parse_data_mode(text);
  if (!mode) {
    throw core::UsageError(fmt::format("--data takes normal, exact or address, not '{}'", text));
  }
  return *mode;
}

std::string regime_text(const InputRegime& regime) {
  return fmt::format("--data {} --seed {}", core::name_of(regime.data), regime.seed);
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::vector<InputRegime> smaller_regimes(const InputRegime& regime,
                                         const std::vector<DataMode>& data) {
  std::vector<InputRegime> smaller;
  for (const DataMode mode : before(data, regime.data)) smaller.push_back({mode, regime.seed});
  for (const std::int64_t seed :
       smaller_values(seed_range(), static_cast<std::int64_t>(regime.seed))) {
    smaller.push_back({regime.data, static_cast<std::uint64_t>(seed)});
  }
  return smaller;
}

InputRegime draw_regime(Source& source, const std::vector<DataMode>& data) {
  const auto seed = source.draw(tile_edges(seed_range()).generator);
  return {source.pick(data), static_cast<std::uint64_t>(seed)};
}

class CaseSpace {
 public:
  CaseSpace(const kernels::SubjectRegistry& registry, const std::string& subject,
            const ProblemLimits& limits, CaseOptions options)
      : registry_(&registry),
        subject_(&registry.get(subject)),
        problems_(problems(*subject_, limits)),
        options_(std::move(options)) {
    if (options_.variants.empty()) {
      for (const kernels::Variant& variant : subject_->variants) {
        if (!variant.is_mutant) options_.variants.push_back(variant.name);
      }
    }
    for (const std::string& variant : options_.variants) {
      if (!subject_->find_variant(variant)) {
        throw core::UsageError(fmt::format("{} has no variant '{}'", subject, variant));
      }
    }
    if (options_.data.empty()) options_.data = data_modes(*subject_);
    if (options_.race.empty()) options_.race = {RaceMode::strict};
  }

  Case draw(Source& source) const {
    constexpr int kTries = 100;
    for (int i = 0; i < kTries; ++i) {
      Case c;
      c.problem = source.draw(problems_.generator);
      c.variant = source.pick(options_.variants);
      c.config = source.pick(subject_->configs(c.problem, c.variant));
      c.regime = draw_regime(source, options_.data);
      c.trials = 1 + source.below(options_.largest_trials);
      c.race = source.pick(options_.race);
      if (refusal(c).empty()) return c;
    }
    throw rc::GenerationFailure(
        fmt::format("{} refused {} drawn cases in a row", subject_->name, kTries));
  }

  std::vector<Case> shrink(const Case& c) const {
    std::vector<Case> smaller;
    const auto add = [&](auto&& change) {
      Case candidate = c;
      change(candidate);
      if (complaint(candidate).empty()) smaller.push_back(std::move(candidate));
    };
    for (core::Problem& problem : problems_.smaller(c.problem)) {
      add([&](Case& s) {
        // Configs may depend on the problem: keep its place in the list.
        const std::vector<core::Config> now = subject_->configs(c.problem, c.variant);
        const std::vector<core::Config> then = subject_->configs(problem, c.variant);
        const std::uint64_t place = position_of(now, c.config);
        if (place < then.size()) s.config = then[place];
        s.problem = std::move(problem);
      });
    }
    for (const core::Config& config : before(subject_->configs(c.problem, c.variant), c.config)) {
      add([&](Case& s) { s.config = config; });
    }
    for (std::uint64_t trials = 1; trials < c.trials; ++trials) {
      add([&](Case& s) { s.trials = trials; });
    }
    for (const InputRegime& regime : smaller_regimes(c.regime, options_.data)) {
      add([&](Case& s) { s.regime = regime; });
    }
    for (const RaceMode race : before(options_.race, c.race)) add([&](Case& s) { s.race = race; });
    return smaller;
  }

  std::string complaint(const Case& c) const {
    if (const std::string why = problems_.complaint(c.problem); !why.empty()) return why;
    if (position_of(options_.variants, c.variant) == options_.variants.size()) {
      return fmt::format("variant '{}' is not drawn", c.variant);
    }
    const std::vector<core::Config> configs = subject_->configs(c.problem, c.variant);
    if (position_of(configs, c.config) == configs.size()) {
      return fmt::format("config '{}' is not swept over", c.config.line());
    }
    if (position_of(options_.data, c.regime.data) == options_.data.size() ||
        position_of(options_.race, c.race) == options_.race.size()) {
      return "its data or race mode is not drawn";
    }
    if (c.regime.seed < 1 || c.regime.seed > static_cast<std::uint64_t>(kLargestSeed) ||
        c.trials < 1 || c.trials > options_.largest_trials || c.backend != "simulator") {
      return "its seed, trials or backend are outside what is drawn";
    }
    return refusal(c);
  }

  Case parse(const std::string& text) const { return parse_case(*registry_, text); }

  std::vector<std::uint64_t> measure(const Case& c) const {
    std::vector<std::uint64_t> sizes = problems_.measure(c.problem);
    sizes.push_back(position_of(options_.variants, c.variant));
    sizes.push_back(position_of(subject_->configs(c.problem, c.variant), c.config));
    sizes.push_back(c.trials);
    sizes.push_back(position_of(options_.data, c.regime.data));
    sizes.push_back(c.regime.seed);
    sizes.push_back(position_of(options_.race, c.race));
    return sizes;
  }

 private:
  std::string refusal(const Case& c) const {
    if (options_.weakness) {
      if (std::string why = options_.weakness(c.problem, c.variant); !why.empty()) return why;
    }
    try {
      subject_->plan(c.problem, c.variant, c.config);
      return {};
    } catch (const core::UsageError& error) {
      return error.what();
    }
  }

  const kernels::SubjectRegistry* registry_;
  const kernels::Subject* subject_;
  ValueDomain<core::Problem> problems_;
  CaseOptions options_;
};

}  // namespace

std::string command_line(const Case& c) {
  std::string config;
  for (const auto& [name, value] : c.config.values()) {
    config += fmt::format("{}{}={}", config.empty() ? " --config " : ",", name, value);
  }
  const char* race = c.race == RaceMode::off       ? " --no-race"
                     : c.race == RaceMode::lenient ? " --lenient"
                                                   : "";
  return fmt::format("faultline verify {} --variant {}{} {} --trials {} --backend {}{}",
                     c.problem.line(), c.variant, config, regime_text(c.regime), c.trials,
                     c.backend, race);
}

std::ostream& operator<<(std::ostream& out, const InputRegime& regime) {
  return out << regime_text(regime);
}

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << command_line(c); }

std::vector<DataMode> data_modes(const kernels::Subject& subject) {
  return is_sequence(subject) ? std::vector<DataMode>{DataMode::normal} : kAllData;
}

Case parse_case(const kernels::SubjectRegistry& registry, const std::string& text) {
  const std::vector<std::string> words = words_of(text);
  if (words.size() < 3 || words[0] != "faultline" || words[1] != "verify") {
    throw core::UsageError(fmt::format("a case is 'faultline verify SUBJECT ...', not '{}'", text));
  }
  Case c;
  std::string values, config, variant;
  for (std::size_t i = 3; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (!word.starts_with("--")) {
      values += word + " ";
      continue;
    }
    if (word == "--no-race" || word == "--lenient") {
      c.race = word == "--lenient" ? RaceMode::lenient : RaceMode::off;
      continue;
    }
    if (i + 1 == words.size()) {
      throw core::UsageError(fmt::format("{} needs a value at the end of '{}'", word, text));
    }
    const std::string& value = words[++i];
    if (word == "--variant") {
      variant = value;
    } else if (word == "--config") {
      config = value;
    } else if (word == "--data") {
      c.regime.data = data_mode(value);
    } else if (word == "--seed") {
      c.regime.seed = number(word, value);
    } else if (word == "--trials") {
      c.trials = number(word, value);
    } else if (word == "--backend") {
      c.backend = value;
    } else {
      throw core::UsageError(fmt::format("unknown option {} in '{}'", word, text));
    }
  }
  const kernels::ResolvedTrial trial =
      kernels::resolve(registry, variant.empty() ? words[2] : words[2] + "@" + variant,
                       core::parse_assignments(values), core::parse_assignments(config));
  c.problem = trial.problem;
  c.variant = trial.variant->name;
  c.config = trial.config;
  return c;
}

ValueDomain<Case> cases(const kernels::SubjectRegistry& registry, const std::string& subject,
                        const ProblemLimits& limits, const CaseOptions& options) {
  const CaseSpace space(registry, subject, limits, options);
  const auto shrink = [space](const Case& c) { return space.shrink(c); };
  return {
      .name = "cases of " + subject,
      .generator = make_generator([space](Source& source) { return space.draw(source); }, shrink),
      .complaint = [space](const Case& c) { return space.complaint(c); },
      .show = [](const Case& c) { return command_line(c); },
      .parse = [space](const std::string& text) { return space.parse(text); },
      .measure = [space](const Case& c) { return space.measure(c); },
      .smaller = shrink,
  };
}

ValueDomain<InputRegime> input_regimes(std::vector<DataMode> data) {
  if (data.empty()) data = kAllData;
  const auto shrink = [data](const InputRegime& regime) { return smaller_regimes(regime, data); };
  return {
      .name = "input regimes",
      .generator =
          make_generator([data](Source& source) { return draw_regime(source, data); }, shrink),
      .complaint = [data](const InputRegime& regime) -> std::string {
        if (position_of(data, regime.data) == data.size()) return "its data mode is not drawn";
        const bool inside =
            regime.seed >= 1 && regime.seed <= static_cast<std::uint64_t>(kLargestSeed);
        return inside ? "" : "its seed is outside what is drawn";
      },
      .show = regime_text,
      .parse =
          [](const std::string& text) {
            const std::vector<std::string> words = words_of(text);
            if (words.size() != 4 || words[0] != "--data" || words[2] != "--seed") {
              throw core::UsageError(
                  fmt::format("inputs are '--data MODE --seed N', not '{}'", text));
            }
            return InputRegime{data_mode(words[1]), number("--seed", words[3])};
          },
      .measure =
          [data](const InputRegime& regime) {
            return std::vector<std::uint64_t>{position_of(data, regime.data), regime.seed};
          },
      .smaller = shrink,
  };
}

CaseVerdict check_case(core::Backend& backend, const kernels::SubjectRegistry& registry,
                       const Case& c) {
  const kernels::Subject& subject = registry.get(c.problem.subject);
  const core::TrialPlan plan = subject.plan(c.problem, c.variant, c.config);
  core::TrialRequest request;
  request.seed = c.regime.seed;
  request.count = c.trials;
  request.data = c.regime.data;
  request.perturbation.name = "verify";
  request.perturbation.fresh_inputs = true;
  request.race = backend.info().is_model ? c.race : RaceMode::off;
  request.capture_limit = 1;

  CaseVerdict verdict;
  verdict.result = backend.run_trials(plan, request);
  const core::TrialResult& result = verdict.result;
  const auto refuse = [&](std::string reason) {
    verdict.reason = std::move(reason);
    return verdict;
  };
  if (result.skipped) return refuse("skipped: " + result.note);
  if (result.failed > 0 || result.status != core::ExecutionStatus::completed) {
    for (const core::OutputTotals& output : result.outputs) {
      if (output.bad_elements == 0) continue;
      return refuse(fmt::format("{}: {} of {} elements wrong, worst {} of the bound, {} poison",
                                output.name, output.bad_elements, output.compared_elements,
                                output.worst_ratio, output.poison));
    }
    if (!result.races.empty()) {
      const core::RaceReport& race = result.races.front();
      return refuse(fmt::format("{} race on {}: {} and {}", core::name_of(race.kind), race.buffer,
                                race.first.instruction, race.second.instruction));
    }
    return refuse(fmt::format("{}: {}", core::name_of(result.status), result.message));
  }
  if (result.trials != c.trials) {
    return refuse(fmt::format("{} of {} trials were finished", result.trials, c.trials));
  }
  const std::vector<std::uint32_t> outputs = plan.output_indices();
  if (result.outputs.size() != outputs.size() || outputs.empty()) {
    return refuse(
        fmt::format("{} of {} outputs were compared", result.outputs.size(), outputs.size()));
  }
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    const auto elements = static_cast<std::uint64_t>(plan.buffers[outputs[o]].elements());
    if (elements == 0 || result.outputs[o].compared_elements != elements * c.trials) {
      return refuse(fmt::format("{}: {} elements were compared, not {}", result.outputs[o].name,
                                result.outputs[o].compared_elements, elements * c.trials));
    }
  }
  verdict.pass = true;
  return verdict;
}

}  // namespace faultline::properties
