// SPDX-License-Identifier: Apache-2.0
// The kill matrix as a table.
#pragma once

#include "evidence_tables.hpp"

namespace faultline::reports {

/// One row a variant, one column a detector that ran.
EvidenceTable kill_matrix_table(const core::RunRecord& record);

}  // namespace faultline::reports
