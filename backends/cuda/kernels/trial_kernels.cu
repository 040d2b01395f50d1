// SPDX-License-Identifier: Apache-2.0
// The parts of a trial that are not the subject: draw inputs, lay poison, compare. One launch each,
// whatever the number of tensors, because a launch costs as much as the work.
#include "faultline/core/acceptance.hpp"
#include "faultline/core/output_hash.hpp"
#include "faultline/core/poison.hpp"
#include "trial_abi.hpp"
#include "trial_arithmetic.hpp"

namespace faultline::cuda {
namespace {

using core::Dtype;

__device__ uint64_t first_trial(const abi::TrialRange& range) {
  return range.first + (range.cursor ? *range.cursor : 0);
}

// Launches marked by DeviceKernels::launch_early() may begin before the one before them has ended,
// which hides the latency of a launch. They touch no memory until all that came before is complete
// and visible. PTX ISA, griddepcontrol.
__device__ void wait_for_earlier_launches() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
/// The next launch's blocks may come once all of this grid's have started.
__device__ void let_next_launch_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/// Nanoseconds of the device's global timer. PTX ISA, special register %globaltimer.
__device__ uint64_t global_timer_ns() {
  uint64_t t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}

/// Index of the tensor that holds chunk `chunk`: the last one whose first chunk is not beyond it.
__device__ uint32_t tensor_of_chunk(const uint32_t* first_chunks, uint32_t count, uint32_t chunk) {
  uint32_t t = 0;
  while (t + 1 < count && first_chunks[t + 1] <= chunk) ++t;
  return t;
}

/// Elements 2i and 2i + 1 of one trial's tensor. Pairs are loaded and stored whole where every
/// trial's tensor begins at an even element.
template <typename T>
struct alignas(2 * sizeof(T)) Pair {
  T first, second;
};

template <typename T>
__device__ void store_pair(T* to, Pair<T> pair, bool paired, bool has_second) {
  if (paired) {
    *reinterpret_cast<Pair<T>*>(to) = pair;
  } else {
    to[0] = pair.first;
    if (has_second) to[1] = pair.second;
  }
}

template <Dtype kDtype>
__device__ void draw_chunk(const abi::InputSlot& input, uint64_t seed, uint64_t begin, uint64_t end,
                           uint32_t slot) {
  using T = arithmetic::Storage<kDtype>;
  const uint64_t key = core::tensor_key(seed, input.tensor);
  T* const data = static_cast<T*>(input.data) + slot * input.elements;
  const bool paired = input.elements % 2 == 0;
  const core::InputSpec spec = input.spec;
  const double a = spec.a, b = spec.b;
#pragma unroll 2
  for (uint64_t i = begin + 2 * threadIdx.x; i < end; i += abi::kRound) {
    Pair<T> pair;
    if (spec.distribution == core::Distribution::normal) {
      pair.first = arithmetic::draw_normal<kDtype>(core::element_bits(key, i), a, b);
      pair.second = arithmetic::draw_normal<kDtype>(core::element_bits(key, i + 1), a, b);
    } else {
      pair.first = arithmetic::encode<kDtype>(core::draw(spec, key, i));
      pair.second = arithmetic::encode<kDtype>(core::draw(spec, key, i + 1));
    }
    store_pair(data + i, pair, paired, i + 1 < end);
  }
}

template <Dtype kDtype>
__device__ void poison_chunk(const abi::PoisonSlot& tensor, uint64_t trial, uint64_t begin,
                             uint64_t end, uint32_t slot) {
  using T = arithmetic::Storage<kDtype>;
  arithmetic::lay_poison<kDtype>(
      tensor, core::poison_word(trial), static_cast<T*>(tensor.data) + slot * tensor.elements,
      begin, end, threadIdx.x, abi::kThreads, [](T* to, const arithmetic::Vector& v) {
        // One store: nvcc splits plain ones.
        __stcg(reinterpret_cast<uint4*>(to),
               make_uint4(v.words[0], v.words[1], v.words[2], v.words[3]));
      });
}

struct ElementMaxima {
  double error = 0.0, error_expected = 0.0, rounded_error = 0.0;
};

__device__ void raise(uint64_t* maximum, double value) {
  const uint64_t bits = core::bits_of(value);
  // Read where the atomics are made. A stale value only costs an atomic: the maximum never falls.
  if (bits > __ldcg(maximum)) {
    atomicMax(reinterpret_cast<unsigned long long*>(maximum),
              static_cast<unsigned long long>(bits));
  }
}

__device__ void add(uint64_t* sum, uint64_t value) {
  atomicAdd(reinterpret_cast<unsigned long long*>(sum), static_cast<unsigned long long>(value));
}

/// The warp's largest error goes to the output, with its expected value. Called by whole warps.
__device__ void raise_error(abi::OutputAccumulator& output, double error, double expected) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    const double other = __shfl_xor_sync(0xffffffffu, error, offset);
    const double other_expected = __shfl_xor_sync(0xffffffffu, expected, offset);
    if (other > error) {
      error = other;
      expected = other_expected;
    }
  }
  if ((threadIdx.x & 31) != 0) return;
  volatile uint64_t* worst = &output.worst_error;
  while (core::bits_of(error) > *worst) {
    if (atomicCAS(&output.lock, 0u, 1u) != 0) continue;
    __threadfence();
    if (core::bits_of(error) > *worst) {
      *worst = core::bits_of(error);
      *const_cast<volatile double*>(&output.worst_error_expected) = expected;
    }
    __threadfence();
    atomicExch(&output.lock, 0u);
  }
}

struct Judgement {
  core::ElementCheck check;
  double rounded_error;  ///< |got - RN(expected)|, as core::compare_output() records it
};

/// The rule itself. One copy for all dtypes, called only for what quick_check() leaves open.
__device__ __noinline__ Judgement judge(Dtype dtype, uint64_t got, double expected, double bound,
                                        uint64_t poison) {
  Judgement j;
  j.check = core::check_element(dtype, got, expected, bound, poison);
  const double value = core::decode(dtype, got), nearest = core::round_to(dtype, expected);
  if (core::stays_untouched(bound)) {
    j.rounded_error = 0.0;
  } else if (j.check.kind == core::ElementClass::no_reference || core::is_nan(value)) {
    j.rounded_error = core::double_of(0x7ff0000000000000ull);
  } else {
    j.rounded_error = value == nearest ? 0.0 : fabs(value - nearest);
  }
  return j;
}

struct ChunkResult {
  uint32_t compared = 0, bad = 0, not_finite = 0, poison = 0, no_reference = 0;
  uint32_t undecided = 0;  ///< bits 2j and 2j + 1: the pair of round j
  uint64_t hash = 0;
  double squared_error = 0.0, squared_expected = 0.0;  ///< of elements with a finite error
  ElementMaxima maxima;
};

__device__ void raise_maxima(ElementMaxima& maxima, double error, double expected,
                             double rounded_error) {
  if (rounded_error > maxima.rounded_error) maxima.rounded_error = rounded_error;
  if (error > maxima.error) {
    maxima.error = error;
    maxima.error_expected = expected;
  }
}

/// The rule itself for one element of each lane of `mine`, and the counts of what it rejects.
/// Called by whole warps, lanes in the order of their elements.
__device__ void judge_element(const abi::CompareParameters& p, const abi::CompareSlot& output,
                              bool mine, uint64_t i, uint32_t slot, uint64_t trial,
                              ChunkResult& r) {
  const Dtype dtype = output.dtype;
  bool bad = false, not_finite = false, poisoned = false, no_reference = false;
  uint32_t tile = 0;
  if (mine) {
    const uint64_t got = core::load_bits(output.data, slot * output.elements + i, dtype);
    const double expected = output.expected[slot * output.reference_stride + i];
    const double bound = output.bound[slot * output.reference_stride + i];
    const uint32_t own_tile = abi::tile_of(output, static_cast<uint32_t>(i));
    const uint64_t poison = abi::poison_of(output, trial).bits(own_tile);
    const Judgement judgement = judge(dtype, got, expected, bound, poison);
    const core::ElementCheck& check = judgement.check;
    bad = core::is_failure(check.kind);
    not_finite = check.kind == core::ElementClass::not_a_number ||
                 check.kind == core::ElementClass::infinite;
    poisoned = check.kind == core::ElementClass::poison;
    no_reference = check.kind == core::ElementClass::no_reference;
    tile = output.first_tile + own_tile;
    raise_maxima(r.maxima, check.error, expected, judgement.rounded_error);
    // What must stay untouched holds the poison, which rotates: no part of the output's bits.
    const bool guarded = core::stays_untouched(bound);
    if (guarded && p.hash_outputs) r.hash -= core::output_hash_term(got, i);
    if (core::is_finite(check.error) && !guarded) {
      r.squared_error += check.error * check.error;
      r.squared_expected += expected * expected;
    }
    raise(&p.tiles[tile].worst_ratio, check.ratio);
    raise(&p.tiles[tile].worst_ulps, check.ulps);
    ++r.compared;
  }
  const uint32_t bad_lanes = __ballot_sync(0xffffffffu, bad);
  if (!bad) return;
  // Wrong elements of one tile are counted by one lane for all.
  const uint32_t peers = __match_any_sync(bad_lanes, tile);
  const uint32_t not_finite_lanes = __ballot_sync(bad_lanes, not_finite) & peers;
  const uint32_t poison_lanes = __ballot_sync(bad_lanes, poisoned) & peers;
  const uint32_t no_reference_lanes = __ballot_sync(bad_lanes, no_reference) & peers;
  ++r.bad;
  r.not_finite += not_finite;
  r.poison += poisoned;
  r.no_reference += no_reference;
  if ((threadIdx.x & 31) == static_cast<uint32_t>(__ffs(peers) - 1)) {
    abi::TileAccumulator& t = p.tiles[tile];
    add(&t.bad_elements, __popc(peers));
    if (not_finite_lanes) add(&t.not_finite, __popc(not_finite_lanes));
    if (poison_lanes) add(&t.poison, __popc(poison_lanes));
    if (no_reference_lanes) add(&t.no_reference, __popc(no_reference_lanes));
    // The lowest lane of `peers` has the smallest index.
    atomicMin(reinterpret_cast<unsigned long long*>(&t.first_bad),
              static_cast<unsigned long long>(i));
    // A slot works on one trial at a time, so its stamps count a tile once per trial.
    uint64_t* stamp = p.tile_stamps + static_cast<uint64_t>(slot) * p.tile_count + tile;
    const uint64_t previous = atomicExch(reinterpret_cast<unsigned long long*>(stamp),
                                         static_cast<unsigned long long>(trial + 1));
    if (previous != trial + 1) add(&t.bad_trials, 1);
  }
}

/// Compares elements begin..end of one output of one trial; every thread of the block takes part.
/// Errors up to `worst_error` are of no interest.
/// Accepted elements are recognised by quick_check(); the others are left to judge_undecided(), so
/// that the loop stays short.
template <Dtype kDtype>
__device__ ChunkResult compare_chunk(const abi::CompareParameters& p,
                                     const abi::CompareSlot& output, uint32_t begin, uint32_t end,
                                     uint32_t slot, double worst_error) {
  using T = arithmetic::Storage<kDtype>;
  const T* const data = static_cast<const T*>(output.data) + slot * output.elements;
  const double* const expected = output.expected + slot * output.reference_stride;
  const double* const bound = output.bound + slot * output.reference_stride;
  const bool paired = output.elements % 2 == 0;
  // Both elements of every pair are in one tile.
  const bool one_tile = paired && output.cols.divisor % 2 == 0 && output.tile_cols.divisor % 2 == 0;
  const uint32_t first = begin + 2 * threadIdx.x;
  const uint32_t rounds = (end - begin + abi::kRound - 1) / abi::kRound;
  uint32_t undecided = 0;
  ChunkResult r;

  const auto element = [&](T got, double want, double limit, uint32_t i, const ulonglong2& seen,
                           abi::TileAccumulator& tile, uint32_t bit) {
    const arithmetic::QuickCheck check =
        arithmetic::quick_check<kDtype>(got, want, limit, core::double_of(seen.x));
    if (p.hash_outputs) r.hash += core::output_hash_term(got, i);
    if (!check.decided) {
      undecided |= bit;
      return;
    }
    ++r.compared;
    r.squared_error += check.error * check.error;
    r.squared_expected += want * want;
    // What raises no maximum, nearly everything, ends here.
    if (check.nearest && check.error <= worst_error && check.ulps <= core::double_of(seen.y)) {
      return;
    }
    if (check.error > worst_error) worst_error = check.error;
    raise_maxima(r.maxima, check.error, want, check.rounded_error);
    if (check.ratio > core::double_of(seen.x)) raise(&tile.worst_ratio, check.ratio);
    if (check.ulps > core::double_of(seen.y)) raise(&tile.worst_ulps, check.ulps);
  };
  const auto tile_at = [&](uint32_t i) -> abi::TileAccumulator& {
    return p.tiles[output.first_tile + abi::tile_of(output, i)];
  };
  // Figures seen so far, perhaps stale: then a candidate more is looked at.
  const auto seen_in = [](const abi::TileAccumulator& tile) {
    return *reinterpret_cast<const ulonglong2*>(&tile.worst_ratio);
  };
  const auto compare_pair = [&](uint32_t i, uint32_t round, Pair<T> got, double2 want,
                                double2 limit) {
    abi::TileAccumulator& tile = tile_at(i);
    const ulonglong2 seen = seen_in(tile);
    element(got.first, want.x, limit.x, i, seen, tile, 1u << 2 * round);
    if (one_tile) {
      element(got.second, want.y, limit.y, i + 1, seen, tile, 2u << 2 * round);
    } else if (i + 1 < end) {
      abi::TileAccumulator& next = tile_at(i + 1);
      element(got.second, want.y, limit.y, i + 1, seen_in(next), next, 2u << 2 * round);
    }
  };
  if (paired) {
    constexpr uint32_t kInFlight = 2;  // pairs requested before the first is used
    for (uint32_t round = 0; round < rounds; round += kInFlight) {
      Pair<T> got[kInFlight];
      double2 want[kInFlight], limit[kInFlight];
#pragma unroll
      for (uint32_t u = 0; u < kInFlight; ++u) {
        const uint32_t i = first + (round + u) * abi::kRound;
        if (i >= end) continue;
        got[u] = *reinterpret_cast<const Pair<T>*>(data + i);
        want[u] = *reinterpret_cast<const double2*>(expected + i);
        limit[u] = *reinterpret_cast<const double2*>(bound + i);
      }
#pragma unroll
      for (uint32_t u = 0; u < kInFlight; ++u) {
        const uint32_t i = first + (round + u) * abi::kRound;
        if (i < end) compare_pair(i, round + u, got[u], want[u], limit[u]);
      }
    }
  } else {
    for (uint32_t round = 0; round < rounds; ++round) {
      const uint32_t i = first + round * abi::kRound;
      if (i >= end) break;
      const uint32_t second = i + 1 < end ? i + 1 : i;
      compare_pair(i, round, {data[i], data[second]}, {expected[i], expected[second]},
                   {bound[i], bound[second]});
    }
  }

  r.undecided = undecided;
  return r;
}

/// Second pass: what the first one left open. Called by whole warps.
__device__ void judge_undecided(const abi::CompareParameters& p, const abi::CompareSlot& output,
                                uint32_t begin, uint32_t slot, uint64_t trial, ChunkResult& r) {
  if (!__any_sync(0xffffffffu, r.undecided != 0)) return;
  for (uint32_t j = 0; j < 2 * abi::kMaxRounds; ++j) {
    const bool mine = r.undecided >> j & 1;
    if (!__any_sync(0xffffffffu, mine)) continue;
    const uint32_t i = begin + 2 * threadIdx.x + j / 2 * abi::kRound + j % 2;
    judge_element(p, output, mine, i, slot, trial, r);
    __syncwarp();
  }
}

/// Counts the errors of elements begin..end of one output of one trial by their size.
template <Dtype kDtype>
__device__ void count_errors(const abi::CompareSlot& output, uint32_t begin, uint32_t end,
                             uint32_t slot, uint64_t trial, uint32_t* ratio_bins,
                             uint32_t* ulp_bins) {
  using T = arithmetic::Storage<kDtype>;
  const T* const data = static_cast<const T*>(output.data) + slot * output.elements;
  const double* const expected = output.expected + slot * output.reference_stride;
  const double* const bound = output.bound + slot * output.reference_stride;
  const core::Poison poison = abi::poison_of(output, trial);
  for (uint32_t i = begin + threadIdx.x; i < end; i += abi::kThreads) {
    const double want = expected[i], limit = bound[i];
    if (core::stays_untouched(limit)) continue;
    const T got = data[i];
    const arithmetic::QuickCheck quick = arithmetic::quick_check<kDtype>(got, want, limit, 0.0);
    double ratio = quick.ratio, ulps = quick.ulps;
    if (!quick.decided) {
      const Judgement judgement =
          judge(kDtype, got, want, limit, poison.bits(abi::tile_of(output, i)));
      ratio = judgement.check.ratio;
      ulps = judgement.check.ulps;
    }
    atomicAdd(ratio_bins + arithmetic::error_bin(ratio), 1u);
    atomicAdd(ulp_bins + arithmetic::error_bin(ulps), 1u);
  }
}

/// The same for what the block compared, through bins of its own to those of the campaign. A
/// function that keeps nothing of its caller's, so that the trials that are not counted, most of
/// them, pay for one branch.
__device__ __noinline__ void count_errors_of_block(const abi::CompareParameters& p) {
  __shared__ uint32_t bins[2 * abi::kErrorBins];  // of error over bound, then of ulps
  uint32_t* const ulps = bins + abi::kErrorBins;
  const uint32_t k = tensor_of_chunk(p.chunks, p.output_count, blockIdx.x), slot = blockIdx.y;
  const abi::CompareSlot& output = p.outputs[k];
  const uint64_t trial = first_trial(p.range) + slot;
  const uint32_t elements = static_cast<uint32_t>(output.elements);
  const uint32_t begin = (blockIdx.x - p.chunks[k]) * p.chunk;
  const uint32_t end = elements - begin < p.chunk ? elements : begin + p.chunk;
  for (uint32_t i = threadIdx.x; i < 2 * abi::kErrorBins; i += abi::kThreads) bins[i] = 0;
  __syncthreads();  // writers: the zeros; readers: the additions
  switch (output.dtype) {
  case Dtype::f16: count_errors<Dtype::f16>(output, begin, end, slot, trial, bins, ulps); break;
  case Dtype::bf16: count_errors<Dtype::bf16>(output, begin, end, slot, trial, bins, ulps); break;
  case Dtype::f32: count_errors<Dtype::f32>(output, begin, end, slot, trial, bins, ulps); break;
  case Dtype::f64: count_errors<Dtype::f64>(output, begin, end, slot, trial, bins, ulps); break;
  }
  __syncthreads();  // writers: the additions; readers: below
  for (uint32_t i = threadIdx.x; i < 2 * abi::kErrorBins; i += abi::kThreads) {
    if (bins[i] != 0) add(p.histograms[k].bins + i, bins[i]);
  }
}

/// Adds the hash to the set of hashes seen.
__device__ void remember_hash(abi::Totals& totals, uint64_t hash) {
  if (hash == 0) hash = 1;
  uint32_t at = static_cast<uint32_t>(core::mix64(hash)) & (abi::kHashSlots - 1);
  for (uint32_t probe = 0; probe < abi::kHashSlots; ++probe) {
    const unsigned long long seen =
        atomicCAS(reinterpret_cast<unsigned long long*>(&totals.hash_table[at]), 0ull,
                  static_cast<unsigned long long>(hash));
    if (seen == 0) {
      atomicAdd(&totals.counters.distinct_hashes, 1u);
      return;
    }
    if (seen == hash) return;
    at = (at + 1) & (abi::kHashSlots - 1);
  }
  totals.counters.hash_overflow = 1;
}

/// Run by the block that compared the trial's last chunk: count the trial, keep its outputs when it
/// failed, and leave the slot zero for the next launch.
__device__ void finish_trial(const abi::CompareParameters& p, uint32_t slot, uint64_t trial) {
  __shared__ uint32_t capture;
  abi::SlotRecord& record = p.slots[slot];
  if (threadIdx.x == 0) {
    abi::Counters& counters = p.totals->counters;
    // The other blocks' contributions are in L2: they were atomics before their fence.
    const uint64_t bad_elements = __ldcg(&record.bad_elements);
    const uint32_t bad_outputs = __ldcg(&record.bad_outputs);
    capture = ~0u;
    add(&counters.trials, 1);
    for (uint32_t k = 0; k < p.output_count; ++k) {
      add(&p.accumulators[k].compared, p.outputs[k].elements);
    }
    if (p.hash_outputs) {
      uint64_t hash = 0;
      for (uint32_t k = 0; k < p.output_count; ++k) {
        hash = core::combine_output_hash(hash, __ldcg(&record.hash[k]));
      }
      remember_hash(*p.totals, hash);
    }
    if (bad_elements != 0) {
      add(&counters.failed, 1);
      atomicMin(reinterpret_cast<unsigned long long*>(&counters.first_failed),
                static_cast<unsigned long long>(trial));
      const abi::FailureRecord failure{trial, bad_elements, bad_outputs, 0};
      const uint32_t at = atomicAdd(&counters.failures, 1u);
      if (at < abi::kMaxFailures) p.totals->failure[at] = failure;
      // Claimed beyond the limit only a bounded number of times: the counter is read first.
      if (*static_cast<volatile uint32_t*>(&counters.captures) < p.capture_limit) {
        const uint32_t claimed = atomicAdd(&counters.captures, 1u);
        if (claimed < p.capture_limit) {
          p.totals->capture[claimed] = failure;
          capture = claimed;
        }
      }
    }
    record.compared = record.bad_elements = 0;
    record.bad_outputs = 0;
    for (uint32_t k = 0; k < p.output_count; ++k) record.hash[k] = 0;
  }
  __syncthreads();
  if (capture == ~0u) return;
  for (uint32_t k = 0; k < p.output_count; ++k) {
    const abi::CompareSlot& output = p.outputs[k];
    unsigned char* to = p.capture_data + capture * p.capture_stride + output.capture_offset;
    for (uint64_t i = threadIdx.x; i < output.elements; i += abi::kThreads) {
      core::store_bits(to, i, output.dtype,
                       core::load_bits(output.data, slot * output.elements + i, output.dtype));
    }
  }
}

__device__ uint32_t warp_sum(uint32_t x) { return __reduce_add_sync(0xffffffffu, x); }

template <class T>
__device__ T warp_sum(T x) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(0xffffffffu, x, offset);
  return x;
}

}  // namespace

/// Inputs drawn, outputs and workspaces poisoned. Grid (chunks, batch), block kThreads.
extern "C" __global__ void __launch_bounds__(abi::kThreads)
    faultline_prepare(const __grid_constant__ abi::PrepareParameters p) {
  const uint32_t chunk = blockIdx.x, slot = blockIdx.y;
  wait_for_earlier_launches();
  const uint64_t trial = first_trial(p.range) + slot;
  const auto end_of = [&p](uint64_t begin, uint64_t elements) {
    return begin + p.chunk < elements ? begin + p.chunk : elements;
  };
  if (chunk >= p.input_chunks[p.input_count]) {
    const uint32_t k = tensor_of_chunk(p.poisoned_chunks, p.poisoned_count, chunk);
    const abi::PoisonSlot& tensor = p.poisoned[k];
    const uint64_t begin = static_cast<uint64_t>(chunk - p.poisoned_chunks[k]) * p.chunk;
    const uint64_t end = end_of(begin, tensor.elements);
    switch (tensor.dtype) {
    case Dtype::f16: poison_chunk<Dtype::f16>(tensor, trial, begin, end, slot); break;
    case Dtype::bf16: poison_chunk<Dtype::bf16>(tensor, trial, begin, end, slot); break;
    case Dtype::f32: poison_chunk<Dtype::f32>(tensor, trial, begin, end, slot); break;
    case Dtype::f64: poison_chunk<Dtype::f64>(tensor, trial, begin, end, slot); break;
    }
    return;
  }
  const uint32_t k = tensor_of_chunk(p.input_chunks, p.input_count, chunk);
  const abi::InputSlot& input = p.inputs[k];
  const uint64_t seed = core::trial_seed(p.range.campaign_seed, p.range.fixed_inputs ? 0 : trial);
  const uint64_t begin = static_cast<uint64_t>(chunk - p.input_chunks[k]) * p.chunk;
  const uint64_t end = end_of(begin, input.elements);
  switch (input.dtype) {
  case Dtype::f16: draw_chunk<Dtype::f16>(input, seed, begin, end, slot); break;
  case Dtype::bf16: draw_chunk<Dtype::bf16>(input, seed, begin, end, slot); break;
  case Dtype::f32: draw_chunk<Dtype::f32>(input, seed, begin, end, slot); break;
  case Dtype::f64: draw_chunk<Dtype::f64>(input, seed, begin, end, slot); break;
  }
}

/// Grid (chunks, batch), block kThreads.
extern "C" __global__ void __launch_bounds__(abi::kThreads)
    faultline_compare(const __grid_constant__ abi::CompareParameters p) {
  __shared__ uint32_t compared, bad, not_finite, poison, no_reference, last;
  __shared__ unsigned long long hash;
  __shared__ double squared_error, squared_expected;
  const uint32_t slot = blockIdx.y;
  wait_for_earlier_launches();
  let_next_launch_begin();
  const uint64_t trial = first_trial(p.range) + slot;
  const uint32_t k = tensor_of_chunk(p.chunks, p.output_count, blockIdx.x);
  const abi::CompareSlot& output = p.outputs[k];
  const uint32_t elements = static_cast<uint32_t>(output.elements);
  const uint32_t begin = (blockIdx.x - p.chunks[k]) * p.chunk;
  const uint32_t end = elements - begin < p.chunk ? elements : begin + p.chunk;
  abi::OutputAccumulator& total = p.accumulators[k];
  // Requested now, needed last.
  const uint64_t worst_error = total.worst_error, worst_rounded = total.worst_rounded_error;
  const double seen_error = core::double_of(worst_error);
  if (threadIdx.x == 0) {
    compared = bad = not_finite = poison = no_reference = last = 0;
    hash = 0;
    squared_error = squared_expected = 0.0;
  }
  __syncthreads();  // writer: thread 0's zeros; readers: the warps' additions below

  ChunkResult r;
  switch (output.dtype) {
  case Dtype::f16: r = compare_chunk<Dtype::f16>(p, output, begin, end, slot, seen_error); break;
  case Dtype::bf16: r = compare_chunk<Dtype::bf16>(p, output, begin, end, slot, seen_error); break;
  case Dtype::f32: r = compare_chunk<Dtype::f32>(p, output, begin, end, slot, seen_error); break;
  case Dtype::f64: r = compare_chunk<Dtype::f64>(p, output, begin, end, slot, seen_error); break;
  }
  __syncwarp();
  judge_undecided(p, output, begin, slot, trial, r);
  if (core::bits_of(r.maxima.rounded_error) > worst_rounded) {
    raise(&total.worst_rounded_error, r.maxima.rounded_error);
  }
  __syncwarp();
  if (__any_sync(0xffffffffu, core::bits_of(r.maxima.error) > worst_error)) {
    raise_error(total, r.maxima.error, r.maxima.error_expected);
  }
  __syncwarp();
  const uint32_t warp_compared = warp_sum(r.compared), warp_bad = warp_sum(r.bad);
  uint32_t warp_not_finite = 0, warp_poison = 0, warp_no_reference = 0;
  uint64_t warp_hash = 0;
  const double warp_error = warp_sum(r.squared_error);
  const double warp_expected = warp_sum(r.squared_expected);
  if (warp_bad) {
    warp_not_finite = warp_sum(r.not_finite);
    warp_poison = warp_sum(r.poison);
    warp_no_reference = warp_sum(r.no_reference);
  }
  if (p.hash_outputs) warp_hash = warp_sum(r.hash);
  if ((threadIdx.x & 31) == 0) {
    atomicAdd(&compared, warp_compared);
    atomicAdd(&squared_error, warp_error);
    atomicAdd(&squared_expected, warp_expected);
    if (warp_bad) {
      atomicAdd(&bad, warp_bad);
      atomicAdd(&not_finite, warp_not_finite);
      atomicAdd(&poison, warp_poison);
      atomicAdd(&no_reference, warp_no_reference);
    }
    if (p.hash_outputs) atomicAdd(&hash, static_cast<unsigned long long>(warp_hash));
  }
  __syncthreads();  // writers: the warps' additions; reader: thread 0
  if (threadIdx.x == 0) {
    abi::SlotRecord& record = p.slots[slot];
    atomicAdd(&total.squared_error, squared_error);
    atomicAdd(&total.squared_expected, squared_expected);
    if (bad) {
      add(&record.bad_elements, bad);
      if (!(atomicOr(&record.bad_outputs, 1u << k) & 1u << k)) add(&total.bad_trials, 1);
      add(&total.bad_elements, bad);
      if (not_finite) add(&total.not_finite, not_finite);
      if (poison) add(&total.poison, poison);
      if (no_reference) add(&total.no_reference, no_reference);
    }
    if (p.hash_outputs) add(&record.hash[k], hash);
    // Release: what this block added to the record precedes its count.
    if (bad || p.hash_outputs) __threadfence();
    const unsigned long long before =
        atomicAdd(reinterpret_cast<unsigned long long*>(&record.compared),
                  static_cast<unsigned long long>(compared));
    last = before + compared == p.elements;
    if (last) __threadfence();  // acquire: the other blocks' additions to the record
  }
  __syncthreads();  // writer: thread 0's verdict; readers: all
  if (last) finish_trial(p, slot, trial);
  if (p.histograms != nullptr && (trial & p.histogram_mask) == 0) count_errors_of_block(p);
}

/// One thread: the next replay of a captured graph works on the next trials.
extern "C" __global__ void faultline_advance(uint64_t* cursor, uint64_t trials) {
  *cursor += trials;
}

/// Poison in all shared memory. The block takes what a multiprocessor has, and keeps it until all
/// blocks of the grid have theirs, so that no two of them were given the same. Smaller blocks, as
/// many as fit, leave gaps where the blocks of another kernel may lie. Block of any extent.
extern "C" __global__ void __launch_bounds__(256)
    faultline_dirty_shared(const __grid_constant__ abi::DirtySharedParameters p) {
  extern __shared__ uint4 memory[];
  const uint32_t word = core::shared_poison_word(first_trial(p.range));
  const uint32_t begin = static_cast<uint32_t>(__cvta_generic_to_shared(memory));
  for (uint32_t at = 16 * threadIdx.x; at < p.bytes; at += 16 * blockDim.x) {
    // Nothing reads it here: a plain store would be dropped.
    asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(begin + at), "r"(word)
                 : "memory");
  }
  if (threadIdx.x == 0) {
    abi::SharedMeeting& meeting = *p.meeting;
    const uint64_t since = global_timer_ns();
    const volatile uint64_t* const met = &meeting.met;
    const uint64_t met_before = *met;
    __threadfence();  // read before this block arrives, without which it cannot grow
    const uint64_t arrived =
        atomicAdd(reinterpret_cast<unsigned long long*>(&meeting.arrived), 1ull);
    if (arrived + 1 == gridDim.x) {
      meeting.arrived = 0;
      __threadfence();
      add(&meeting.met, 1);
    } else {
      while (*met == met_before) {
        if (global_timer_ns() - since <= p.limit_ns) continue;
        add(&meeting.missed, 1);
        break;
      }
    }
  }
  __syncthreads();  // the memory is the block's until its thread 0 has met the others
}

/// 32-bit pattern over `bytes` bytes. One-dimensional grid.
extern "C" __global__ void faultline_fill(unsigned char* data, uint64_t bytes, uint32_t word) {
  const uint64_t stride = static_cast<uint64_t>(gridDim.x) * blockDim.x;
  const uint64_t thread = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (reinterpret_cast<uintptr_t>(data) % 4 == 0) {
    for (uint64_t i = thread; i < bytes / 4; i += stride) {
      reinterpret_cast<uint32_t*>(data)[i] = word;
    }
    const uint64_t tail = bytes / 4 * 4;
    if (thread < bytes % 4) data[tail + thread] = word >> 8 * thread & 0xff;
  } else {
    for (uint64_t i = thread; i < bytes; i += stride) data[i] = word >> 8 * (i % 4) & 0xff;
  }
}

/// Adds to *sum a hash of the bytes: core::output_hash_term() of each word of four, and of what is
/// left. Grid of any extent, whole warps.
extern "C" __global__ void faultline_hash(const unsigned char* data, uint64_t bytes,
                                          unsigned long long* sum) {
  const uint64_t words = bytes / 4, first = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const uint64_t step = uint64_t{gridDim.x} * blockDim.x;
  uint64_t hash = 0;
  for (uint64_t i = first; i < words; i += step) {
    hash += core::output_hash_term(reinterpret_cast<const uint32_t*>(data)[i], i);
  }
  if (first == 0 && bytes % 4 != 0) {
    uint32_t rest = 0;
    for (uint64_t b = 4 * words; b < bytes; ++b) rest = rest << 8 | data[b];
    hash += core::output_hash_term(rest, words);
  }
  __syncwarp();
  hash = warp_sum(hash);
  if ((threadIdx.x & 31) == 0) atomicAdd(sum, static_cast<unsigned long long>(hash));
}

}  // namespace faultline::cuda
