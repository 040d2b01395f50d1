// SPDX-License-Identifier: Apache-2.0
#include "faultline/stress/verify.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "captured_tiles.hpp"
#include "examine_terms.hpp"
#include "faultline/core/acceptance.hpp"
#include "faultline/core/errors.hpp"
#include "faultline/diagnosis/cell_text.hpp"
#include "faultline/diagnosis/experiment.hpp"
#include "faultline/diagnosis/growth.hpp"
#include "faultline/diagnosis/totals.hpp"
#include "faultline/stress/captures.hpp"
#include "faultline/stress/ptx_delay.hpp"
#include "faultline/stress/replay.hpp"
#include "reference_limits.hpp"
#include "run_arm.hpp"

namespace faultline::stress {
namespace {

struct Cell {
  core::TrialPlan base;  ///< the subject's plan
  core::TrialPlan plan;  ///< what runs: `base`, or with its intermediates as outputs
  core::ConfigEvidence evidence;
  core::TrialRequest request;
};

/// Positions at which the error vectors of all configs of a problem are compared: wrong elements of
/// the first failing config, and a stride over the whole output.
struct ErrorSample {
  std::uint64_t input_seed = 0;
  std::size_t output = 0;  ///< among the outputs
  std::vector<std::int64_t> positions;
  core::ReferenceTensor reference;

  bool ready() const { return !positions.empty(); }

  void choose(const core::TrialPlan& plan, core::DataMode data, const core::Capture& capture) {
    constexpr std::size_t kWrong = 256;
    constexpr std::int64_t kStride = 64;
    std::vector<core::ReferenceTensor> references =
        plan.reference(make_inputs(plan, data, capture.input_seed));
    const std::vector<std::uint32_t> outputs = plan.output_indices();
    const core::PoisonMap poisons(plan.buffers);
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      const core::Tensor& got = capture.outputs[o];
      const core::ElementPoison poison(poisons, outputs[o], capture.poison);
      std::vector<std::int64_t> wrong;
      for (std::int64_t i = 0; i < got.size(); ++i) {
        const auto n = static_cast<std::size_t>(i);
        const core::ElementClass kind =
            core::check_element(got.dtype, got.bits(i), references[o].expected[n],
                                references[o].bound[n], poison[i])
                .kind;
        if (core::is_failure(kind) && kind != core::ElementClass::no_reference) {
          wrong.push_back(i);
        }
      }
      if (wrong.empty()) continue;
      const std::size_t step = std::max<std::size_t>(1, wrong.size() / kWrong);
      for (std::size_t i = 0; i < wrong.size(); i += step) positions.push_back(wrong[i]);
      for (std::int64_t i = 0; i < kStride; ++i) positions.push_back(got.size() * i / kStride);
      std::sort(positions.begin(), positions.end());
      positions.erase(std::unique(positions.begin(), positions.end()), positions.end());
      input_seed = capture.input_seed;
      output = o;
      reference = std::move(references[o]);
      return;
    }
  }

  std::vector<double> take(const core::TrialResult& result) const {
    const auto capture =
        std::find_if(result.captures.begin(), result.captures.end(),
                     [&](const core::Capture& c) { return c.input_seed == input_seed; });
    std::vector<double> errors;
    if (capture == result.captures.end()) return errors;
    const core::Tensor& got = capture->outputs[output];
    for (std::int64_t i : positions) {
      errors.push_back(got.at(i) - reference.expected[static_cast<std::size_t>(i)]);
    }
    return errors;
  }
};

class Sweep {
 public:
  Sweep(core::Backend& backend, const kernels::Subject& subject, const kernels::Variant& variant,
        const VerifyOptions& options)
      : backend_(backend), subject_(subject), variant_(variant), options_(options) {}

  core::Evidence run(const std::vector<core::Problem>& problems) {
    core::Evidence evidence;
    evidence.subject = subject_.name;
    evidence.variant = variant_.name;
    evidence.backend = backend_.info().name;
    evidence.backend_is_model = backend_.info().is_model;
    evidence.declared_deterministic = subject_.deterministic;
    evidence.mode = "verify";
    evidence.hypothesis = variant_.hypothesis;
    if (!problems.empty()) evidence.problem = problems.front().line();
    for (const core::Problem& problem : problems) {
      total_ += options_.trials * configs_of(problem).size();
    }
    for (const core::Problem& problem : problems) {
      if (detail::stopped(options_.run)) break;
      run_problem(problem, evidence, "");
    }
    follow_up(problems, evidence);
    evidence.interrupted = detail::stopped(options_.run);
    diagnosis::sort_races(evidence.races);
    evidence.growth = diagnosis::growth_of(evidence.configs);
    return evidence;
  }

 private:
  std::vector<core::Config> configs_of(const core::Problem& problem) const {
    return options_.configs.empty() ? subject_.configs(problem, variant_.name) : options_.configs;
  }

  /// What diagnosis asks for to tell the likeliest explanations apart, as far as a sweep can give
  /// it: the first failure repeated on its own inputs, and a size without a tail.
  void follow_up(const std::vector<core::Problem>& problems, core::Evidence& evidence) {
    using Kind = diagnosis::Experiment::Kind;
    constexpr int kFollowUps = 2;
    bool repeated = false;
    for (int i = 0; i < kFollowUps && lost_to_.empty() && !detail::stopped(options_.run); ++i) {
      const std::optional<diagnosis::Experiment> next = diagnosis::next_experiment(evidence);
      if (next && next->kind == Kind::repeat_fixed_inputs && first_failure_ && !repeated) {
        repeated = true;
        repeat(*first_failure_, evidence);
      } else if (next && next->kind == Kind::whole_tiles) {
        const std::optional<core::Problem> control = whole_tiles(problems);
        if (!control) {
          detail::add_not_examined(
              evidence,
              "a size that is a multiple of the tile: the domain of the problem has none");
          return;
        }
        total_ += options_.trials * configs_of(*control).size();
        run_problem(*control, evidence, "control without a tail: " + next->reason);
      } else {
        return;
      }
    }
  }

  /// The trial that failed first, of the smallest cell that did, again and again: with its inputs,
  /// under other schedules or beside memory traffic. Values that differ then depend on timing.
  void repeat(const Cell& failing, core::Evidence& evidence) {
    const bool model = backend_.info().is_model;
    std::vector<core::Perturbation> arms;
    // Where races were looked for, none was reported: the poison is what is left to ask about.
    const bool checked = failing.request.race != core::RaceMode::off;
    if (model) {
      for (const auto& [policy, lateness] :
           {std::pair(core::SchedulePolicy::random, core::CopyLateness::random),
            std::pair(core::SchedulePolicy::pct, core::CopyLateness::lazy),
            std::pair(core::SchedulePolicy::round_robin, core::CopyLateness::eager)}) {
        core::Perturbation arm;
        arm.policy = policy;
        arm.lateness = lateness;
        arm.name = fmt::format("repeat_{}_{}", name_of(policy), name_of(lateness));
        arms.push_back(arm);
      }
      if (checked) arms.pop_back();
    } else {
      // Shared memory as it is in both of which the rates are compared.
      arms.push_back({.name = "repeat"});
      if (failing.request.perturbation.dirty_shared) {
        arms.push_back({.name = "repeat_dirty_shared", .dirty_shared = true});
      }
      arms.push_back(
          {.name = "repeat_memory_stress", .co_resident = core::CoResident::memory_stress});
    }
    const core::TrialPlan plan = core::with_kept_reference(failing.plan);
    const std::size_t first_arm = evidence.arms.size();
    for (const core::Perturbation& arm : arms) {
      if (detail::stopped(options_.run)) break;
      core::TrialRequest request = failing.request;
      request.seed = seed_for_inputs(
          core::trial_seed(options_.seed, failing.evidence.result.first_failed_trial));
      // One or two of every poison for each schedule.
      request.count = !model ? 200 : checked ? 3 : 6;
      request.race = core::RaceMode::off;
      request.perturbation = arm;
      request.access_statistics = false;
      core::TrialResult result = detail::run_safely(backend_, plan, request);
      if (result.skipped || result.status == core::ExecutionStatus::error ||
          result.status == core::ExecutionStatus::unsupported) {
        detail::add_not_examined(
            evidence,
            fmt::format("the failure of {} repeated as '{}': {}",
                        diagnosis::cell_text(failing.evidence.problem, failing.evidence.config),
                        arm.name, result.note.empty() ? result.message : result.note));
        continue;
      }
      if (result.note.empty()) {
        result.note =
            fmt::format("{}, the inputs of its first failure every time",
                        diagnosis::cell_text(failing.evidence.problem, failing.evidence.config));
      }
      for (const core::RaceReport& race : result.races) {
        diagnosis::merge_race(evidence.races, race);
      }
      evidence.arms.push_back(detail::make_arm(evidence.backend, plan, request, std::move(result)));
    }
    add_pairs(plan, std::span(evidence.arms).subspan(first_arm), evidence);
    for (std::size_t i = first_arm; i < evidence.arms.size(); ++i) {
      detail::add_captured_tiles(plan, options_.data, evidence.arms[i].result);
      evidence.arms[i].result.captures.clear();
    }
    evidence.repeat = detail::repeat_of(evidence.arms);
  }

  /// Pairs of failing trials among the repeats, of like with like: where shared memory is not
  /// dirtied it holds what it holds, and where every trial is wrong once it is, only those tell.
  void add_pairs(const core::TrialPlan& plan, std::span<const core::ArmEvidence> arms,
                 core::Evidence& evidence) const {
    std::vector<const core::TrialResult*> dirtied, others;
    for (const core::ArmEvidence& arm : arms) {
      (arm.perturbation.dirty_shared ? dirtied : others).push_back(&arm.result);
    }
    const auto all_wrong = [](const core::TrialResult* result) {
      return result->trials > 0 && result->wrong_values == result->trials;
    };
    if (!dirtied.empty() && std::all_of(dirtied.begin(), dirtied.end(), all_wrong)) others.clear();
    for (const auto& alike : {dirtied, others}) {
      if (alike.empty()) continue;
      const CaptureExamination captures = examine_captures(plan, options_.data, alike);
      if (!captures.shape || !evidence.error_shape) continue;
      evidence.error_shape->same_poison_pairs += captures.shape->same_poison_pairs;
      evidence.error_shape->same_poison_differing += captures.shape->same_poison_differing;
      evidence.error_shape->other_poison_pairs += captures.shape->other_poison_pairs;
      evidence.error_shape->other_poison_differing += captures.shape->other_poison_differing;
    }
  }

  /// The failing problem with the length of its reduction raised to the next multiple of the tiles
  /// of all its configs (lowered where the domain ends): no less work than where it failed, so that
  /// an error which grows with the length does not vanish and look like a tail.
  std::optional<core::Problem> whole_tiles(const std::vector<core::Problem>& problems) const {
    if (!first_failure_ || !subject_.lengths) return std::nullopt;
    const auto failing = std::find_if(problems.begin(), problems.end(), [&](const auto& problem) {
      return problem.values.line() == first_failure_->evidence.problem;
    });
    if (failing == problems.end()) return std::nullopt;
    const auto lengths = [&](const core::Problem& problem, const core::Config& config) {
      return subject_.lengths(problem, variant_.name, config);
    };
    std::int64_t tile = 1;
    for (const core::Config& config : configs_of(*failing)) {
      tile = std::lcm(tile, std::max<std::int64_t>(lengths(*failing, config).tile_k, 1));
    }
    const std::int64_t length = first_failure_->evidence.reduction;
    const std::string text = std::to_string(length);
    for (const std::int64_t whole : {(length / tile + 1) * tile, length / tile * tile}) {
      if (whole <= 0) continue;
      for (const auto& [name, value] : failing->values.values()) {
        if (value != text) continue;
        core::Problem control = *failing;
        control.values.set(name, whole);
        try {
          control.values = core::complete(subject_.problem_domain, control.values.values(),
                                          "control problem of " + subject_.name);
          const std::vector<core::Config> configs = configs_of(control);
          // Another parameter may have had that value.
          if (lengths(control, configs.front()).reduction == whole) return control;
        } catch (const core::UsageError&) {
          continue;  // not in the domain
        }
      }
    }
    return std::nullopt;
  }

  /// Keep the failing cell with the fewest elements: repeating it costs least.
  void keep_failure(const Cell& cell) {
    const core::TrialResult& result = cell.evidence.result;
    if (result.wrong_values == 0 || result.first_failed_trial == ~0ull) return;
    const std::int64_t elements = detail::elements_of(cell.base);
    if (first_failure_ && detail::elements_of(first_failure_->base) <= elements) return;
    first_failure_ = cell;
    first_failure_->evidence.result.captures.clear();
  }

  /// `why`: what a problem that diagnosis asked for is there for; empty: it was asked for.
  void run_problem(const core::Problem& problem, core::Evidence& evidence, const std::string& why) {
    ErrorSample sample;
    bool null_outputs_tried = false, terms_examined = false;
    for (const core::Config& config : configs_of(problem)) {
      if (detail::stopped(options_.run)) return;
      Cell cell;
      cell.evidence.problem = problem.values.line();
      cell.evidence.config = config.line();
      if (!lost_to_.empty()) {
        cell.evidence.result = detail::not_run_without_device(lost_to_);
        evidence.configs.push_back(std::move(cell.evidence));
        continue;
      }
      try {
        cell.base = subject_.plan(problem, variant_.name, config);
        cell.plan = options_.intermediates ? core::with_intermediates(cell.base) : cell.base;
      } catch (const core::UsageError& e) {
        cell.evidence.result.skipped = true;
        cell.evidence.result.note = e.what();
        evidence.configs.push_back(std::move(cell.evidence));
        continue;
      }
      kernels::check_plan(cell.plan);
      detail::require_data_mode(options_.data, cell.plan);
      evidence.declared_deterministic &= cell.plan.declared_deterministic;
      if (evidence.declared_weakness.empty()) {
        evidence.declared_weakness = variant_.declared_weakness(problem.values, config);
      }
      if (!null_outputs_tried) {
        null_outputs_tried = true;
        detail::try_null_outputs(cell.base, options_.data, options_.seed,
                                 options_.null_check_elements, evidence);
        detail::note_asynchronous_instructions(evidence, cell.plan.program(1));
        detail::note_sparse_workspaces(evidence, cell.plan);
      }
      if (const std::string violation = contract_violation(cell.base); !violation.empty()) {
        // Nothing that ran on such inputs could be held against the kernel.
        evidence.contract_violations.push_back(
            fmt::format("{} ({})", violation, problem.values.line()));
        cell.evidence.result.skipped = true;
        cell.evidence.result.note = "outside the contract: " + violation;
        evidence.configs.push_back(std::move(cell.evidence));
        return;
      }
      if (detail::stopped(options_.run)) return;  // references of large problems take their time
      run_cell(problem, config, cell);
      if (!why.empty()) {
        std::string& note = cell.evidence.result.note;
        note = note.empty() ? why : why + "; " + note;
      }
      if (detail::stopped(options_.run)) {
        finish_cell(cell, evidence);
        return;
      }
      // After the trials: a reference that is kept is at hand then.
      detail::add_reference_limits(evidence, cell.base, options_.data,
                                   core::trial_seed(options_.seed, 0), options_.null_check_elements,
                                   cell.evidence.problem, cell.evidence.config);
      add_sample(cell, sample);
      if (options_.intermediates) {
        add_intermediates(cell, evidence);
        detail::add_intermediate_limits(
            evidence, cell.base, options_.data, core::trial_seed(options_.seed, 0),
            options_.null_check_elements, cell.evidence.problem, cell.evidence.config);
      }
      // What could be seen differs little between configs; what was wrong is asked of each.
      if (cell.evidence.result.wrong_values > 0 || !terms_examined) {
        add_cell_terms(cell, evidence);
        terms_examined = true;
      }
      finish_cell(cell, evidence);
    }
  }

  /// Move what the cell found into the evidence. Of a cell that the run was stopped in these are
  /// its finished trials; the evidence as a whole is then interrupted, and no pass.
  void finish_cell(Cell& cell, core::Evidence& evidence) {
    core::TrialResult& result = cell.evidence.result;
    for (const core::RaceReport& race : result.races) {
      diagnosis::merge_race(evidence.races, race);
    }
    diagnosis::merge_accesses(evidence.accesses, result.accesses);
    note_shared_memory(cell, evidence);
    if (result.failed > 0) add_captures(cell, evidence);
    detail::add_captured_tiles(cell.plan, options_.data, result);
    result.captures.clear();  // examined, they have served
    keep_failure(cell);
    evidence.configs.push_back(std::move(cell.evidence));
    checkpoint(evidence);
  }

  /// On a device shared memory holds what others have left, unless it was dirtied.
  void note_shared_memory(const Cell& cell, core::Evidence& evidence) const {
    const core::TrialResult& result = cell.evidence.result;
    if (backend_.info().is_model || result.trials == 0) return;
    const std::string what = "what a launch reads of shared memory that it has not written";
    const core::Program program = cell.plan.program(1);
    if (!cell.request.perturbation.dirty_shared) {
      if (!uses_shared_memory(program)) return;
      detail::add_not_examined(evidence, fmt::format("{}: {}", what, why_not_dirtied(program)));
    } else if (!result.overlap_proven) {
      detail::add_not_examined(
          evidence,
          fmt::format("{}, of {}: {}", what,
                      diagnosis::cell_text(cell.evidence.problem, cell.evidence.config),
                      result.note.empty() ? "it is not proven that it was dirtied" : result.note));
    }
  }

  void checkpoint(const core::Evidence& evidence) const {
    if (!options_.run.checkpoint) return;
    core::Evidence so_far = evidence;
    so_far.interrupted = true;
    options_.run.checkpoint(so_far);
  }

  /// The first thing that the inputs of one of the trials to come have against the subject's
  /// contract; empty: nothing.
  std::string contract_violation(const core::TrialPlan& plan) const {
    if (!plan.contract) return {};
    for (std::uint64_t trial = 0; trial < options_.trials; ++trial) {
      const std::vector<std::string> violations =
          plan.contract(make_inputs(plan, options_.data, core::trial_seed(options_.seed, trial)));
      if (!violations.empty()) return violations.front();
    }
    return {};
  }

  void run_cell(const core::Problem& problem, const core::Config& config, Cell& cell) {
    core::TrialRequest& request = cell.request;
    request.seed = options_.seed;
    request.count = options_.trials;
    request.data = options_.data;
    request.perturbation.name = "verify";
    request.perturbation.fresh_inputs = true;
    // As the simulator does by itself: what is read before it is written follows the poison.
    request.perturbation.dirty_shared =
        !backend_.info().is_model && why_not_dirtied(cell.plan.program(1)).empty();
    request.race = backend_.info().is_model ? options_.race : core::RaceMode::off;
    request.access_statistics = backend_.info().is_model;
    request.capture_limit = options_.run.capture_limit;
    request.timeout_s = options_.run.timeout_s;
    request.stop = options_.run.stop;
    const std::string name = diagnosis::cell_text(cell.evidence.problem, cell.evidence.config);
    const std::uint64_t done = done_, failed = failed_;
    if (options_.run.progress) {
      options_.run.progress({name, done, total_, failed});
      request.progress = [&](std::uint64_t d, std::uint64_t f) {
        options_.run.progress({name, done + d, total_, failed + f});
      };
    }
    core::TrialResult& result = cell.evidence.result;
    result = detail::run_safely(backend_, cell.plan, request);
    if (detail::takes_the_device(backend_.info(), result)) {
      lost_to_ = fmt::format(
          "{} of {}", result.status == core::ExecutionStatus::timeout ? "hang" : "fault", name);
    }
    request.progress = nullptr;
    done_ += options_.trials;
    failed_ += result.failed;

    cell.evidence.failed = result.failed > 0;
    const kernels::TileLengths lengths = subject_.lengths
                                             ? subject_.lengths(problem, variant_.name, config)
                                             : kernels::TileLengths{};
    cell.evidence.tile_k = lengths.tile_k;
    cell.evidence.reduction = lengths.reduction;
    cell.evidence.tile_rows = lengths.tile_rows;
    cell.evidence.rows = lengths.rows;
    if (result.failed > 0 && result.first_failed_trial != ~0ull) {
      cell.evidence.token =
          detail::token_text(backend_.info().name, cell.plan, request, result.first_failed_trial);
    }
  }

  void add_sample(Cell& cell, ErrorSample& sample) const {
    const core::TrialResult& result = cell.evidence.result;
    if (result.captures.empty() || !cell.plan.reference) return;
    if (!sample.ready()) sample.choose(cell.plan, options_.data, result.captures.front());
    if (sample.ready()) cell.evidence.error_sample = sample.take(result);
  }

  void add_cell_terms(Cell& cell, core::Evidence& evidence) const {
    const bool wrong = cell.evidence.result.wrong_values > 0;
    if (!cell.base.error_hypotheses) return;
    if (!wrong && detail::elements_of(cell.base) > options_.null_check_elements) {
      detail::add_not_examined(evidence,
                               detail::not_examined_text("which named terms could be seen",
                                                         cell.base, options_.null_check_elements));
      return;
    }
    const std::vector<std::uint32_t> compared = cell.plan.output_indices();
    std::vector<std::size_t> captured;
    for (const std::uint32_t index : cell.base.output_indices()) {
      captured.push_back(static_cast<std::size_t>(
          std::find(compared.begin(), compared.end(), index) - compared.begin()));
    }
    std::string trouble;
    detail::add_terms(evidence,
                      detail::examine_terms(cell.base, options_.data, {&cell.evidence.result},
                                            core::trial_seed(options_.seed, 0), captured, trouble),
                      cell.evidence.problem, cell.evidence.config);
    std::string& note = cell.evidence.result.note;
    if (!trouble.empty()) note += (note.empty() ? "" : "; ") + trouble;
  }

  /// The intermediates in the order of the algorithm, then the outputs.
  void add_intermediates(const Cell& cell, core::Evidence& evidence) const {
    const std::vector<std::uint32_t> compared = cell.plan.output_indices();
    std::vector<std::uint32_t> order = cell.base.intermediates;
    const std::vector<std::uint32_t> outputs = cell.base.output_indices();
    order.insert(order.end(), outputs.begin(), outputs.end());
    for (std::size_t n = 0; n < order.size(); ++n) {
      const auto place = static_cast<std::size_t>(
          std::find(compared.begin(), compared.end(), order[n]) - compared.begin());
      if (place >= cell.evidence.result.outputs.size()) continue;  // the run broke before it
      const core::OutputTotals& totals = cell.evidence.result.outputs[place];
      core::IntermediateEvidence row;
      row.problem = cell.evidence.problem;
      row.config = cell.evidence.config;
      row.name = totals.name;
      row.is_output = n >= cell.base.intermediates.size();
      row.compared = totals.compared_elements;
      row.wrong = totals.bad_elements;
      row.worst_ratio = totals.worst_ratio;
      row.tile_axis = totals.geometry.tile_axis;
      row.tiles = totals.geometry.tiles_per_group > 0 ? totals.geometry.tiles_per_group
                                                      : totals.geometry.tile_count();
      for (std::size_t t = 0; t < totals.tiles.size(); ++t) {
        if (totals.tiles[t].bad_elements == 0) continue;
        const std::int64_t at = totals.geometry.position_of(static_cast<std::int64_t>(t));
        row.first_tile = row.first_tile < 0 ? at : std::min(row.first_tile, at);
        row.last_tile = std::max(row.last_tile, at);
      }
      evidence.intermediates.push_back(std::move(row));
    }
  }

  /// Provenance and error shape of the first failing cell that has any; the cells after it are much
  /// alike, and tiles of different shapes do not add up.
  void add_captures(const Cell& cell, core::Evidence& evidence) const {
    if (evidence.error_shape) return;
    CaptureExamination captures =
        examine_captures(cell.plan, options_.data, {&cell.evidence.result});
    evidence.provenance = std::move(captures.provenance);
    evidence.error_shape = captures.shape;
    evidence.alternatives = std::move(captures.alternatives);
    evidence.readings = std::move(captures.readings);
    evidence.footprints = std::move(captures.footprints);
    evidence.templates = std::move(captures.templates);
  }

  core::Backend& backend_;
  const kernels::Subject& subject_;
  const kernels::Variant& variant_;
  const VerifyOptions& options_;
  std::uint64_t total_ = 0, done_ = 0, failed_ = 0;
  std::string lost_to_;  ///< what took the device: "hang of n=64 [stages=1]"; empty: nothing
  std::optional<Cell> first_failure_;
};

}  // namespace

core::Evidence run_verify(core::Backend& backend, const kernels::Subject& subject,
                          const kernels::Variant& variant,
                          const std::vector<core::Problem>& problems,
                          const VerifyOptions& options) {
  return Sweep(backend, subject, variant, options).run(problems);
}

}  // namespace faultline::stress
