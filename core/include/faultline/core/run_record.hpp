// SPDX-License-Identifier: Apache-2.0
// The record of one run: what reports render and what is stored. Everything outside `provenance` is
// reproducible byte for byte on the simulator.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "faultline/core/backend.hpp"
#include "faultline/core/evidence.hpp"
#include "faultline/core/kill_matrix.hpp"
#include "faultline/core/verdict.hpp"

namespace faultline::core {

/// Source text around the lines that findings refer to.
struct SourceExcerpt {
  std::string file{};
  int first_line = 1;
  std::vector<std::string> lines{};
  int marked_line = 0;
};

/// When, where and by what: not part of the evidence.
struct Provenance {
  std::string faultline_version{};
  std::string started_at{};  ///< UTC, ISO 8601
  double duration_s = 0.0;
  std::string host{};
  std::string command_line{};
  BackendInfo backend{};
};

/// Bench results of one program.
struct BenchRow {
  std::string problem{}, config{}, name{};           ///< name: "gemv@register", "cublasGemmEx", ...
  double median_graph_us = 0.0, spread_graph = 0.0;  ///< relative: (p90 - p10) / median
  double median_event_us = 0.0, spread_event = 0.0;
  double bytes = 0.0;  ///< moved per launch, each input read once, each output written once
  double tb_per_s = 0.0;
  double fraction_of_ceiling = 0.0;  ///< of the read-only bandwidth measured in the same run
  double ratio_to_baseline = 0.0;    ///< baseline time / own time
  bool contaminated = false;         ///< spread above 10 %
  std::string note{};
};

struct RunRecord {
  /// Grows when keys are added. Records of earlier versions are read: keys that they lack keep the
  /// values of an empty record.
  static constexpr int kSchemaVersion = 2;
  std::string command{};  ///< "stress", "verify", "race", "replay", "bench", "mutants"
  std::string subject{}, variant{};
  std::string problem{};  ///< full problem line
  std::string config{};
  std::uint64_t seed = 1;
  std::string analysis_plan{};  ///< arms, trials per arm, decided before the run
  std::vector<std::pair<std::string, std::string>> module_hashes{};
  Evidence evidence{};
  Verdict verdict{};
  std::vector<std::string> replay_lines{};  ///< complete commands
  std::vector<SourceExcerpt> excerpts{};
  std::vector<BenchRow> bench{};
  KillMatrix mutants{};  ///< of `faultline mutants`
  Provenance provenance{};
};

/// JSON per docs/report.schema.json. `with_provenance` false gives the reproducible part alone.
std::string to_json(const RunRecord& record, bool with_provenance = true);
/// UsageError with the JSON pointer of what is wrong.
RunRecord record_from_json(std::string_view text);

}  // namespace faultline::core
