// SPDX-License-Identifier: Apache-2.0
#include "comparator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "faultline/core/comparison.hpp"
#include "faultline/core/errors.hpp"

namespace faultline::cuda {

namespace {

constexpr std::uint64_t kNone = ~std::uint64_t{0};
static_assert(abi::kErrorBins == core::kErrorBins &&
              abi::kLowestErrorExponent == core::kLowestErrorExponent);

/// Atomics add in no fixed order; what that moves lies beyond the 24 bits kept, so equal runs give
/// equal sums.
double without_order(double sum) {
  if (!std::isfinite(sum)) return sum;
  int exponent = 0;
  const double mantissa = std::frexp(sum, &exponent);
  return std::ldexp(std::round(std::ldexp(mantissa, 24)), exponent - 24);
}

template <class T>
std::vector<T> read_array(const DeviceMemory& memory, std::size_t count, cudaStream_t stream) {
  std::vector<T> values(count);
  copy_to_host(std::as_writable_bytes(std::span(values)), memory.data(), stream);
  return values;
}

}  // namespace

void number_chunks(std::span<const std::uint64_t> elements, std::uint32_t chunk,
                   std::uint32_t begin, std::span<std::uint32_t> chunks) {
  std::uint64_t next = begin;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    chunks[i] = static_cast<std::uint32_t>(next);
    next += (elements[i] + chunk - 1) / chunk;
    if (next >= std::uint64_t{1} << 31) {
      throw core::UnsupportedError(
          fmt::format("a trial's tensors have more than {} elements, too many for one grid",
                      (std::uint64_t{1} << 31) * chunk));
    }
  }
  chunks[elements.size()] = static_cast<std::uint32_t>(next);
}

Comparator::Comparator(std::vector<core::BufferSpec> outputs, std::span<const core::Poison> poison,
                       std::uint32_t batch, std::uint32_t capture_limit, bool hash_outputs,
                       std::uint32_t histogram_every, DeviceKernels& kernels)
    : outputs_(std::move(outputs)), kernels_(kernels) {
  for (std::size_t k = 0; k < outputs_.size(); ++k) {
    const core::BufferSpec& output = outputs_[k];
    const core::TileGeometry& tiles = output.tiles;
    abi::CompareSlot& slot = base_.outputs[k];
    slot.elements = static_cast<std::uint64_t>(output.elements());
    slot.capture_offset = base_.capture_stride;
    slot.cols = abi::fast_divisor(static_cast<std::uint32_t>(tiles.cols));
    slot.tile_rows =
        abi::fast_divisor(static_cast<std::uint32_t>(std::min(tiles.tile_rows, tiles.rows)));
    slot.tile_cols =
        abi::fast_divisor(static_cast<std::uint32_t>(std::min(tiles.tile_cols, tiles.cols)));
    slot.tiles_across = static_cast<std::uint32_t>(tiles.tiles_across());
    slot.first_tile = base_.tile_count;
    slot.poison_first_code = poison[k].first_code;
    slot.poison_span = poison[k].span;
    slot.poison_has_tiles = poison[k].has_tiles;
    slot.dtype = output.dtype;
    base_.tile_count += static_cast<std::uint32_t>(tiles.tile_count());
    base_.elements += slot.elements;
    base_.capture_stride += (output.bytes() + 255) / 256 * 256;
    elements_.push_back(slot.elements);
  }
  base_.output_count = static_cast<std::uint32_t>(outputs_.size());
  base_.capture_limit = std::min(capture_limit, abi::kMaxCaptures);
  base_.hash_outputs = hash_outputs;

  tiles_ = DeviceMemory(base_.tile_count * sizeof(abi::TileAccumulator), "tile figures");
  accumulators_ =
      DeviceMemory(base_.output_count * sizeof(abi::OutputAccumulator), "output figures");
  if (histogram_every > 0) {
    histograms_ = DeviceMemory(base_.output_count * sizeof(abi::ErrorHistogram), "error bins");
    base_.histograms = histograms_.as<abi::ErrorHistogram>();
    base_.histogram_mask = std::bit_ceil(histogram_every) - 1;
  }
  slots_ = DeviceMemory(batch * sizeof(abi::SlotRecord), "trials in flight");
  stamps_ =
      DeviceMemory(std::uint64_t{batch} * base_.tile_count * sizeof(std::uint64_t), "tile stamps");
  totals_ = DeviceMemory(sizeof(abi::Totals), "campaign totals");
  captures_ = DeviceMemory(base_.capture_limit * base_.capture_stride, "captured outputs");
  base_.tiles = tiles_.as<abi::TileAccumulator>();
  base_.accumulators = accumulators_.as<abi::OutputAccumulator>();
  base_.slots = slots_.as<abi::SlotRecord>();
  base_.tile_stamps = stamps_.as<std::uint64_t>();
  base_.totals = totals_.as<abi::Totals>();
  base_.capture_data = captures_.as<unsigned char>();
}

void Comparator::reset(cudaStream_t stream) {
  const auto zero = [&](const DeviceMemory& memory) {
    check(cudaMemsetAsync(memory.data(), 0, memory.bytes(), stream), "cannot reset the figures");
  };
  zero(accumulators_);
  if (base_.histograms != nullptr) zero(histograms_);
  zero(slots_);
  zero(stamps_);
  zero(totals_);
  std::vector<abi::TileAccumulator> tiles(base_.tile_count, abi::TileAccumulator{});
  for (abi::TileAccumulator& tile : tiles) {
    tile.first_bad = kNone;
  }
  copy_to_device(tiles_.data(), std::as_bytes(std::span(tiles)), stream);
  abi::Counters counters{};
  counters.first_failed = kNone;
  copy_to_device(totals_.data(), std::as_bytes(std::span(&counters, 1)), stream);
}

void Comparator::compare(const abi::TrialRange& range, std::span<const ComparedOutput> outputs,
                         bool shared_reference, cudaStream_t stream) {
  abi::CompareParameters p = base_;
  p.range = range;
  p.chunk = abi::chunk_elements(p.elements * range.batch,
                                static_cast<std::uint32_t>(kernels_.multiprocessors()));
  number_chunks(elements_, p.chunk, 0, p.chunks);
  for (std::size_t k = 0; k < outputs_.size(); ++k) {
    p.outputs[k].data = outputs[k].data;
    p.outputs[k].expected = outputs[k].expected;
    p.outputs[k].bound = outputs[k].bound;
    p.outputs[k].reference_stride = shared_reference ? 0 : p.outputs[k].elements;
  }
  kernels_.compare(p, stream);
}

abi::Counters Comparator::counters(cudaStream_t stream) const {
  abi::Counters counters{};
  copy_to_host(std::as_writable_bytes(std::span(&counters, 1)), totals_.data(), stream);
  return counters;
}

void Comparator::collect(const core::TrialRequest& request, bool fixed_inputs,
                         core::TrialResult& result, cudaStream_t stream) const {
  const auto totals = read_array<abi::Totals>(totals_, 1, stream).front();
  const auto accumulators =
      read_array<abi::OutputAccumulator>(accumulators_, base_.output_count, stream);
  const auto tiles = read_array<abi::TileAccumulator>(tiles_, base_.tile_count, stream);
  std::vector<abi::ErrorHistogram> histograms;
  if (base_.histograms != nullptr) {
    histograms = read_array<abi::ErrorHistogram>(histograms_, base_.output_count, stream);
  }
  const abi::Counters& counters = totals.counters;
  const auto input_seed = [&](std::uint64_t trial) {
    return core::trial_seed(request.seed, fixed_inputs ? 0 : trial);
  };
  const auto outputs_of = [&](std::uint32_t mask) {
    std::vector<std::uint32_t> indices;
    for (std::uint32_t k = 0; k < base_.output_count; ++k) {
      if (mask >> k & 1) {
        indices.push_back(k);
      }
    }
    return indices;
  };

  result.trials = counters.trials;
  result.failed = result.wrong_values = counters.failed;
  result.first_failed_trial = counters.first_failed;
  result.outputs.clear();
  for (std::uint32_t k = 0; k < base_.output_count; ++k) {
    const abi::OutputAccumulator& from = accumulators[k];
    core::OutputTotals to = core::make_output_totals(outputs_[k]);
    to.compared_elements = from.compared;
    to.bad_trials = from.bad_trials;
    to.bad_elements = from.bad_elements;
    to.not_finite = from.not_finite;
    to.poison = from.poison;
    to.no_reference = from.no_reference;
    to.worst_error = core::double_of(from.worst_error);
    to.worst_rounded_error = core::double_of(from.worst_rounded_error);
    to.worst_error_expected = from.worst_error_expected;
    to.sum_squared_error = without_order(from.squared_error);
    to.sum_squared_expected = without_order(from.squared_expected);
    if (!histograms.empty()) {
      const std::span<const std::uint64_t> bins(histograms[k].bins);
      core::add_bins(to.ratio_bins, bins.first(core::kErrorBins));
      core::add_bins(to.ulp_bins, bins.last(core::kErrorBins));
      to.bins_every = static_cast<std::uint32_t>(base_.histogram_mask + 1);
    }
    for (std::size_t t = 0; t < to.tiles.size(); ++t) {
      const abi::TileAccumulator& tile = tiles[base_.outputs[k].first_tile + t];
      core::TileTotals& figures = to.tiles[t];
      figures.bad_trials = tile.bad_trials;
      figures.bad_elements = tile.bad_elements;
      figures.not_finite = tile.not_finite;
      figures.poison = tile.poison;
      figures.no_reference = tile.no_reference;
      figures.worst_ratio = core::double_of(tile.worst_ratio);
      figures.worst_ulps = core::double_of(tile.worst_ulps);
      figures.first_bad_index =
          tile.first_bad == kNone ? -1 : static_cast<std::int64_t>(tile.first_bad);
      to.worst_ratio = std::max(to.worst_ratio, figures.worst_ratio);
      to.worst_ulps = std::max(to.worst_ulps, figures.worst_ulps);
    }
    result.outputs.push_back(std::move(to));
  }

  result.failures.clear();
  const std::uint32_t failures = std::min(counters.failures, abi::kMaxFailures);
  for (std::uint32_t i = 0; i < failures; ++i) {
    core::FailedTrial failed;
    failed.trial = totals.failure[i].trial;
    failed.input_seed = input_seed(failed.trial);
    failed.bad_elements = totals.failure[i].bad_elements;
    failed.bad_outputs = outputs_of(totals.failure[i].bad_outputs);
    result.failures.push_back(std::move(failed));
  }
  std::sort(result.failures.begin(), result.failures.end(),
            [](const auto& a, const auto& b) { return a.trial < b.trial; });

  result.captures.clear();
  const std::uint32_t captures = std::min(counters.captures, base_.capture_limit);
  for (std::uint32_t i = 0; i < captures; ++i) {
    core::Capture capture;
    capture.trial = totals.capture[i].trial;
    capture.input_seed = input_seed(capture.trial);
    capture.poison = core::poison_word(capture.trial);
    for (std::size_t k = 0; k < outputs_.size(); ++k) {
      core::Tensor tensor(outputs_[k].dtype, outputs_[k].shape);
      // One by one: what lies between them nobody wrote, and initcheck would say so.
      copy_to_host(tensor.bytes,
                   captures_.data() + i * base_.capture_stride + base_.outputs[k].capture_offset,
                   stream);
      capture.outputs.push_back(std::move(tensor));
    }
    result.captures.push_back(std::move(capture));
  }
  std::sort(result.captures.begin(), result.captures.end(),
            [](const auto& a, const auto& b) { return a.trial < b.trial; });

  if (base_.hash_outputs) {
    result.input_sets = 1;
    result.distinct_outputs = counters.distinct_hashes;
    for (const std::uint64_t hash : totals.hash_table) {
      if (hash != 0) core::add_output_hash(result.output_hashes, input_seed(0), hash);
    }
    if (counters.hash_overflow != 0) {
      result.details.push_back(fmt::format(
          "distinct outputs are at least {}: no more were kept apart", abi::kHashSlots));
    }
  }
}

}  // namespace faultline::cuda
