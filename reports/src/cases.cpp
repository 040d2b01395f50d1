// SPDX-License-Identifier: Apache-2.0
#include "cases.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "numbers.hpp"
#include "view.hpp"

namespace faultline::reports {
namespace {

using core::ExecutionStatus;
using core::Outcome;

std::string counts_text(const core::TrialResult& result) {
  std::string text =
      fmt::format("{} of {} failed", count_text(result.failed), count_text(result.trials, "trial"));
  std::string kinds;
  const auto add = [&](std::uint64_t count, const char* what) {
    if (count == 0) return;
    kinds += fmt::format("{}{} {}", kinds.empty() ? "" : ", ", count_text(count), what);
  };
  add(result.wrong_values, "with wrong values");
  add(result.raced, "raced");
  add(result.abnormal, "ended abnormally");
  if (!kinds.empty()) text += " (" + kinds + ")";
  const WorstError worst = worst_error_of(result);
  if (result.wrong_values > 0 && worst.compared > 0) {
    text += fmt::format("; {}: worst {}", worst.output, bound_text(worst.ratio));
  }
  return text;
}

/// With what the backend said, where it said something.
std::string with_message(std::string text, const core::TrialResult& result) {
  if (!result.message.empty()) text += (text.empty() ? "" : "; ") + result.message;
  return text;
}

}  // namespace

Standing standing_of(const core::TrialResult& result, bool failed) {
  failed = failed || result.failed > 0;
  Standing standing;
  standing.sometimes = result.failed > 0 && result.failed < result.trials;
  if (result.status == ExecutionStatus::error) {
    standing.outcome = Outcome::error;
    standing.reason = with_message(failed ? counts_text(result) : "", result);
    if (standing.reason.empty()) standing.reason = "the backend could not run it";
  } else if (failed) {
    standing.outcome = Outcome::fail;
    standing.reason = with_message(counts_text(result), result);
  } else if (result.skipped) {
    standing.outcome = Outcome::skipped;
    standing.reason = result.note.empty() ? "skipped" : result.note;
  } else if (result.status != ExecutionStatus::completed) {
    standing.outcome = Outcome::inconclusive;
    standing.reason = with_message(std::string(core::name_of(result.status)), result);
  } else if (result.trials == 0) {
    standing.outcome = Outcome::inconclusive;
    standing.reason = with_message("no trial finished", result);
  } else {
    standing.outcome = Outcome::pass;
  }
  return standing;
}

Standing standing_of(const core::KillRow& row) {
  const bool ran = std::any_of(row.cells.begin(), row.cells.end(),
                               [](const core::KillCell& cell) { return cell.ran; });
  for (const core::KillCell& cell : row.cells) {
    if (ran || cell.outcome != Outcome::error) continue;
    return {Outcome::error, cell.note.empty() ? "no detector could run" : cell.note, false};
  }
  if (!ran) return {Outcome::skipped, "no detector ran", false};
  if (row.right) return {Outcome::pass, "", false};
  if (row.no_evidence) {
    const auto told = std::find_if(row.cells.begin(), row.cells.end(),
                                   [](const auto& cell) { return cell.ran && !cell.note.empty(); });
    const std::string why = told == row.cells.end() ? "" : ": " + told->note;
    return {row.is_mutant ? Outcome::skipped : Outcome::inconclusive,
            (row.is_mutant ? "nothing is known of it" : "not cleared") + why, false};
  }
  if (!row.is_mutant) {
    return {Outcome::fail, "a clean variant was blamed", false};
  }
  const std::string required =
      row.required ? std::string(core::name_of(*row.required)) : "a finding";
  return {Outcome::fail,
          row.killed ? fmt::format("the mutant was found, but never as {}", required)
                     : fmt::format("the mutant survived: {} was required", required),
          false};
}

std::string cell_text(const core::ConfigEvidence& cell) {
  if (cell.config.empty()) return cell.problem;
  return cell.problem.empty() ? cell.config : fmt::format("{} [{}]", cell.problem, cell.config);
}

std::string replay_text(const std::string& token) {
  return token.empty() ? std::string() : "faultline replay " + token;
}

std::string replay_label(const core::RunRecord& record, const std::string& line) {
  const auto label = [](const std::string& what, const core::TrialResult& result) {
    const WorstError worst = worst_error_of(result);
    std::string_view how = result.raced > 0 ? "raced, values right" : "values right";
    if (result.status != core::ExecutionStatus::completed) {
      how = core::name_of(result.status);
    } else if (worst.compared == 0) {
      how = "no values compared";
    }
    return what + ", " +
           (worst.bad_elements > 0 ? "worst error " + bound_text(worst.ratio) : std::string(how));
  };
  for (const core::ArmEvidence& arm : record.evidence.arms) {
    if (!arm.token.empty() && replay_text(arm.token) == line) {
      return label("arm " + arm.perturbation.name, arm.result);
    }
  }
  for (const core::ConfigEvidence& cell : record.evidence.configs) {
    if (!cell.token.empty() && replay_text(cell.token) == line) {
      return label(cell_text(cell), cell.result);
    }
  }
  return {};
}

std::string detector_text(core::Detector detector) {
  switch (detector) {
  case core::Detector::tight_loop: return "tight loop";
  case core::Detector::verify: return "verify";
  case core::Detector::stress: return "stress";
  case core::Detector::happens_before: return "order";
  case core::Detector::sanitizer: return "sanitizer";
  }
  return "?";
}

std::string cell_text(const core::KillCell& cell) {
  const std::string name = detector_text(cell.detector);
  if (!cell.ran) {
    return fmt::format("{}: not run{}{}", name, cell.note.empty() ? "" : ": ", cell.note);
  }
  std::string said;
  for (const core::FindingClass finding : cell.classes) {
    said += (said.empty() ? "" : ", ") + std::string(core::name_of(finding));
  }
  if (said.empty()) said = core::name_of(cell.outcome);
  if (cell.trials_to_kill > 0) {
    said += fmt::format(", trial {} was the first to fail", count_text(cell.trials_to_kill));
  }
  return fmt::format("{}: {}", name, said);
}

}  // namespace faultline::reports
