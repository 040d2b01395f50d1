// SPDX-License-Identifier: Apache-2.0
// The report for pull requests and job summaries: GitHub-flavoured Markdown.
#pragma once

#include <cstddef>
#include <string>

#include "faultline/core/run_record.hpp"

namespace faultline::reports {

/// GitHub refuses a job summary above 1024 KiB as a whole.
inline constexpr std::size_t kMarkdownLimit = 1024 * 1024;

/// Verdict, findings, replay lines, races, arms, cells of a sweep, timing, kill matrix. Never
/// longer than kMarkdownLimit bytes: long tables show what failed first, and a note says what was
/// left out.
std::string to_markdown(const core::RunRecord& record);

}  // namespace faultline::reports
