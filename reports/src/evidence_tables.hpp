// SPDX-License-Identifier: Apache-2.0
// Evidence that is a plain table in every format: named terms, accuracy by length, intermediates.
#pragma once

#include <string>
#include <vector>

#include "faultline/core/run_record.hpp"

namespace faultline::reports {

struct EvidenceTable {
  struct Column {
    std::string title;
    bool right = false;
    bool wraps = false;
  };
  enum class Mark { none, good, weak, quiet, bad };
  struct Row {
    std::vector<std::string> cells;
    bool bad = false;           ///< to be marked
    std::vector<Mark> marks{};  ///< of the cells, where they differ; may be shorter
  };
  std::string id, title, remark;
  std::vector<Column> columns;
  std::vector<Row> rows;
  std::string footer;        ///< may be empty
  bool detail_only = false;  ///< of interest only to those who ask for detail
};

/// The tables that the record has rows for.
std::vector<EvidenceTable> evidence_tables_of(const core::RunRecord& record);

}  // namespace faultline::reports
