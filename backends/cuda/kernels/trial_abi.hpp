// SPDX-License-Identifier: Apache-2.0
// What the host and the trial kernels exchange: plain structs, the same bytes on both sides.
#pragma once

#include <stdint.h>

#include "faultline/core/generator.hpp"
#include "faultline/core/poison.hpp"

namespace faultline::cuda::abi {

inline constexpr uint32_t kMaxInputs = 16;
inline constexpr uint32_t kMaxOutputs = 32;       ///< bits of FailureRecord::bad_outputs
inline constexpr uint32_t kMaxPoisoned = 64;      ///< outputs and workspaces
inline constexpr uint32_t kThreads = 128;         ///< threads of every trial kernel's block
inline constexpr uint32_t kRound = 2 * kThreads;  ///< elements that a block handles at a time
inline constexpr uint32_t kMaxRounds = 16;        ///< of one block; two bits each of a mask
inline constexpr uint32_t kMaxFailures = 1024;    ///< failing trials remembered one by one
inline constexpr uint32_t kMaxCaptures = 64;      ///< failing trials whose outputs are kept
inline constexpr uint32_t kHashSlots = 4096;      ///< distinct outputs told apart; a power of two

inline constexpr uint32_t kErrorBins = 34;             ///< core::kErrorBins
inline constexpr int kLowestErrorExponent = -10;       ///< core::kLowestErrorExponent
inline constexpr uint32_t kMaxMultiprocessors = 1024;  ///< bits of a set of them

/// x / divisor for x < 2^31 as a multiplication and a shift (Granlund and Montgomery, PLDI 1994,
/// with the rounded-up reciprocal: exact while x and divisor are below 2^31).
struct FastDivisor {
  uint32_t divisor = 1;
  uint32_t multiplier = 0;  ///< ceil(2^(32 + shift) / divisor) - 2^32
  uint32_t shift = 0;       ///< ceil(log2(divisor))
};

FAULTLINE_HD FastDivisor fast_divisor(uint32_t divisor) {
  FastDivisor d;
  d.divisor = divisor;
  while ((1ull << d.shift) < divisor) ++d.shift;
  d.multiplier =
      static_cast<uint32_t>(((1ull << 32) * ((1ull << d.shift) - divisor)) / divisor + 1);
  return d;
}

FAULTLINE_HD uint32_t divide(uint32_t x, uint32_t multiplier, uint32_t shift) {
  const uint64_t high = (static_cast<uint64_t>(x) * multiplier) >> 32;
  return static_cast<uint32_t>((high + x) >> shift);
}
FAULTLINE_HD uint32_t divide(uint32_t x, const FastDivisor& d) {
  return divide(x, d.multiplier, d.shift);
}

/// Elements of one tensor that one block handles, a power of two times kRound: small launches are
/// spread over the whole device, large ones spend little on the blocks' beginnings and ends.
inline uint32_t chunk_elements(uint64_t elements_of_launch, uint32_t multiprocessors) {
  constexpr uint64_t kBlocks = 12;  // of one multiprocessor, at least, once a chunk exceeds kRound
  uint32_t chunk = kRound;
  while (chunk < kMaxRounds * kRound &&
         kBlocks * multiprocessors * 2 * chunk <= elements_of_launch) {
    chunk *= 2;
  }
  return chunk;
}

/// Which trials a launch works on: slot s holds trial `first + *cursor + s` (no cursor: 0).
struct TrialRange {
  uint64_t campaign_seed = 0;
  uint64_t first = 0;
  const uint64_t* cursor =
      nullptr;  ///< device memory; lets a captured graph count trials by itself
  uint32_t batch = 1;
  uint32_t fixed_inputs = 0;  ///< inputs of every trial are those of trial 0
};

/// One input: `batch` trials back to back.
struct InputSlot {
  void* data = nullptr;
  uint64_t elements = 0;  ///< of one trial
  core::InputSpec spec;
  uint16_t tensor = 0;  ///< number of the tensor: its index among the plan's buffers
  core::Dtype dtype = core::Dtype::f32;
};

/// How the elements of a tensor lie in tiles. As small as it is because a launch takes many.
enum class TileCut : uint8_t {
  shifted_runs,  ///< runs of 2^shifts[0] elements
  runs,          ///< runs of `cols` elements
  grid,          ///< core::TileGeometry as it is
};
struct TileMap {
  uint32_t cols = 1;       ///< columns; of `runs` the elements of a run
  uint32_t tile_cols = 1;  ///< grid
  /// Of FastDivisors: cols, then tile_cols and tile_rows of a grid.
  uint32_t multipliers[3] = {};
  uint8_t shifts[3] = {};
  TileCut cut = TileCut::shifted_runs;
};

/// A tile, and the first element from `i` on that is not of it.
struct TileRun {
  uint64_t tile = 0;
  uint64_t end = 0;
};

/// Of element `i`. `wide`: the tensor has 2^31 elements or more, rows and columns fewer.
FAULTLINE_HD TileRun tile_run(const TileMap& map, uint64_t i, bool wide) {
  if (map.cut == TileCut::shifted_runs) {
    const uint64_t tile = i >> map.shifts[0];
    return {tile, (tile + 1) << map.shifts[0]};
  }
  const uint64_t row =
      wide ? i / map.cols : divide(static_cast<uint32_t>(i), map.multipliers[0], map.shifts[0]);
  if (map.cut == TileCut::runs) return {row, (row + 1) * map.cols};
  const uint32_t col = static_cast<uint32_t>(i - row * map.cols);
  const uint32_t across = divide(map.cols - 1, map.multipliers[1], map.shifts[1]) + 1;
  const uint32_t tile_col = divide(col, map.multipliers[1], map.shifts[1]);
  const uint32_t tile_row = divide(static_cast<uint32_t>(row), map.multipliers[2], map.shifts[2]);
  const uint32_t next = (tile_col + 1) * map.tile_cols;
  return {static_cast<uint64_t>(tile_row) * across + tile_col,
          i + ((next < map.cols ? next : map.cols) - col)};
}

/// One output or workspace to be poisoned.
struct PoisonSlot {
  void* data = nullptr;
  uint64_t elements = 0;
  TileMap tiles;
  uint32_t first_code = 0;  ///< of core::Poison, as is has_tiles
  uint16_t spans = 1;       ///< core::Poison::span in units of core::poison_span_unit()
  core::Dtype dtype = core::Dtype::f32;
  bool has_tiles = false;
};
FAULTLINE_HD core::Poison poison_of(const PoisonSlot& tensor, uint32_t word) {
  return {tensor.dtype, word, tensor.first_code,
          tensor.spans * core::poison_span_unit(tensor.dtype), tensor.has_tiles};
}

/// Draw inputs and poison outputs and workspaces of a batch in one launch. Grid (chunks of one
/// trial, batch).
struct PrepareParameters {
  TrialRange range;
  uint32_t chunk = kRound;  ///< chunk_elements()
  uint32_t input_count = 0, poisoned_count = 0;
  uint32_t input_chunks[kMaxInputs + 1] = {};       ///< first chunk of each input, then the total
  uint32_t poisoned_chunks[kMaxPoisoned + 1] = {};  ///< continues the inputs' numbering
  InputSlot inputs[kMaxInputs];
  PoisonSlot poisoned[kMaxPoisoned];
};

/// Sums and maxima of one tile. Non-negative doubles are kept as their bits, which order like the
/// values.
struct alignas(16) TileAccumulator {
  uint64_t bad_trials, bad_elements, not_finite, poison;
  uint64_t worst_ratio, worst_ulps;  ///< read together, as 16 bytes
  uint64_t first_bad;                ///< ~0: none
  uint64_t no_reference;
};

/// Of one output; its worst ratio and ulps are the largest of its tiles'.
struct OutputAccumulator {
  uint64_t compared, bad_trials, bad_elements, not_finite, poison, no_reference;
  uint64_t worst_rounded_error;
  uint64_t worst_error;
  double worst_error_expected;             ///< belongs to worst_error; both change under `lock`
  double squared_error, squared_expected;  ///< sums over elements with a finite error
  uint32_t lock;
  uint32_t unused;
};

/// Elements of one output by the size of their error, in the bins of core::error_bin().
struct ErrorHistogram {
  uint64_t bins[2 * kErrorBins];  ///< by error over bound, then by ulps
};

/// A trial in flight; zero between launches.
struct SlotRecord {
  uint64_t compared;
  uint64_t bad_elements;
  uint64_t hash[kMaxOutputs];  ///< core::output_hash() of each output
  uint32_t bad_outputs;        ///< bit mask
  uint32_t unused;
};

struct FailureRecord {
  uint64_t trial;
  uint64_t bad_elements;
  uint32_t bad_outputs;
  uint32_t unused;
};

/// Campaign counters; the part that is copied back while trials run.
struct Counters {
  uint64_t trials;  ///< finished: every element of every output compared
  uint64_t failed;
  uint64_t first_failed;  ///< ~0: none
  uint32_t failures;      ///< entries claimed in Totals::failure, may exceed kMaxFailures
  uint32_t captures;      ///< likewise for captures
  uint32_t distinct_hashes;
  uint32_t hash_overflow;  ///< the table was full: distinct_hashes is a lower bound
};

struct Totals {
  Counters counters;
  FailureRecord failure[kMaxFailures];
  FailureRecord capture[kMaxCaptures];
  uint64_t hash_table[kHashSlots];  ///< 0: free
};

/// One output to be compared with its reference.
struct CompareSlot {
  const void* data = nullptr;
  const double* expected = nullptr;
  const double* bound = nullptr;
  uint64_t elements = 0;          ///< of one trial, below 2^31
  uint64_t reference_stride = 0;  ///< `elements`, or 0 when all slots share one reference
  uint64_t capture_offset = 0;    ///< bytes of the outputs before this one, padded
  FastDivisor cols, tile_rows, tile_cols;
  uint32_t tiles_across = 1;
  uint32_t first_tile = 0;  ///< index of its first tile among all outputs' tiles
  uint32_t poison_first_code = 0, poison_span = 1;  ///< of core::Poison
  bool poison_has_tiles = false;
  core::Dtype dtype = core::Dtype::f32;
};

/// Where the blocks of a launch that dirties shared memory meet; zero at first.
struct SharedMeeting {
  uint64_t arrived;  ///< blocks that hold their shared memory; 0 between launches
  uint64_t met;      ///< launches all blocks of which have arrived
  uint64_t missed;   ///< blocks that ended before they saw all the others arrive
};

/// Lay core::shared_poison_word(trial) over the shared memory of all multiprocessors, the trial
/// being the first of the range. Grid: a block for each multiprocessor, which takes all of its
/// shared memory.
struct DirtySharedParameters {
  TrialRange range;
  uint32_t bytes = 0;     ///< a multiple of 16
  uint32_t limit_ns = 0;  ///< how long a block waits for the others
  SharedMeeting* meeting = nullptr;
};

/// Compare a batch; grid (chunks of one trial, batch).
struct CompareParameters {
  TrialRange range;
  uint32_t chunk = kRound;  ///< chunk_elements()
  uint32_t output_count = 0;
  uint32_t tile_count = 0;                ///< of all outputs
  uint64_t elements = 0;                  ///< of all outputs of one trial
  uint32_t chunks[kMaxOutputs + 1] = {};  ///< first chunk of each output, then the total
  CompareSlot outputs[kMaxOutputs];
  TileAccumulator* tiles = nullptr;           ///< [tile_count]
  OutputAccumulator* accumulators = nullptr;  ///< [output_count]
  SlotRecord* slots = nullptr;                ///< [batch]
  ErrorHistogram* histograms = nullptr;       ///< [output_count]; null: errors are not counted
  uint64_t histogram_mask = 0;      ///< they are in trials whose number has none of these bits
  uint64_t* tile_stamps = nullptr;  ///< [batch][tile_count]: last bad trial + 1 seen in that tile
  Totals* totals = nullptr;
  unsigned char* capture_data = nullptr;
  uint64_t capture_stride = 0;
  uint32_t capture_limit = 0;
  uint32_t hash_outputs = 0;
};

/// Tile of element `i`, as core::TileGeometry::tile_of.
FAULTLINE_HD uint32_t tile_of(const CompareSlot& output, uint32_t i) {
  const uint32_t row = divide(i, output.cols);
  const uint32_t col = i - row * output.cols.divisor;
  return divide(row, output.tile_rows) * output.tiles_across + divide(col, output.tile_cols);
}

/// What was laid over an output before a trial.
FAULTLINE_HD core::Poison poison_of(const CompareSlot& output, uint64_t trial) {
  return {output.dtype, core::poison_word(trial), output.poison_first_code, output.poison_span,
          output.poison_has_tiles};
}

}  // namespace faultline::cuda::abi
