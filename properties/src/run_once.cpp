// SPDX-License-Identifier: Apache-2.0
#include "faultline/properties/run_once.hpp"

#include <fmt/format.h>

#include "faultline/core/errors.hpp"
#include "faultline/core/poison.hpp"
#include "faultline/stress/captures.hpp"

namespace faultline::properties {

LoadedPlan::LoadedPlan(core::Backend& backend, const core::TrialPlan& plan,
                       const std::vector<core::Tensor>& inputs)
    : backend_(backend), plan_(plan) {
  const std::vector<std::uint32_t> indices = plan.input_indices();
  if (inputs.size() != indices.size()) {
    throw core::UsageError(
        fmt::format("{} takes {} inputs, not {}", plan.subject, indices.size(), inputs.size()));
  }
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const core::BufferSpec& buffer = plan.buffers[indices[i]];
    if (inputs[i].dtype != buffer.dtype || inputs[i].shape != buffer.shape) {
      throw core::UsageError(
          fmt::format("input {} of {} is {}{}, not {}{}", buffer.name, plan.subject,
                      core::name_of(buffer.dtype), core::to_string(buffer.shape),
                      core::name_of(inputs[i].dtype), core::to_string(inputs[i].shape)));
    }
  }
  for (const core::BufferSpec& buffer : plan.buffers) {
    handles_.push_back(backend.allocate(buffer.name, buffer.bytes()));
  }
  for (std::size_t i = 0; i < indices.size(); ++i) {
    backend.upload(handles_[indices[i]], inputs[i].bytes);
  }
}

LoadedPlan::~LoadedPlan() {
  for (const core::BufferHandle& handle : handles_) backend_.release(handle);
}

std::vector<core::Tensor> LoadedPlan::execute(const ExecutionOptions& options) {
  const core::PoisonMap poisons(plan_.buffers);
  const std::uint32_t word = core::poison_word(options.poison);
  std::vector<std::byte> laid;
  for (std::size_t i = 0; i < handles_.size(); ++i) {
    // As the backends do: a sparse buffer has addresses for all of it and memory for little.
    if (!poisons.has_tiles(i)) continue;
    laid.resize(plan_.buffers[i].bytes());
    poisons.lay(i, word, laid);
    backend_.upload(handles_[i], laid);
  }
  const core::ExecutionReport report = backend_.execute(
      plan_.program(1), handles_, options.perturbation, options.schedule_seed, options.race);
  const std::string where = fmt::format("{} ({})", plan_.problem.line(), plan_.config.line());
  if (report.status == core::ExecutionStatus::unsupported) {
    throw core::UnsupportedError(fmt::format("{}: {}", where, report.message));
  }
  if (report.status != core::ExecutionStatus::completed) {
    throw core::EnvironmentError(
        fmt::format("{}: {}: {}", where, core::name_of(report.status), report.message));
  }
  for (const core::RaceReport& race : report.races) {
    if (race.note_only) continue;
    throw core::EnvironmentError(fmt::format("{}: {} race on {}: {} and {}", where,
                                             core::name_of(race.kind), race.buffer,
                                             race.first.instruction, race.second.instruction));
  }
  return download(core::BufferRole::output);
}

std::vector<core::Tensor> LoadedPlan::inputs() const { return download(core::BufferRole::input); }

std::vector<core::Tensor> LoadedPlan::download(core::BufferRole role) const {
  std::vector<core::Tensor> tensors;
  for (std::size_t i = 0; i < handles_.size(); ++i) {
    const core::BufferSpec& buffer = plan_.buffers[i];
    if (buffer.role != role) continue;
    backend_.download(handles_[i], tensors.emplace_back(buffer.dtype, buffer.shape).bytes);
  }
  return tensors;
}

std::vector<core::Tensor> run_once(core::Backend& backend, const core::TrialPlan& plan,
                                   const std::vector<core::Tensor>& inputs,
                                   const ExecutionOptions& options) {
  return LoadedPlan(backend, plan, inputs).execute(options);
}

std::vector<core::Tensor> draw_inputs(const core::TrialPlan& plan, core::DataMode data,
                                      std::uint64_t seed) {
  return stress::make_inputs(plan, data, seed);
}

}  // namespace faultline::properties
