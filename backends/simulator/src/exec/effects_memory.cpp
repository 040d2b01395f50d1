// SPDX-License-Identifier: Apache-2.0
// Loads, stores and atomics. PTX ISA, "ld", "st", "atom", "red".
#include <cstring>
#include <type_traits>

#include "exec/effects.hpp"
#include "exec/memory_access.hpp"

namespace faultline::simulator {
namespace {

template <class T>
T load_from(const std::uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// Memory elements of type M into registers of type R.
template <class M, class R>
void load_elements(Warp& warp, const Instruction& i, const Object& object, std::uint32_t mask,
                   const std::uint64_t* addresses, bool dense) {
  const std::uint32_t count = i.vector;
  if (dense) {
    const std::uint8_t* first = object.bytes + (addresses[0] - object.base);
    for (std::uint32_t k = 0; k < count; ++k) {
      if (i.d[k] == kNoRegister) continue;
      R* d = lanes_of<R>(warp.registers, i.d[k]);
      const std::uint8_t* from = first + k * sizeof(M);
      if (count == 1) {
        for (int l = 0; l < 32; ++l)
          d[l] = static_cast<R>(load_from<M>(from + static_cast<std::size_t>(l) * sizeof(M)));
      } else if (count == 2) {
        for (int l = 0; l < 32; ++l)
          d[l] = static_cast<R>(load_from<M>(from + static_cast<std::size_t>(l) * 2 * sizeof(M)));
      } else {
        for (int l = 0; l < 32; ++l)
          d[l] = static_cast<R>(load_from<M>(from + static_cast<std::size_t>(l) * 4 * sizeof(M)));
      }
    }
    return;
  }
  for (std::uint32_t k = 0; k < count; ++k) {
    if (i.d[k] == kNoRegister) continue;
    R* d = lanes_of<R>(warp.registers, i.d[k]);
    const std::uint8_t* from = object.bytes + k * sizeof(M);
    for_each_lane(mask, [&](int l) {
      d[l] = static_cast<R>(load_from<M>(from + (addresses[l] - object.base)));
    });
  }
}

template <class M>
void load_object(Warp& warp, const Instruction& i, const Object& object, std::uint32_t mask,
                 const std::uint64_t* addresses, bool dense) {
  using Signed = std::make_signed_t<M>;
  const auto to = [&]<class S, class U>() {
    if (i.sign_extend)
      load_elements<Signed, S>(warp, i, object, mask, addresses, dense);
    else
      load_elements<M, U>(warp, i, object, mask, addresses, dense);
  };
  switch (i.width) {
  case 2: to.template operator()<std::int16_t, std::uint16_t>(); break;
  case 4: to.template operator()<std::int32_t, std::uint32_t>(); break;
  default: to.template operator()<std::int64_t, std::uint64_t>(); break;
  }
}

template <class M, class R>
void store_elements(Warp& warp, const Instruction& i, const Object& object, std::uint32_t mask,
                    const std::uint64_t* addresses) {
  for (std::uint32_t k = 0; k < i.vector; ++k) {
    const R* s = lanes_of<R>(warp.registers, i.s[1 + k]);
    std::uint8_t* to = object.bytes + k * sizeof(M);
    for (std::uint32_t rest = mask; rest != 0; rest &= rest - 1) {
      const int l = __builtin_ctz(rest);
      const M value = static_cast<M>(s[l]);
      std::memcpy(to + (addresses[l] - object.base), &value, sizeof value);
    }
  }
}

template <class M>
void store_object(Warp& warp, const Instruction& i, const Object& object, std::uint32_t mask,
                  const std::uint64_t* addresses) {
  switch (i.width) {
  case 2: store_elements<M, std::uint16_t>(warp, i, object, mask, addresses); break;
  case 4: store_elements<M, std::uint32_t>(warp, i, object, mask, addresses); break;
  default: store_elements<M, std::uint64_t>(warp, i, object, mask, addresses); break;
  }
}

template <class M>
void load(Warp& warp, const Instruction& i, std::uint32_t mask) {
  alignas(64) std::uint64_t addresses[kLanes] = {};
  gather_addresses(warp, i, mask, addresses);
  const std::uint32_t bytes = static_cast<std::uint32_t>(sizeof(M)) * i.vector;
  if (bytes > 1) check_alignment(warp, i, mask, addresses, bytes);
  const bool dense = is_dense(mask, addresses, bytes);
  const bool observed = warp.cta->machine->observed();
  for_each_object(warp, i, mask, addresses, bytes, [&](const Object& object, std::uint32_t lanes) {
    const bool dense_here = dense && lanes == kAllLanes;
    if (observed)
      notify_access(warp, i, object, lanes, addresses, bytes, AccessKind::read, dense_here);
    load_object<M>(warp, i, object, lanes, addresses, dense_here);
  });
}

template <class M>
void store(Warp& warp, const Instruction& i, std::uint32_t mask) {
  alignas(64) std::uint64_t addresses[kLanes] = {};
  gather_addresses(warp, i, mask, addresses);
  const std::uint32_t bytes = static_cast<std::uint32_t>(sizeof(M)) * i.vector;
  if (bytes > 1) check_alignment(warp, i, mask, addresses, bytes);
  Machine& machine = *warp.cta->machine;
  const bool dense = is_dense(mask, addresses, bytes);
  for_each_object(warp, i, mask, addresses, bytes, [&](const Object& object, std::uint32_t lanes) {
    if (object.base == kParamWindow)
      machine.fault(warp, i, static_cast<std::uint32_t>(__builtin_ctz(lanes)),
                    "kernel parameters are read-only");
    if (machine.observed())
      notify_access(warp, i, object, lanes, addresses, bytes, AccessKind::write,
                    dense && lanes == kAllLanes);
    store_object<M>(warp, i, object, lanes, addresses);
  });
  machine.made_progress();
}

// Frames of threads: lane l sees its own bytes under the same address.
template <class M, bool kStore>
void access_local(Warp& warp, const Instruction& i, std::uint32_t mask) {
  std::uint64_t addresses[kLanes] = {};
  gather_addresses(warp, i, mask, addresses);
  const std::uint32_t bytes = static_cast<std::uint32_t>(sizeof(M)) * i.vector;
  if (bytes > 1) check_alignment(warp, i, mask, addresses, bytes);
  for (std::uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<std::uint32_t>(__builtin_ctz(rest));
    const Object object = find_object(warp, i, Space::local, lane, addresses[lane], bytes);
    if (kStore)
      store_object<M>(warp, i, object, 1u << lane, addresses);
    else
      load_object<M>(warp, i, object, 1u << lane, addresses, false);
  }
}

void load_parameter_effect(Warp& warp, const Instruction& i, std::uint32_t mask) {
  std::uint64_t addresses[kLanes] = {};
  gather_addresses(warp, i, mask, addresses);
  const std::uint32_t bytes = static_cast<std::uint32_t>(i.bytes) * i.vector;
  for (std::uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<std::uint32_t>(__builtin_ctz(rest));
    const Object object = find_object(warp, i, Space::param, lane, addresses[lane], bytes);
    switch (i.bytes) {
    case 1: load_object<std::uint8_t>(warp, i, object, 1u << lane, addresses, false); break;
    case 2: load_object<std::uint16_t>(warp, i, object, 1u << lane, addresses, false); break;
    case 4: load_object<std::uint32_t>(warp, i, object, 1u << lane, addresses, false); break;
    default: load_object<std::uint64_t>(warp, i, object, 1u << lane, addresses, false); break;
    }
  }
}

void copy_local_effect(Warp& warp, const Instruction& i, std::uint32_t mask) {
  Cta& cta = *warp.cta;
  const std::uint64_t frame = cta.machine->program().local_bytes;
  for (std::uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<std::uint32_t>(__builtin_ctz(rest));
    std::uint8_t* base = cta.local.data() + (warp.index * kLanes + lane) * frame;
    std::memmove(base + i.target, base + i.offset, i.variant);
  }
}

template <class T>
T combine(AtomicOp op, T old, T b, T c) {
  switch (op) {
  case AtomicOp::add: return static_cast<T>(old + b);
  case AtomicOp::minimum: return b < old ? b : old;
  case AtomicOp::maximum: return old < b ? b : old;
  case AtomicOp::exchange: return b;
  case AtomicOp::compare_exchange: return old == b ? c : old;
  default: break;
  }
  if constexpr (std::is_integral_v<T>) {
    switch (op) {
    case AtomicOp::increment: return old >= b ? T(0) : static_cast<T>(old + 1);
    case AtomicOp::decrement: return old == 0 || old > b ? b : static_cast<T>(old - 1);
    case AtomicOp::bit_and: return old & b;
    case AtomicOp::bit_or: return old | b;
    case AtomicOp::bit_xor: return old ^ b;
    default: break;
    }
  }
  return old;
}

template <bool kBfloat>
std::uint16_t half_sum(std::uint16_t a, std::uint16_t b) {
  return kBfloat ? to_bfloat16(from_bfloat16(a) + from_bfloat16(b))
                 : to_half(from_half(a) + from_half(b));
}

// Applies `update(old, lane)` lane by lane, in lane order.
template <class T, class Update>
void atomic_loop(Warp& warp, const Instruction& i, std::uint32_t mask, Update update) {
  std::uint64_t addresses[kLanes] = {};
  gather_addresses(warp, i, mask, addresses);
  check_alignment(warp, i, mask, addresses, sizeof(T));
  Machine& machine = *warp.cta->machine;
  bool changed = false;
  for_each_object(
      warp, i, mask, addresses, sizeof(T), [&](const Object& object, std::uint32_t lanes) {
        if (machine.observed())
          notify_access(warp, i, object, lanes, addresses, sizeof(T), AccessKind::atomic, false);
        for (std::uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
          const int l = __builtin_ctz(rest);
          std::uint8_t* at = object.bytes + (addresses[l] - object.base);
          const T old = load_from<T>(at);
          const T value = update(old, l);
          std::memcpy(at, &value, sizeof value);
          changed = changed || std::memcmp(&old, &value, sizeof value) != 0;
          if (i.d[0] != kNoRegister) warp.lane_values<T>(i.d[0])[l] = old;
        }
      });
  if (changed) machine.made_progress();  // a failing compare-and-swap loop is a spin loop
}

template <class T>
void atomic_effect(Warp& warp, const Instruction& i, std::uint32_t mask) {
  const auto op = static_cast<AtomicOp>(i.variant & 0xff);
  const T* b = warp.lane_values<T>(i.s[1]);
  const T* c = warp.lane_values<T>(i.s[2] != kNoRegister ? i.s[2] : i.s[1]);
  atomic_loop<T>(warp, i, mask, [&](T old, int l) { return combine<T>(op, old, b[l], c[l]); });
}

template <bool kBfloat, bool kPacked>
void atomic_half(Warp& warp, const Instruction& i, std::uint32_t mask) {
  if constexpr (kPacked) {
    const auto* b = warp.lane_values<std::uint32_t>(i.s[1]);
    atomic_loop<std::uint32_t>(warp, i, mask, [&](std::uint32_t old, int l) {
      const std::uint32_t low =
          half_sum<kBfloat>(static_cast<std::uint16_t>(old), static_cast<std::uint16_t>(b[l]));
      const std::uint32_t high = half_sum<kBfloat>(static_cast<std::uint16_t>(old >> 16),
                                                   static_cast<std::uint16_t>(b[l] >> 16));
      return high << 16 | low;
    });
  } else {
    const auto* b = warp.lane_values<std::uint16_t>(i.s[1]);
    atomic_loop<std::uint16_t>(
        warp, i, mask, [&](std::uint16_t old, int l) { return half_sum<kBfloat>(old, b[l]); });
  }
}

}  // namespace

namespace effects {

EffectHandler load(int bytes) {
  switch (bytes) {
  case 1: return simulator::load<std::uint8_t>;
  case 2: return simulator::load<std::uint16_t>;
  case 4: return simulator::load<std::uint32_t>;
  case 8: return simulator::load<std::uint64_t>;
  default: return nullptr;
  }
}
EffectHandler store(int bytes) {
  switch (bytes) {
  case 1: return simulator::store<std::uint8_t>;
  case 2: return simulator::store<std::uint16_t>;
  case 4: return simulator::store<std::uint32_t>;
  case 8: return simulator::store<std::uint64_t>;
  default: return nullptr;
  }
}
EffectHandler load_local(int bytes) {
  switch (bytes) {
  case 1: return access_local<std::uint8_t, false>;
  case 2: return access_local<std::uint16_t, false>;
  case 4: return access_local<std::uint32_t, false>;
  case 8: return access_local<std::uint64_t, false>;
  default: return nullptr;
  }
}
EffectHandler store_local(int bytes) {
  switch (bytes) {
  case 1: return access_local<std::uint8_t, true>;
  case 2: return access_local<std::uint16_t, true>;
  case 4: return access_local<std::uint32_t, true>;
  case 8: return access_local<std::uint64_t, true>;
  default: return nullptr;
  }
}
EffectHandler load_parameter() { return load_parameter_effect; }
EffectHandler copy_local() { return copy_local_effect; }

EffectHandler atomic(AtomicOp op, ptx::Scalar type) {
  using ptx::Scalar;
  const bool add = op == AtomicOp::add;
  const bool moves = op == AtomicOp::exchange || op == AtomicOp::compare_exchange;
  const bool bits =
      op == AtomicOp::bit_and || op == AtomicOp::bit_or || op == AtomicOp::bit_xor || moves;
  switch (type) {
  case Scalar::u32: return bits && !moves ? nullptr : atomic_effect<std::uint32_t>;
  case Scalar::s32:
    return add || op == AtomicOp::minimum || op == AtomicOp::maximum ? atomic_effect<std::int32_t>
                                                                     : nullptr;
  case Scalar::u64:
    return add || op == AtomicOp::minimum || op == AtomicOp::maximum ? atomic_effect<std::uint64_t>
                                                                     : nullptr;
  case Scalar::s64:
    return op == AtomicOp::minimum || op == AtomicOp::maximum ? atomic_effect<std::int64_t>
                                                              : nullptr;
  case Scalar::b16:
    return op == AtomicOp::compare_exchange ? atomic_effect<std::uint16_t> : nullptr;
  case Scalar::b32: return bits ? atomic_effect<std::uint32_t> : nullptr;
  case Scalar::b64: return bits ? atomic_effect<std::uint64_t> : nullptr;
  case Scalar::f32: return add ? atomic_effect<float> : nullptr;
  case Scalar::f64: return add ? atomic_effect<double> : nullptr;
  case Scalar::f16: return add ? atomic_half<false, false> : nullptr;
  case Scalar::bf16: return add ? atomic_half<true, false> : nullptr;
  case Scalar::f16x2: return add ? atomic_half<false, true> : nullptr;
  case Scalar::bf16x2: return add ? atomic_half<true, true> : nullptr;
  default: return nullptr;
  }
}

}  // namespace effects
}  // namespace faultline::simulator
