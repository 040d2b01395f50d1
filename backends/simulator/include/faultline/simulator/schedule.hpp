// SPDX-License-Identifier: Apache-2.0
// The decisions of a scheduler, by the identity of what was chosen.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace faultline::simulator {

/// Who goes next. A warp is named by CTA and index and runs up to `quantum` visible operations; an
/// asynchronous copy is named by its issue number within its CTA.
struct Decision {
  enum class Kind : std::uint8_t { warp, copy };
  Kind kind = Kind::warp;
  std::uint32_t cta = 0;
  std::uint32_t index = 0;
  std::uint32_t quantum = 1;
  bool operator==(const Decision&) const = default;
};

using Schedule = std::vector<Decision>;

/// "w0.3x8 c0.1 ...": parse_schedule(to_text(s)) == s. core::UsageError on bad text.
std::string to_text(const Schedule& schedule);
Schedule parse_schedule(std::string_view text);

}  // namespace faultline::simulator
