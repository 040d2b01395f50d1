// SPDX-License-Identifier: Apache-2.0
// Runs that can be continued: what a backend gave is kept, and not asked for again.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "faultline/core/backend.hpp"
#include "faultline/core/kill_matrix.hpp"
#include "faultline/store/journal.hpp"

namespace faultline::stress {

inline constexpr std::uint64_t kMostJournalBytes = std::uint64_t{256} << 20;

/// `inner` with a memory. Each request of trials that was carried out whole (a cell of verify, a
/// block of an arm, a schedule of the race check, an experiment), and each piece that a campaign
/// paused after, is kept in `journal`; a request whose like stands there from an earlier process is
/// answered from it. A run asks for the same things in the same order each time, so that everything
/// that is computed from the answers comes out as if the run had never been cut off.
///
/// Not kept, and so done again: what `stop` cut short, what ended with an error of the machine, and
/// results with more than 32 MiB of captured outputs, or of more than 64 KiB with which the
/// journal would have more than `most_bytes`. `trouble` is told once when the journal
/// cannot be written; the run goes on.
///
/// execute() is answered likewise. What it leaves in its buffers is not kept: the caller fills them
/// before each execution.
std::unique_ptr<core::Backend> make_resumable(std::unique_ptr<core::Backend> inner,
                                              store::Journal& journal,
                                              const std::atomic<bool>* stop,
                                              std::function<void(const std::string&)> trouble,
                                              std::uint64_t most_bytes = kMostJournalBytes);

/// A finished row of the kill matrix, unless a detector broke on it, and one that was kept; empty
/// when there is none.
void keep_row(store::Journal& journal, const core::KillRow& row);
std::optional<core::KillRow> kept_row(const store::Journal& journal, const std::string& name);

}  // namespace faultline::stress
