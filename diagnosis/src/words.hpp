// SPDX-License-Identifier: Apache-2.0
// How facts are put into words. Everything printed is a function of the arguments alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "faultline/core/evidence.hpp"
#include "faultline/core/verdict.hpp"
#include "faultline/diagnosis/cell_text.hpp"

namespace faultline::diagnosis {

/// 12345 -> "12,345"
std::string count(std::uint64_t n);
/// Three significant digits: 0.1234 -> "0.123", 123456 -> "1.23e+05".
std::string number(double x);
/// 0.99612 -> "99.6 %"; never "100 %" unless exactly all, never "0 %" unless exactly none.
std::string percent(std::uint64_t part, std::uint64_t whole);
/// "12 of 5,000 (0.24 %)"
std::string share(std::uint64_t part, std::uint64_t whole);
/// "1 trial", "2 trials"
std::string plural(std::uint64_t n, const std::string& noun);
/// "a, b and c"
std::string list(const std::vector<std::string>& items);
/// "gla_decode@shared_buffer"
std::string subject_text(const core::Evidence& evidence);
/// "kernels/gla_decode/gla_decode.cuh:79": the innermost line in the folder of the kernel itself,
/// else the innermost with a project path. Sources outside the project (toolkit headers) have bare
/// names and are passed over. "a line ..." when there is no line information.
std::string line_text(const std::vector<core::SourceLocation>& where);
/// "gla_decode.cu:79, inlined at gla_decode.cu:120"
std::string line_chain(const std::vector<core::SourceLocation>& where);
/// "ldmatrix.sync... at gla_decode.cu:79 by cta 0 warp 0 lane 4"
std::string site_text(const core::AccessSite& site);
/// "shared buffer 'stage', bytes [0, 2048)"
std::string place_text(const core::RaceReport& race);
/// "write-after-read"
std::string kind_text(core::RaceKind kind);
/// "tile 1 (12 trials) and tile 0 (3 trials) of new_state, a tile being 16 rows of dk"; at most
/// four.
std::string wrong_tiles_text(const core::OutputTotals& output);
/// "new_state (bf16): 240 wrong elements in 12 trials, worst error 0.41 = 53 times the bound"
std::string wrong_output_text(const core::OutputTotals& output);
/// "new_state tile 1 held the data of tile 3 in 99.6 % of its wrong elements (1,992 of 2,000): both
/// use pipeline buffer 1"
/// Outputs that no pipeline streams (`streamed` false) were computed from the moved tile instead.
std::string provenance_text(const core::ProvenanceEvidence& entry, bool streamed = true);
/// 1 - 0.05^(1/n), in words: "below 0.15 % (95 %)"
std::string upper_bound_text(std::uint64_t trials);
/// One-sided 95 % bound on the rate of something not seen in `trials` trials.
double upper_bound(std::uint64_t trials);

}  // namespace faultline::diagnosis
