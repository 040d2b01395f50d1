// SPDX-License-Identifier: Apache-2.0
#include "numbers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace faultline::reports {
namespace {

// Decimals that leave two significant digits of the distance to the nearer end of [0, 100].
int decimals_of_percent(double percent) {
  const double distance = std::min(percent, 100.0 - percent);
  if (!(distance > 0.0)) {
    return 0;
  }
  return std::clamp(1 - static_cast<int>(std::floor(std::log10(distance))), 1, 9);
}

enum class Rounding { nearest, down, up };

// `percent` without its sign; exact ends have no decimals.
std::string percent_digits(double percent, Rounding rounding) {
  constexpr double kNothing = 1e-10;  // interval ends that are zero up to rounding error
  if (std::isnan(percent)) {
    return "?";
  }
  if (percent <= kNothing && rounding != Rounding::up) {
    return "0";
  }
  if (percent >= 100.0 - kNothing) {
    return "100";
  }
  if (percent <= 0.0) {
    return "0";
  }
  const int decimals = decimals_of_percent(percent);
  const double scale = std::pow(10.0, decimals);
  double value = percent;
  if (rounding == Rounding::down) {
    value = std::floor(percent * scale * (1.0 + 1e-14)) / scale;
  } else if (rounding == Rounding::up) {
    value = std::ceil(percent * scale * (1.0 - 1e-14)) / scale;
  }
  return fmt::format("{:.{}f}", value, decimals);
}

}  // namespace

std::string count_text(std::uint64_t n) {
  const std::string plain = fmt::format("{}", n);
  std::string digits;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    if (i > 0 && (plain.size() - i) % 3 == 0) {
      digits.push_back(',');
    }
    digits.push_back(plain[i]);
  }
  return digits;
}

std::string count_text(std::uint64_t n, std::string_view singular) {
  return fmt::format("{} {}{}", count_text(n), singular, n == 1 ? "" : "s");
}

std::string share_text(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0) {
    return "-";
  }
  if (part == 0) {
    return "0 %";
  }
  if (part >= whole) {
    return "100 %";
  }
  return percent_text(static_cast<double>(part) / static_cast<double>(whole));
}

std::string percent_text(double share) {
  return percent_digits(100.0 * share, Rounding::nearest) + " %";
}

std::string interval_text(core::Interval interval) {
  return fmt::format("{} .. {} %", percent_digits(100.0 * interval.low, Rounding::down),
                     percent_digits(100.0 * interval.high, Rounding::up));
}

std::string upper_bound_text(double share) {
  return fmt::format("<= {} %", percent_digits(100.0 * share, Rounding::up));
}

std::string ratio_text(double ratio) {
  if (!std::isfinite(ratio)) {
    return "not finite";
  }
  if (ratio == 0.0 || ratio == 1.0) {
    return fmt::format("{:.0f}", ratio);
  }
  if (ratio >= 1e5) {
    return fmt::format("{:.2g}", ratio);
  }
  if (ratio >= 1e3) {
    return count_text(static_cast<std::uint64_t>(std::llround(ratio)));
  }
  if (ratio >= 10.0) {
    return fmt::format("{:.1f}", ratio);
  }
  if (ratio < 0.01) {
    return fmt::format("{:.1g}", ratio);
  }
  for (int decimals = 2; decimals <= 12; ++decimals) {
    std::string text = fmt::format("{:.{}f}", ratio, decimals);
    if (text.find_first_not_of("0", 2) != std::string::npos || text[0] != '1') {
      return text;
    }
  }
  return ratio > 1.0 ? "just over 1" : "just under 1";
}

std::string bound_text(double ratio) {
  if (!std::isfinite(ratio)) {
    return "not finite";
  }
  return ratio_text(ratio) + (ratio > 1.0 ? " x bound" : " of bound");
}

std::string real_text(double value) { return fmt::format("{:.4g}", value); }

std::string duration_text(double seconds) {
  if (!(seconds >= 0.0)) {
    return "?";
  }
  if (seconds < 9.95) {
    return fmt::format("{:.{}f} s", seconds, seconds < 0.995 ? 2 : 1);
  }
  const auto whole = static_cast<std::uint64_t>(std::llround(std::min(seconds, 1e12)));
  if (whole < 60) {
    return fmt::format("{} s", whole);
  }
  if (whole < 3600) {
    return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  }
  return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

std::string si_text(double value) {
  constexpr struct {
    double unit;
    const char* suffix;
  } kUnits[] = {{1e9, " G"}, {1e6, " M"}, {1e3, " k"}};
  for (const auto& [unit, suffix] : kUnits) {
    if (value >= 0.9995 * unit) {
      return fmt::format("{:.{}f}{}", value / unit, value >= 99.95 * unit ? 0 : 1, suffix);
    }
  }
  return fmt::format("{:.{}f}", value, value >= 99.5 || value == std::floor(value) ? 0 : 1);
}

std::string bytes_text(double bytes) { return si_text(bytes) + (bytes >= 999.5 ? "B" : " B"); }

}  // namespace faultline::reports
