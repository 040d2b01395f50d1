// SPDX-License-Identifier: Apache-2.0
// Which blocks the wrong elements of an output fill, and what its worst tile looks like, in words.
#pragma once

#include <string>

#include "faultline/core/evidence.hpp"

namespace faultline::diagnosis {

/// R^2 below which no template is named: what the error is stays unknown. Below kExplainsFrom one
/// is named as what comes closest.
inline constexpr double kNamedFrom = 0.5, kExplainsFrom = 0.9;

/// "its tiles of 16 x 64 (tile 1 of 4), 99.6 % of their elements wrong; 10^12 times as likely as
/// strips of 8 x 64". Empty where so few elements are wrong that nothing can be said.
std::string footprint_text(const core::FootprintEvidence& footprint);

/// The bank of templates and named terms for one output, the best two: "tile 1: the error is that
/// of the data of tile 3 used in the place of tile 1: R^2 = 0.998; next what belongs to tile 3:
/// 0.31". Below kNamedFrom the error is unknown, with the best that was tried. Empty where none
/// was, or where a reading or an alternative says exactly what the wrong elements hold.
std::string template_text(const core::Evidence& evidence, const std::string& output);

}  // namespace faultline::diagnosis
