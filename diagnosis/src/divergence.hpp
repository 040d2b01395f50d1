// SPDX-License-Identifier: Apache-2.0
// Where a pipeline of intermediates first goes wrong.
#pragma once

#include <string>

#include "facts.hpp"

namespace faultline::diagnosis {

/// "first divergence: w from tile 1 on (of 4, a tile being a chunk of 32 rows); x before it is
/// right", and in how many of the failing cells. Empty when no intermediates were compared, or
/// nothing was wrong.
std::string first_divergence(const Facts& facts);

}  // namespace faultline::diagnosis
