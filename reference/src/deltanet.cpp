// SPDX-License-Identifier: Apache-2.0
#include <faultline/reference/deltanet.hpp>

#include "decode.hpp"
#include "delta_chunkwise.hpp"
#include "delta_recurrence.hpp"

#include <faultline/core/errors.hpp>
#include <faultline/core/stop.hpp>

#include <fmt/format.h>

#include <cstddef>
#include <utility>

namespace faultline::reference {

namespace {

std::size_t extent(std::int64_t n) { return static_cast<std::size_t>(n); }

void check_size(std::string_view name, const std::vector<double>& values, std::int64_t wanted,
                bool optional, const DeltaShape& s) {
  if (static_cast<std::int64_t>(values.size()) == wanted || (optional && values.empty())) return;
  throw core::UsageError(fmt::format(
      "the DeltaNet reference got {} elements of {} where b={} h={} t={} dk={} dv={} needs {}",
      values.size(), name, s.b, s.h, s.t, s.dk, s.dv, wanted));
}

enum class Direction { forward, backward };

void check(const DeltaInputs& in, Direction direction) {
  const DeltaShape& s = in.shape;
  if (s.b < 1 || s.h < 1 || s.t < 1 || s.dk < 1 || s.dv < 1) {
    throw core::UsageError(fmt::format(
        "the DeltaNet reference needs extents of at least 1, not b={} h={} t={} dk={} dv={}", s.b,
        s.h, s.t, s.dk, s.dv));
  }
  const std::int64_t rows = s.heads() * s.t, states = s.heads() * s.dk * s.dv;
  check_size("q", in.q, rows * s.dk, false, s);
  check_size("k", in.k, rows * s.dk, false, s);
  check_size("v", in.v, rows * s.dv, false, s);
  check_size("beta", in.beta, rows, false, s);
  check_size("g", in.g, rows, true, s);
  check_size("h0", in.h0, states, true, s);
  if (direction == Direction::backward) {
    check_size("do", in.d_o, rows * s.dv, false, s);
    check_size("dhT", in.dhT, states, true, s);
  }
}

/// Start of a head's part of an array; null where there is none.
template <typename Value>
Value* part(Value* array, std::size_t size, std::int64_t head, std::int64_t heads) {
  return size == 0 ? nullptr : array + size / extent(heads) * extent(head);
}
const double* part(const std::vector<double>& array, std::int64_t head, std::int64_t heads) {
  return part(array.data(), array.size(), head, heads);
}
double* part(std::vector<double>& array, std::int64_t head, std::int64_t heads) {
  return part(array.data(), array.size(), head, heads);
}

DeltaHead<double> head_of(const DeltaInputs& in, std::int64_t head) {
  const DeltaShape& s = in.shape;
  const std::int64_t n = s.heads();
  return {.t = s.t,
          .dk = s.dk,
          .dv = s.dv,
          .scale = in.scale,
          .q = part(in.q, head, n),
          .k = part(in.k, head, n),
          .v = part(in.v, head, n),
          .beta = part(in.beta, head, n),
          .g = part(in.g, head, n),
          .h0 = part(in.h0, head, n),
          .d_o = part(in.d_o, head, n),
          .dhT = part(in.dhT, head, n)};
}

DeltaOutputs allocate(const DeltaInputs& in, Direction direction) {
  const DeltaShape& s = in.shape;
  const std::size_t rows = extent(s.heads() * s.t), states = extent(s.heads() * s.dk * s.dv);
  const std::size_t dk = extent(s.dk), dv = extent(s.dv);
  DeltaOutputs out;
  out.o.resize(rows * dv);
  out.hT.resize(states);
  if (direction == Direction::backward) {
    out.dq.resize(rows * dk);
    out.dk.resize(rows * dk);
    out.dv.resize(rows * dv);
    out.dbeta.resize(rows);
    out.dg.resize(in.gated() ? rows : 0);
    out.dh0.resize(states);
  }
  return out;
}

DeltaHeadOutputs<double> outputs_of(DeltaOutputs& out, std::int64_t head, std::int64_t n) {
  return {.o = part(out.o, head, n),
          .hT = part(out.hT, head, n),
          .dq = part(out.dq, head, n),
          .dk = part(out.dk, head, n),
          .dv = part(out.dv, head, n),
          .dbeta = part(out.dbeta, head, n),
          .dg = part(out.dg, head, n),
          .dh0 = part(out.dh0, head, n)};
}

DeltaIntermediates allocate_intermediates(const DeltaShape& s, std::int64_t chunk,
                                          Direction direction) {
  const std::size_t rows = extent(s.heads() * s.t), c = extent(chunk);
  const std::size_t states = extent(s.heads() * s.chunks(chunk) * s.dk * s.dv);
  const std::size_t dk = extent(s.dk), dv = extent(s.dv);
  DeltaIntermediates kept;
  kept.G.resize(rows);
  kept.x.resize(rows * c);
  kept.w.resize(rows * dk);
  kept.u.resize(rows * dv);
  kept.h.resize(states);
  kept.v_new.resize(rows * dv);
  kept.p.resize(rows * c);
  if (direction == Direction::backward) {
    kept.dp.resize(rows * c);
    kept.dh.resize(states);
    kept.du.resize(rows * dv);
    kept.dw.resize(rows * dk);
    kept.r_v.resize(rows * dv);
    kept.r_w.resize(rows * dk);
    kept.dm.resize(rows * c);
    kept.du_partial.resize(rows * dv);
  }
  return kept;
}

DeltaHeadIntermediates<double> intermediates_of(DeltaIntermediates& kept, std::int64_t head,
                                                std::int64_t n) {
  return {.G = part(kept.G, head, n),
          .x = part(kept.x, head, n),
          .w = part(kept.w, head, n),
          .u = part(kept.u, head, n),
          .h = part(kept.h, head, n),
          .v_new = part(kept.v_new, head, n),
          .p = part(kept.p, head, n),
          .dp = part(kept.dp, head, n),
          .dh = part(kept.dh, head, n),
          .du = part(kept.du, head, n),
          .dw = part(kept.dw, head, n),
          .r_v = part(kept.r_v, head, n),
          .r_w = part(kept.r_w, head, n),
          .dm = part(kept.dm, head, n),
          .du_partial = part(kept.du_partial, head, n)};
}

/// work(head) for every head, shared out among threads.
template <typename Work>
void for_each_head(const DeltaShape& s, Direction direction, Work&& work) {
  const double per_step = direction == Direction::forward ? 6.0 : 24.0;
  const double cost = per_step * static_cast<double>(s.heads() * s.t) * static_cast<double>(s.dk) *
                      static_cast<double>(s.dv);
  parallel_ranges(s.heads(), cost, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t head = begin; head < end; ++head) {
      core::throw_if_stopped();
      work(head);
    }
  });
}

// The recurrence, compiled a second time for processors with wider vectors. AVX2 brings no fused
// multiply-add with it, and sums run in a fixed order: equal bits.
#if defined(__x86_64__) && defined(__GNUC__)
[[gnu::target("avx2"), gnu::flatten]] void forward_wide(const DeltaHead<double>& head,
                                                        const DeltaHeadOutputs<double>& out) {
  recurrent_head_forward(head, out);
}
[[gnu::target("avx2"), gnu::flatten]] void backward_wide(const DeltaHead<double>& head,
                                                         const DeltaHeadOutputs<double>& out) {
  recurrent_head_backward(head, out);
}
bool wide_vectors() { return __builtin_cpu_supports("avx2") != 0; }
#else
void forward_wide(const DeltaHead<double>& head, const DeltaHeadOutputs<double>& out) {
  recurrent_head_forward(head, out);
}
void backward_wide(const DeltaHead<double>& head, const DeltaHeadOutputs<double>& out) {
  recurrent_head_backward(head, out);
}
bool wide_vectors() { return false; }
#endif

DeltaOutputs recurrent(const DeltaInputs& in, Direction direction) {
  check(in, direction);
  DeltaOutputs out = allocate(in, direction);
  const bool wide = wide_vectors();
  for_each_head(in.shape, direction, [&](std::int64_t i) {
    const DeltaHead<double> head = head_of(in, i);
    const DeltaHeadOutputs<double> destination = outputs_of(out, i, in.shape.heads());
    if (direction == Direction::forward) {
      wide ? forward_wide(head, destination) : recurrent_head_forward(head, destination);
    } else {
      wide ? backward_wide(head, destination) : recurrent_head_backward(head, destination);
    }
  });
  return out;
}

ChunkwiseResult chunkwise(const DeltaInputs& in, const ChunkwiseOptions& options,
                          Direction direction) {
  check(in, direction);
  if (options.chunk < 1) {
    throw core::UsageError(
        fmt::format("the chunkwise DeltaNet reference needs chunk >= 1, not {}", options.chunk));
  }
  ChunkwiseResult result{.outputs = allocate(in, direction), .intermediates = {}};
  if (options.intermediates) {
    result.intermediates = allocate_intermediates(in.shape, options.chunk, direction);
  }
  const std::int64_t heads = in.shape.heads();
  for_each_head(in.shape, direction, [&](std::int64_t i) {
    ChunkwiseHead<double> head(head_of(in, i), options.chunk, options.dropped, options.wrong,
                               outputs_of(result.outputs, i, heads),
                               intermediates_of(result.intermediates, i, heads));
    head.forward();
    if (direction == Direction::backward) head.backward();
  });
  return result;
}

std::vector<double> decoded(std::string_view name, const core::Tensor* tensor,
                            const core::Shape& wanted, bool optional) {
  if (tensor == nullptr && optional) return {};
  if (tensor == nullptr) {
    throw core::UsageError(fmt::format("the DeltaNet reference got no {}", name));
  }
  if (tensor->shape != wanted) {
    throw core::UsageError(fmt::format("the DeltaNet reference got {} {}; q and v ask for {}", name,
                                       core::to_string(tensor->shape), core::to_string(wanted)));
  }
  std::vector<double> values(extent(tensor->size()));
  decode_range(*tensor, 0, tensor->size(), values.data());
  return values;
}

}  // namespace

DeltaInputs delta_inputs(const DeltaTensors& tensors, double scale) {
  if (tensors.q == nullptr || tensors.v == nullptr || tensors.q->shape.size() != 4 ||
      tensors.v->shape.size() != 4) {
    throw core::UsageError("the DeltaNet reference needs q [B, H, T, DK] and v [B, H, T, DV]");
  }
  const core::Shape& q = tensors.q->shape;
  DeltaInputs in;
  in.shape = {.b = q[0], .h = q[1], .t = q[2], .dk = q[3], .dv = tensors.v->shape[3]};
  in.scale = scale;
  const DeltaShape& s = in.shape;
  const core::Shape keys{s.b, s.h, s.t, s.dk}, values{s.b, s.h, s.t, s.dv}, steps{s.b, s.h, s.t},
      states{s.b, s.h, s.dk, s.dv};
  in.q = decoded("q", tensors.q, keys, false);
  in.k = decoded("k", tensors.k, keys, false);
  in.v = decoded("v", tensors.v, values, false);
  in.beta = decoded("beta", tensors.beta, steps, false);
  in.g = decoded("g", tensors.g, steps, true);
  in.h0 = decoded("h0", tensors.h0, states, true);
  in.d_o = decoded("do", tensors.d_o, values, true);
  in.dhT = decoded("dhT", tensors.dhT, states, true);
  return in;
}

DeltaOutputs recurrent_forward(const DeltaInputs& inputs) {
  return recurrent(inputs, Direction::forward);
}

DeltaOutputs recurrent_backward(const DeltaInputs& inputs) {
  return recurrent(inputs, Direction::backward);
}

ChunkwiseResult chunkwise_forward(const DeltaInputs& inputs, const ChunkwiseOptions& options) {
  return chunkwise(inputs, options, Direction::forward);
}

ChunkwiseResult chunkwise_backward(const DeltaInputs& inputs, const ChunkwiseOptions& options) {
  return chunkwise(inputs, options, Direction::backward);
}

}  // namespace faultline::reference
