// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace faultline::reports {

/// SHA-256 (FIPS 180-4) of `bytes`, in base64: what a content security policy names a script or
/// style by.
std::string sha256_base64(std::string_view bytes);
/// The same as 64 hexadecimal digits.
std::string sha256_hex(std::string_view bytes);

}  // namespace faultline::reports
