// SPDX-License-Identifier: Apache-2.0
// Arbitrary text for names and messages.
#pragma once

#include <string>
#include <vector>

#include "faultline/properties/value_domain.hpp"

namespace faultline::properties::detail {

/// Up to `longest` pieces out of letters, blanks, separators, quotes, control characters and UTF-8;
/// a quarter of the draws are empty.
std::string draw_text(Source& source, std::size_t longest = 12);

/// Shorter texts, the empty one first.
std::vector<std::string> shorter_texts(const std::string& text);

/// Any number of 64 bits, small ones and the largest often.
std::uint64_t draw_number(Source& source);
std::vector<std::uint64_t> smaller_numbers(std::uint64_t value);

}  // namespace faultline::properties::detail
