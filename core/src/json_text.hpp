// SPDX-License-Identifier: Apache-2.0
// JSON values as text that is equal on every machine: keys in the order of insertion, shortest
// doubles.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace faultline::core::detail {

using Json = nlohmann::ordered_json;

/// Indented by one blank; containers that hold scalars only are kept on one line while they are
/// short. Bytes that are not UTF-8 become U+FFFD. Ends in a newline. Numbers must be finite.
std::string json_text(const Json& value);

}  // namespace faultline::core::detail
