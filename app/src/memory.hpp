// SPDX-License-Identifier: Apache-2.0
// Is there memory for a problem? Asked before anything is allocated: on Linux an allocation that is
// too large succeeds, and the process is killed when it uses it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "faultline/core/backend.hpp"
#include "faultline/core/token.hpp"
#include "faultline/core/trial.hpp"
#include "faultline/kernels/subject.hpp"

namespace faultline::app {

/// Bytes of host memory that one trial of a plan takes, by what they are for. From the shapes
/// alone; what a reference needs while it computes comes on top. Saturates instead of overflowing.
struct MemoryEstimate {
  std::uint64_t inputs = 0;      ///< as made on the host
  std::uint64_t outputs = 0;     ///< as read back
  std::uint64_t references = 0;  ///< expected values and bounds in double, of every output
  std::uint64_t simulated = 0;   ///< simulator: every buffer, as its device memory
  std::uint64_t race = 0;        ///< simulator: what the race detector knows of each byte accessed

  std::uint64_t total() const;
  /// "inputs 8.0 GiB, outputs 512.0 MiB, ...", what is zero left out.
  std::string to_string() const;
};
MemoryEstimate estimate_memory(const core::TrialPlan& plan, bool is_model, core::RaceMode race);

/// Bytes that this process can still take: the least of what the machine has free, the limits of
/// its control groups (versions 1 and 2) and its own (ulimit -v). `root` holds proc/ and sys/.
/// Empty when the machine does not say.
std::optional<std::uint64_t> available_memory(const std::filesystem::path& root = "/");

/// EnvironmentError, with the estimate and what to do, when a trial of `plan` needs more than
/// `available` bytes.
void require_memory(const core::TrialPlan& plan, const core::BackendInfo& backend,
                    core::RaceMode race,
                    std::optional<std::uint64_t> available = available_memory());

/// The same of the trial that a token names. UsageError where there is none.
void require_memory(const kernels::SubjectRegistry& registry, const core::TrialToken& trial,
                    const core::BackendInfo& backend);

/// "512 B", "1.5 GiB"
std::string bytes_text(std::uint64_t bytes);

}  // namespace faultline::app
