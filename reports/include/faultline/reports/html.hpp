// SPDX-License-Identifier: Apache-2.0
// The report that people share: one HTML file that needs nothing else.
#pragma once

#include <string>

#include "faultline/core/run_record.hpp"

namespace faultline::reports {

/// One self-contained page: no external resource, a content security policy that admits only its
/// own style and script (by hash), light and dark, print and phone. Every string of the record is
/// escaped. Deterministic.
std::string to_html(const core::RunRecord& record);

}  // namespace faultline::reports
