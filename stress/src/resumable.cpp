// SPDX-License-Identifier: Apache-2.0
#include "faultline/stress/resumable.hpp"

#include <algorithm>
#include <map>
#include <utility>
#include <variant>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "faultline/core/errors.hpp"
#include "faultline/core/generator.hpp"
#include "faultline/core/run_record.hpp"
#include "run_arm.hpp"

namespace faultline::stress {
namespace {

constexpr const char* kTrials = "trials";  ///< a request that was carried out whole
constexpr const char* kPiece = "piece";    ///< the beginning of one: the campaign paused
constexpr const char* kRow = "row";

/// One result as the JSON of a record, whose writer and reader know every field.
std::string to_text(const core::TrialResult& result) {
  core::RunRecord record;
  record.evidence.arms.emplace_back().result = result;
  return core::to_json(record);
}

core::TrialResult result_from(const std::string& text) {
  core::RunRecord record = core::record_from_json(text);
  if (record.evidence.arms.size() != 1) throw core::UsageError("not one result");
  return std::move(record.evidence.arms.front().result);
}

std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = core::mix64(text.size());
  for (const char c : text) hash = core::mix64(hash ^ static_cast<unsigned char>(c));
  return hash;
}

std::string to_text(const core::Argument& argument) {
  if (const auto* buffer = std::get_if<core::BufferArgument>(&argument)) {
    return fmt::format("b{}+{}", buffer->buffer, buffer->byte_offset);
  }
  if (const auto* scalar = std::get_if<core::ScalarArgument>(&argument)) {
    return fmt::format("s{}:{:x}", scalar->size, scalar->bits);
  }
  const auto& map = std::get<core::TensorMapArgument>(argument);
  return fmt::format("m{}+{} {} {} {} {} {} {}", map.buffer, map.byte_offset,
                     core::name_of(map.dtype), map.rank, fmt::join(map.dims, ","),
                     fmt::join(map.strides_bytes, ","), fmt::join(map.box, ","),
                     static_cast<int>(map.swizzle));
}

/// Which code runs how: the operations, with the hash of each kernel's module.
std::uint64_t hash_of(const core::Program& program) {
  std::string text;
  for (const core::Operation& operation : program.operations) {
    text += fmt::format("{} {}", operation.what.index(), operation.stream);
    if (const auto* launch = std::get_if<core::LaunchOperation>(&operation.what)) {
      text += fmt::format(" {} {} {} {} {} {} {}", launch->module ? launch->module->hash : "",
                          launch->entry, fmt::join(launch->grid, ","),
                          fmt::join(launch->block, ","), fmt::join(launch->cluster, ","),
                          launch->dynamic_shared_bytes, launch->reload_module);
      for (const core::Argument& argument : launch->arguments) text += " " + to_text(argument);
    }
    text += '\n';
  }
  return hash_of(text);
}

/// All that decides the result, but for which trials.
std::string key_of(const core::TrialPlan& plan, const core::TrialRequest& request) {
  return fmt::format(
      "{}@{} {} [{}] outputs {} program {:016x} seed {} data {} race {} captures {} gate {} "
      "accesses {} {}",
      plan.subject, plan.variant, plan.problem.values.line(), plan.config.line(),
      fmt::join(plan.output_indices(), ","), hash_of(plan.program(1)), request.seed,
      core::name_of(request.data), core::name_of(request.race), request.capture_limit,
      request.gate_samples, request.access_statistics, core::to_text(request.perturbation));
}

/// A whole result answers for as many trials as were asked for, and no other number.
std::string with_trials(const std::string& key, const core::TrialRequest& request) {
  return fmt::format("{} trials {} to {}", key, request.first_trial,
                     request.first_trial + request.count);
}

/// A run that is continued has the machine's trouble behind it.
bool worth_keeping(const core::TrialResult& result) {
  constexpr std::size_t kMostCaptured = std::size_t{32} << 20;
  if (result.status == core::ExecutionStatus::error ||
      result.status == core::ExecutionStatus::out_of_time) {
    return false;
  }
  std::size_t captured = 0;
  for (const core::Capture& capture : result.captures) {
    for (const core::Tensor& output : capture.outputs) captured += output.bytes.size();
  }
  return captured <= kMostCaptured;
}

class Resumable final : public core::Backend {
 public:
  Resumable(std::unique_ptr<core::Backend> inner, store::Journal& journal,
            const std::atomic<bool>* stop, std::function<void(const std::string&)> trouble,
            std::uint64_t most_bytes)
      : inner_(std::move(inner)),
        journal_(journal),
        stop_(stop),
        trouble_(std::move(trouble)),
        most_bytes_(most_bytes) {
    for (const store::JournalEntry& entry : journal.entries()) {
      if (entry.kind == kTrials || entry.kind == kPiece) earlier_[entry.key] = &entry;
    }
  }

  const core::BackendInfo& info() const override { return inner_->info(); }
  core::BufferHandle allocate(const std::string& name, std::size_t bytes) override {
    return inner_->allocate(name, bytes);
  }
  void release(core::BufferHandle buffer) override { inner_->release(buffer); }
  void upload(core::BufferHandle buffer, std::span<const std::byte> bytes) override {
    inner_->upload(buffer, bytes);
  }
  void download(core::BufferHandle buffer, std::span<std::byte> bytes) override {
    inner_->download(buffer, bytes);
  }
  void fill(core::BufferHandle buffer, std::uint32_t word) override { inner_->fill(buffer, word); }
  Timing time_program(const core::TrialPlan& plan, const TimingRequest& request) override {
    return inner_->time_program(plan, request);
  }

  core::ExecutionReport execute(const core::Program& program,
                                std::span<const core::BufferHandle> bindings,
                                const core::Perturbation& perturbation, std::uint64_t schedule_seed,
                                core::RaceMode race) override {
    const std::string key =
        numbered(fmt::format("program {:016x} race {} schedule {} {}", hash_of(program),
                             core::name_of(race), schedule_seed, core::to_text(perturbation)));
    core::ExecutionReport report;
    if (const auto kept = take(key)) {
      report.status = kept->result.status;
      report.message = kept->result.message;
      report.details = kept->result.details;
      report.races = kept->result.races;
      report.accesses = kept->result.accesses;
      report.thread_instructions = kept->result.thread_instructions;
      return report;
    }
    report = inner_->execute(program, bindings, perturbation, schedule_seed, race);
    core::TrialResult result;
    result.trials = 1;
    result.status = report.status;
    result.message = report.message;
    result.details = report.details;
    result.races = report.races;
    result.accesses = report.accesses;
    result.thread_instructions = report.thread_instructions;
    keep(kTrials, key, result);
    return report;
  }

  core::TrialResult run_trials(const core::TrialPlan& plan,
                               const core::TrialRequest& request) override {
    const std::string key = key_of(plan, request);
    core::TrialResult all;
    core::TrialRequest rest = request;
    bool any = false;
    const auto add = [&](core::TrialResult part) {
      if (any) {
        detail::add_block(all, part, request.perturbation.fresh_inputs, request.capture_limit);
      } else {
        all = std::move(part);
      }
      any = true;
    };
    std::string asked;
    while (rest.count > 0) {
      asked = numbered(with_trials(key, rest));
      auto kept = take(asked);
      if (!kept) break;
      const std::uint64_t trials = kept->result.trials;
      add(std::move(kept->result));
      if (request.progress) request.progress(all.trials, all.failed);
      if (!kept->is_piece) return all;
      rest.first_trial += trials;
      rest.count -= std::min(trials, rest.count);
    }
    if (rest.count == 0) return all;
    if (any && request.progress) {
      rest.progress = [&](std::uint64_t done, std::uint64_t failed) {
        request.progress(all.trials + done, all.failed + failed);
      };
    }
    core::TrialResult now = inner_->run_trials(plan, rest);
    const bool cut_short =
        now.trials < rest.count && request.stop != nullptr && request.stop->load();
    const bool stopped = stop_ != nullptr && stop_->load();
    if (!cut_short) {
      keep(kTrials, asked, now);
    } else if (!stopped && now.trials > 0 && now.status == core::ExecutionStatus::completed) {
      keep(kPiece, asked, now);
    }
    rest.progress = nullptr;
    add(std::move(now));
    return all;
  }

 private:
  struct Kept {
    core::TrialResult result;
    bool is_piece = false;
  };

  /// Equal requests are so many measurements, of which any may not have been kept: the first of the
  /// run is answered by what was kept of the first, and so on.
  std::string numbered(const std::string& key) {
    return fmt::format("{} #{}", key, ++times_asked_[key]);
  }

  std::optional<Kept> take(const std::string& key) const {
    const auto found = earlier_.find(key);
    if (found == earlier_.end()) return std::nullopt;
    const store::JournalEntry& entry = *found->second;
    try {
      return Kept{result_from(journal_.value_of(entry)), entry.kind == kPiece};
    } catch (const core::UsageError&) {
      return std::nullopt;  // it is done again
    }
  }

  void keep(const char* kind, const std::string& key, const core::TrialResult& result) {
    if (!worth_keeping(result)) return;
    std::string text = to_text(result);
    const bool is_long = text.size() > store::Journal::kLongValue;
    if (is_long && journal_.bytes() + text.size() > most_bytes_) return;
    try {
      journal_.append({kind, key, std::move(text)});
    } catch (const core::EnvironmentError& error) {
      if (!troubled_ && trouble_) trouble_(error.what());
      troubled_ = true;
    }
  }

  std::unique_ptr<core::Backend> inner_;
  store::Journal& journal_;
  const std::atomic<bool>* stop_;
  std::function<void(const std::string&)> trouble_;
  std::uint64_t most_bytes_;
  bool troubled_ = false;
  std::map<std::string, std::uint64_t> times_asked_;
  std::map<std::string, const store::JournalEntry*> earlier_;
};

}  // namespace

std::unique_ptr<core::Backend> make_resumable(std::unique_ptr<core::Backend> inner,
                                              store::Journal& journal,
                                              const std::atomic<bool>* stop,
                                              std::function<void(const std::string&)> trouble,
                                              std::uint64_t most_bytes) {
  return std::make_unique<Resumable>(std::move(inner), journal, stop, std::move(trouble),
                                     most_bytes);
}

void keep_row(store::Journal& journal, const core::KillRow& row) {
  for (const core::KillCell& cell : row.cells) {
    if (cell.ran && cell.outcome == core::Outcome::error) return;
  }
  core::RunRecord record;
  record.mutants.rows.push_back(row);
  journal.append({kRow, row.subject + "@" + row.variant, core::to_json(record)});
}

std::optional<core::KillRow> kept_row(const store::Journal& journal, const std::string& name) {
  for (const store::JournalEntry& entry : journal.entries()) {
    if (entry.kind != kRow || entry.key != name) continue;
    try {
      core::RunRecord record = core::record_from_json(journal.value_of(entry));
      if (record.mutants.rows.size() == 1) return std::move(record.mutants.rows.front());
    } catch (const core::UsageError&) {
      return std::nullopt;  // it is done again
    }
  }
  return std::nullopt;
}

}  // namespace faultline::stress
