// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <utility>

#include "faultline/app/version.hpp"
#include "faultline/core/errors.hpp"
#include "faultline/reports/terminal.hpp"

namespace faultline::app {
namespace {

constexpr const char* kFooter =
    "Exit codes: 0 pass, 1 fail, 2 usage, 3 error (no device, out of memory, unwritable output),\n"
    "4 inconclusive (also when --budget ran out before all was done, and nothing failed), 77 all\n"
    "skipped, 130 interrupted. The worst wins: error > fail > inconclusive > pass.";

void add_words(CLI::App& command, Options& options, const char* what) {
  command.add_option("words", options.words, what)->type_name("");
}

// A whole number in decimal, all of it: CLI11 would take "-5" for 2^64 - 5.
std::uint64_t parse_count(const std::string& flag, const std::string& text, std::uint64_t minimum,
                          std::uint64_t maximum) {
  std::uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end || value < minimum || value > maximum) {
    throw core::UsageError(
        fmt::format("{} '{}': a whole number from {} to {}, in decimal digits, is needed", flag,
                    text, minimum, maximum));
  }
  return value;
}

template <class Number>
CLI::Option* add_count(CLI::App& command, const std::string& flag, Number& target,
                       const std::string& description, std::uint64_t minimum,
                       std::uint64_t maximum) {
  return command
      .add_option_function<std::string>(
          flag,
          [&target, flag, minimum, maximum](const std::string& text) {
            target = static_cast<Number>(parse_count(flag, text, minimum, maximum));
          },
          description)
      ->type_name("N");
}

// Other names of standard output, where reports would mix as they would under "-".
bool names_standard_output(const std::string& path) {
  return path == "-" || path == "/dev/stdout" || path == "/dev/fd/1" || path == "/proc/self/fd/1";
}

constexpr const char* kCaseWords =
    "TOKEN, or SUBJECT[@VARIANT] k=v ... (or the whole `faultline verify ...` line): the first "
    "failing trial of it, or the number of a stored case with --store";

constexpr const char* kRunWords =
    "RUN: a folder of --run, a JSON report, or with --store the number of a run, last or last-1; "
    "report --store FILE alone lists what is stored";

constexpr std::uint64_t kAnyCount = ~std::uint64_t{0};
constexpr std::uint64_t kMaxTrials = std::uint64_t{1} << 40;

/// Where and how trials run, and how much of it is printed.
void add_trial_flags(CLI::App& command, Options& options) {
  command.add_option("--backend", options.backend, "where trials run: auto, cuda or simulator")
      ->check(CLI::IsMember({"auto", "cuda", "simulator"}))
      ->capture_default_str();
  command.add_option("--variant", options.variant,
                     "variant or mutant; the same as SUBJECT@VARIANT");
  command.add_option("--config", options.config,
                     "launch tunables, k=v (repeatable, or comma-separated)");
  add_count(command, "--seed", options.seed,
            "campaign seed (default 1): inputs and schedules follow from it", 0, kAnyCount);
  command
      .add_option("--data", options.data,
                  "inputs: normal, exact, address, digits, epoch, illconditioned or special")
      ->capture_default_str();
  command.add_option_function<std::string>(
      "--budget", [&options](const std::string& text) { options.budget_s = parse_duration(text); },
      "stop after this long (60s, 5m) with the report so far");
  command.add_option_function<std::string>(
      "--timeout",
      [&options](const std::string& text) { options.timeout_s = parse_duration(text); },
      "limit of one execution in wall-clock time (default 60s)");
  command.add_flag("--lenient", options.lenient,
                   "a missing proxy fence alone is a note, not an error (simulator)");
  command.add_flag("--no-race", options.no_race, "values only, no race detection (simulator)");
}

void add_width(CLI::App& command, Options& options) {
  add_count(command, "--width", options.width,
            "columns of terminal output, 60 to 1000 (default: the terminal's); text fills 160",
            reports::TerminalOptions::kMinimumWidth, 1000);
}

/// What is printed and written of a record.
void add_report_flags(CLI::App& command, Options& options) {
  command.add_flag("--quiet,-q", options.quiet, "print the verdict only");
  command.add_flag("-v,--verbose", options.verbosity, "more detail (repeatable)");
  command.add_option("--color", options.color, "auto, always or never (NO_COLOR is honoured)")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  add_width(command, options);
  for (const char* format : {"json", "html", "md", "junit", "sarif", "csv"}) {
    command.add_option_function<std::string>(
        std::string("--") + format,
        [&options, format](const std::string& path) {
          options.reports[format] = names_standard_output(path) ? "-" : path;
        },
        fmt::format("write the {} report to this file ('-' for standard output)", format));
  }
}

void add_common(CLI::App& command, Options& options) {
  add_trial_flags(command, options);
  command.add_option_function<std::string>(
      "--fail-on",
      [&options](const std::string& text) {
        if (text != "warning" && text != "error") {
          throw core::UsageError("--fail-on takes 'error' or 'warning', not '" + text + "'");
        }
        options.fail_on_warning = text == "warning";
      },
      "lowest severity that fails the run: error (default) or warning");
  command.add_option("--run", options.run_dir,
                     "keep the record in this folder (run.json), also while the run goes on");
  add_report_flags(command, options);
}

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\r\n") == text.npos; }

/// An empty value is an unset shell variable far more often than a wish; "--run ''" would keep no
/// record and say nothing.
void refuse_empty_arguments(int argc, char** argv) {
  std::string before = argc > 0 ? "faultline" : "";
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const std::size_t equals = argument.starts_with("--") ? argument.find('=') : argument.npos;
    if (equals != argument.npos && is_blank(argument.substr(equals + 1))) {
      throw core::UsageError(fmt::format("{} has an empty value (a shell variable that is not "
                                         "set?): give one, or leave {} out",
                                         argument, argument.substr(0, equals)));
    }
    if (is_blank(argument)) {
      throw core::UsageError(fmt::format("the argument after '{}' is empty (a shell variable that "
                                         "is not set?): give a value, or leave {} out",
                                         before, before.starts_with('-') ? before : "it"));
    }
    before = argument;
  }
}

/// Where a report is kept: the file itself, whatever links and dots lead to it, also when it is not
/// there yet.
std::filesystem::path place_of(const std::string& path) {
  namespace fs = std::filesystem;
  constexpr int kMostLinks = 40;  // as many as Linux follows
  std::error_code error;
  fs::path place = fs::absolute(path, error);
  for (int i = 0; i < kMostLinks && fs::is_symlink(place, error); ++i) {
    place = place.parent_path() / fs::read_symlink(place, error);
  }
  const fs::path canonical = fs::weakly_canonical(place, error);
  return error ? place.lexically_normal() : canonical;
}

bool same_file(const std::string& a, const std::string& b) {
  std::error_code error;
  return place_of(a) == place_of(b) || std::filesystem::equivalent(a, b, error);
}

/// Outputs that would overwrite each other, or what the command reads.
void check_outputs(const Options& options) {
  std::vector<std::pair<std::string, std::string>> taken;  // flag, file
  if (options.command == Command::race && !options.words.empty()) {
    taken.emplace_back("the PTX file", options.words.front());
  }
  if (names_standard_output(options.run_dir)) {
    throw core::UsageError(fmt::format("--run {}: a run is kept in a folder: give its path, or "
                                       "--json - for the record on standard output",
                                       options.run_dir));
  }
  for (const auto& [flag, folder] :
       {std::pair{"--run ", options.run_dir}, std::pair{"--resume ", options.resume_dir}}) {
    if (folder.empty()) continue;
    for (const char* file : {"run.json", "journal.tsv"}) {
      taken.emplace_back(flag + folder, (std::filesystem::path(folder) / file).string());
    }
  }
  if (!options.store.empty()) {
    if (names_standard_output(options.store)) {
      throw core::UsageError(fmt::format("--store {}: a store is a file, which is read, too: give "
                                         "its path",
                                         options.store));
    }
    taken.emplace_back("--store " + options.store, options.store);
  }
  std::string on_stdout;
  for (const auto& [format, path] : options.reports) {
    const std::string flag = fmt::format("--{} {}", format, path);
    if (path == "-") {
      if (!on_stdout.empty()) {
        throw core::UsageError(fmt::format("{} and {} both write to standard output, where they "
                                           "would mix: give a file to one of them",
                                           on_stdout, flag));
      }
      on_stdout = flag;
      continue;
    }
    if (path == "/dev/null") continue;
    for (const auto& [other_flag, other] : taken) {
      if (!same_file(path, other)) continue;
      throw core::UsageError(fmt::format("{} is the file of {} too, and one would replace the "
                                         "other: give each a file of its own",
                                         flag, other_flag));
    }
    taken.emplace_back(flag, path);
  }
}

/// --store, or FAULTLINE_STORE where the command takes it.
void add_store(CLI::App& command, Options& options, const char* description) {
  command.add_option("--store", options.store, description)->envname("FAULTLINE_STORE");
}

/// CLI11's words for a flag given twice are "At Most 1 required but received 2".
std::string clearer(std::string what) {
  const std::size_t at = what.find(": At Most 1 required but received ");
  if (at == what.npos) return what;
  return what.substr(0, at) + " is given more than once: give it once";
}

/// The first word is a command. (What CLI11 says of others names all words, backwards.)
void refuse_unknown_command(const CLI::App& app, int argc, const char* const* argv) {
  if (argc < 2 || argv[1][0] == '-') return;
  const std::string word = argv[1];
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands({})) names.push_back(sub->get_name());
  if (std::find(names.begin(), names.end(), word) != names.end()) return;
  const std::string near = core::nearest_name(word, {names.begin(), names.end()});
  throw core::UsageError(fmt::format(
      "'{}' is no command{} The commands are {} (see `faultline --help`).", word,
      near.empty() ? "." : fmt::format(". Did you mean '{}'?", near), fmt::join(names, ", ")));
}

void add_reference(CLI::App& command, Options& options) {
  add_words(command, options,
            "SUBJECT [k=v ...]: deltanet_fwd, deltanet_bwd, deltanet_decode, each also as "
            "gated_..., gla_decode, gemv; k=v: b h t dk dv (from the files when not given), scale "
            "(a number or auto = dk^-1/2), with --drop also chunk");
  command.add_option("--inputs", options.inputs_dir,
                     "folder of q.npy, k.npy, v.npy, beta.npy, g.npy or gk.npy, h0.npy, do.npy, "
                     "dhT.npy (float16, float32 or float64; no h0 or dhT: zero)");
  command.add_option("--outputs", options.outputs_dir,
                     "folder for o.npy, hT.npy, dq.npy, dk.npy, dv.npy, dbeta.npy, dg.npy, dh0.npy "
                     "(float64); made when it is not there");
  command
      .add_option("--layout", options.layout,
                  "order of the axes in the files: bhtd, or bthd (time before heads)")
      ->check(CLI::IsMember({"bhtd", "bthd"}))
      ->capture_default_str();
  command.add_option("--drop", options.drop,
                     "leave these terms of the adjoint out, e.g. A_inv or dw_cross,dk_corr: what a "
                     "backward that lacks them computes (docs/reference.md lists them)");
  command.add_flag("--quiet,-q", options.quiet, "print nothing");
}

}  // namespace

double parse_duration(const std::string& text) {
  double value = 0.0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  const std::string unit(rest, end);
  const double scale = unit == "ms"                  ? 1e-3
                       : unit.empty() || unit == "s" ? 1.0
                       : unit == "m"                 ? 60.0
                       : unit == "h"                 ? 3600.0
                                                     : 0.0;
  if (error != std::errc() || scale == 0.0 || !(value > 0.0) || !std::isfinite(value)) {
    throw core::UsageError("'" + text + "' is not a duration: write 500ms, 60s, 5m or 2h");
  }
  return value * scale;
}

core::DataMode Options::data_mode() const {
  if (const auto mode = core::parse_data_mode(data)) return *mode;
  throw core::UsageError(
      "unknown data mode '" + data +
      "': --data takes normal, exact, address, digits, epoch, illconditioned or special");
}

const std::string& Options::subject() const {
  if (words.empty()) {
    throw core::UsageError("which subject? `faultline list` prints them; "
                           "e.g. `faultline verify gla_decode b=1 h=1 dk=64 dv=64 dtype=bf16`");
  }
  return words.front();
}

std::vector<core::Assignment::Value> Options::problem_values() const {
  std::vector<core::Assignment::Value> values;
  for (size_t i = 1; i < words.size(); ++i) {
    for (auto& value : core::parse_assignments(words[i])) values.push_back(std::move(value));
  }
  return values;
}

std::vector<core::Assignment::Value> Options::config_values() const {
  std::vector<core::Assignment::Value> values;
  for (const auto& text : config) {
    for (auto& value : core::parse_assignments(text)) values.push_back(std::move(value));
  }
  return values;
}

std::vector<std::vector<core::Assignment::Value>> Options::sweep_values() const {
  std::vector<std::vector<core::Assignment::Value>> combinations{{}};
  for (const std::string& text : sweep) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
      throw core::UsageError("--sweep " + text +
                             ": write a parameter and its values, t=64,128,256");
    }
    const std::string key = text.substr(0, equals);
    std::vector<std::vector<core::Assignment::Value>> longer;
    for (const auto& combination : combinations) {
      for (size_t begin = equals + 1; begin <= text.size();) {
        const size_t end = std::min(text.find(',', begin), text.size());
        if (end == begin) throw core::UsageError("--sweep " + text + ": a value is empty");
        longer.push_back(combination);
        longer.back().emplace_back(key, text.substr(begin, end - begin));
        begin = end + 1;
      }
    }
    combinations = std::move(longer);
  }
  return combinations;
}

std::vector<std::string> deciding_lines(const Options& options) {
  std::vector<std::string> lines = options.words;
  // Both ways of naming a variant are one.
  if (!options.variant.empty() && !lines.empty() && lines[0].find('@') == lines[0].npos) {
    lines[0] += "@" + options.variant;
  }
  const auto add = [&](const char* flag, const auto& value) {
    lines.push_back(fmt::format("{} {}", flag, value));
  };
  add("--backend", options.backend);
  add("--config", fmt::format("{}", fmt::join(options.config, ",")));
  add("--sweep", fmt::format("{}", fmt::join(options.sweep, " ")));
  add("--intermediates", options.intermediates);
  add("--seed", options.seed);
  add("--data", options.data);
  add("--plan", options.plan);
  add("--trials", options.trials);
  add("--timeout", options.timeout_s);
  add("--lenient", options.lenient);
  add("--no-race", options.no_race);
  add("--no-sanitizer", options.no_sanitizer);
  add("--no-follow-ups", options.no_follow_ups);
  add("--schedules", options.schedules);
  add("--entry", options.entry);
  add("--grid", options.grid);
  add("--block", options.block);
  add("--shared", options.shared_bytes);
  add("--arg", fmt::format("{}", fmt::join(options.arguments, " ")));
  return lines;
}

bool is_deciding(const std::string& argument) {
  static constexpr std::string_view kFlags[] = {
      "--backend", "--variant", "--config",       "--sweep",     "--intermediates",
      "--seed",    "--data",    "--plan",         "--trials",    "--timeout",
      "--lenient", "--no-race", "--entry",        "--grid",      "--block",
      "--shared",  "--arg",     "--no-sanitizer", "--schedules", "--no-follow-ups"};
  const std::string_view flag = std::string_view(argument).substr(0, argument.find('='));
  return std::find(std::begin(kFlags), std::end(kFlags), flag) != std::end(kFlags);
}

Parsed parse_command_line(int argc, char** argv) {
  Parsed parsed;
  Options& options = parsed.options;
  CLI::App app(
      "faultline tests CUDA kernels for correctness and races, and says what kind of bug it found.",
      "faultline");
  app.footer(kFooter);
  app.set_version_flag("--version", std::string("faultline ") + kVersion);
  app.require_subcommand(0, 1);
  app.add_option("--completion", options.completion_shell,
                 "print a completion script: bash, zsh or fish")
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));

  const auto command = [&](const char* name, const char* description, Command which) {
    CLI::App* sub = app.add_subcommand(name, description);
    sub->footer(kFooter);
    sub->callback([&options, which] { options.command = which; });
    return sub;
  };
  CLI::App* list = command("list", "subjects, variants, problem and config domains", Command::list);
  add_words(*list, options, "SUBJECT[@VARIANT]: this one in full");
  CLI::App* verify =
      command("verify", "differential check over shapes and configs", Command::verify);
  add_words(
      *verify, options,
      "SUBJECT[@VARIANT] [k=v ...]: without k=v a sweep of problems; without a variant the default "
      "one, with --variant all every clean one");
  verify->add_option("--sweep", options.sweep,
                     "a problem for each of these values, k=v1,v2,... (repeatable: every "
                     "combination); with several lengths the accuracy by length is reported");
  verify->add_flag("--intermediates", options.intermediates,
                   "compare the intermediates of the algorithm too, in its order, and name the "
                   "first that diverges");
  CLI::App* stress =
      command("stress", "a campaign of trials under perturbations: rates, tile maps, verdict",
              Command::stress);
  add_words(*stress, options, "SUBJECT[@VARIANT] [k=v ...]");
  stress->add_option("--plan", options.plan,
                     "arms by name, comma-separated (default: all that apply)");
  stress->add_flag("--no-follow-ups", options.no_follow_ups,
                   "these arms alone: no further arm and no experiment on what failed (for runs "
                   "under a debugger or sanitizer)");
  CLI::App* race =
      command("race", "simulator: happens-before races and deadlocks, both sites", Command::race);
  add_words(*race, options, "SUBJECT[@VARIANT] [k=v ...] or FILE.ptx");
  add_count(*race, "--schedules", options.schedules,
            "schedules to run (default: 4 for a subject, 12 for a file)", 1, kMaxTrials);
  race->add_option("--entry", options.entry, "FILE.ptx: kernel to run");
  race->add_option("--grid", options.grid, "FILE.ptx: grid, X or X,Y,Z")->capture_default_str();
  race->add_option("--block", options.block, "FILE.ptx: block, X or X,Y,Z")->capture_default_str();
  add_count(*race, "--shared", options.shared_bytes, "FILE.ptx: dynamic shared memory in bytes", 0,
            232448);
  race->add_option("--arg", options.arguments,
                   "FILE.ptx: arguments in order: buffer:BYTES, i32:N, i64:N, f32:X, f64:X");
  CLI::App* mutants = command("mutants",
                              "every mutant against every detector: the kill matrix, with trials "
                              "and time to kill",
                              Command::mutants);
  add_words(*mutants, options, "[SUBJECT[@VARIANT] ...]: these alone (default: all)");
  mutants->add_flag("--no-sanitizer", options.no_sanitizer,
                    "CUDA: without compute-sanitizer's four tools, which take most of the time");
  CLI::App* replay = command("replay", "rerun the trial that a token names", Command::replay);
  add_words(*replay, options, "TOKEN");
  add_count(*replay, "--repeats", options.repeats,
            "CUDA: executions (default 1000); the rate is printed", 1, kMaxTrials);
  CLI::App* explain =
      command("explain", "which coordinates of a failing case matter: each is drawn anew",
              Command::explain);
  add_words(*explain, options, kCaseWords);
  CLI::App* reduce =
      command("reduce", "the smallest case that still fails in the same way", Command::reduce);
  add_words(*reduce, options, kCaseWords);
  add_count(*reduce, "--repeats", options.repeats,
            "CUDA: executions of each case (default 200); rates are compared", 1, kMaxTrials);
  CLI::App* report =
      command("report", "a stored run again, as text or as any report", Command::report);
  add_words(*report, options, kRunWords);
  CLI::App* compare =
      command("compare", "what got better or worse from one run to another; exit 1 on worse",
              Command::compare);
  add_words(*compare, options, kRunWords);
  compare->add_flag("--quiet,-q", options.quiet, "print what got worse only");
  for (CLI::App* sub : {report, compare}) {
    add_store(*sub, options, "the store whose runs are named by number (also FAULTLINE_STORE)");
  }
  add_report_flags(*report, options);
  CLI::App* bench = command("bench", "steady-state time against the baseline, bandwidth, % of peak",
                            Command::bench);
  add_words(*bench, options, "SUBJECT[@VARIANT] [k=v ...]");
  add_count(*bench, "--samples", options.samples, "timing samples per row (default 30)", 3, 100000);
  bench->add_flag(
      "--hot", options.hot,
      "the same buffers in every execution, as in a decode loop (default: inputs rotate "
      "through more than L2 holds)");
  add_count(*bench, "--graph-launches", options.graph_launches,
            "executions of the whole program in one timed graph (default: 256 with --hot, else "
            "what fills about 0.1 s, 64 at most)",
            1, 100000);
  CLI::App* reference =
      command("reference", "the double-precision reference on .npy tensors of your own",
              Command::reference);
  add_reference(*reference, options);
  CLI::App* doctor = command(
      "doctor", "toolkit, driver, devices, what will and will not run, and why", Command::doctor);

  for (CLI::App* sub : {explain, reduce}) {
    add_trial_flags(*sub, options);
    add_count(*sub, "--trials", options.trials,
              "trials of a problem line, of which the first failing one is taken (default 3)", 1,
              kMaxTrials);
    add_count(*sub, "--executions", options.executions,
              "runs of the subject at most (default 400 for explain, 1000 for reduce)", 1,
              kMaxTrials);
    sub->add_flag("--quiet,-q", options.quiet,
                  sub == reduce ? "print the command that reruns the smallest case only"
                                : "print the verdict only");
    sub->add_flag("-v,--verbose", options.verbosity,
                  sub == reduce ? "print every step" : "more detail");
    add_store(*sub, options, "the store whose cases are named by number");
  }
  constexpr const char* kStore =
      "keep runs, findings and failing cases in this SQLite file (also FAULTLINE_STORE); verify "
      "replays the failing cases of the variant first";
  for (CLI::App* sub : {verify, stress, race}) add_store(*sub, options, kStore);
  for (CLI::App* sub : {stress, verify, race, mutants}) {
    add_count(*sub, "--trials", options.trials,
              sub == stress ? "trials per arm on CUDA; over all arms together on the simulator"
              : sub == mutants
                  ? "trials of the tight loop and of the campaign's arms, as for stress"
                  : "trials per cell",
              1, kMaxTrials);
  }
  for (CLI::App* sub : {verify, stress, race, mutants, replay, bench}) add_common(*sub, options);
  for (CLI::App* sub : {verify, stress, race, mutants}) {
    sub->add_option("--resume", options.resume_dir,
                    "continue the run that --run keeps in this folder and that was cut off: what "
                    "it finished is not run again. Its command line is taken from there; reports, "
                    "--budget and --quiet are those given now")
        ->type_name("DIR");
  }
  for (CLI::App* sub : {list, explain, reduce, doctor}) add_width(*sub, options);
  doctor->add_option("--color", options.color)->check(CLI::IsMember({"auto", "always", "never"}));

  refuse_empty_arguments(argc, argv);
  refuse_unknown_command(app, argc, argv);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& done) {
    parsed.exit_code = app.exit(done);
    return parsed;
  } catch (const CLI::ParseError& error) {
    throw core::UsageError(clearer(error.what()) + " (see `faultline --help`)");
  }
  check_outputs(options);
  if (!options.resume_dir.empty() && !options.run_dir.empty()) {
    throw core::UsageError("--run begins a run and --resume continues one in the same folder: give "
                           "one of them");
  }
  (void)options.data_mode();
  if (!options.completion_shell.empty()) options.command = Command::completion;
  if (options.command == Command::none) {
    fmt::print("{}", app.help());
    parsed.exit_code = static_cast<int>(core::ExitCode::usage);
  }
  return parsed;
}

Options options_of(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "faultline");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  return parse_command_line(static_cast<int>(argv.size()), argv.data()).options;
}

}  // namespace faultline::app
