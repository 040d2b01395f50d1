// SPDX-License-Identifier: Apache-2.0
// Records as the rest of faultline makes them, written by hand: what reports are tested and looked
// at with.
#pragma once

#include <string>
#include <vector>

#include "faultline/core/run_record.hpp"

namespace faultline::reports::samples {

core::RunRecord stress_shared_buffer();   ///< simulator, fail(race.async), two races, provenance
core::RunRecord stress_clean();           ///< simulator, pass, no failure
core::RunRecord verify_gemv();            ///< pass with output_rounding, many configs
core::RunRecord verify_stage_sentinel();  ///< fail(systematic_offset), the same in every config
core::RunRecord verify_dropped_tail();    ///< fail(tail), tile maps with many tiles
core::RunRecord verify_missing_term();    ///< fail(missing_term): fits, growth, intermediates
core::RunRecord verify_uncoalesced();     ///< pass with a warning and access statistics
core::RunRecord cuda_stress();            ///< H200, 20 arms, rates over four decades, skipped arms
core::RunRecord bench_gemv();             ///< timings, one of them contaminated
core::RunRecord unsupported();   ///< inconclusive: an opcode that the simulator does not know
core::RunRecord interrupted();   ///< Ctrl-C after the first arm
core::RunRecord deadlock();      ///< fail(hang) with one line per blocked warp
core::RunRecord mutants_gemv();  ///< kill matrix: a mutant named wrong, one not found, a clean twin
core::RunRecord hostile();       ///< every string tries to break out of the report
core::RunRecord empty();         ///< a default record

/// 100,000 trials: 20 arms, 9 outputs of 1,024 tiles, 1,000 races. Large, and so not one of all().
core::RunRecord stress_large();

struct Named {
  std::string name;
  core::RunRecord record;
};
std::vector<Named> all();

}  // namespace faultline::reports::samples
