// SPDX-License-Identifier: Apache-2.0
#include "faultline/reports/junit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "cases.hpp"
#include "numbers.hpp"
#include "text.hpp"
#include "view.hpp"

namespace faultline::reports {
namespace {

using core::Outcome;

/// What the schema's SUREFIRE_TIME admits: seconds with at most three decimals, no sign.
std::string time_text(double seconds) {
  return std::isfinite(seconds) && seconds > 0.0 ? fmt::format("{:.3f}", seconds) : "0.000";
}

class JunitWriter {
 public:
  explicit JunitWriter(const core::RunRecord& record)
      : record_(record), passes_(core::exit_code(record.verdict) == core::ExitCode::pass) {}

  std::string xml() {
    verdict();
    for (const core::ArmEvidence& arm : record_.evidence.arms) {
      trials(arm.perturbation.name, arm.result, standing_of(arm.result), arm.token);
    }
    for (const core::ConfigEvidence& cell : record_.evidence.configs) {
      trials(cell_text(cell), cell.result, standing_of(cell.result, cell.failed), cell.token);
    }
    for (const core::BenchRow& row : record_.bench) {
      bench(row);
    }
    for (const core::KillRow& row : record_.mutants.rows) {
      kill_row(row);
    }
    return head() + cases_ + "</testsuite>\n";
  }

 private:
  std::string head() const {
    std::string properties;
    const auto property = [&](std::string_view name, std::string_view value) {
      if (value.empty()) return;
      properties += fmt::format("    <property name=\"{}\" value=\"{}\"/>\n", name,
                                escape_markup(value, true));
    };
    property("verdict", record_.verdict.summary);
    property("problem", problem_text(record_));
    property("config", record_.config);
    property("seed", fmt::format("{}", record_.seed));
    property("backend", backend_text(record_));
    property("analysis_plan", record_.analysis_plan);
    return fmt::format("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                       "<testsuite name=\"{}\" time=\"{}\" tests=\"{}\" errors=\"{}\" "
                       "skipped=\"{}\" failures=\"{}\">\n"
                       "  <properties>\n{}  </properties>\n",
                       escape_markup(suite(), true), time_text(record_.provenance.duration_s),
                       tests_, errors_, skipped_, failures_, properties);
  }

  std::string suite() const {
    std::string name = "faultline";
    if (!record_.command.empty()) name += "." + record_.command;
    const std::string subject = subject_text(record_);
    return subject.empty() ? name : name + "." + subject;
  }

  /// Class of the finding that a failure is filed under.
  std::string_view type() const {
    for (const core::Finding& finding : record_.verdict.findings) {
      if (finding.severity == core::Severity::error) return core::name_of(finding.finding);
    }
    return core::name_of(core::FindingClass::unknown);
  }

  /// `reason` is the message, `detail` the text below it, `output` what is said in any case.
  void add(std::string_view name, double seconds, const Standing& standing, std::string_view type,
           const std::string& detail, const std::string& output) {
    ++tests_;
    std::string body;
    const std::string message = escape_markup(standing.reason, true);
    const std::string filed = escape_markup(type, true);
    switch (standing.outcome) {
    case Outcome::pass: break;
    case Outcome::fail:
      if (standing.sometimes && passes_) {
        body = fmt::format("    <flakyFailure message=\"{}\" type=\"{}\">\n"
                           "      <stackTrace>{}</stackTrace>\n    </flakyFailure>\n",
                           message, filed, escape_markup(detail));
      } else {
        ++failures_;
        body = fmt::format("    <failure message=\"{}\" type=\"{}\">{}</failure>\n", message, filed,
                           escape_markup(detail));
      }
      break;
    case Outcome::skipped:
      ++skipped_;
      body = fmt::format("    <skipped message=\"{}\"/>\n", message);
      break;
    case Outcome::inconclusive:
    case Outcome::error:
      ++errors_;
      body = fmt::format("    <error message=\"{}\" type=\"{}\">{}</error>\n", message,
                         core::name_of(standing.outcome), escape_markup(detail));
      break;
    }
    if (!output.empty()) {
      body += fmt::format("    <system-out>{}</system-out>\n", escape_markup(output));
    }
    cases_ +=
        fmt::format("  <testcase name=\"{}\" classname=\"{}\" time=\"{}\"",
                    escape_markup(name, true), escape_markup(suite(), true), time_text(seconds));
    cases_ += body.empty() ? "/>\n" : ">\n" + body + "  </testcase>\n";
  }

  void verdict() {
    const core::Verdict& verdict = record_.verdict;
    std::string text;
    for (const core::Finding& finding : verdict.findings) {
      text += fmt::format("{} {}: {}\n", core::name_of(finding.severity),
                          core::name_of(finding.finding), finding.headline);
      for (const std::string& sentence : finding.evidence) text += "  - " + sentence + "\n";
      if (!finding.advice.empty()) text += "  " + finding.advice + "\n";
    }
    for (const std::string& line : record_.replay_lines) text += line + "\n";
    Outcome outcome = verdict.outcome;
    if (outcome == Outcome::pass && !passes_) outcome = Outcome::fail;
    std::string reason =
        verdict.summary.empty() ? std::string(core::name_of(outcome)) : verdict.summary;
    const bool judged_bad =
        outcome == Outcome::fail || outcome == Outcome::inconclusive || outcome == Outcome::error;
    add("verdict", 0.0, {outcome, std::move(reason), false}, type(), judged_bad ? text : "",
        judged_bad ? "" : verdict.summary + "\n" + text);
  }

  void trials(const std::string& name, const core::TrialResult& result, const Standing& standing,
              const std::string& token) {
    std::string detail = record_.verdict.summary + "\n";
    for (const std::string& line : result.details) detail += line + "\n";
    if (!token.empty()) detail += replay_text(token) + "\n";
    std::string output;
    if (standing.outcome == Outcome::pass) {
      const WorstError worst = worst_error_of(result);
      output = "none of " + count_text(result.trials, "trial") + " failed";
      if (worst.compared > 0) {
        output += fmt::format("; {}: worst {}", worst.output, bound_text(worst.ratio));
      }
    }
    if (!result.note.empty() && standing.outcome != Outcome::skipped) {
      output += (output.empty() ? "" : "; ") + result.note;
    }
    add(name, static_cast<double>(result.elapsed_ns) * 1e-9, standing, type(), detail, output);
  }

  void bench(const core::BenchRow& row) {
    std::string name = row.name;
    if (!row.problem.empty()) name += " " + row.problem;
    if (!row.config.empty()) name += " [" + row.config + "]";
    add(name, row.median_graph_us * 1e-6, {Outcome::pass, "", false}, "", "",
        fmt::format("median {} us in a graph, {} us by events; {} of the baseline's speed{}{}{}",
                    real_text(row.median_graph_us), real_text(row.median_event_us),
                    real_text(row.ratio_to_baseline), row.contaminated ? "; contaminated" : "",
                    row.note.empty() ? "" : "; ", row.note));
  }

  void kill_row(const core::KillRow& row) {
    std::string said;
    double seconds = 0.0;
    for (const core::KillCell& cell : row.cells) {
      said += cell_text(cell) + "\n";
      seconds += cell.seconds;
    }
    const Standing standing = standing_of(row);
    const bool failed = standing.outcome == Outcome::fail;
    add(row.subject + "@" + row.variant, seconds, standing,
        row.required ? core::name_of(*row.required) : core::name_of(core::FindingClass::unknown),
        failed ? said : "", failed ? "" : said);
  }

  const core::RunRecord& record_;
  const bool passes_;  ///< by policy: the exit code is 0
  std::string cases_;
  std::uint64_t tests_ = 0, errors_ = 0, skipped_ = 0, failures_ = 0;
};

}  // namespace

std::string to_junit(const core::RunRecord& record) { return JunitWriter(record).xml(); }

}  // namespace faultline::reports
