// SPDX-License-Identifier: Apache-2.0
// A kernel entry decoded once; immutable afterwards and shared by all its launches.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "program/instruction.hpp"
#include "ptx/module_implementation.hpp"

namespace faultline::simulator {

// Where an instruction comes from, for reports.
struct Site {
  const ptx::Statement* statement = nullptr;
  int location = -1;
  std::string_view function;
};

struct SharedVariable {
  std::string name;  // demangled, without parameter lists
  std::uint32_t offset = 0;
  std::uint32_t size = 0;  // 0: the dynamic part
};

enum class Special : std::uint8_t {
  tid_x,
  tid_y,
  tid_z,
  ntid_x,
  ntid_y,
  ntid_z,
  ctaid_x,
  ctaid_y,
  ctaid_z,
  nctaid_x,
  nctaid_y,
  nctaid_z,
  laneid,
  warpid,
  nwarpid,
  smid,
  nsmid,
  gridid,
  lanemask_eq,
  lanemask_lt,
  lanemask_le,
  lanemask_gt,
  lanemask_ge,
  clusterid_x,
  clusterid_y,
  clusterid_z,
  nclusterid_x,
  nclusterid_y,
  nclusterid_z,
  cluster_ctaid_x,
  cluster_ctaid_y,
  cluster_ctaid_z,
  cluster_nctaid_x,
  cluster_nctaid_y,
  cluster_nctaid_z,
  cluster_ctarank,
  cluster_nctarank,
  is_explicit_cluster,
  dynamic_smem_size,
  total_smem_size
};

struct SpecialRegister {
  Special kind;
  RegisterOffset offset;
  int bytes;
};

struct Program {
  std::shared_ptr<Module::Implementation> module;
  std::string entry;
  std::vector<Instruction> code;
  std::vector<RegisterOffset> extra;
  std::vector<std::vector<std::uint32_t>> branch_tables;
  std::vector<Site> sites;
  std::vector<std::uint8_t> initial_registers;  // zeros and constants
  std::vector<SpecialRegister> specials;
  std::vector<SharedVariable> shared;
  std::uint32_t static_shared_bytes = 0;
  std::uint32_t local_bytes = 0;  // of one thread
  std::uint32_t parameter_bytes = 0;
  std::uint32_t max_threads = 0;  // 0: not stated
  bool uses_cp_async = false;
  bool uses_bulk_groups = false;
  bool uses_mbarriers = false;

  // "ld.global.v4.f32" of an instruction.
  std::string_view opcode_at(std::uint32_t site) const;
  // "kernels/gemv/gemv.cu:79 (inlined at ...)"
  std::string where(std::uint32_t site) const;
};

// The device address of a module-level .global or .const variable.
using GlobalResolver = std::function<std::uint64_t(std::string_view)>;

// Throws ParseError. Instructions that are not supported decode to Flow::unsupported and stop the
// launch only if they are reached.
std::shared_ptr<const Program> decode(const Module& module, std::string_view entry,
                                      const GlobalResolver& resolve);

// "_ZZ6kernelE3buf" -> "buf"; names that are not mangled stay.
std::string readable_name(std::string_view symbol);

}  // namespace faultline::simulator
