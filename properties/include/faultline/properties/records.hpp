// SPDX-License-Identifier: Apache-2.0
// Run records with every kind of content.
#pragma once

#include <iosfwd>

#include "faultline/core/run_record.hpp"
#include "faultline/properties/value_domain.hpp"

namespace faultline::core {

// What counterexamples print: RapidCheck looks for this name beside the type.
void showValue(const RunRecord& record, std::ostream& out);

}  // namespace faultline::core

namespace faultline::properties {

/// Records with arms, configs, races, captures, findings, bench rows; numbers include infinities
/// and subnormals, texts include quotes, control characters and characters beyond ASCII. Prints as
/// its JSON. Shrinks by leaving parts out.
ValueDomain<core::RunRecord> run_records();

}  // namespace faultline::properties
