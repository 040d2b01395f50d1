// SPDX-License-Identifier: Apache-2.0
#include "faultline/reports/csv.hpp"

#include <fmt/format.h>

#include <array>
#include <string_view>

#include "cases.hpp"
#include "text.hpp"
#include "view.hpp"

namespace faultline::reports {
namespace {

/// Readers find columns by name: names and order stay, new ones come last.
enum Column : std::size_t {
  row,
  command,
  subject,
  variant,
  backend,
  seed,
  problem,
  config,
  arm,
  detector,
  outcome,
  required,
  found,
  killed,
  right,
  trials,
  failed,
  wrong_values,
  raced,
  abnormal,
  rate,
  wilson95_low,
  wilson95_high,
  upper95,
  compared_elements,
  bad_elements,
  worst_output,
  worst_ratio,
  worst_ulps,
  first_failed_trial,
  trials_to_kill,
  median_graph_us,
  median_event_us,
  tb_per_s,
  ratio_to_baseline,
  seconds,
  token,
  note,
  kColumns
};

constexpr std::array<std::string_view, kColumns> kNames = {"row",
                                                           "command",
                                                           "subject",
                                                           "variant",
                                                           "backend",
                                                           "seed",
                                                           "problem",
                                                           "config",
                                                           "arm",
                                                           "detector",
                                                           "outcome",
                                                           "required",
                                                           "found",
                                                           "killed",
                                                           "right",
                                                           "trials",
                                                           "failed",
                                                           "wrong_values",
                                                           "raced",
                                                           "abnormal",
                                                           "rate",
                                                           "wilson95_low",
                                                           "wilson95_high",
                                                           "upper95",
                                                           "compared_elements",
                                                           "bad_elements",
                                                           "worst_output",
                                                           "worst_ratio",
                                                           "worst_ulps",
                                                           "first_failed_trial",
                                                           "trials_to_kill",
                                                           "median_graph_us",
                                                           "median_event_us",
                                                           "tb_per_s",
                                                           "ratio_to_baseline",
                                                           "seconds",
                                                           "token",
                                                           "note"};

/// A text as a field: quoted where it must be, and never a formula.
std::string field(std::string_view text) {
  std::string shown = visible(text);
  if (!shown.empty() && std::string_view("=+-@\t").find(shown.front()) != std::string_view::npos) {
    shown.insert(0, 1, '\'');
  }
  if (shown.find_first_of(",\"\n") == std::string::npos && !shown.starts_with(' ') &&
      !shown.ends_with(' ')) {
    return shown;
  }
  std::string quoted = "\"";
  for (const char c : shown) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + '"';
}

class CsvWriter {
 public:
  explicit CsvWriter(const core::RunRecord& record) : record_(record) {}

  std::string text() {
    for (std::size_t i = 0; i < kColumns; ++i) {
      text_ += (i == 0 ? "" : ",") + std::string(kNames[i]);
    }
    text_ += '\n';
    for (const core::ArmEvidence& from : record_.evidence.arms) {
      start("arm");
      put(problem, problem_text(record_));
      put(config, record_.config);
      put(arm, from.perturbation.name);
      result(from.result, standing_of(from.result));
      put(token, from.token);
      if (has_rate(from)) {
        number(wilson95_low, from.wilson95.low);
        number(wilson95_high, from.wilson95.high);
        if (from.result.failed == 0) number(upper95, from.upper95);
      }
      finish();
    }
    for (const core::ConfigEvidence& from : record_.evidence.configs) {
      start("cell");
      put(problem, from.problem);
      put(config, from.config);
      result(from.result, standing_of(from.result, from.failed));
      put(token, from.token);
      finish();
    }
    for (const core::BenchRow& from : record_.bench) {
      start("bench");
      put(problem, from.problem);
      put(config, from.config);
      put(arm, from.name);
      put(outcome, from.contaminated ? "contaminated" : "pass");
      number(median_graph_us, from.median_graph_us);
      number(median_event_us, from.median_event_us);
      number(tb_per_s, from.tb_per_s);
      number(ratio_to_baseline, from.ratio_to_baseline);
      put(note, from.note);
      finish();
    }
    for (const core::KillRow& from : record_.mutants.rows) {
      for (const core::KillCell& cell : from.cells) kill_cell(from, cell);
    }
    return std::move(text_);
  }

 private:
  void start(std::string_view kind) {
    fields_ = {};
    put(row, kind);
    put(command, record_.command);
    put(subject, record_.subject);
    put(variant, record_.variant);
    put(backend, record_.evidence.backend.empty() ? record_.provenance.backend.name
                                                  : record_.evidence.backend);
    number(seed, record_.seed);
  }
  void put(Column column, std::string_view text) { fields_[column] = field(text); }
  /// The shortest decimal that reads back as the same value; "inf" and "nan" where it is none.
  void number(Column column, auto value) { fields_[column] = fmt::format("{}", value); }
  void truth(Column column, bool value) { fields_[column] = value ? "true" : "false"; }
  void finish() {
    for (std::size_t i = 0; i < kColumns; ++i) {
      if (i > 0) text_ += ',';
      text_ += fields_[i];
    }
    text_ += '\n';
  }

  void result(const core::TrialResult& from, const Standing& standing) {
    put(outcome, core::name_of(standing.outcome));
    number(trials, from.trials);
    number(failed, from.failed);
    number(wrong_values, from.wrong_values);
    number(raced, from.raced);
    number(abnormal, from.abnormal);
    if (from.trials > 0) {
      number(rate, static_cast<double>(from.failed) / static_cast<double>(from.trials));
    }
    const WorstError worst = worst_error_of(from);
    number(compared_elements, worst.compared);
    number(bad_elements, worst.bad_elements);
    if (worst.compared > 0) {
      put(worst_output, worst.output);
      number(worst_ratio, worst.ratio);
      number(worst_ulps, worst.ulps);
    }
    if (from.failed > 0 && from.first_failed_trial != ~std::uint64_t{0}) {
      number(first_failed_trial, from.first_failed_trial);
    }
    number(seconds, static_cast<double>(from.elapsed_ns) * 1e-9);
    put(note, from.note.empty() ? standing.reason : from.note);
  }

  void kill_cell(const core::KillRow& from, const core::KillCell& cell) {
    start("mutant");
    put(subject, from.subject);
    put(variant, from.variant);
    put(problem, from.problem);
    put(config, from.config);
    put(detector, core::name_of(cell.detector));
    put(outcome, core::name_of(cell.outcome));
    if (from.required) put(required, core::name_of(*from.required));
    if (!cell.classes.empty()) put(found, core::name_of(cell.classes.front()));
    truth(killed, cell.killed);
    truth(right, cell.right);
    number(trials, cell.trials);
    number(failed, cell.failed);
    if (cell.trials > 0) {
      number(rate, static_cast<double>(cell.failed) / static_cast<double>(cell.trials));
    }
    if (cell.trials_to_kill > 0) number(trials_to_kill, cell.trials_to_kill);
    number(seconds, cell.seconds);
    put(note, cell.note);
    finish();
  }

  const core::RunRecord& record_;
  std::array<std::string, kColumns> fields_{};
  std::string text_;
};

}  // namespace

std::string to_csv(const core::RunRecord& record) { return CsvWriter(record).text(); }

}  // namespace faultline::reports
