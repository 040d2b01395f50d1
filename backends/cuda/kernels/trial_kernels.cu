// SPDX-License-Identifier: Apache-2.0
// The parts of a trial that are not the subject: draw inputs, lay poison, compare. One launch each,
// whatever the number of tensors, because a launch costs as much as the work.
#include "faultline/core/acceptance.hpp"
#include "faultline/core/output_hash.hpp"
#include "faultline/core/tensor.hpp"
#include "trial_abi.hpp"

namespace faultline::cuda {
namespace {

using core::Dtype;

__device__ uint64_t first_trial(const abi::TrialRange& range) {
  return range.first + (range.cursor ? *range.cursor : 0);
}

/// Index of the tensor that holds chunk `chunk`: the last one whose first chunk is not beyond it.
__device__ uint32_t tensor_of_chunk(const uint32_t* first_chunks, uint32_t count, uint32_t chunk) {
  uint32_t t = 0;
  while (t + 1 < count && first_chunks[t + 1] <= chunk) ++t;
  return t;
}

template <Dtype kDtype>
__device__ void draw_chunk(const abi::InputSlot& input, uint64_t seed, uint32_t chunk,
                           uint32_t slot) {
  const uint64_t key = core::tensor_key(seed, input.tensor);
  const uint64_t base = slot * input.elements;
#pragma unroll
  for (uint32_t j = 0; j < abi::kChunk / abi::kThreads; ++j) {
    const uint64_t i = static_cast<uint64_t>(chunk) * abi::kChunk + j * abi::kThreads + threadIdx.x;
    if (i < input.elements) {
      core::store_bits(input.data, base + i, kDtype,
                       core::encode(kDtype, core::draw(input.spec, key, i)));
    }
  }
}

__device__ void poison_chunk(const abi::PoisonSlot& output, uint64_t trial, uint32_t chunk,
                             uint32_t slot) {
  const uint64_t bits = core::poison_bits(output.dtype, core::poison_word(trial));
  const uint64_t base = slot * output.elements;
#pragma unroll
  for (uint32_t j = 0; j < abi::kChunk / abi::kThreads; ++j) {
    const uint64_t i = static_cast<uint64_t>(chunk) * abi::kChunk + j * abi::kThreads + threadIdx.x;
    if (i < output.elements) core::store_bits(output.data, base + i, output.dtype, bits);
  }
}

struct ElementMaxima {
  double ratio = 0.0, ulps = 0.0, error = 0.0, error_expected = 0.0, rounded_error = 0.0;
};

__device__ void raise(uint64_t* maximum, double value) {
  const uint64_t bits = core::bits_of(value);
  // A stale read only costs an atomic: the maximum never falls.
  if (bits > *maximum) {
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

/// |got - RN(expected)|, as core::compare_output() records it.
__device__ double rounded_error(Dtype dtype, uint64_t got, double expected,
                                const core::ElementCheck& check) {
  const double value = core::decode(dtype, got), nearest = core::round_to(dtype, expected);
  if (check.kind == core::ElementClass::no_reference || core::is_nan(value)) {
    return core::double_of(0x7ff0000000000000ull);
  }
  return value == nearest ? 0.0 : fabs(value - nearest);
}

struct ChunkResult {
  uint32_t compared = 0, bad = 0, not_finite = 0, poison = 0;
  uint64_t hash = 0;
  ElementMaxima maxima;
};

/// Compares up to kChunk elements of one output of one trial; every thread of the block takes part.
template <Dtype kDtype>
__device__ ChunkResult compare_chunk(const abi::CompareParameters& p,
                                     const abi::CompareSlot& output, uint32_t chunk, uint32_t slot,
                                     uint64_t trial) {
  const uint64_t poison = core::poison_bits(kDtype, core::poison_word(trial));
  const uint64_t base = slot * output.elements, reference = slot * output.reference_stride;
  constexpr uint32_t kPerThread = abi::kChunk / abi::kThreads;
  uint64_t got[kPerThread];
  double expected[kPerThread], bound[kPerThread];
#pragma unroll
  for (uint32_t j = 0; j < kPerThread; ++j) {
    const uint64_t i = static_cast<uint64_t>(chunk) * abi::kChunk + j * abi::kThreads + threadIdx.x;
    if (i >= output.elements) continue;
    got[j] = core::load_bits(output.data, base + i, kDtype);
    expected[j] = output.expected[reference + i];
    bound[j] = output.bound[reference + i];
  }
  ChunkResult r;
#pragma unroll
  for (uint32_t j = 0; j < kPerThread; ++j) {
    const uint64_t i = static_cast<uint64_t>(chunk) * abi::kChunk + j * abi::kThreads + threadIdx.x;
    const bool valid = i < output.elements;
    core::ElementCheck check;
    uint32_t tile = 0;
    bool bad = false;
    if (valid) {
      check = core::check_element(kDtype, got[j], expected[j], bound[j], poison);
      bad = core::is_failure(check.kind);
      tile = output.first_tile + abi::tile_of(output, static_cast<uint32_t>(i));
      const double rounded = rounded_error(kDtype, got[j], expected[j], check);
      ++r.compared;
      if (check.ratio > r.maxima.ratio) r.maxima.ratio = check.ratio;
      if (check.ulps > r.maxima.ulps) r.maxima.ulps = check.ulps;
      if (rounded > r.maxima.rounded_error) r.maxima.rounded_error = rounded;
      if (check.error > r.maxima.error) {
        r.maxima.error = check.error;
        r.maxima.error_expected = expected[j];
      }
      raise(&p.tiles[tile].worst_ratio, check.ratio);
      raise(&p.tiles[tile].worst_ulps, check.ulps);
      if (p.hash_outputs) r.hash += core::output_hash_term(got[j], i);
    }
    const uint32_t bad_lanes = __ballot_sync(0xffffffffu, bad);
    if (bad_lanes == 0) continue;
    if (!bad) continue;
    // Wrong elements of one tile are counted by one lane for all.
    const bool not_finite = check.kind == core::ElementClass::not_a_number ||
                            check.kind == core::ElementClass::infinite;
    const bool poisoned = check.kind == core::ElementClass::poison;
    const uint32_t peers = __match_any_sync(bad_lanes, tile);
    const uint32_t not_finite_lanes = __ballot_sync(bad_lanes, not_finite) & peers;
    const uint32_t poison_lanes = __ballot_sync(bad_lanes, poisoned) & peers;
    ++r.bad;
    r.not_finite += not_finite;
    r.poison += poisoned;
    if ((threadIdx.x & 31) == static_cast<uint32_t>(__ffs(peers) - 1)) {
      abi::TileAccumulator& t = p.tiles[tile];
      add(&t.bad_elements, __popc(peers));
      if (not_finite_lanes) add(&t.not_finite, __popc(not_finite_lanes));
      if (poison_lanes) add(&t.poison, __popc(poison_lanes));
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
  return r;
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
    record = abi::SlotRecord{};
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

__device__ uint64_t warp_sum(uint64_t x) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(0xffffffffu, x, offset);
  return x;
}

}  // namespace

/// Inputs drawn, outputs poisoned. Grid (chunks, batch), block kThreads.
extern "C" __global__ void __launch_bounds__(abi::kThreads)
    faultline_prepare(const __grid_constant__ abi::PrepareParameters p) {
  const uint32_t chunk = blockIdx.x, slot = blockIdx.y;
  const uint64_t trial = first_trial(p.range) + slot;
  if (chunk >= p.input_chunks[p.input_count]) {
    const uint32_t k = tensor_of_chunk(p.output_chunks, p.output_count, chunk);
    poison_chunk(p.outputs[k], trial, chunk - p.output_chunks[k], slot);
    return;
  }
  const uint32_t k = tensor_of_chunk(p.input_chunks, p.input_count, chunk);
  const abi::InputSlot& input = p.inputs[k];
  const uint64_t seed = core::trial_seed(p.range.campaign_seed, p.range.fixed_inputs ? 0 : trial);
  const uint32_t local = chunk - p.input_chunks[k];
  switch (input.dtype) {
  case Dtype::f16: draw_chunk<Dtype::f16>(input, seed, local, slot); break;
  case Dtype::bf16: draw_chunk<Dtype::bf16>(input, seed, local, slot); break;
  case Dtype::f32: draw_chunk<Dtype::f32>(input, seed, local, slot); break;
  case Dtype::f64: draw_chunk<Dtype::f64>(input, seed, local, slot); break;
  }
}

/// Grid (chunks, batch), block kThreads.
extern "C" __global__ void __launch_bounds__(abi::kThreads)
    faultline_compare(const __grid_constant__ abi::CompareParameters p) {
  __shared__ uint32_t compared, bad, not_finite, poison, last;
  __shared__ unsigned long long hash;
  const uint32_t slot = blockIdx.y;
  const uint64_t trial = first_trial(p.range) + slot;
  const uint32_t k = tensor_of_chunk(p.chunks, p.output_count, blockIdx.x);
  const abi::CompareSlot& output = p.outputs[k];
  const uint32_t chunk = blockIdx.x - p.chunks[k];
  if (threadIdx.x == 0) {
    compared = bad = not_finite = poison = last = 0;
    hash = 0;
  }
  __syncthreads();  // writer: thread 0's zeros; readers: the warps' additions below

  ChunkResult r;
  switch (output.dtype) {
  case Dtype::f16: r = compare_chunk<Dtype::f16>(p, output, chunk, slot, trial); break;
  case Dtype::bf16: r = compare_chunk<Dtype::bf16>(p, output, chunk, slot, trial); break;
  case Dtype::f32: r = compare_chunk<Dtype::f32>(p, output, chunk, slot, trial); break;
  case Dtype::f64: r = compare_chunk<Dtype::f64>(p, output, chunk, slot, trial); break;
  }
  __syncwarp();
  abi::OutputAccumulator& total = p.accumulators[k];
  raise(&total.worst_ratio, r.maxima.ratio);
  raise(&total.worst_ulps, r.maxima.ulps);
  raise(&total.worst_rounded_error, r.maxima.rounded_error);
  __syncwarp();
  if (__any_sync(0xffffffffu, core::bits_of(r.maxima.error) > total.worst_error)) {
    raise_error(total, r.maxima.error, r.maxima.error_expected);
  }
  __syncwarp();
  const uint32_t warp_compared = warp_sum(r.compared), warp_bad = warp_sum(r.bad);
  uint32_t warp_not_finite = 0, warp_poison = 0;
  uint64_t warp_hash = 0;
  if (warp_bad) {
    warp_not_finite = warp_sum(r.not_finite);
    warp_poison = warp_sum(r.poison);
  }
  if (p.hash_outputs) warp_hash = warp_sum(r.hash);
  if ((threadIdx.x & 31) == 0) {
    atomicAdd(&compared, warp_compared);
    if (warp_bad) {
      atomicAdd(&bad, warp_bad);
      atomicAdd(&not_finite, warp_not_finite);
      atomicAdd(&poison, warp_poison);
    }
    if (p.hash_outputs) atomicAdd(&hash, static_cast<unsigned long long>(warp_hash));
  }
  __syncthreads();  // writers: the warps' additions; reader: thread 0
  if (threadIdx.x == 0) {
    abi::SlotRecord& record = p.slots[slot];
    if (bad) {
      add(&record.bad_elements, bad);
      if (!(atomicOr(&record.bad_outputs, 1u << k) & 1u << k)) add(&total.bad_trials, 1);
      add(&total.bad_elements, bad);
      if (not_finite) add(&total.not_finite, not_finite);
      if (poison) add(&total.poison, poison);
    }
    if (p.hash_outputs) add(&record.hash[k], hash);
    // Release: what this block added precedes its count; the block that reads the full count
    // acquires it.
    __threadfence();
    const unsigned long long before =
        atomicAdd(reinterpret_cast<unsigned long long*>(&record.compared),
                  static_cast<unsigned long long>(compared));
    __threadfence();
    last = before + compared == p.elements;
  }
  __syncthreads();  // writer: thread 0's verdict; readers: all
  if (last) finish_trial(p, slot, trial);
}

/// One thread: the next replay of a captured graph works on the next trials.
extern "C" __global__ void faultline_advance(uint64_t* cursor, uint64_t trials) {
  *cursor += trials;
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

}  // namespace faultline::cuda
