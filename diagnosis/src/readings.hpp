// SPDX-License-Identifier: Apache-2.0
// What the bits of wrong elements say (Evidence::readings), in words.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "faultline/core/evidence.hpp"

namespace faultline::diagnosis {

/// "slice 3 of the reduction is missing"
std::string reading_text(const core::ErrorReading& reading);
/// Of each output the reading that explains nine tenths of what is wrong there, if there is one:
/// "y: slice 3 of the reduction is missing, in 64 of 64 (100 %) wrong elements, in 4 tiles".
std::vector<std::string> reading_texts(const core::Evidence& evidence);
/// Of the readings that explain an output so by the poison of memory that nobody had written, the
/// one with most elements; null: there is none, or together they explain less than half of the
/// wrong elements of all outputs that do not hold their own poison, and are a matter apart.
const core::ErrorReading* unwritten_reading(const core::Evidence& evidence);
/// Where that memory is: "tile 3 of ws", with the places that its code stands for as well.
std::string unwritten_place_text(const core::ErrorReading& reading);
/// The first of these readings, when every wrong output has the same.
std::optional<std::string> common_reading(const core::Evidence& evidence);

}  // namespace faultline::diagnosis
