// SPDX-License-Identifier: Apache-2.0
// Numbers as people read them. Rounding never changes what a number says: a share is 0 % or 100 %
// only when it is exactly that, bounds are rounded outwards, a rejected error never prints as 1.00
// of the bound.
#pragma once

#include <cstdint>
#include <string>

#include "faultline/core/evidence.hpp"

namespace faultline::reports {

/// "12,345"
std::string count_text(std::uint64_t n);
/// "1 trial", "12,345 trials"
std::string count_text(std::uint64_t n, std::string_view singular);
/// part of whole: "0 %", "0.040 %", "37.1 %", "99.96 %", "100 %"; "-" when whole is 0.
std::string share_text(std::uint64_t part, std::uint64_t whole);
/// A share in [0, 1] that is not a count: "97.8 %".
std::string percent_text(double share);
/// "36.5 .. 38.7 %", low end rounded down, high end up.
std::string interval_text(core::Interval interval);
/// "<= 0.15 %", rounded up.
std::string upper_bound_text(double share);
/// Worst error over bound: "0.26", "41.3", "1.2e+05", "not finite".
std::string ratio_text(double ratio);
/// "0.26 of bound", "41.3 x bound", "not finite".
std::string bound_text(double ratio);
/// Four significant digits: "0.1249", "1.25e-05".
std::string real_text(double value);
/// "0.41 s", "8.2 s", "2 min 05 s", "1 h 03 min".
std::string duration_text(double seconds);
/// "412", "34.1 k", "2.3 M".
std::string si_text(double value);
/// "60.0 MB" (10^6).
std::string bytes_text(double bytes);

}  // namespace faultline::reports
