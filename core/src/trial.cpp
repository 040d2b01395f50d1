// SPDX-License-Identifier: Apache-2.0
#include "faultline/core/trial.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <mutex>
#include <utility>

#include "faultline/core/errors.hpp"

namespace faultline::core {

namespace {

std::vector<std::uint32_t> indices_of(const std::vector<BufferSpec>& buffers, BufferRole role) {
  std::vector<std::uint32_t> indices;
  for (std::uint32_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].role == role) {
      indices.push_back(i);
    }
  }
  return indices;
}

}  // namespace

std::vector<std::uint32_t> TrialPlan::input_indices() const {
  return indices_of(buffers, BufferRole::input);
}

std::vector<std::uint32_t> TrialPlan::output_indices() const {
  return indices_of(buffers, BufferRole::output);
}

double OutputTotals::relative_l2() const {
  if (sum_squared_error == 0.0) {
    return 0.0;
  }
  return sum_squared_expected > 0.0 ? std::sqrt(sum_squared_error / sum_squared_expected)
                                    : std::numeric_limits<double>::infinity();
}

void add_failure(TrialResult& result, FailedTrial failure) {
  if (result.failures.size() >= TrialResult::kFailuresKept) {
    return;
  }
  std::size_t kept = failure.wrong_tiles.size();
  for (const FailedTrial& earlier : result.failures) {
    kept += earlier.wrong_tiles.size();
  }
  if (kept > TrialResult::kWrongTilesKept) {
    failure.wrong_tiles.clear();
  }
  result.failures.push_back(std::move(failure));
}

TrialPlan with_intermediates(const TrialPlan& plan) {
  if (plan.intermediates.empty() || !plan.intermediate_reference || !plan.reference) {
    throw UsageError(
        fmt::format("{}@{} declares no intermediates to compare", plan.subject, plan.variant));
  }
  TrialPlan all = plan;
  for (const std::uint32_t index : plan.intermediates) {
    all.buffers.at(index).role = BufferRole::output;
  }
  all.device_oracle = {};
  all.hypotheses = {};
  all.error_hypotheses = {};
  const std::vector<std::uint32_t> outputs = plan.output_indices();
  all.reference = [plan, outputs, order = all.output_indices()](const std::vector<Tensor>& inputs) {
    std::vector<ReferenceTensor> finals = plan.reference(inputs);
    std::vector<ReferenceTensor> stages = plan.intermediate_reference(inputs);
    if (finals.size() != outputs.size() || stages.size() != plan.intermediates.size()) {
      throw UsageError(fmt::format(
          "{}@{}: {} outputs and {} intermediates have {} and {} references", plan.subject,
          plan.variant, outputs.size(), plan.intermediates.size(), finals.size(), stages.size()));
    }
    std::map<std::uint32_t, ReferenceTensor*> by_buffer;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      by_buffer[outputs[i]] = &finals[i];
    }
    for (std::size_t i = 0; i < stages.size(); ++i) {
      by_buffer[plan.intermediates[i]] = &stages[i];
    }
    std::vector<ReferenceTensor> result;
    for (const std::uint32_t index : order) {
      result.push_back(std::move(*by_buffer.at(index)));
    }
    return result;
  };
  all.intermediates.clear();
  all.intermediate_reference = {};
  return all;
}

TrialPlan with_kept_reference(TrialPlan plan) {
  if (!plan.reference) {
    return plan;
  }
  struct Kept {
    std::mutex mutex;
    bool filled = false;
    std::vector<Tensor> inputs;
    std::vector<ReferenceTensor> reference;
  };
  const auto equal = [](const Tensor& a, const Tensor& b) {
    return a.dtype == b.dtype && a.shape == b.shape && a.bytes == b.bytes;
  };
  plan.reference = [reference = std::move(plan.reference), kept = std::make_shared<Kept>(),
                    equal](const std::vector<Tensor>& inputs) {
    {
      const std::lock_guard lock(kept->mutex);
      if (kept->filled && std::equal(inputs.begin(), inputs.end(), kept->inputs.begin(),
                                     kept->inputs.end(), equal)) {
        return kept->reference;
      }
    }
    std::vector<ReferenceTensor> made = reference(inputs);
    const std::lock_guard lock(kept->mutex);
    if (!kept->filled) {
      kept->inputs = inputs;
      kept->reference = made;
      kept->filled = true;
    }
    return made;
  };
  return plan;
}

void add_output_hash(std::vector<OutputHashes>& known, std::uint64_t input_seed,
                     std::uint64_t hash) {
  auto set = std::find_if(known.begin(), known.end(),
                          [&](const OutputHashes& k) { return k.input_seed == input_seed; });
  if (set == known.end()) {
    if (known.size() == OutputHashes::kKept) return;
    set = known.insert(known.end(), OutputHashes{input_seed, {}});
  }
  const auto at = std::lower_bound(set->hashes.begin(), set->hashes.end(), hash);
  if (at != set->hashes.end() && *at == hash) return;
  set->hashes.insert(at, hash);
  if (set->hashes.size() > OutputHashes::kKept) set->hashes.pop_back();
}

void add_changed_input(TrialResult& result, const ChangedInput& changed) {
  auto known = std::find_if(result.changed_inputs.begin(), result.changed_inputs.end(),
                            [&](const ChangedInput& c) { return c.name == changed.name; });
  if (known == result.changed_inputs.end()) {
    result.changed_inputs.push_back(changed);
  } else {
    known->trials += changed.trials;
  }
}

void add_changed_input(TrialResult& result, const BufferSpec& input,
                       std::span<const std::byte> laid, std::span<const std::byte> now) {
  ChangedInput changed{.name = input.name, .trials = 1};
  const auto count = static_cast<std::int64_t>(laid.size() / size_of(input.dtype));
  for (std::int64_t i = 0; i < count; ++i) {
    const auto n = static_cast<std::size_t>(i);
    if (load_bits(laid.data(), n, input.dtype) == load_bits(now.data(), n, input.dtype)) continue;
    ++changed.elements;
    if (changed.first_element < 0) changed.first_element = i;
  }
  add_changed_input(result, changed);
}

std::string why_not(DataMode mode, const std::vector<BufferSpec>& buffers) {
  if (mode != DataMode::digits) return {};
  for (const BufferSpec& buffer : buffers) {
    if (buffer.role == BufferRole::input && buffer.reduction.extent > 0) return {};
  }
  return "data mode digits codes the slices of a reduction, and no input of this subject declares "
         "one; use exact, address or epoch";
}

InputSpec input_for(DataMode mode, const BufferSpec& buffer) {
  if (mode != DataMode::normal && buffer.exponent) {
    // exp(-100) underflows in float32, exp(0) is exact.
    if (mode == DataMode::special) return {Distribution::coin, 0.0f, -100.0f};
    return {Distribution::constant, 0.0f, 0.0f};
  }
  switch (mode) {
  case DataMode::normal: return buffer.input;
  case DataMode::exact:
    // Products of two are at most 4: a float32 sum of up to 2^22 of them is exact in any order.
    return {Distribution::small_int, 2.0f, 0.0f};
  case DataMode::address: return {Distribution::index, 0.0f, 1.0f};
  case DataMode::digits: {
    const ReductionAxis& axis = buffer.reduction;
    if (axis.extent == 0) return {Distribution::constant, 1.0f, 0.0f};
    const bool power_of_two = axis.tile > 0 && (axis.tile & (axis.tile - 1)) == 0;
    constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
    if (!power_of_two || axis.tile > 512 || axis.stride < 1 || axis.stride > kMost ||
        axis.extent < 1 || axis.extent > kMost) {
      throw UsageError(fmt::format(
          "data mode digits: input '{}' has a reduction of extent {}, stride {}, in slices of {}; "
          "slices must be a power of two up to 512, extent and stride positive and below 2^31",
          buffer.name, axis.extent, axis.stride, axis.tile));
    }
    return {Distribution::digits, static_cast<float>(axis.tile), 0.0f,
            static_cast<std::int32_t>(axis.stride), static_cast<std::int32_t>(axis.extent)};
  }
  case DataMode::epoch: return {Distribution::epoch, 0.0f, 0.0f};
  case DataMode::illconditioned: return {Distribution::wide, 0.0f, 1.0f};
  case DataMode::special: {
    // Three times the smallest subnormal and more of them: exact in the dtype.
    const float tiny = buffer.dtype == Dtype::f16    ? 0x1p-24f
                       : buffer.dtype == Dtype::bf16 ? 0x1p-133f
                                                     : 0x1p-149f;
    return {Distribution::edge, 256.0f, tiny};
  }
  }
  return buffer.input;
}

}  // namespace faultline::core
