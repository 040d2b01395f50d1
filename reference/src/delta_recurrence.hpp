// SPDX-License-Identifier: Apache-2.0
// The recurrence of deltanet.hpp and its adjoint for one head, over any scalar type: double, a
// 113-bit float, or one that differentiates itself. Plain loops along rows of the state, with sums
// in a fixed order: the result of a type does not depend on the width of the processor's vectors.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

#include <faultline/reference/exponential.hpp>

namespace faultline::reference {

/// One head's inputs. Null: g ungated, h0 and dhT zero.
template <typename Scalar>
struct DeltaHead {
  std::int64_t t = 0, dk = 0, dv = 0;
  Scalar scale{1};
  const Scalar* q = nullptr;     // [t, dk]
  const Scalar* k = nullptr;     // [t, dk]
  const Scalar* v = nullptr;     // [t, dv]
  const Scalar* beta = nullptr;  // [t]
  const Scalar* g = nullptr;     // [t]
  const Scalar* h0 = nullptr;    // [dk, dv]
  const Scalar* d_o = nullptr;   // [t, dv]
  const Scalar* dhT = nullptr;   // [dk, dv]
};

/// Where one head's results go; a forward writes o and hT alone. dg is null when ungated.
template <typename Scalar>
struct DeltaHeadOutputs {
  Scalar* o = nullptr;      // [t, dv]
  Scalar* hT = nullptr;     // [dk, dv]
  Scalar* dq = nullptr;     // [t, dk]
  Scalar* dk = nullptr;     // [t, dk]
  Scalar* dv = nullptr;     // [t, dv]
  Scalar* dbeta = nullptr;  // [t]
  Scalar* dg = nullptr;     // [t]
  Scalar* dh0 = nullptr;    // [dk, dv]
};

/// e^x: faultline's own for double, through double for float, the type's own otherwise.
template <typename Scalar>
Scalar exponential_of(const Scalar& x) {
  if constexpr (std::is_floating_point_v<Scalar>) {
    return static_cast<Scalar>(exponential(static_cast<double>(x)));
  } else {
    using std::exp;
    return exp(x);
  }
}

namespace detail {

inline constexpr std::int64_t kLanes = 8;

/// Sum in kLanes interleaved partial sums, then the rest in order: vectors of up to kLanes elements
/// give the same bits.
template <typename Scalar>
inline Scalar sum_lanes(const Scalar* x, std::int64_t n) {
  Scalar total{0};
  for (std::int64_t j = 0; j < n; ++j) total += x[j];
  return total;
}

template <typename Scalar>
inline Scalar dot(const Scalar* a, const Scalar* b, std::int64_t n) {
  Scalar lanes[kLanes] = {};
  std::int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += a[j + lane] * b[j + lane];
  }
  Scalar total = sum_lanes(lanes, kLanes);
  for (; j < n; ++j) total += a[j] * b[j];
  return total;
}

/// Vectors that a step works on, allocated once a head.
template <typename Scalar>
struct StepScratch {
  explicit StepScratch(std::int64_t dv)
      : error(static_cast<std::size_t>(dv)),
        update(static_cast<std::size_t>(dv)),
        delta(static_cast<std::size_t>(dv)),
        product(static_cast<std::size_t>(dv)) {}
  std::vector<Scalar> error;    // e_t
  std::vector<Scalar> update;   // u_t
  std::vector<Scalar> delta;    // delta_t
  std::vector<Scalar> product;  // columns of <D~, S~>
};

/// decayed = alpha_t state (the two may be the same array); then e_t and u_t against it.
template <typename Scalar>
inline void decay_and_compare(const DeltaHead<Scalar>& head, std::int64_t t, const Scalar* state,
                              Scalar* decayed, StepScratch<Scalar>& scratch) {
  const std::int64_t dv = head.dv;
  const Scalar* k = head.k + t * head.dk;
  const Scalar* v = head.v + t * dv;
  Scalar* error = scratch.error.data();
  for (std::int64_t j = 0; j < dv; ++j) error[j] = Scalar{0};
  const Scalar alpha = head.g != nullptr ? exponential_of(head.g[t]) : Scalar{1};
  for (std::int64_t i = 0; i < head.dk; ++i) {
    const Scalar* from = state + i * dv;
    Scalar* to = decayed + i * dv;
    const Scalar key = k[i];
    for (std::int64_t j = 0; j < dv; ++j) {
      const Scalar x = alpha * from[j];
      to[j] = x;
      error[j] += key * x;
    }
  }
  for (std::int64_t j = 0; j < dv; ++j) {
    error[j] = v[j] - error[j];
    scratch.update[static_cast<std::size_t>(j)] = head.beta[t] * error[j];
  }
}

/// state = decayed + k_t u_t^T (the two may be the same array).
template <typename Scalar>
inline void write(const DeltaHead<Scalar>& head, std::int64_t t, const Scalar* decayed,
                  Scalar* state, const StepScratch<Scalar>& scratch) {
  const Scalar* k = head.k + t * head.dk;
  const Scalar* update = scratch.update.data();
  for (std::int64_t i = 0; i < head.dk; ++i) {
    const Scalar key = k[i];
    const Scalar* from = decayed + i * head.dv;
    Scalar* to = state + i * head.dv;
    for (std::int64_t j = 0; j < head.dv; ++j) to[j] = from[j] + key * update[j];
  }
}

/// o_t = s S_t^T q_t.
template <typename Scalar>
inline void read(const DeltaHead<Scalar>& head, std::int64_t t, const Scalar* state, Scalar* o) {
  const Scalar* q = head.q + t * head.dk;
  for (std::int64_t j = 0; j < head.dv; ++j) o[j] = Scalar{0};
  for (std::int64_t i = 0; i < head.dk; ++i) {
    const Scalar query = q[i];
    const Scalar* row = state + i * head.dv;
    for (std::int64_t j = 0; j < head.dv; ++j) o[j] += query * row[j];
  }
  for (std::int64_t j = 0; j < head.dv; ++j) o[j] = head.scale * o[j];
}

/// D += s q_t do_t^T, delta_t = D^T k_t.
template <typename Scalar>
inline void add_read_gradient(const DeltaHead<Scalar>& head, std::int64_t t, Scalar* gradient,
                              Scalar* delta) {
  const Scalar* q = head.q + t * head.dk;
  const Scalar* k = head.k + t * head.dk;
  const Scalar* d_o = head.d_o + t * head.dv;
  for (std::int64_t j = 0; j < head.dv; ++j) delta[j] = Scalar{0};
  for (std::int64_t i = 0; i < head.dk; ++i) {
    const Scalar query = head.scale * q[i];
    const Scalar key = k[i];
    Scalar* row = gradient + i * head.dv;
    for (std::int64_t j = 0; j < head.dv; ++j) {
      const Scalar x = row[j] + query * d_o[j];
      row[j] = x;
      delta[j] += key * x;
    }
  }
}

/// One step of the adjoint. `decayed` is S~_t, `error` e_t; `gradient` goes from D of step t to
/// that of step t - 1.
template <typename Scalar>
inline void step_back(const DeltaHead<Scalar>& head, std::int64_t t, const Scalar* decayed,
                      const Scalar* error, Scalar* gradient, const DeltaHeadOutputs<Scalar>& out,
                      StepScratch<Scalar>& scratch) {
  const std::int64_t dv = head.dv;
  const Scalar* k = head.k + t * head.dk;
  const Scalar beta = head.beta[t];
  Scalar* update = scratch.update.data();
  Scalar* delta = scratch.delta.data();
  Scalar* product = scratch.product.data();

  add_read_gradient(head, t, gradient, delta);
  for (std::int64_t j = 0; j < dv; ++j) {
    update[j] = beta * error[j];
    out.dv[t * dv + j] = beta * delta[j];
  }
  out.dbeta[t] = dot(delta, error, dv);

  const Scalar alpha = head.g != nullptr ? exponential_of(head.g[t]) : Scalar{1};
  for (std::int64_t j = 0; j < dv; ++j) product[j] = Scalar{0};
  for (std::int64_t i = 0; i < head.dk; ++i) {
    const Scalar* row = decayed + i * dv;
    Scalar* d = gradient + i * dv;
    const Scalar forget = beta * k[i];
    out.dk[t * head.dk + i] = dot(d, update, dv) - beta * dot(row, delta, dv);
    for (std::int64_t j = 0; j < dv; ++j) {
      const Scalar x = d[j] - forget * delta[j];
      product[j] += x * row[j];
      d[j] = alpha * x;
    }
  }
  if (out.dg != nullptr) out.dg[t] = sum_lanes(product, dv);
}

template <typename Scalar>
inline void copy_or_zero(const Scalar* from, std::int64_t n, Scalar* to) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = from != nullptr ? from[i] : Scalar{0};
}

}  // namespace detail

/// o and hT.
template <typename Scalar>
void recurrent_head_forward(const DeltaHead<Scalar>& head, const DeltaHeadOutputs<Scalar>& out) {
  detail::StepScratch<Scalar> scratch(head.dv);
  detail::copy_or_zero(head.h0, head.dk * head.dv, out.hT);
  for (std::int64_t t = 0; t < head.t; ++t) {
    detail::decay_and_compare(head, t, out.hT, out.hT, scratch);
    detail::write(head, t, out.hT, out.hT, scratch);
    detail::read(head, t, out.hT, out.o + t * head.dv);
  }
}

/// Every output. The forward keeps the state before each block of about sqrt(T) steps; the adjoint
/// recomputes the decayed states and the errors of one block at a time.
template <typename Scalar>
void recurrent_head_backward(const DeltaHead<Scalar>& head, const DeltaHeadOutputs<Scalar>& out) {
  const std::int64_t size = head.dk * head.dv;
  std::int64_t block = 1;
  while (block * block < head.t) ++block;
  const std::int64_t blocks = (head.t + block - 1) / block;
  const auto array = [](std::int64_t n) {
    return std::vector<Scalar>(static_cast<std::size_t>(n));
  };
  std::vector<Scalar> checkpoints = array(blocks * size), decayed = array(block * size);
  std::vector<Scalar> errors = array(block * head.dv);
  detail::StepScratch<Scalar> scratch(head.dv);

  detail::copy_or_zero(head.h0, size, out.hT);
  for (std::int64_t t = 0; t < head.t; ++t) {
    if (t % block == 0) detail::copy_or_zero(out.hT, size, checkpoints.data() + t / block * size);
    detail::decay_and_compare(head, t, out.hT, out.hT, scratch);
    detail::write(head, t, out.hT, out.hT, scratch);
    detail::read(head, t, out.hT, out.o + t * head.dv);
    for (std::int64_t i = 0; i < head.dk; ++i) {
      out.dq[t * head.dk + i] =
          head.scale * detail::dot(out.hT + i * head.dv, head.d_o + t * head.dv, head.dv);
    }
  }

  Scalar* gradient = out.dh0;
  detail::copy_or_zero(head.dhT, size, gradient);
  for (std::int64_t b = blocks - 1; b >= 0; --b) {
    const std::int64_t begin = b * block, end = std::min(begin + block, head.t);
    Scalar* state = checkpoints.data() + b * size;
    for (std::int64_t t = begin; t < end; ++t) {
      Scalar* kept = decayed.data() + (t - begin) * size;
      detail::decay_and_compare(head, t, state, kept, scratch);
      detail::write(head, t, kept, state, scratch);
      std::copy(scratch.error.begin(), scratch.error.end(), errors.begin() + (t - begin) * head.dv);
    }
    for (std::int64_t t = end - 1; t >= begin; --t) {
      detail::step_back(head, t, decayed.data() + (t - begin) * size,
                        errors.data() + (t - begin) * head.dv, gradient, out, scratch);
    }
  }
}

}  // namespace faultline::reference
