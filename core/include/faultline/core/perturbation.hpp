// SPDX-License-Identifier: Apache-2.0
// What shakes the timing of a trial. Plain data: printed in reports, part of a trial's token.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace faultline::core {

/// Simulator: who runs next at a visible operation.
enum class SchedulePolicy : std::uint8_t { round_robin, random, pct, skew };
/// Simulator: when asynchronous copies complete.
enum class CopyLateness : std::uint8_t { eager, lazy, random };
/// CUDA: what runs beside the trial on the same device.
enum class CoResident : std::uint8_t { none, memory_stress, compute_stress };
/// CUDA: how the host waits between trials.
enum class HostWait : std::uint8_t { none, spin, sleep };

/// One arm's perturbation; fields combine. The default is "none": a tight loop over resident
/// buffers with inputs fixed per arm. A field that a backend does not know makes the arm `skipped`
/// there, with the reason.
struct Perturbation {
  std::string name = "none";
  // CUDA
  bool sync_each = false;  ///< device synchronisation after every launch
  HostWait wait = HostWait::none;
  std::uint64_t wait_ns = 0;
  bool reload_module = false;  ///< fresh module load per trial
  std::uint64_t pool_bytes =
      0;  ///< rotate pooled inputs over this many bytes (0: one resident copy)
  bool flush_l2 = false;
  CoResident co_resident = CoResident::none;
  std::uint32_t graph_trials = 0;  ///< > 0: trials per captured graph, replayed
  std::uint32_t batch = 1;         ///< trials in one grid
  double ctas_per_sm = 0.0;   ///< > 0: batch is raised until the grid has this many CTAs per SM
  bool fresh_inputs = false;  ///< new inputs every trial (otherwise one input set per arm)
  /// > 0: a kernel in front of the trial's operations holds its streams up for so long, so that the
  /// host issues what follows while the device waits. It rotates over the trials: all streams that
  /// the program uses, then each of them alone.
  std::uint64_t blocker_ns = 0;
  /// > 0: so many multiprocessors are left to the trial; blocks that spin hold the others.
  std::uint32_t free_sms = 0;
  /// In front of each launch a kernel lays poison in shared memory, for the blocks that run first.
  /// The simulator does so always, for every block.
  bool dirty_shared = false;
  // Simulator
  SchedulePolicy policy = SchedulePolicy::random;
  CopyLateness lateness = CopyLateness::random;
  // Either backend
  /// Every buffer begins so many bytes behind a boundary of 256; a multiple of 16.
  std::uint32_t offset_bytes = 0;
  // Either backend: changes of the program itself, made by stress/ before a backend sees it.
  bool one_stream = false;  ///< all operations in one stream: no two launches overlap
  /// The program is run so many times in each trial, and the last call is judged. Outputs are laid
  /// anew in between; inputs, workspaces and variables of modules are what the calls before left.
  std::uint32_t calls = 1;
  bool eager = false;  ///< graphs are not replayed, their launches are issued one by one
  /// Sites of the PTX in front of which a seeded nanosleep is put: bit mask of stress::DelaySite;
  /// 0: none.
  std::uint32_t delay_sites = 0;
  std::uint32_t delay_site = 0;  ///< number of the only such site, from 1; 0: all of them
  std::uint32_t delay_ns = 0;    ///< longest delay; each site has a power of two up to it
  std::uint64_t delay_seed = 0;

  friend bool operator==(const Perturbation&, const Perturbation&) = default;
};

std::string_view name_of(SchedulePolicy policy);
std::string_view name_of(CopyLateness lateness);
std::string_view name_of(CoResident co_resident);
std::string_view name_of(HostWait wait);

/// "policy=random,lateness=lazy" or "wait=sleep,wait_ns=1000000,flush_l2=1": only fields that
/// differ from the default, the name first. parse_perturbation(to_text(p)) == p. UsageError on bad
/// text.
std::string to_text(const Perturbation& perturbation);
Perturbation parse_perturbation(std::string_view text);

}  // namespace faultline::core
