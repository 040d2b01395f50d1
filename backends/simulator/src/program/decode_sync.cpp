// SPDX-License-Identifier: Apache-2.0
// Warp operations, barriers, fences and mbarriers. PTX ISA, "Parallel Synchronization and
// Communication Instructions".
#include "exec/effects.hpp"
#include "program/decoder.hpp"

namespace faultline::simulator {

using ptx::Scalar;

// Convergent operations keep the member mask in s[3].
bool Decoder::decode_shfl() {
  const auto type = mods_.take_last_type();
  const std::string_view mode = mods_.take_any({"up", "down", "bfly", "idx"});
  if (!type || ptx::bytes_of(*type) != 4 || mode.empty() || operand_count() != 5) return false;
  const ptx::Operand& result = operand(0);
  const auto d = destination(result, 4);
  const auto a = source(operand(1), Scalar::b32);
  const auto b = source(operand(2), Scalar::b32);
  const auto c = source(operand(3), Scalar::b32);
  const auto members = source(operand(4), Scalar::b32);
  if (!d || !a || !b || !c || !members) return false;
  out_.d[0] = *d;
  if (result.second_reg >= 0)
    out_.d[1] = current_->registers[static_cast<std::size_t>(result.second_reg)];
  out_.s[0] = *a;
  out_.s[1] = *b;
  out_.s[2] = *c;
  out_.s[3] = *members;
  const ShuffleMode shuffle = mode == "up"     ? ShuffleMode::up
                              : mode == "down" ? ShuffleMode::down
                              : mode == "bfly" ? ShuffleMode::butterfly
                                               : ShuffleMode::index;
  out_.variant = static_cast<std::uint32_t>(shuffle);
  out_.flow = Flow::convergent;
  out_.effect = effects::shuffle();
  return true;
}

bool Decoder::decode_vote() {
  const auto type = mods_.take_last_type();
  const std::string_view mode = mods_.take_any({"all", "any", "uni", "ballot"});
  if (!type || mode.empty() || operand_count() != 3) return false;
  const bool ballot = mode == "ballot";
  const auto d = destination(operand(0), ballot ? 4 : 0);
  const auto p = source(operand(1), Scalar::pred);
  const auto members = source(operand(2), Scalar::b32);
  if (!d || !p || !members) return false;
  out_.d[0] = *d;
  out_.s[0] = *p;
  out_.s[3] = *members;
  out_.sign_extend = operand(1).negated;
  out_.variant = static_cast<std::uint32_t>(ballot          ? VoteMode::ballot
                                            : mode == "all" ? VoteMode::all
                                            : mode == "any" ? VoteMode::any
                                                            : VoteMode::uniform);
  out_.flow = Flow::convergent;
  out_.effect = effects::vote();
  return true;
}

bool Decoder::decode_match() {
  const auto type = mods_.take_last_type();
  if (!type || operand_count() != 3) return false;
  const bool all = is_op("match.all.sync");
  const auto d = destination(operand(0), 4);
  const auto a = source(operand(1), *type);
  const auto members = source(operand(2), Scalar::b32);
  if (!d || !a || !members) return false;
  out_.d[0] = *d;
  if (operand(0).second_reg >= 0)
    out_.d[1] = current_->registers[static_cast<std::size_t>(operand(0).second_reg)];
  out_.s[0] = *a;
  out_.s[3] = *members;
  out_.bytes = static_cast<std::uint8_t>(ptx::bytes_of(*type));
  out_.flow = Flow::convergent;
  out_.effect = all ? effects::match_all() : effects::match_any();
  return out_.bytes == 4 || out_.bytes == 8;
}

bool Decoder::decode_activemask() {
  mods_.take("b32");
  const auto d = destination(operand(0), 4);
  if (!d) return false;
  out_.d[0] = *d;
  out_.flow = Flow::hidden_effect;
  out_.effect = effects::active_mask();
  return true;
}

bool Decoder::decode_elect() {
  if (operand_count() != 2) return false;
  const ptx::Operand& result = operand(0);
  if (result.kind == ptx::Operand::Kind::reg) {
    const auto d = destination(result, 4);
    if (!d) return false;
    out_.d[0] = *d;
  }
  if (result.second_reg < 0) return false;
  out_.d[1] = current_->registers[static_cast<std::size_t>(result.second_reg)];
  const auto members = source(operand(1), Scalar::b32);
  if (!members) return false;
  out_.s[3] = *members;
  out_.flow = Flow::convergent;
  out_.effect = effects::elect();
  return true;
}

bool Decoder::decode_redux() {
  const auto type = mods_.take_last_type();
  const std::string_view name = mods_.take_any({"add", "min", "max", "and", "or", "xor"});
  if (!type || ptx::is_float(*type) || ptx::bytes_of(*type) != 4 || operand_count() != 3)
    return false;
  const auto d = destination(operand(0), 4);
  const auto a = source(operand(1), *type);
  const auto members = source(operand(2), Scalar::b32);
  if (!d || !a || !members) return false;
  ReduxOp op = ReduxOp::add;
  if (name == "min")
    op = ReduxOp::minimum;
  else if (name == "max")
    op = ReduxOp::maximum;
  else if (name == "and")
    op = ReduxOp::bit_and;
  else if (name == "or")
    op = ReduxOp::bit_or;
  else if (name == "xor")
    op = ReduxOp::bit_xor;
  else if (name != "add")
    return false;
  out_.d[0] = *d;
  out_.s[0] = *a;
  out_.s[3] = *members;
  out_.sign_extend = ptx::is_signed(*type);
  out_.variant = static_cast<std::uint32_t>(op);
  out_.flow = Flow::convergent;
  out_.effect = effects::redux();
  return true;
}

bool Decoder::decode_bar_warp() {
  const auto members = source(operand(0), Scalar::b32);
  if (!members) return false;
  out_.s[3] = *members;
  out_.flow = Flow::warp_barrier;
  return true;
}

bool Decoder::decode_bar() {
  mods_.take("cta");
  mods_.take("aligned");
  const std::string_view action = mods_.take_any({"sync", "arrive", "red"});
  std::size_t first = 0;
  BarrierReduction reduction = BarrierReduction::none;
  if (action == "red") {
    const std::string_view op = mods_.take_any({"popc", "and", "or"});
    const auto type = mods_.take_last_type();
    if (!type || op.empty()) return false;
    reduction = op == "popc"  ? BarrierReduction::popcount
                : op == "and" ? BarrierReduction::all
                              : BarrierReduction::any;
    const auto d = destination(operand(0), op == "popc" ? 4 : 0);
    const auto p = source(operand(operand_count() - 1), Scalar::pred);
    if (!d || !p) return false;
    out_.d[0] = *d;
    out_.s[2] = *p;
    out_.sign_extend = operand(operand_count() - 1).negated;
    first = 1;
  }
  const std::size_t last = operand_count() - (action == "red" ? 1 : 0);
  if (action.empty() || last <= first || last - first > 2) return false;
  const auto id = source(operand(first), Scalar::u32);
  if (!id) return false;
  out_.s[0] = *id;
  if (last - first == 2) {
    const auto count = source(operand(first + 1), Scalar::u32);
    if (!count) return false;
    out_.s[1] = *count;
  }
  out_.variant = static_cast<std::uint32_t>(reduction);
  if (action == "arrive") {
    if (last - first != 2) return false;
    out_.flow = Flow::convergent;
    out_.effect = effects::barrier_arrive();
  } else {
    out_.flow = Flow::cta_barrier;
  }
  return true;
}

bool Decoder::decode_barrier_cluster() {
  mods_.take("aligned");
  mods_.take_any({"acquire", "release", "relaxed"});
  const std::string_view action = mods_.take_any({"arrive", "wait"});
  if (action == "arrive") {
    out_.flow = Flow::visible;
    out_.effect = effects::cluster_arrive();
    return true;
  }
  out_.flow = Flow::cluster_barrier;
  return action == "wait";
}

bool Decoder::decode_fence() {
  FenceKind kind = FenceKind::memory;
  out_.order = Order::acquire_release;
  if (is_op("membar")) {
    if (mods_.take("proxy")) return false;
    const std::string_view scope = mods_.take_any({"cta", "gl", "sys"});
    out_.scope = scope == "cta" ? Scope::cta : scope == "gl" ? Scope::gpu : Scope::system;
    if (scope.empty()) return false;
  } else if (mods_.take("proxy")) {
    const std::string_view proxy =
        mods_.take_any({"async", "async::generic", "alias", "tensormap::generic"});
    if (proxy == "async" || proxy == "async::generic") {
      kind = FenceKind::proxy_async;
      mods_.take_any({"global", "shared::cta", "shared::cluster"});
      mods_.take_any({"acquire", "release"});
      mods_.take_any({"sync_restrict::shared::cta", "sync_restrict::shared::cluster"});
      mods_.take_any({"cluster", "cta", "gpu", "sys"});
    } else if (proxy.empty()) {
      return false;
    } else {
      kind = FenceKind::proxy_other;
      mods_.take_any({"acquire", "release"});
      mods_.take_any({"cluster", "cta", "gpu", "sys"});
    }
  } else if (mods_.take("mbarrier_init")) {
    kind = FenceKind::mbarrier_init;
    mods_.take("release");
    mods_.take("cluster");
  } else {
    mods_.take_any({"sc", "acq_rel", "acquire", "release"});
    mods_.take_any({"sync_restrict::shared::cta", "sync_restrict::shared::cluster"});
    const std::string_view scope = mods_.take_any({"cta", "cluster", "gpu", "sys"});
    out_.scope = scope == "cta"       ? Scope::cta
                 : scope == "cluster" ? Scope::cluster
                 : scope == "gpu"     ? Scope::gpu
                                      : Scope::system;
  }
  out_.variant = static_cast<std::uint32_t>(kind);
  out_.flow = Flow::visible;
  out_.effect = effects::fence();
  return true;
}

bool Decoder::decode_mbarrier() {
  if (!mods_.take("b64")) {
    if (!is_op("mbarrier.arrive") || !mods_.has("expect_tx")) {
      if (!is_op("mbarrier.expect_tx") && !is_op("mbarrier.complete_tx")) return false;
    }
  }
  MbarrierAction action = MbarrierAction::arrive;
  std::uint32_t flags = 0;
  if (is_op("mbarrier.init")) action = MbarrierAction::init;
  if (is_op("mbarrier.inval")) action = MbarrierAction::invalidate;
  if (is_op("mbarrier.expect_tx")) action = MbarrierAction::expect_tx;
  if (is_op("mbarrier.complete_tx")) action = MbarrierAction::complete_tx;
  if (is_op("mbarrier.arrive_drop")) flags |= kMbarrierDrop;
  out_.order = action == MbarrierAction::arrive ? Order::release
               : action == MbarrierAction::init ? Order::weak
                                                : Order::relaxed;
  const std::string_view order = mods_.take_any({"release", "relaxed"});
  if (order == "relaxed") out_.order = Order::relaxed;
  mods_.take_any({"cta", "cluster"});
  if (mods_.take("expect_tx")) flags |= kMbarrierExpect;
  if (mods_.take("noComplete")) flags |= kMbarrierNoComplete;
  out_.space = mods_.take_any({"shared", "shared::cta", "shared::cluster"}).empty() ? Space::generic
                                                                                    : Space::shared;
  std::size_t at = 0;
  if (action == MbarrierAction::arrive) {
    const ptx::Operand& state = operand(0);
    if (state.kind != ptx::Operand::Kind::memory) {
      if (state.kind == ptx::Operand::Kind::reg) {
        const auto d = destination(state, 8);
        if (!d) return false;
        out_.d[0] = *d;
      } else if (state.kind != ptx::Operand::Kind::sink) {
        return false;
      }
      at = 1;
    }
  }
  if (operand_count() <= at || !address(operand(at), 0)) return false;
  ++at;
  if (at < operand_count()) {
    const auto value = source(operand(at), Scalar::u32);
    if (!value) return false;
    const bool bytes = (flags & kMbarrierExpect) != 0 || action == MbarrierAction::expect_tx ||
                       action == MbarrierAction::complete_tx;
    out_.s[bytes ? 2 : 1] = *value;
    ++at;
  } else if (action == MbarrierAction::init || action == MbarrierAction::expect_tx ||
             (flags & kMbarrierExpect)) {
    return false;
  }
  if (at != operand_count()) return false;
  out_.variant = static_cast<std::uint32_t>(action) | flags;
  out_.flow = Flow::visible;
  out_.effect = effects::mbarrier();
  program_->uses_mbarriers = true;
  return true;
}

bool Decoder::decode_mbarrier_wait() {
  mods_.take("b64");
  const bool parity = mods_.take("parity");
  out_.order = mods_.take("relaxed") ? Order::relaxed : Order::acquire;
  mods_.take("acquire");
  mods_.take_any({"cta", "cluster"});
  out_.space = mods_.take_any({"shared", "shared::cta"}).empty() ? Space::generic : Space::shared;
  if (operand_count() < 3 || operand_count() > 4) return false;
  const auto d = destination(operand(0), 0);
  const auto what = source(operand(2), parity ? Scalar::u32 : Scalar::u64);
  if (!d || !what || !address(operand(1), 0)) return false;
  out_.d[0] = *d;
  out_.s[1] = *what;
  out_.variant = parity ? kMbarrierParity : 0;
  out_.flow = is_op("mbarrier.try_wait") ? Flow::mbarrier_wait : Flow::mbarrier_test;
  program_->uses_mbarriers = true;
  return true;
}

bool Decoder::decode_mbarrier_pending() {
  mods_.take("b64");
  const auto d = destination(operand(0), 4);
  const auto s = source(operand(1), Scalar::u64);
  if (!d || !s) return false;
  out_.d[0] = *d;
  out_.s[0] = *s;
  out_.flow = Flow::hidden_effect;
  out_.effect = effects::mbarrier_pending();
  return true;
}

}  // namespace faultline::simulator
