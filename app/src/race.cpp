// SPDX-License-Identifier: Apache-2.0
// `faultline race`: happens-before races and deadlocks of a subject, or of a kernel in a PTX file.
#include "faultline/stress/race.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "backend_choice.hpp"
#include "faultline/core/errors.hpp"
#include "faultline/diagnosis/totals.hpp"
#include "faultline/simulator/module.hpp"
#include "faultline/stress/statistics.hpp"
#include "input_file.hpp"
#include "memory.hpp"
#include "record.hpp"
#include "resume.hpp"
#include "work.hpp"

namespace faultline::app {
namespace {

template <class Number>
Number parse_number(std::string_view text, std::string_view what) {
  Number value{};
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || rest != text.data() + text.size()) {
    throw core::UsageError(fmt::format("{}: '{}' is not a number", what, text));
  }
  return value;
}

std::array<std::uint32_t, 3> parse_extents(const std::string& text, const char* what) {
  std::array<std::uint32_t, 3> extents{1, 1, 1};
  size_t begin = 0;
  for (size_t i = 0;; ++i) {
    const size_t end = std::min(text.find(',', begin), text.size());
    if (i >= 3)
      throw core::UsageError(fmt::format("{} takes X, X,Y or X,Y,Z, not '{}'", what, text));
    extents[i] =
        parse_number<std::uint32_t>(std::string_view(text).substr(begin, end - begin), what);
    if (extents[i] == 0)
      throw core::UsageError(fmt::format("{} {}: extents are at least 1", what, text));
    if (end == text.size()) return extents;
    begin = end + 1;
  }
}

// "buffer:4096", "i32:7", "f32:0.5" ...; buffers are allocated and filled with small numbers.
core::Argument parse_argument(const std::string& text, core::Backend& backend,
                              std::vector<core::BufferHandle>& buffers) {
  const size_t colon = text.find(':');
  const std::string type = text.substr(0, colon);
  const std::string value = colon == std::string::npos ? "" : text.substr(colon + 1);
  if (type == "buffer") {
    const auto bytes = parse_number<std::uint64_t>(value, "--arg buffer");
    if (bytes == 0 || bytes > (1ull << 34)) {
      throw core::UsageError(fmt::format("--arg {}: a buffer has 1 to 2^34 bytes", text));
    }
    buffers.push_back(backend.allocate(fmt::format("arg{}", buffers.size()), bytes));
    return core::BufferArgument{static_cast<std::uint32_t>(buffers.size() - 1)};
  }
  if (type == "i32") return core::scalar(parse_number<std::int32_t>(value, "--arg i32"));
  if (type == "i64") return core::scalar(parse_number<std::int64_t>(value, "--arg i64"));
  if (type == "f32") return core::scalar(parse_number<float>(value, "--arg f32"));
  if (type == "f64") return core::scalar(parse_number<double>(value, "--arg f64"));
  throw core::UsageError(
      fmt::format("--arg '{}': write buffer:BYTES, i32:N, i64:N, f32:X or f64:X", text));
}

/// Before any is allocated: buffers are filled, and so take all that they ask for.
void require_memory_for(const std::vector<std::string>& arguments) {
  std::uint64_t total = 0;
  for (const std::string& text : arguments) {
    if (!text.starts_with("buffer:")) continue;
    const std::uint64_t bytes =
        parse_number<std::uint64_t>(std::string_view(text).substr(7), "--arg buffer");
    total = total > ~bytes ? ~std::uint64_t{0} : total + bytes;
  }
  const auto available = available_memory();
  if (!available || total <= *available) return;
  throw core::EnvironmentError(fmt::format("out of memory before it began: the buffers of --arg "
                                           "take {} and {} can be had here; give smaller ones",
                                           bytes_text(total), bytes_text(*available)));
}

core::ModuleRef load_ptx(const std::string& path) {
  require_regular_file(path, "PTX file");
  return core::load_ptx_module(path);
}

/// UsageError that lists the kernels, when the file has no kernel of that name or when it takes
/// another number of arguments. A file that cannot be parsed is left to the run, which says where.
void require_entry(const core::Module& module, const std::string& path, const std::string& entry,
                   std::size_t given) {
  constexpr std::size_t kListed = 12;
  std::vector<std::string> entries;
  std::optional<std::size_t> wanted;
  try {
    const simulator::Module parsed = simulator::Module::parse(module.ptx, module.name);
    entries = parsed.entries();
    if (parsed.has_entry(entry)) wanted = parsed.parameters(entry).size();
  } catch (const simulator::ParseError&) {
    return;
  }
  if (wanted && *wanted == given) return;
  if (wanted) {
    throw core::UsageError(fmt::format(
        "{} of {} takes {} argument{}, and {} {} given: repeat --arg in their order, "
        "buffer:BYTES, i32:N, i64:N, f32:X or f64:X",
        entry, path, *wanted, *wanted == 1 ? "" : "s", given, given == 1 ? "is" : "are"));
  }
  if (entries.empty()) {
    throw core::UsageError(fmt::format("{} has no kernel at all, so not --entry {}: a kernel is a "
                                       "function declared with .entry",
                                       path, entry));
  }
  const std::string nearest =
      core::nearest_name(entry, std::vector<std::string_view>(entries.begin(), entries.end()));
  const std::size_t more = entries.size() - std::min(entries.size(), kListed);
  entries.resize(entries.size() - more);
  throw core::UsageError(fmt::format(
      "{} has no kernel '{}'{} --entry takes one of {}{}", path, entry,
      nearest.empty() ? ":" : ", did you mean '" + nearest + "'?", fmt::join(entries, ", "),
      more == 0 ? "" : fmt::format(" and {} more (grep '.entry' {})", more, path)));
}

int race_file(const Context& context, const std::string& path) {
  const Options& options = context.options;
  if (options.words.size() > 1 || !options.variant.empty() || !options.config.empty() ||
      options.trials > 0) {
    throw core::UsageError("race FILE.ptx takes --entry, --grid, --block, --shared, --arg and "
                           "--schedules: k=v, --variant, --config and --trials are of subjects");
  }
  if (options.entry.empty()) {
    throw core::UsageError("which kernel of " + path +
                           "? --entry NAME (and --grid, --block, --arg)");
  }
  core::LaunchOperation launch;
  launch.module = load_ptx(path);
  require_entry(*launch.module, path, options.entry, options.arguments.size());
  require_memory_for(options.arguments);
  Run run(context, "race");
  auto backend = choose_backend("simulator", options.timeout_s);
  run.use_backend(backend->info());

  launch.entry = options.entry;
  launch.grid = parse_extents(options.grid, "--grid");
  launch.block = parse_extents(options.block, "--block");
  launch.dynamic_shared_bytes = options.shared_bytes;
  std::vector<core::BufferHandle> buffers;
  for (const auto& argument : options.arguments) {
    launch.arguments.push_back(parse_argument(argument, *backend, buffers));
  }
  core::Program program{.name = options.entry};
  program.add(launch);
  run.use_modules(program);
  run.identify_results();
  Work work(context);
  const std::atomic<bool>& stop = *work.run_options().stop;
  backend = run.keep_results(std::move(backend), &stop);

  core::RunRecord& record = run.record();
  record.subject = std::filesystem::path(path).filename().string();
  record.variant = options.entry;
  record.problem = fmt::format("{} grid={} block={} shared={}", record.subject, options.grid,
                               options.block, options.shared_bytes);
  const std::uint64_t schedules = options.schedules ? options.schedules : stress::kRaceSchedules;
  record.analysis_plan = fmt::format("{} schedules; races, deadlocks and faults only: a file has "
                                     "no reference, so values are not judged",
                                     schedules);

  core::Evidence evidence;
  evidence.subject = record.subject;
  evidence.variant = record.variant;
  evidence.problem = record.problem;
  evidence.backend = backend->info().name;
  evidence.backend_is_model = backend->info().is_model;
  evidence.mode = "race";
  const auto checkpoint = run.checkpoint();
  for (std::uint64_t i = 0; i < schedules && !stop; ++i) {
    core::ArmEvidence arm;
    arm.perturbation = stress::race_schedule(i);
    // Each schedule by itself: not on what the one before left.
    for (const core::BufferHandle& buffer : buffers) backend->fill(buffer, 0);
    const core::ExecutionReport report =
        backend->execute(program, buffers, arm.perturbation,
                         core::mix64(core::trial_seed(options.seed, i)), race_mode(options));
    arm.result.trials = 1;
    arm.result.races = report.races;
    arm.result.status = report.status;
    arm.result.message = report.message;
    arm.result.details = report.details;
    arm.result.accesses = report.accesses;
    const auto is_error = [](const core::RaceReport& race) { return !race.note_only; };
    arm.result.raced = std::any_of(report.races.begin(), report.races.end(), is_error);
    arm.result.abnormal = report.status == core::ExecutionStatus::deadlock ||
                          report.status == core::ExecutionStatus::fault ||
                          report.status == core::ExecutionStatus::timeout;
    arm.result.failed = arm.result.raced || arm.result.abnormal;
    arm.wilson95 = stress::wilson_interval(arm.result.failed, arm.result.trials);
    arm.upper95 = stress::zero_failure_upper_bound(arm.result.trials);
    for (const auto& race : report.races) diagnosis::merge_race(evidence.races, race);
    evidence.arms.push_back(std::move(arm));
    if (checkpoint) {
      core::Evidence so_far = evidence;
      so_far.interrupted = true;
      checkpoint(so_far);
    }
    if (report.status == core::ExecutionStatus::unsupported ||
        report.status == core::ExecutionStatus::out_of_time ||
        report.status == core::ExecutionStatus::timeout) {
      break;  // the other schedules would tell nothing, or take as long
    }
  }
  diagnosis::sort_races(evidence.races);
  evidence.interrupted = stop;
  work.finish();
  for (const auto& buffer : buffers) backend->release(buffer);
  return run.finish(std::move(evidence));
}

}  // namespace

int race_command(const Context& context) {
  const Options& options = context.options;
  if (options.no_race) {
    throw core::UsageError("race --no-race would check nothing: leave --no-race out");
  }
  const std::string& word = options.subject();
  if (word.size() > 4 && word.ends_with(".ptx")) return race_file(context, word);
  const Options plain;
  if (!options.entry.empty() || !options.arguments.empty() || options.shared_bytes > 0 ||
      options.grid != plain.grid || options.block != plain.block) {
    throw core::UsageError(fmt::format("--entry, --grid, --block, --shared and --arg are for race "
                                       "FILE.ptx, and '{}' is taken for a subject: leave them out, "
                                       "or give a file whose name ends in .ptx",
                                       word));
  }
  if (options.schedules > 0 && options.trials > 0) {
    throw core::UsageError("--schedules and --trials mean the same for race: give one");
  }
  if (options.backend == "cuda") {
    throw core::UsageError("race runs on the simulator: a GPU cannot order accesses; "
                           "`faultline stress --backend cuda` looks for wrong values there");
  }
  const auto trial = kernels::resolve(context.registry, subject_and_variant(options),
                                      options.problem_values(), options.config_values());
  Run run(context, "race");
  auto backend = choose_backend("simulator");
  require_memory(trial.plan, backend->info(), race_mode(options));
  run.use_backend(backend->info());
  run.identify(trial);

  Work work(context);
  stress::RaceOptions race;
  if (options.schedules > 0) race.trials = options.schedules;
  if (options.trials > 0) race.trials = options.trials;
  race.seed = options.seed;
  race.data = options.data_mode();
  race.mode = race_mode(options);
  race.run = work.run_options();
  race.run.checkpoint = run.checkpoint();
  backend = run.keep_results(std::move(backend), race.run.stop);
  run.record().analysis_plan = fmt::format(
      "{} schedule{}, happens-before detection{}", race.trials, race.trials == 1 ? "" : "s",
      options.lenient ? "; a missing proxy fence alone is a note" : "");
  core::Evidence evidence = stress::run_race(*backend, trial, race);
  work.finish();
  return run.finish(std::move(evidence));
}

}  // namespace faultline::app
