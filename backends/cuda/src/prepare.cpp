// SPDX-License-Identifier: Apache-2.0
#include "prepare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

#include "comparator.hpp"
#include "faultline/core/errors.hpp"

namespace faultline::cuda {

abi::PoisonSlot poison_slot(const core::BufferSpec& buffer, const core::TileGeometry& tiles,
                            const core::Poison& poison) {
  constexpr std::int64_t kLong = std::int64_t{1} << 31;  // no divisor of a FastDivisor
  abi::PoisonSlot slot;
  slot.elements = static_cast<std::uint64_t>(buffer.elements());
  slot.dtype = buffer.dtype;
  slot.has_tiles = poison.has_tiles;
  if (!poison.has_tiles) return slot;
  slot.first_code = poison.first_code;
  slot.spans = static_cast<std::uint16_t>(poison.span / core::poison_span_unit(buffer.dtype));
  abi::TileMap& map = slot.tiles;
  const std::int64_t tile_rows = std::min(tiles.tile_rows, tiles.rows);
  const std::int64_t tile_cols = std::min(tiles.tile_cols, tiles.cols);
  const auto divide_by = [&map](int place, std::int64_t divisor) {
    const abi::FastDivisor fast = abi::fast_divisor(static_cast<std::uint32_t>(divisor));
    map.multipliers[place] = fast.multiplier;
    map.shifts[place] = static_cast<std::uint8_t>(fast.shift);
  };
  const auto refuse = [&] {
    throw core::UnsupportedError(fmt::format(
        "buffer '{}' of {} x {} elements in tiles of {} x {} cannot be poisoned on a device: it "
        "has 2^31 elements or more, and rows, columns or tiles as long",
        buffer.name, tiles.rows, tiles.cols, tiles.tile_rows, tiles.tile_cols));
  };
  if (tiles.tile_count() == 1) {
    map.shifts[0] = 63;
    return slot;
  }
  if (tiles.rows == 1 || tile_cols == tiles.cols) {  // the elements of a tile follow one another
    const std::int64_t run = tiles.rows == 1 ? tile_cols : tile_rows * tiles.cols;
    if (std::has_single_bit(static_cast<std::uint64_t>(run))) {
      map.shifts[0] = static_cast<std::uint8_t>(std::countr_zero(static_cast<std::uint64_t>(run)));
      return slot;
    }
    if (run >= kLong) refuse();
    map.cut = abi::TileCut::runs;
    map.cols = static_cast<std::uint32_t>(run);
    divide_by(0, run);
    return slot;
  }
  if (tiles.rows >= kLong || tiles.cols >= kLong) refuse();
  map.cut = abi::TileCut::grid;
  map.cols = static_cast<std::uint32_t>(tiles.cols);
  map.tile_cols = static_cast<std::uint32_t>(tile_cols);
  divide_by(0, tiles.cols);
  divide_by(1, tile_cols);
  divide_by(2, tile_rows);
  return slot;
}

std::vector<abi::PoisonSlot> poison_slots(const core::TrialPlan& plan) {
  const core::PoisonMap map(plan.buffers);
  std::vector<abi::PoisonSlot> slots(plan.buffers.size());
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const core::BufferSpec& buffer = plan.buffers[i];
    if (buffer.role == core::BufferRole::input || buffer.sparse) continue;
    slots[i] = poison_slot(buffer, map.tiles(i), map.of(i, 0));
  }
  return slots;
}

void prepare_buffers(const core::TrialPlan& plan, core::DataMode data,
                     std::span<const BoundBuffer> buffers, const abi::TrialRange& range, bool draw,
                     std::span<const abi::PoisonSlot> poison, DeviceKernels& kernels,
                     cudaStream_t stream) {
  abi::PrepareParameters p;
  p.range = range;
  std::array<std::uint64_t, abi::kMaxInputs> input_elements{};
  std::array<std::uint64_t, abi::kMaxPoisoned> poisoned_elements{};
  for (std::uint32_t i = 0; i < plan.buffers.size(); ++i) {
    const core::BufferSpec& buffer = plan.buffers[i];
    const auto elements = static_cast<std::uint64_t>(buffer.elements());
    if (draw && buffer.role == core::BufferRole::input) {
      abi::InputSlot& slot = p.inputs[p.input_count];
      slot.data = buffers[i].data;
      slot.elements = elements;
      slot.spec = core::input_for(data, buffer);
      slot.tensor = static_cast<std::uint16_t>(i);
      slot.dtype = buffer.dtype;
      input_elements[p.input_count++] = elements;
    } else if (!poison.empty() && poison[i].elements > 0) {
      abi::PoisonSlot& slot = p.poisoned[p.poisoned_count];
      slot = poison[i];
      slot.data = buffers[i].data;
      poisoned_elements[p.poisoned_count++] = elements;
    }
  }
  std::uint64_t elements = 0;
  for (std::uint64_t count : input_elements) {
    elements += count;
  }
  for (std::uint64_t count : poisoned_elements) {
    elements += count;
  }
  p.chunk = abi::chunk_elements(elements * range.batch,
                                static_cast<std::uint32_t>(kernels.multiprocessors()));
  number_chunks(std::span(input_elements).first(p.input_count), p.chunk, 0,
                std::span(p.input_chunks).first(p.input_count + 1));
  number_chunks(std::span(poisoned_elements).first(p.poisoned_count), p.chunk,
                p.input_chunks[p.input_count],
                std::span(p.poisoned_chunks).first(p.poisoned_count + 1));
  kernels.prepare(p, stream);
}

}  // namespace faultline::cuda
