// SPDX-License-Identifier: Apache-2.0
// Delays inside a kernel: nanosleep in front of or behind the synchronisation sites of its PTX
// text. A race inside one launch depends on how far its warps drift apart, which nothing that runs
// around the launch decides.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "faultline/core/execution.hpp"
#include "faultline/core/module.hpp"
#include "faultline/core/perturbation.hpp"
#include "faultline/core/program.hpp"

namespace faultline::stress {

/// Kinds of sites, bits of core::Perturbation::delay_sites.
enum class DelaySite : std::uint8_t {
  barrier,   ///< behind bar, barrier: who goes on late
  mbarrier,  ///< in front of mbarrier operations, behind the waits among them
  wait,      ///< behind cp.async.wait, cp.async.bulk.wait_group, wgmma.wait_group
  copy,      ///< in front of cp.async, bulk copies, wgmma
  atomic,    ///< in front of atom, red, fence, membar
  shared,    ///< in front of loads and stores of shared memory, ldmatrix and stmatrix
};
constexpr std::uint32_t bit(DelaySite site) { return 1u << static_cast<unsigned>(site); }
/// All but plain accesses to shared memory, of which a kernel may have hundreds.
inline constexpr std::uint32_t kSynchronisationSites = bit(DelaySite::shared) - 1;
std::string_view name_of(DelaySite site);

/// One place of a PTX text where a delay can go.
struct PtxSite {
  DelaySite kind = DelaySite::barrier;
  std::string function{};        ///< kernel or device function
  bool is_entry = false;         ///< a kernel
  std::string instruction{};     ///< "bar.sync"
  core::SourceLocation where{};  ///< the kernel's own line, from its line information; 0: none
  std::size_t offset = 0;        ///< in the text, where the delay goes
};

/// The sites of the given kinds, in the order of the text.
std::vector<PtxSite> find_sites(std::string_view ptx, std::uint32_t kinds);

/// The sites of what a program launches, and of the functions in its modules: numbered from 1 as
/// core::Perturbation::delay_site counts them, module after module as they are first launched.
std::vector<PtxSite> find_sites(const core::Program& program, std::uint32_t kinds);

/// An instruction with which a kernel of the program may wait for another block: in a loop, a load
/// of global memory that sees what others write (volatile, relaxed, acquire, .cv), one by which the
/// loop ends, or an atomic that takes a lock. "ld.volatile.global.u32 at message.cu:26"; empty:
/// there is none. A loop that only looks so counts, too.
std::string polling_instruction(const core::Program& program);

/// Whether some launch of the program has shared memory: dynamic, or declared or used in the PTX of
/// its kernel (where the kernel calls functions, of its module).
bool uses_shared_memory(const core::Program& program);

/// Why a device cannot dirty the shared memory of the program's launches in front of each of them;
/// empty: it can.
std::string why_not_dirtied(const core::Program& program);

/// The program with the delays of the perturbation in its modules. Each site has a power of two of
/// nanoseconds, from 32 to delay_ns, and a set of warps that sleep there, both drawn from
/// delay_seed and its number: the same whether it is the only one or one of many. `made` keeps the
/// modules made so far by the original and the delays, so that equal ones are one.
core::Program with_delays(const core::Program& program, const core::Perturbation& perturbation,
                          std::vector<std::pair<std::string, core::ModuleRef>>& made);

}  // namespace faultline::stress
