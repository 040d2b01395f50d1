// SPDX-License-Identifier: Apache-2.0
// Figures for spreadsheets and data frames: CSV (RFC 4180, with lines that end in '\n').
#pragma once

#include <string>

#include "faultline/core/run_record.hpp"

namespace faultline::reports {

/// One row for each arm, cell of a sweep, bench row and cell of the kill matrix, under one header
/// whose names do not change (docs/reports.md lists them; new ones come last). What a row has no
/// value for is empty. Texts that a spreadsheet would take for a formula get a ' before them.
std::string to_csv(const core::RunRecord& record);

}  // namespace faultline::reports
