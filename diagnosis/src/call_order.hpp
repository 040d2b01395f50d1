// SPDX-License-Identifier: Apache-2.0
// Is only the first call right? What a call leaves behind (a variable of its module, a workspace)
// reaches the next one.
#pragma once

#include <cstdint>

#include "facts.hpp"

namespace faultline::diagnosis {

/// First calls of a freshly loaded module, and second calls on the same buffers: those of all arms
/// and of experiments. A model loads modules anew in every trial.
struct CallOrder {
  std::uint64_t first_trials = 0, first_wrong = 0;
  std::uint64_t second_trials = 0, second_wrong = 0;
  /// Every first call was right and every second one wrong, in so many trials that chance hardly
  /// gives that (kChangeAlpha).
  bool decides = false;
  /// Nothing seen contradicts it, and too little was tried to say so.
  bool open = false;
};
CallOrder call_order(const Facts& facts);

/// What fails is each call but the first, as far as it is known: no sign of timing.
bool calls_explain_what_differs(const Facts& facts);

}  // namespace faultline::diagnosis
