// SPDX-License-Identifier: Apache-2.0
#include "prepare.hpp"

#include <array>

#include "comparator.hpp"

namespace faultline::cuda {

void prepare_buffers(const core::TrialPlan& plan, core::DataMode data,
                     std::span<const BoundBuffer> buffers, const abi::TrialRange& range, bool draw,
                     bool poison, DeviceKernels& kernels, cudaStream_t stream) {
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
      slot.tensor = i;
      slot.dtype = buffer.dtype;
      input_elements[p.input_count++] = elements;
    } else if (poison && buffer.role != core::BufferRole::input && !buffer.sparse) {
      abi::PoisonSlot& slot = p.poisoned[p.poisoned_count];
      slot.data = buffers[i].data;
      slot.elements = elements;
      slot.dtype = buffer.dtype;
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
