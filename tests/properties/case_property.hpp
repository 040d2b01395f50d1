// SPDX-License-Identifier: Apache-2.0
// Properties of cases: those that a store holds come first, a counterexample goes there and is
// explained.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "faultline/properties/cases.hpp"
#include "faultline/properties/run_property.hpp"
#include "faultline/store/store.hpp"

namespace faultline::properties {

/// Asserts with RC_ASSERT and RC_FAIL; may draw what it needs beside the case.
using CaseLaw = std::function<void(const Case&)>;

struct CasePropertyResult {
  bool held = false;
  std::string message;  ///< why not: the case, the command that reruns it, what in it matters
};

/// The law on the cases that `store` holds of the property `id`, then on drawn ones, as many as
/// check_property() tries, or under the settings given. A stored case that breaks it ends the check
/// at once; one that keeps it is marked fixed. Without a store (nullptr) drawn cases alone.
CasePropertyResult run_on_cases(const std::string& id, int usual, const ValueDomain<Case>& domain,
                                const CaseLaw& law, store::Store* store,
                                const std::optional<PropertySettings>& apart = std::nullopt);

/// The same as a GoogleTest case, with the store that FAULTLINE_STORE names.
void check_on_cases(int usual, const ValueDomain<Case>& domain, const CaseLaw& law);

}  // namespace faultline::properties
