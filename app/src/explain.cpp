// SPDX-License-Identifier: Apache-2.0
// `faultline explain` and `faultline reduce`: a failing case, coordinate by coordinate, and made
// small.
#include "faultline/stress/explain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <sstream>

#include "backend_choice.hpp"
#include "faultline/core/errors.hpp"
#include "faultline/core/token.hpp"
#include "faultline/store/store.hpp"
#include "faultline/stress/reduce.hpp"
#include "layout.hpp"
#include "memory.hpp"
#include "whole_number.hpp"
#include "work.hpp"

namespace faultline::app {
namespace {

/// The case that the command is about, and where it runs.
struct NamedCase {
  std::unique_ptr<core::Backend> backend;
  core::TrialToken trial;
};

void refuse_flags_of_a_case(const Options& options) {
  const Options plain;
  if (!options.variant.empty() || !options.config.empty() || options.data != plain.data ||
      options.seed != plain.seed || options.trials != plain.trials) {
    throw core::UsageError("a token holds the variant, config, data and seed of its trial: leave "
                           "--variant, --config, --data, --seed and --trials out");
  }
}

NamedCase case_of_token(const Options& options, core::TrialToken trial) {
  refuse_flags_of_a_case(options);
  if (options.backend != "auto" && options.backend != trial.backend) {
    throw core::UsageError(fmt::format("this case failed on the {} backend and runs there; leave "
                                       "out --backend {}",
                                       trial.backend, options.backend));
  }
  auto backend = choose_backend(trial.backend);
  return {std::move(backend), std::move(trial)};
}

/// What a quoted line asks for that `command` does not do is said, not passed over.
void say_what_is_not_used(const Options& line, const char* command) {
  std::string flags;
  const auto add = [&](const std::string& flag, const std::string& value) {
    if (!value.empty()) flags += (flags.empty() ? "" : ", ") + flag + " " + value;
  };
  for (const auto& [format, path] : line.reports) add("--" + format, path);
  add("--run", line.run_dir);
  add("--resume", line.resume_dir);
  if (flags.empty()) return;
  fmt::print(stderr, "faultline: note: not used of the quoted line: {} ({} writes no report)\n",
             flags, command);
}

/// "faultline verify gemv n=1 ..." as one word, or its words: the options that it stands for, with
/// what was given beside it.
Options parse_line(const Options& given, const char* command) {
  std::vector<std::string> words;
  for (const std::string& word : given.words) {
    std::istringstream stream(word);
    for (std::string part; stream >> part;) words.push_back(part);
  }
  if (!words.empty() && words.front() == "faultline") words.erase(words.begin());
  const std::string first = words.empty() ? "" : words.front();
  if (first == "stress" || first == "race" || first == "mutants") {
    throw core::UsageError(fmt::format(
        "{} takes one case, and a `faultline {}` line is a whole run: give the token of one of its "
        "failures, which it printed after 'faultline replay'",
        command, first));
  }
  if (first != "verify" && first != "replay") {
    Options options = given;
    options.words = words;
    return options;
  }
  Options options = options_of(std::move(words));
  say_what_is_not_used(options, command);
  // Flags that the shell saw are those of this command.
  options.command = given.command;
  options.executions = given.executions;
  options.repeats = given.repeats;
  options.store = given.store;
  options.quiet = given.quiet;
  options.width = given.width;
  options.verbosity = given.verbosity;
  const Options plain;
  if (given.budget_s > 0.0) options.budget_s = given.budget_s;
  if (given.timeout_s != plain.timeout_s) options.timeout_s = given.timeout_s;
  if (given.backend != plain.backend) options.backend = given.backend;
  if (!given.variant.empty()) options.variant = given.variant;
  if (!given.config.empty()) options.config = given.config;
  if (given.data != plain.data) options.data = given.data;
  if (given.seed != plain.seed) options.seed = given.seed;
  if (given.trials != plain.trials) options.trials = given.trials;
  options.no_race = options.no_race || given.no_race;
  options.lenient = options.lenient || given.lenient;
  return options;
}

/// The case that the words name: a token, the number of a stored case, or a problem line whose
/// trials are run until one fails. An UnsupportedError when none does.
NamedCase named_case(const Context& context, const char* command, const stress::RunOptions& run) {
  const Options& options = context.options;
  std::optional<store::Store> stored;  // opened first: one that cannot be used is not passed over
  if (!options.store.empty()) {
    stored.emplace(options.store, store::StoreOptions{.access = store::Access::read});
  }
  if (options.words.empty()) {
    throw core::UsageError(fmt::format("{} takes a TOKEN, as printed under a failure (it begins "
                                       "with 'fl1.'), or SUBJECT@VARIANT k=v ...",
                                       command));
  }
  const std::string& word = options.words.front();
  if (word.starts_with("fl1.")) {
    if (options.words.size() > 1) {
      throw core::UsageError(
          fmt::format("a token is a whole case: leave '{}' out, or name the case "
                      "as SUBJECT@VARIANT k=v ...",
                      options.words[1]));
    }
    return case_of_token(options, core::decode_token(word));
  }
  if (const auto number = whole_number(word); number && options.words.size() == 1) {
    if (!stored) {
      throw core::UsageError(
          fmt::format("{} {}: the number of a stored case needs --store FILE", command, word));
    }
    const store::FailingCase found = stored->failing_case(*number);
    if (!found.unreadable.empty()) {
      throw core::UsageError(fmt::format("stored case {}: {}", *number, found.unreadable));
    }
    return case_of_token(options, found.trial);
  }
  const kernels::ResolvedTrial trial =
      kernels::resolve(context.registry, subject_and_variant(options), options.problem_values(),
                       options.config_values());
  NamedCase named{choose_backend(options.backend), {}};
  require_memory(trial.plan, named.backend->info(), race_mode(options));
  stress::CaseRequest request;
  request.seed = options.seed;
  if (options.trials > 0) request.trials = options.trials;
  request.data = options.data_mode();
  request.race = race_mode(options);
  const auto token = stress::first_failure(*named.backend, trial, request, run);
  if (!token) {
    const std::vector<core::Assignment::Value>& shows_at = trial.variant->shows_at;
    throw core::UnsupportedError(fmt::format(
        "{}@{} {} does not fail in {} trial{} on the {} backend, so there is nothing to {}{}",
        trial.subject->name, trial.variant->name, trial.problem.values.line(), request.trials,
        request.trials == 1 ? "" : "s", named.backend->info().name, command,
        shows_at.empty()
            ? ""
            : fmt::format("; this mutant shows at {}", core::Assignment(shows_at).line())));
  }
  named.trial = *token;
  return named;
}

/// What explain and reduce begin with: the options of a quoted line under those given, and the
/// case.
struct CaseRun {
  CaseRun(const Context& given, const char* command)
      : options(parse_line(given.options, command)),
        context{options, given.registry, given.stop, given.command_line, given.arguments},
        work(context),
        run(work.run_options()),
        named(named_case(context, command, run)) {
    require_memory(context.registry, named.trial, named.backend->info());
  }

  const Options options;
  const Context context;  // refers to `options`
  Work work;
  const stress::RunOptions run;
  NamedCase named;
};

/// Every value that was tried, coordinate by coordinate.
void print_values(const stress::Explanation& explanation, int width) {
  const auto line = [width](const std::string& name, const char* what,
                            const std::vector<std::string>& values) {
    if (values.empty()) return;
    fmt::print("{}\n",
               wrapped(fmt::format("  {} {} {}", name, what, fmt::join(values, ", ")), width));
  };
  for (const stress::Coordinate& one : explanation.coordinates) {
    line(one.name, "fails at", one.failed_at);
    line(one.name, "passes at", one.passed_at);
    line(one.name, "fails as another class at", one.otherwise_at);
  }
}

/// "n=1 k=1056 ... [rows=4 tile_k=1024], seed 1, trial 0, data normal, schedule random_lazy"
std::string in_words(const core::TrialToken& trial, bool on_model) {
  const core::Perturbation& shaken = trial.perturbation;
  // What a simulator's trial has beside its schedule is a changed call: delays, one stream.
  const bool plain = shaken.delay_sites == 0 && !shaken.one_stream && !shaken.eager &&
                     shaken.calls == 1 && shaken.offset_bytes == 0;
  const std::string config = trial.config.empty() ? "" : fmt::format(" [{}]", trial.config);
  return fmt::format("{}{}, seed {}, trial {}, data {}, {}", trial.problem, config, trial.seed,
                     trial.trial, core::name_of(trial.data),
                     on_model && plain ? fmt::format("schedule {}_{}", core::name_of(shaken.policy),
                                                     core::name_of(shaken.lateness))
                                       : core::to_text(shaken));
}

void print_reduction(const stress::Reduction& reduction, bool on_model, int width) {
  const core::TrialToken &original = reduction.original, &smallest = reduction.smallest;
  const auto taken = std::count_if(reduction.steps.begin(), reduction.steps.end(),
                                   [](const stress::ReduceStep& step) { return step.accepted; });
  std::string text = fmt::format(
      "{}@{}: fails as {}{}\n", original.subject, original.variant,
      core::name_of(reduction.finding),
      reduction.trials == 1 ? ""
                            : fmt::format(" in {} of {} runs", reduction.failed, reduction.trials));
  text += fmt::format("  from  {}\n", in_words(original, on_model));
  text += original == smallest
              ? fmt::format("  to    the same: none of {} smaller cases tried fails as it does",
                            reduction.steps.size())
              : fmt::format("  to    {}\n  {}, of {} smaller cases tried, {} of which were taken",
                            in_words(smallest, on_model),
                            reduction.budget_spent ? "the smallest so far" : "the smallest found",
                            reduction.steps.size(), taken);
  text += fmt::format("; {} executions{}\n", reduction.executions,
                      reduction.budget_spent ? "; time or --executions ran out" : "");
  if (reduction.floor > 0.0) {
    text += fmt::format("  a smaller case had to fail at a rate of at least {:.2g} (lower 95 % "
                        "bound)\n",
                        reduction.floor);
  }
  fmt::print("{}", wrapped(text, width));
}

}  // namespace

int explain_command(const Context& given) {
  CaseRun begun(given, "explain");
  const Context& context = begun.context;
  stress::ExplainOptions options;
  if (context.options.executions > 0) options.executions = context.options.executions;
  options.run = begun.run;
  const stress::Explanation explanation =
      stress::explain(*begun.named.backend, context.registry, begun.named.trial, options);
  begun.work.finish();
  if (!explanation.refused.empty()) throw core::UnsupportedError(explanation.refused);
  const std::string text = stress::to_text(explanation);
  const int width = columns(context.options);
  fmt::print("{}",
             context.options.quiet ? text.substr(0, text.find('\n') + 1) : wrapped(text, width));
  if (context.options.verbosity > 0 && !context.options.quiet) print_values(explanation, width);
  if (context.stop) return static_cast<int>(core::ExitCode::interrupted);
  // What was not executed explains nothing.
  const bool nothing_tried =
      explanation.budget_spent &&
      std::all_of(explanation.coordinates.begin(), explanation.coordinates.end(),
                  [](const stress::Coordinate& one) {
                    return one.role == stress::Coordinate::Role::not_tried ||
                           one.role == stress::Coordinate::Role::only_value;
                  });
  return static_cast<int>(nothing_tried ? core::ExitCode::inconclusive : core::ExitCode::pass);
}

int reduce_command(const Context& given) {
  CaseRun begun(given, "reduce");
  const Context& context = begun.context;
  stress::ReduceOptions options;
  if (context.options.executions > 0) options.executions = context.options.executions;
  if (context.options.repeats > 0) options.repeats = context.options.repeats;
  options.run = begun.run;
  const stress::Reduction reduction =
      stress::reduce(*begun.named.backend, context.registry, begun.named.trial, options);
  begun.work.finish();
  if (!reduction.refused.empty()) throw core::UnsupportedError(reduction.refused);

  const std::string command = "faultline replay " + core::encode(reduction.smallest);
  if (context.options.quiet) {
    fmt::print("{}\n", command);
  } else {
    if (context.options.verbosity > 0) {
      for (const stress::ReduceStep& step : reduction.steps) {
        fmt::print("  {:8}  {}: {}\n", step.accepted ? "taken" : "not", step.change, step.why);
      }
    }
    print_reduction(reduction, begun.named.backend->info().is_model, columns(context.options));
    fmt::print("  {}\n", command);
  }
  return static_cast<int>(context.stop ? core::ExitCode::interrupted : core::ExitCode::pass);
}

}  // namespace faultline::app
