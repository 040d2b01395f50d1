// SPDX-License-Identifier: Apache-2.0
// Statements of PTX text -> Instructions. One member function per family of opcodes, see
// opcodes.def; the families live in decode_*.cpp.
#pragma once

#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "program/compute_key.hpp"
#include "program/program.hpp"

namespace faultline::simulator {

// The dotted parts of an opcode behind its mnemonic. A part that nobody takes makes the instruction
// unsupported: modifiers are never ignored by accident.
class Modifiers {
 public:
  explicit Modifiers(std::string_view dotted);
  bool take(std::string_view part);
  // The first part among `choices`, taken; empty if there is none.
  std::string_view take_any(std::initializer_list<std::string_view> choices);
  // Types are taken from the back: `cvt.rn.f16.f32` gives f32, then f16.
  std::optional<ptx::Scalar> take_last_type();
  bool all_taken() const;
  bool has(std::string_view part) const;

 private:
  std::vector<std::string_view> parts_;
  std::vector<bool> taken_;
};

class Decoder;
using DecodeFunction = bool (Decoder::*)();

struct OpcodeEntry {
  std::string_view mnemonic;
  DecodeFunction decode;
  std::string_view section;
  std::string_view forms;
};

// The longest entry that starts `opcode` at a dot boundary, or nullptr.
const OpcodeEntry* find_opcode(std::string_view opcode);

// All entries in the order of opcodes.def.
std::vector<OpcodeEntry> all_opcodes();

class Decoder {
 public:
  Decoder(const Module& module, const GlobalResolver& resolve);
  std::shared_ptr<const Program> run(std::string_view entry);

  // Families; each returns false for a form that is not supported.
  bool decode_add_sub();
  bool decode_carry();
  bool decode_mul();
  bool decode_mul24();
  bool decode_mad();
  bool decode_plain_ternary();
  bool decode_fma();
  bool decode_div();
  bool decode_rem();
  bool decode_sign();
  bool decode_extremum();
  bool decode_sqrt();
  bool decode_rcp();
  bool decode_approximate();
  bool decode_copysign();
  bool decode_testp();
  bool decode_logic();
  bool decode_lop3();
  bool decode_shift();
  bool decode_funnel();
  bool decode_prmt();
  bool decode_bfe();
  bool decode_bfi();
  bool decode_bit_count();
  bool decode_fns();
  bool decode_bmsk();
  bool decode_dp4a();
  bool decode_setp();
  bool decode_set();
  bool decode_selp();
  bool decode_slct();
  bool decode_mov();
  bool decode_cvt();
  bool decode_cvta();
  bool decode_isspacep();
  bool decode_mapa();
  bool decode_getctarank();
  bool decode_ld_st();
  bool decode_atomic();
  bool decode_no_operation();
  bool decode_createpolicy();
  bool decode_control();
  bool decode_call();
  bool decode_nanosleep();
  bool decode_shfl();
  bool decode_vote();
  bool decode_match();
  bool decode_activemask();
  bool decode_elect();
  bool decode_redux();
  bool decode_bar_warp();
  bool decode_bar();
  bool decode_barrier_cluster();
  bool decode_fence();
  bool decode_mbarrier();
  bool decode_mbarrier_wait();
  bool decode_mbarrier_pending();
  bool decode_cp_async_mbarrier();
  bool decode_cp_async_group();
  bool decode_bulk_group();
  bool decode_bulk_tensor();
  bool decode_bulk();
  bool decode_cp_async();
  bool decode_ldmatrix();
  bool decode_stmatrix();
  bool decode_mma();

 private:
  struct FunctionState {
    const ptx::Function* function = nullptr;
    std::vector<RegisterOffset> registers;
    std::map<std::string_view, std::uint32_t> locals;  // .local and .param variables: frame offsets
    std::uint32_t begin = 0;                           // first instruction
    bool done = false;
  };

  FunctionState& function_state(std::string_view name);
  void decode_function(FunctionState& state);
  void decode_callees();
  bool is_recursive(std::string_view name, std::string_view wanted, int depth) const;
  void decode_statement(const ptx::Statement& statement);
  void place_shared(const ptx::Variable& variable);
  void emit(const Instruction& instruction);
  void emit_local_copy(std::uint32_t from, std::uint32_t to, std::uint32_t bytes);

  // Register file.
  RegisterOffset allocate(int bytes);
  RegisterOffset constant(std::uint64_t value, int bytes);
  RegisterOffset all_true();
  RegisterOffset special(Special kind, int bytes);

  // Operands of the current statement.
  std::size_t operand_count() const { return statement_->operands.size(); }
  const ptx::Operand& operand(std::size_t k) const { return statement_->operands[k]; }
  bool is_register(std::size_t k) const;
  int register_bytes(const ptx::Operand& operand) const;
  std::optional<RegisterOffset> destination(const ptx::Operand& operand, int bytes);
  std::optional<RegisterOffset> source(const ptx::Operand& operand, ptx::Scalar type);
  std::optional<std::uint64_t> symbol_address(std::string_view symbol) const;
  // d[0] and s[0..n-1] from operands 0..n, all of `type` (destination bytes may differ).
  bool plain_operands(ptx::Scalar type, std::size_t sources, int destination_bytes = -1);
  // An address operand into s[slot] with its constant part in out_.offset.
  bool address(const ptx::Operand& operand, std::size_t slot);
  // The same, the constant part folded into a register instead (several addresses in one
  // statement).
  bool address_register(const ptx::Operand& operand, std::size_t slot, bool shared);
  bool finish(ComputeHandler handler);
  bool compute(const ComputeKey& key) { return finish(select_compute(key)); }
  FloatMode take_float_mode();
  bool is_op(std::string_view mnemonic) const { return mnemonic_ == mnemonic; }
  bool take_order_and_scope();
  bool take_cache_hints();

  std::shared_ptr<Module::Implementation> module_;
  const GlobalResolver& resolve_;
  std::shared_ptr<Program> program_;
  std::map<std::string_view, FunctionState> functions_;
  std::vector<std::pair<std::uint32_t, std::string_view>> calls_;  // call instructions to patch
  FunctionState* current_ = nullptr;
  std::map<std::pair<std::uint64_t, int>, RegisterOffset> constants_;
  std::map<std::pair<Special, int>, RegisterOffset> specials_;
  std::map<std::string_view, std::uint32_t> shared_offsets_;
  RegisterOffset carry_ = kNoRegister;

  const ptx::Statement* statement_ = nullptr;
  std::string_view mnemonic_;
  Modifiers mods_{""};
  Instruction out_;
};

}  // namespace faultline::simulator
