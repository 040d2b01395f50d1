// SPDX-License-Identifier: Apache-2.0
// What one execution of a program did: status, races, access statistics.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace faultline::core {

enum class ExecutionStatus : std::uint8_t {
  completed,
  deadlock,     ///< simulator: nobody can run
  fault,        ///< illegal address, misaligned access, barrier misuse, trap
  timeout,      ///< step budget (simulator) or watchdog (CUDA)
  out_of_time,  ///< simulator: the wall clock ran out while the kernel went on; nothing is known
  unsupported,  ///< an instruction, configuration or device feature that this backend cannot judge
  error,        ///< launch failure, out of memory, driver
};
std::string_view name_of(ExecutionStatus status);

struct SourceLocation {
  std::string file{};  ///< project-relative
  int line = 0;
  std::string function{};  ///< empty when unknown
  friend bool operator==(const SourceLocation&, const SourceLocation&) = default;
};

/// One side of a race.
struct AccessSite {
  std::string kernel{};
  std::string
      instruction;  ///< opcode with modifiers, e.g. "ldmatrix.sync.aligned.m8n8.x4.shared.b16"
  std::vector<SourceLocation> where{};  ///< innermost first, then the inlined-at chain
  std::string actor{};  ///< "cta 0 warp 3 lane 4" or "cp.async.bulk completing on mbarrier full[0]"
  bool is_write = false;
  bool async_proxy = false;
  friend bool operator==(const AccessSite&, const AccessSite&) = default;
};

enum class RaceKind : std::uint8_t { read_after_write, write_after_read, write_after_write };
enum class MemorySpace : std::uint8_t { shared, global };
std::string_view name_of(RaceKind kind);
std::string_view name_of(MemorySpace space);

/// Accesses that nothing orders, grouped by root cause (kind and both sites).
struct RaceReport {
  RaceKind kind = RaceKind::write_after_read;
  MemorySpace space = MemorySpace::shared;
  std::string buffer{};                        ///< variable or allocation name
  std::uint64_t byte_begin = 0, byte_end = 0;  ///< range inside the buffer over all occurrences
  AccessSite first{}, second{};
  bool cross_cta = false, cross_launch = false;
  bool cross_device = false;  ///< between launches on different devices
  bool missing_proxy_fence =
      false;                   ///< ordered in the generic proxy; only a fence.proxy.async is absent
  bool note_only = false;      ///< lenient mode: a note, not an error
  std::uint64_t count = 1;     ///< conflicting cells
  std::string missing_edge{};  ///< one sentence: what would have ordered them
  friend bool operator==(const RaceReport&, const RaceReport&) = default;
};

/// Global or shared accesses of one source line: how well warps use the memory system.
struct AccessStatistics {
  SourceLocation where{};
  std::string instruction{};
  MemorySpace space = MemorySpace::global;
  bool is_write = false;
  std::uint64_t requests = 0;  ///< warp-level requests
  std::uint64_t sectors = 0;   ///< 32-byte sectors touched (global) or bank passes (shared)
  std::uint64_t ideal_sectors =
      0;  ///< sectors (passes) a dense layout of the same bytes would need
  std::int64_t lane_stride_bytes = 0;  ///< commonest distance between neighbouring lanes' addresses
  std::uint64_t lanes = 0;             ///< active lanes, summed over the requests
  std::uint64_t distinct_addresses = 0;  ///< different addresses within a request, likewise
  friend bool operator==(const AccessStatistics&, const AccessStatistics&) = default;
};

struct ExecutionReport {
  ExecutionStatus status = ExecutionStatus::completed;
  std::string message{};  ///< why not completed: one sentence with source location and values
  std::vector<std::string> details{};  ///< e.g. one line per blocked warp
  std::vector<RaceReport> races{};
  std::vector<AccessStatistics> accesses{};
  std::uint64_t thread_instructions = 0;
  std::uint64_t visible_steps = 0;
  std::uint64_t elapsed_ns = 0;  ///< provenance only
};

}  // namespace faultline::core
