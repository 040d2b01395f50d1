// SPDX-License-Identifier: Apache-2.0
// Loads, stores, atomics and control flow. PTX ISA, "ld", "st", "atom", "red", "Control Flow".
#include "exec/effects.hpp"
#include "machine/address.hpp"
#include "program/decoder.hpp"

namespace faultline::simulator {

using ptx::Scalar;

bool Decoder::take_order_and_scope() {
  const std::string_view order =
      mods_.take_any({"weak", "volatile", "relaxed", "acquire", "release", "acq_rel", "mmio"});
  if (order == "mmio") return false;
  if (order == "volatile") out_.is_volatile = true;
  if (order == "volatile" || order == "relaxed") out_.order = Order::relaxed;
  if (order == "acquire") out_.order = Order::acquire;
  if (order == "release") out_.order = Order::release;
  if (order == "acq_rel") out_.order = Order::acquire_release;
  const std::string_view scope = mods_.take_any({"cta", "cluster", "gpu", "sys"});
  if (scope == "cta") out_.scope = Scope::cta;
  if (scope == "cluster") out_.scope = Scope::cluster;
  if (scope == "gpu") out_.scope = Scope::gpu;
  return true;
}

// Where data is cached does not change values. Returns whether a policy operand follows.
bool Decoder::take_cache_hints() {
  mods_.take_any({"ca", "cg", "cs", "lu", "cv", "wb", "wt"});
  mods_.take_any({"L1::evict_normal", "L1::evict_unchanged", "L1::evict_first", "L1::evict_last",
                  "L1::no_allocate"});
  mods_.take_any({"L2::evict_normal", "L2::evict_first", "L2::evict_last"});
  const bool policy = mods_.take("L2::cache_hint");
  mods_.take_any({"L2::64B", "L2::128B", "L2::256B"});
  return policy;
}

bool Decoder::decode_ld_st() {
  const bool load = !is_op("st");
  const auto type = mods_.take_last_type();
  if (!type || *type == Scalar::b128 || *type == Scalar::pred) return false;
  const std::string_view width = mods_.take_any({"v2", "v4", "v8"});
  if (!take_order_and_scope()) return false;
  const bool policy = take_cache_hints();
  mods_.take("nc");
  if (operand_count() != (policy ? 3u : 2u)) return false;
  const std::string_view space =
      mods_.take_any({"global", "shared", "shared::cta", "shared::cluster", "local", "const",
                      "param", "param::entry", "param::func"});
  const ptx::Operand& memory = operand(load ? 1 : 0);
  const ptx::Operand& value = operand(load ? 0 : 1);
  if (!address(memory, 0)) return false;
  out_.space = space.empty()                ? Space::generic
               : space == "global"          ? Space::global
               : space == "const"           ? Space::constant
               : space == "local"           ? Space::local
               : space.starts_with("param") ? Space::param
                                            : Space::shared;
  if (out_.space == Space::param &&
      (!current_->function->is_entry || current_->locals.contains(memory.symbol))) {
    out_.space = Space::local;
  }
  if (is_op("ldu") && out_.space != Space::global && out_.space != Space::generic) return false;
  std::vector<ptx::Operand> elements = {value};
  if (value.kind == ptx::Operand::Kind::vector) elements = value.elements;
  const std::size_t expected = width == "v2" ? 2 : width == "v4" ? 4 : width == "v8" ? 8 : 1;
  if (elements.size() != expected || expected > 4) return false;
  const int bytes = ptx::bytes_of(*type);
  out_.bytes = static_cast<std::uint8_t>(bytes);
  out_.vector = static_cast<std::uint8_t>(expected);
  out_.sign_extend = ptx::is_signed(*type);
  for (std::size_t k = 0; k < expected; ++k) {
    if (load) {
      if (elements[k].kind == ptx::Operand::Kind::sink) continue;
      const auto d = destination(elements[k], -1);
      if (!d || register_bytes(elements[k]) < bytes) return false;
      out_.d[k] = *d;
      out_.width = static_cast<std::uint8_t>(register_bytes(elements[k]));
    } else {
      if (elements[k].kind == ptx::Operand::Kind::reg) {
        if (register_bytes(elements[k]) < bytes) return false;
        out_.s[1 + k] = current_->registers[static_cast<std::size_t>(elements[k].reg)];
        out_.width = static_cast<std::uint8_t>(register_bytes(elements[k]));
      }
    }
  }
  if (!load) {  // immediates take the width of the registers beside them
    if (out_.width == 0) out_.width = static_cast<std::uint8_t>(std::max(2, bytes));
    for (std::size_t k = 0; k < expected; ++k) {
      if (elements[k].kind == ptx::Operand::Kind::reg) continue;
      if (elements[k].kind != ptx::Operand::Kind::immediate &&
          elements[k].kind != ptx::Operand::Kind::symbol)
        return false;
      const auto s = source(elements[k], out_.width == 2 ? Scalar::b16 : *type);
      if (!s || (out_.width != 2 && out_.width != bytes)) return false;
      out_.s[1 + k] = *s;
    }
  }
  switch (out_.space) {
  case Space::param:
    if (!load) return false;
    out_.flow = Flow::hidden_effect;
    out_.effect = effects::load_parameter();
    return true;
  case Space::local:
    out_.flow = Flow::hidden_effect;
    out_.effect = load ? effects::load_local(bytes) : effects::store_local(bytes);
    return out_.effect != nullptr;
  default:
    out_.flow = Flow::visible;
    out_.effect = load ? effects::load(bytes) : effects::store(bytes);
    return out_.effect != nullptr;
  }
}

bool Decoder::decode_atomic() {
  const bool returns = is_op("atom");
  const auto type = mods_.take_last_type();
  if (!type || !take_order_and_scope()) return false;
  if (out_.order == Order::weak) out_.order = Order::relaxed;
  const std::string_view name =
      mods_.take_any({"add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas"});
  const bool policy = mods_.take("L2::cache_hint");
  mods_.take("noftz");
  const std::string_view space =
      mods_.take_any({"global", "shared", "shared::cta", "shared::cluster"});
  out_.space = space.empty() ? Space::generic : space == "global" ? Space::global : Space::shared;
  AtomicOp op;
  if (name == "add")
    op = AtomicOp::add;
  else if (name == "min")
    op = AtomicOp::minimum;
  else if (name == "max")
    op = AtomicOp::maximum;
  else if (name == "inc")
    op = AtomicOp::increment;
  else if (name == "dec")
    op = AtomicOp::decrement;
  else if (name == "and")
    op = AtomicOp::bit_and;
  else if (name == "or")
    op = AtomicOp::bit_or;
  else if (name == "xor")
    op = AtomicOp::bit_xor;
  else if (name == "exch")
    op = AtomicOp::exchange;
  else if (name == "cas")
    op = AtomicOp::compare_exchange;
  else
    return false;
  const std::size_t first = returns ? 1 : 0;
  const std::size_t wanted =
      first + 2 + (op == AtomicOp::compare_exchange ? 1 : 0) + (policy ? 1 : 0);
  if (operand_count() != wanted || !address(operand(first), 0)) return false;
  const int bytes = ptx::bytes_of(*type);
  if (returns && operand(0).kind != ptx::Operand::Kind::sink) {
    const auto d = destination(operand(0), bytes);
    if (!d) return false;
    out_.d[0] = *d;
  }
  const auto b = source(operand(first + 1), *type);
  if (!b) return false;
  out_.s[1] = *b;
  if (op == AtomicOp::compare_exchange) {
    const auto c = source(operand(first + 2), *type);
    if (!c) return false;
    out_.s[2] = *c;
  }
  out_.bytes = out_.width = static_cast<std::uint8_t>(bytes);
  out_.flow = Flow::visible;
  out_.effect = effects::atomic(op, *type);
  out_.variant = static_cast<std::uint32_t>(op) | static_cast<std::uint32_t>(*type) << 8;
  return out_.effect != nullptr;
}

// Hints and resource controls without an effect on values or order in this model.
bool Decoder::decode_no_operation() {
  out_.flow = Flow::hidden_effect;
  out_.effect = effects::no_operation();
  mods_ = Modifiers("");
  return true;
}

bool Decoder::decode_createpolicy() {
  mods_ = Modifiers("");
  const auto d = destination(operand(0), 8);
  if (!d) return false;
  out_.d[0] = *d;
  out_.s[0] = constant(0, 8);
  return compute({.op = ComputeOp::move, .type = Scalar::u64});
}

bool Decoder::decode_nanosleep() {
  if (!mods_.take("u32")) return false;
  const auto duration = source(operand(0), Scalar::u32);
  if (!duration) return false;
  out_.s[0] = *duration;
  out_.flow = Flow::sleep;
  return true;
}

bool Decoder::decode_control() {
  mods_.take("uni");
  if (is_op("bra")) {
    out_.flow = Flow::branch;
    out_.target = static_cast<std::uint32_t>(statement_->target);
    return statement_->target >= 0;
  }
  if (is_op("brx.idx")) {
    const auto index = source(operand(0), Scalar::u32);
    if (!index || statement_->targets.empty()) return false;
    out_.flow = Flow::indexed_branch;
    out_.s[0] = *index;
    out_.extra = static_cast<std::uint32_t>(program_->branch_tables.size());
    program_->branch_tables.emplace_back(statement_->targets.begin(), statement_->targets.end());
    return true;
  }
  out_.flow = is_op("ret") ? Flow::leave : is_op("exit") ? Flow::exit : Flow::trap;
  return true;
}

// Arguments travel through .param variables, which live in the thread's local frame here.
bool Decoder::decode_call() {
  mods_.take("uni");
  std::vector<ptx::Operand> results, arguments;
  std::string_view callee;
  for (const ptx::Operand& part : statement_->operands) {
    if (part.kind == ptx::Operand::Kind::group) {
      (callee.empty() ? results : arguments) = part.elements;
    } else if (part.kind == ptx::Operand::Kind::symbol && callee.empty()) {
      callee = part.symbol;
    } else if (part.kind != ptx::Operand::Kind::symbol) {
      return false;
    } else {
      return false;  // an indirect call's prototype
    }
  }
  const auto local_of = [&](const ptx::Operand& part) -> std::optional<std::uint32_t> {
    if (part.kind != ptx::Operand::Kind::symbol) return std::nullopt;
    const auto it = current_->locals.find(part.symbol);
    if (it == current_->locals.end()) return std::nullopt;
    return it->second;
  };
  if (callee == "vprintf" || callee == "__assertfail") {
    for (const ptx::Operand& part : arguments) {
      const auto at = local_of(part);
      if (!at || out_.extra_count >= 8) return false;
      out_.s[out_.extra_count++] = static_cast<RegisterOffset>(*at);
    }
    if (!results.empty()) {
      const auto at = local_of(results[0]);
      if (!at) return false;
      out_.d[0] = static_cast<RegisterOffset>(*at);
    }
    out_.flow = Flow::hidden_effect;
    out_.effect = callee == "vprintf" ? effects::print_format() : effects::assertion_failure();
    if (arguments.size() < 2) return false;
    emit(out_);
    return true;
  }
  const auto target = module_->source.functions.find(callee);
  if (target == module_->source.functions.end() || !target->second.has_body) return false;
  FunctionState& state = function_state(callee);
  const ptx::Function& function = *state.function;
  if (results.size() != function.results.size() || arguments.size() != function.parameters.size())
    return false;
  for (std::size_t k = 0; k < arguments.size(); ++k) {
    const auto at = local_of(arguments[k]);
    if (!at) return false;
    emit_local_copy(*at, state.locals.at(function.parameters[k].name),
                    static_cast<std::uint32_t>(function.parameters[k].size));
  }
  out_.flow = Flow::call;
  calls_.emplace_back(static_cast<std::uint32_t>(program_->code.size()), callee);
  emit(out_);
  for (std::size_t k = 0; k < results.size(); ++k) {
    const auto at = local_of(results[k]);
    if (!at) return false;
    emit_local_copy(state.locals.at(function.results[k].name), *at,
                    static_cast<std::uint32_t>(function.results[k].size));
  }
  return true;
}

}  // namespace faultline::simulator
