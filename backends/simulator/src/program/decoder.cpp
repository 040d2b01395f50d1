// SPDX-License-Identifier: Apache-2.0
#include "program/decoder.hpp"

#include <algorithm>
#include <cstring>

#include "exec/effects.hpp"
#include "machine/address.hpp"

namespace faultline::simulator {
namespace {

constexpr OpcodeEntry kOpcodes[] = {
#define FAULTLINE_OPCODE(enumerator, mnemonic, decoder, section, forms)                            \
  {mnemonic, &Decoder::decoder, section, forms},
#include "program/opcodes.def"
#undef FAULTLINE_OPCODE
};

struct SpecialName {
  std::string_view name;
  Special kind;
};
constexpr SpecialName kSpecials[] = {
    {"%tid.x", Special::tid_x},
    {"%tid.y", Special::tid_y},
    {"%tid.z", Special::tid_z},
    {"%ntid.x", Special::ntid_x},
    {"%ntid.y", Special::ntid_y},
    {"%ntid.z", Special::ntid_z},
    {"%ctaid.x", Special::ctaid_x},
    {"%ctaid.y", Special::ctaid_y},
    {"%ctaid.z", Special::ctaid_z},
    {"%nctaid.x", Special::nctaid_x},
    {"%nctaid.y", Special::nctaid_y},
    {"%nctaid.z", Special::nctaid_z},
    {"%laneid", Special::laneid},
    {"%warpid", Special::warpid},
    {"%nwarpid", Special::nwarpid},
    {"%smid", Special::smid},
    {"%nsmid", Special::nsmid},
    {"%gridid", Special::gridid},
    {"%lanemask_eq", Special::lanemask_eq},
    {"%lanemask_lt", Special::lanemask_lt},
    {"%lanemask_le", Special::lanemask_le},
    {"%lanemask_gt", Special::lanemask_gt},
    {"%lanemask_ge", Special::lanemask_ge},
    {"%clusterid.x", Special::clusterid_x},
    {"%clusterid.y", Special::clusterid_y},
    {"%clusterid.z", Special::clusterid_z},
    {"%nclusterid.x", Special::nclusterid_x},
    {"%nclusterid.y", Special::nclusterid_y},
    {"%nclusterid.z", Special::nclusterid_z},
    {"%cluster_ctaid.x", Special::cluster_ctaid_x},
    {"%cluster_ctaid.y", Special::cluster_ctaid_y},
    {"%cluster_ctaid.z", Special::cluster_ctaid_z},
    {"%cluster_nctaid.x", Special::cluster_nctaid_x},
    {"%cluster_nctaid.y", Special::cluster_nctaid_y},
    {"%cluster_nctaid.z", Special::cluster_nctaid_z},
    {"%cluster_ctarank", Special::cluster_ctarank},
    {"%cluster_nctarank", Special::cluster_nctarank},
    {"%is_explicit_cluster", Special::is_explicit_cluster},
    {"%dynamic_smem_size", Special::dynamic_smem_size},
    {"%total_smem_size", Special::total_smem_size},
};

std::optional<Special> find_special(std::string_view name) {
  for (const SpecialName& entry : kSpecials) {
    if (entry.name == name) return entry.kind;
  }
  return std::nullopt;
}

}  // namespace

const OpcodeEntry* find_opcode(std::string_view opcode) {
  const OpcodeEntry* best = nullptr;
  for (const OpcodeEntry& entry : kOpcodes) {
    if (!opcode.starts_with(entry.mnemonic)) continue;
    const std::size_t size = entry.mnemonic.size();
    if (opcode.size() > size && opcode[size] != '.') continue;
    if (best == nullptr || size > best->mnemonic.size()) best = &entry;
  }
  return best;
}

std::vector<OpcodeEntry> all_opcodes() { return {std::begin(kOpcodes), std::end(kOpcodes)}; }

// ---- Modifiers --------------------------------------------------------------------------------

Modifiers::Modifiers(std::string_view dotted) {
  while (!dotted.empty()) {
    dotted.remove_prefix(1);  // the dot
    const std::size_t end = std::min(dotted.find('.'), dotted.size());
    parts_.push_back(dotted.substr(0, end));
    dotted.remove_prefix(end);
  }
  taken_.assign(parts_.size(), false);
}

bool Modifiers::take(std::string_view part) {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (!taken_[i] && parts_[i] == part) return taken_[i] = true;
  }
  return false;
}

std::string_view Modifiers::take_any(std::initializer_list<std::string_view> choices) {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (taken_[i] || std::find(choices.begin(), choices.end(), parts_[i]) == choices.end())
      continue;
    taken_[i] = true;
    return parts_[i];
  }
  return {};
}

std::optional<ptx::Scalar> Modifiers::take_last_type() {
  for (std::size_t i = parts_.size(); i-- > 0;) {
    if (taken_[i]) continue;
    const auto type = ptx::parse_scalar(parts_[i]);
    if (!type) return std::nullopt;
    taken_[i] = true;
    return type;
  }
  return std::nullopt;
}

bool Modifiers::all_taken() const {
  return std::all_of(taken_.begin(), taken_.end(), [](bool taken) { return taken; });
}

bool Modifiers::has(std::string_view part) const {
  return std::find(parts_.begin(), parts_.end(), part) != parts_.end();
}

// ---- registers --------------------------------------------------------------------------------

RegisterOffset Decoder::allocate(int bytes) {
  const std::size_t offset = program_->initial_registers.size();
  const std::size_t size = bytes == 0 ? 64 : static_cast<std::size_t>(std::max(bytes, 2)) * kLanes;
  program_->initial_registers.resize(offset + size);
  return static_cast<RegisterOffset>(offset);
}

RegisterOffset Decoder::constant(std::uint64_t value, int bytes) {
  if (bytes == 1) bytes = 2;
  const auto [it, inserted] = constants_.try_emplace({value, bytes}, kNoRegister);
  if (inserted) {
    it->second = allocate(bytes);
    std::uint8_t* at = program_->initial_registers.data() + it->second;
    if (bytes == 0) {
      const std::uint32_t bits = value ? kAllLanes : 0;
      std::memcpy(at, &bits, 4);
    }
    for (std::uint32_t lane = 0; lane < kLanes && bytes > 0; ++lane) {
      std::memcpy(at + lane * static_cast<std::uint32_t>(bytes), &value,
                  static_cast<std::size_t>(std::min(bytes, 8)));
    }
  }
  return it->second;
}

RegisterOffset Decoder::special(Special kind, int bytes) {
  const auto [it, inserted] = specials_.try_emplace({kind, bytes}, kNoRegister);
  if (inserted) {
    it->second = allocate(bytes);
    program_->specials.push_back({kind, it->second, bytes});
  }
  return it->second;
}

bool Decoder::is_register(std::size_t k) const {
  return k < operand_count() && operand(k).kind == ptx::Operand::Kind::reg;
}

int Decoder::register_bytes(const ptx::Operand& operand) const {
  if (operand.kind != ptx::Operand::Kind::reg) return -1;
  return ptx::bytes_of(current_->function->registers[static_cast<std::size_t>(operand.reg)].type);
}

std::optional<RegisterOffset> Decoder::destination(const ptx::Operand& operand, int bytes) {
  if (operand.kind != ptx::Operand::Kind::reg || operand.negated) return std::nullopt;
  if (bytes >= 0 && register_bytes(operand) != bytes) return std::nullopt;
  return current_->registers[static_cast<std::size_t>(operand.reg)];
}

std::optional<std::uint64_t> Decoder::symbol_address(std::string_view symbol) const {
  if (const auto it = current_->locals.find(symbol); it != current_->locals.end())
    return it->second;
  if (const auto it = shared_offsets_.find(symbol); it != shared_offsets_.end()) return it->second;
  const ptx::Function& function = *current_->function;
  if (function.is_entry) {
    for (std::size_t i = 0; i < function.parameters.size(); ++i) {
      if (function.parameters[i].name == symbol)
        return kParamWindow + function.parameter_offsets[i];
    }
  }
  for (const ptx::Variable& variable : module_->source.variables) {
    if (variable.name == symbol && variable.space != "shared") return resolve_(symbol);
  }
  return std::nullopt;
}

std::optional<RegisterOffset> Decoder::source(const ptx::Operand& operand, ptx::Scalar type) {
  const int bytes = ptx::bytes_of(type);
  switch (operand.kind) {
  case ptx::Operand::Kind::reg:
    if (register_bytes(operand) != std::max(bytes, bytes == 1 ? 2 : 0)) return std::nullopt;
    return current_->registers[static_cast<std::size_t>(operand.reg)];
  case ptx::Operand::Kind::immediate: {
    std::uint64_t bits = operand.immediate;
    if (operand.is_double && type == ptx::Scalar::f32) {
      bits = bits_of(static_cast<float>(std::bit_cast<double>(bits)));
    } else if (operand.is_float && !operand.is_double && type == ptx::Scalar::f64) {
      bits = std::bit_cast<std::uint64_t>(
          static_cast<double>(float_from_bits(static_cast<std::uint32_t>(bits))));
    } else if (operand.is_float && bytes == 2) {
      return std::nullopt;
    }
    if (bytes > 0 && bytes < 8) bits &= (std::uint64_t{1} << (8 * bytes)) - 1;
    return constant(bits, bytes);
  }
  case ptx::Operand::Kind::symbol: {
    if (const auto kind = find_special(operand.symbol)) return special(*kind, bytes);
    if (operand.symbol == "WARP_SZ") return constant(kLanes, bytes);
    const auto address = symbol_address(operand.symbol);
    if (!address) return std::nullopt;
    return constant(*address + static_cast<std::uint64_t>(operand.offset), bytes);
  }
  default: return std::nullopt;
  }
}

bool Decoder::plain_operands(ptx::Scalar type, std::size_t sources, int destination_bytes) {
  if (operand_count() != sources + 1) return false;
  const auto d =
      destination(operand(0), destination_bytes < 0 ? ptx::bytes_of(type) : destination_bytes);
  if (!d) return false;
  out_.d[0] = *d;
  for (std::size_t k = 0; k < sources; ++k) {
    if (operand(k + 1).negated) return false;
    const auto s = source(operand(k + 1), type);
    if (!s) return false;
    out_.s[k] = *s;
  }
  return true;
}

bool Decoder::address(const ptx::Operand& operand, std::size_t slot) {
  if (operand.kind != ptx::Operand::Kind::memory) return false;
  out_.offset = operand.offset;
  if (operand.reg >= 0) {
    const int bytes =
        ptx::bytes_of(current_->function->registers[static_cast<std::size_t>(operand.reg)].type);
    if (bytes != 4 && bytes != 8) return false;
    out_.wide_address = bytes == 8;
    out_.s[slot] = current_->registers[static_cast<std::size_t>(operand.reg)];
    return true;
  }
  std::uint64_t base = 0;
  if (!operand.symbol.empty()) {
    const auto address = symbol_address(operand.symbol);
    if (!address) return false;
    base = *address;
  }
  out_.wide_address = true;
  out_.s[slot] = constant(base, 8);
  return true;
}

// Handlers with several addresses take them as 32-bit (shared) or 64-bit registers without an
// offset.
bool Decoder::address_register(const ptx::Operand& operand, std::size_t slot, bool shared) {
  if (operand.kind != ptx::Operand::Kind::memory) return false;
  const int wanted = shared ? 4 : 8;
  if (operand.reg >= 0) {
    const int bytes =
        ptx::bytes_of(current_->function->registers[static_cast<std::size_t>(operand.reg)].type);
    const RegisterOffset base = current_->registers[static_cast<std::size_t>(operand.reg)];
    if (bytes == wanted && operand.offset == 0) {
      out_.s[slot] = base;
      return true;
    }
    Instruction add;
    add.site = static_cast<std::uint32_t>(program_->sites.size() - 1);
    add.predicate = kNoRegister;
    RegisterOffset narrowed = base;
    if (bytes == 8 &&
        wanted == 4) {  // generic or 64-bit shared address: the low half is the offset
      narrowed = allocate(4);
      add.d[0] = narrowed;
      add.s[0] = base;
      add.compute = select_compute({.op = ComputeOp::convert,
                                    .type = ptx::Scalar::u32,
                                    .source_type = ptx::Scalar::u64,
                                    .width = 4,
                                    .source_width = 8});
      emit(add);
    } else if (bytes != wanted) {
      return false;
    }
    if (operand.offset != 0) {
      add.d[0] = allocate(wanted);
      add.s[0] = narrowed;
      add.s[1] = constant(
          static_cast<std::uint64_t>(operand.offset) & (shared ? 0xffffffffull : ~0ull), wanted);
      add.compute = select_compute(
          {.op = ComputeOp::add, .type = shared ? ptx::Scalar::u32 : ptx::Scalar::u64});
      emit(add);
      narrowed = add.d[0];
    }
    out_.s[slot] = narrowed;
    return true;
  }
  std::uint64_t base = 0;
  if (!operand.symbol.empty()) {
    const auto address = symbol_address(operand.symbol);
    if (!address) return false;
    base = *address;
  }
  out_.s[slot] = constant(base + static_cast<std::uint64_t>(operand.offset), wanted);
  return true;
}

bool Decoder::finish(ComputeHandler handler) {
  out_.flow = Flow::compute;
  out_.compute = handler;
  return handler != nullptr;
}

FloatMode Decoder::take_float_mode() {
  FloatMode mode;
  const std::string_view rounding = mods_.take_any({"rn", "rz", "rm", "rp", "rna"});
  if (rounding == "rz") mode.rounding = Rounding::toward_zero;
  if (rounding == "rm") mode.rounding = Rounding::down;
  if (rounding == "rp") mode.rounding = Rounding::up;
  if (rounding == "rna") mode.rounding = Rounding::nearest_away;
  mode.flush_subnormals = mods_.take("ftz");
  mode.saturate = mods_.take("sat");
  mode.propagate_nan = mods_.take("NaN");
  mode.relu = mods_.take("relu");
  return mode;
}

// ---- functions --------------------------------------------------------------------------------

Decoder::Decoder(const Module& module, const GlobalResolver& resolve)
    : module_(module.implementation()), resolve_(resolve) {}

void Decoder::emit(const Instruction& instruction) { program_->code.push_back(instruction); }

void Decoder::emit_local_copy(std::uint32_t from, std::uint32_t to, std::uint32_t bytes) {
  Instruction copy;
  copy.flow = Flow::hidden_effect;
  copy.effect = effects::copy_local();
  copy.offset = from;
  copy.target = to;
  copy.variant = bytes;
  copy.site = static_cast<std::uint32_t>(program_->sites.size() - 1);
  emit(copy);
}

void Decoder::place_shared(const ptx::Variable& variable) {
  if (shared_offsets_.contains(variable.name)) return;
  const auto align = static_cast<std::uint32_t>(variable.align);
  const std::uint32_t offset = (program_->static_shared_bytes + align - 1) / align * align;
  shared_offsets_[variable.name] = offset;
  program_->shared.push_back(
      {readable_name(variable.name), offset, static_cast<std::uint32_t>(variable.size)});
  program_->static_shared_bytes = offset + static_cast<std::uint32_t>(variable.size);
}

Decoder::FunctionState& Decoder::function_state(std::string_view name) {
  FunctionState& state = functions_[name];
  if (state.function != nullptr) return state;
  state.function = &module_->function(name);
  for (const ptx::Register& reg : state.function->registers) {
    state.registers.push_back(allocate(ptx::bytes_of(reg.type)));
  }
  const auto place_local = [&](const ptx::Variable& variable) {
    const std::uint32_t align =
        std::max<std::uint32_t>(8, static_cast<std::uint32_t>(variable.align));
    program_->local_bytes = (program_->local_bytes + align - 1) / align * align;
    state.locals[variable.name] = program_->local_bytes;
    program_->local_bytes += static_cast<std::uint32_t>(variable.size);
  };
  for (const ptx::Variable& variable : state.function->variables) {
    if (variable.space == "shared") place_shared(variable);
    if (variable.space == "local" || variable.space == "param") place_local(variable);
  }
  if (!state.function->is_entry) {
    for (const ptx::Variable& parameter : state.function->parameters) place_local(parameter);
    for (const ptx::Variable& result : state.function->results) place_local(result);
  }
  for (const ptx::Statement& statement : state.function->code) {
    if (!statement.opcode.starts_with("call")) continue;
    for (const ptx::Operand& operand : statement.operands) {
      const auto it = module_->source.functions.find(operand.symbol);
      if (it != module_->source.functions.end() && it->second.has_body)
        function_state(operand.symbol);
    }
  }
  return state;
}

void Decoder::decode_function(FunctionState& state) {
  current_ = &state;
  state.begin = static_cast<std::uint32_t>(program_->code.size());
  const auto first_site = static_cast<std::uint32_t>(program_->sites.size());
  std::vector<std::uint32_t> starts;
  for (const ptx::Statement& statement : state.function->code) {
    starts.push_back(static_cast<std::uint32_t>(program_->code.size()));
    decode_statement(statement);
  }
  starts.push_back(static_cast<std::uint32_t>(program_->code.size()));
  if (program_->sites.size() == first_site) {
    program_->sites.push_back({nullptr, -1, state.function->name});
  }
  Instruction end;  // falling off the end of a body returns
  end.flow = Flow::leave;
  end.site = static_cast<std::uint32_t>(program_->sites.size() - 1);
  emit(end);
  for (std::uint32_t pc = state.begin; pc < program_->code.size(); ++pc) {
    Instruction& instruction = program_->code[pc];
    if (instruction.flow == Flow::branch) {
      instruction.target = starts[instruction.target];
    } else if (instruction.flow == Flow::indexed_branch) {
      for (std::uint32_t& target : program_->branch_tables[instruction.extra])
        target = starts[target];
    }
  }
  state.done = true;
}

// Callees share one frame per function, so that recursion cannot be modelled.
bool Decoder::is_recursive(std::string_view name, std::string_view wanted, int depth) const {
  if (depth > 64) return true;
  const auto it = module_->source.functions.find(name);
  if (it == module_->source.functions.end()) return false;
  for (const ptx::Statement& statement : it->second.code) {
    if (!statement.opcode.starts_with("call")) continue;
    for (const ptx::Operand& operand : statement.operands) {
      if (operand.kind != ptx::Operand::Kind::symbol) continue;
      if (operand.symbol == wanted || is_recursive(operand.symbol, wanted, depth + 1)) return true;
    }
  }
  return false;
}

void Decoder::decode_callees() {
  for (bool again = true; again;) {
    again = false;
    for (auto& [name, state] : functions_) {
      if (state.done) continue;
      decode_function(state);
      again = true;
    }
  }
  for (const auto& [pc, name] : calls_) {
    if (is_recursive(name, name, 0)) {
      program_->code[pc].flow = Flow::unsupported;
    } else {
      program_->code[pc].target = functions_.at(name).begin;
    }
  }
}

void Decoder::decode_statement(const ptx::Statement& statement) {
  statement_ = &statement;
  out_ = Instruction{};
  out_.site = static_cast<std::uint32_t>(program_->sites.size());
  program_->sites.push_back({&statement, statement.location, current_->function->name});
  if (statement.predicate >= 0) {
    out_.predicate = current_->registers[static_cast<std::size_t>(statement.predicate)];
    out_.predicate_negated = statement.predicate_negated;
  }
  const Instruction untouched = out_;
  const std::size_t code_before = program_->code.size();
  const OpcodeEntry* entry = find_opcode(statement.opcode);
  bool supported = false;
  if (entry != nullptr) {
    mnemonic_ = entry->mnemonic;
    mods_ = Modifiers(statement.opcode.substr(entry->mnemonic.size()));
    supported = (this->*entry->decode)() && mods_.all_taken();
  }
  if (!supported) {
    program_->code.resize(code_before);
    out_ = untouched;
    out_.flow = Flow::unsupported;
  }
  if (supported && entry->mnemonic == "call") return;  // emitted its own sequence
  emit(out_);
}

std::shared_ptr<const Program> Decoder::run(std::string_view entry) {
  program_ = std::make_shared<Program>();
  program_->module = module_;
  program_->entry = std::string(entry);
  carry_ = allocate(0);
  for (const ptx::Variable& variable : module_->source.variables) {
    if (variable.space == "shared" && !variable.external) place_shared(variable);
  }
  FunctionState& state = function_state(entry);
  const ptx::Function& function = *state.function;
  program_->parameter_bytes = function.parameter_bytes;
  const auto threads = function.max_threads;
  if (threads[0] > 0)
    program_->max_threads = static_cast<std::uint32_t>(threads[0] * threads[1] * threads[2]);
  // Dynamic shared memory starts behind every static variable; all extern arrays share its start.
  std::uint32_t dynamic_align = 16;
  for (const ptx::Variable& variable : module_->source.variables) {
    if (variable.space == "shared" && variable.external) {
      dynamic_align = std::max(dynamic_align, static_cast<std::uint32_t>(variable.align));
    }
  }
  program_->static_shared_bytes =
      (program_->static_shared_bytes + dynamic_align - 1) / dynamic_align * dynamic_align;
  for (const ptx::Variable& variable : module_->source.variables) {
    if (variable.space != "shared" || !variable.external) continue;
    shared_offsets_[variable.name] = program_->static_shared_bytes;
    program_->shared.push_back({readable_name(variable.name), program_->static_shared_bytes, 0});
  }
  decode_function(state);
  decode_callees();
  return program_;
}

std::shared_ptr<const Program> decode(const Module& module, std::string_view entry,
                                      const GlobalResolver& resolve) {
  return Decoder(module, resolve).run(entry);
}

// ---- reports ----------------------------------------------------------------------------------

std::string_view Program::opcode_at(std::uint32_t site) const {
  return sites[site].statement != nullptr ? sites[site].statement->opcode : std::string_view("ret");
}

std::string Program::where(std::uint32_t site) const {
  std::string result;
  int location = sites[site].location;
  if (location < 0) {
    const int line = sites[site].statement != nullptr ? sites[site].statement->ptx_line : 0;
    return module->source.name + ":" + std::to_string(line);
  }
  for (int depth = 0; location >= 0 && depth < 8; ++depth) {
    const ptx::Location& at = module->source.locations[static_cast<std::size_t>(location)];
    if (depth > 0) result += depth == 1 ? " (inlined at " : ", ";
    result += module->file_name(at.file) + ":" + std::to_string(at.line);
    if (at.parent < 0 || depth == 7) {
      if (depth > 0) result += ")";
    }
    location = at.parent;
  }
  return result;
}

std::string readable_name(std::string_view symbol) {
  // Itanium mangling: the last <length><identifier> names the variable.
  if (!symbol.starts_with("_Z")) return std::string(symbol);
  std::string_view best;
  for (std::size_t i = 2; i < symbol.size();) {
    if (symbol[i] < '1' || symbol[i] > '9') {
      ++i;
      continue;
    }
    std::size_t length = 0, at = i;
    while (at < symbol.size() && symbol[at] >= '0' && symbol[at] <= '9') {
      length = length * 10 + static_cast<std::size_t>(symbol[at++] - '0');
    }
    const bool identifier =
        length > 0 && at + length <= symbol.size() && !(symbol[at] >= '0' && symbol[at] <= '9');
    if (!identifier) {
      i = at;
      continue;
    }
    best = symbol.substr(at, length);
    i = at + length;
  }
  return best.empty() ? std::string(symbol) : std::string(best);
}

}  // namespace faultline::simulator
