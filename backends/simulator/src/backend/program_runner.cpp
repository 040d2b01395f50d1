// SPDX-License-Identifier: Apache-2.0
#include "backend/program_runner.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include <fmt/format.h>

#include "faultline/core/errors.hpp"
#include "faultline/core/generator.hpp"
#include "faultline/simulator/tensor_map.hpp"

namespace faultline::simulator {
namespace {

std::uint64_t address_of(std::span<const core::BufferHandle> bindings, std::uint32_t buffer,
                         std::uint64_t offset, std::uint64_t bytes, const char* what) {
  if (buffer >= bindings.size()) {
    throw core::UsageError(std::string(what) + " names buffer " + std::to_string(buffer) +
                           ", and the program is bound to " + std::to_string(bindings.size()) +
                           " buffers");
  }
  const core::BufferHandle& handle = bindings[buffer];
  if (offset > handle.bytes || bytes > handle.bytes - offset) {
    throw core::UsageError(std::string(what) + " reaches byte " + std::to_string(offset + bytes) +
                           " of buffer " + std::to_string(buffer) + ", which has " +
                           std::to_string(handle.bytes) + " bytes");
  }
  return handle.id + offset;
}

TensorMapBytes encode(const core::TensorMapArgument& argument,
                      std::span<const core::BufferHandle> bindings) {
  TensorMapSpec spec;
  spec.address = address_of(bindings, argument.buffer, argument.byte_offset, 0, "a tensor map");
  spec.element_bytes = static_cast<std::uint32_t>(core::size_of(argument.dtype));
  spec.rank = argument.rank;
  spec.dims = argument.dims;
  spec.strides_bytes = argument.strides_bytes;
  spec.box = argument.box;
  spec.swizzle = static_cast<TensorMapSpec::Swizzle>(argument.swizzle);
  return encode_tensor_map(spec);
}

bool same_site(const core::AccessSite& a, const core::AccessSite& b) {
  return a.kernel == b.kernel && a.where == b.where && a.is_write == b.is_write &&
         (!a.where.empty() || a.instruction == b.instruction) && a.async_proxy == b.async_proxy;
}
bool same_race(const core::RaceReport& a, const core::RaceReport& b) {
  return a.kind == b.kind && a.space == b.space && a.buffer == b.buffer &&
         a.cross_cta == b.cross_cta && a.cross_launch == b.cross_launch &&
         a.cross_device == b.cross_device && a.missing_proxy_fence == b.missing_proxy_fence &&
         a.note_only == b.note_only && same_site(a.first, b.first) && same_site(a.second, b.second);
}

}  // namespace

void merge_races(std::vector<core::RaceReport>& into, const std::vector<core::RaceReport>& from) {
  for (const core::RaceReport& race : from) {
    const auto it = std::find_if(into.begin(), into.end(),
                                 [&](const core::RaceReport& r) { return same_race(r, race); });
    if (it == into.end()) {
      into.push_back(race);
      continue;
    }
    it->count += race.count;
    it->byte_begin = std::min(it->byte_begin, race.byte_begin);
    it->byte_end = std::max(it->byte_end, race.byte_end);
  }
}

void merge_accesses(std::vector<core::AccessStatistics>& into,
                    const std::vector<core::AccessStatistics>& from) {
  for (const core::AccessStatistics& access : from) {
    const auto it = std::find_if(into.begin(), into.end(), [&](const core::AccessStatistics& a) {
      return a.where == access.where && a.instruction == access.instruction &&
             a.space == access.space && a.is_write == access.is_write &&
             a.lane_stride_bytes == access.lane_stride_bytes;
    });
    if (it == into.end()) {
      into.push_back(access);
      continue;
    }
    it->requests += access.requests;
    it->sectors += access.sectors;
    it->ideal_sectors += access.ideal_sectors;
    it->lanes += access.lanes;
    it->distinct_addresses += access.distinct_addresses;
  }
}

const Module& ProgramRunner::module_for(const core::ModuleRef& module) {
  if (module == nullptr) throw core::UsageError("a launch without a module");
  const auto it = modules_.find(module.get());
  if (it != modules_.end()) return it->second.second;
  std::vector<std::string> sources;
  for (const auto& [path, text] : module->sources) sources.push_back(path);
  Module parsed = Module::parse(module->ptx, module->name, {}, std::move(sources));
  return modules_.emplace(module.get(), std::make_pair(module, std::move(parsed)))
      .first->second.second;
}

void ProgramRunner::launch(const core::LaunchOperation& operation,
                           std::span<const core::Argument> arguments,
                           std::span<const core::BufferHandle> bindings,
                           const RunSettings& settings, std::uint64_t ordinal, Observer* observer,
                           core::ExecutionReport& report) {
  const Module& module = module_for(operation.module);
  const std::vector<EntryParameter> parameters = module.parameters(operation.entry);
  if (parameters.size() != arguments.size()) {
    throw core::UsageError("launch of " + operation.entry + ": the kernel takes " +
                           std::to_string(parameters.size()) + " parameters, got " +
                           std::to_string(arguments.size()) + " arguments");
  }
  LaunchSpec spec{module,
                  operation.entry,
                  operation.grid,
                  operation.block,
                  operation.cluster,
                  operation.dynamic_shared_bytes,
                  {}};
  spec.parameters.resize(module.parameter_bytes(operation.entry));
  for (std::size_t k = 0; k < arguments.size(); ++k) {
    std::byte* at = spec.parameters.data() + parameters[k].offset;
    const auto place = [&](const void* bytes, std::size_t size) {
      if (size != parameters[k].size) {
        throw core::UsageError("launch of " + operation.entry + ": parameter " + std::to_string(k) +
                               " has " + std::to_string(parameters[k].size) +
                               " bytes, the argument " + std::to_string(size));
      }
      std::memcpy(at, bytes, size);
    };
    if (const auto* buffer = std::get_if<core::BufferArgument>(&arguments[k])) {
      const std::uint64_t address =
          address_of(bindings, buffer->buffer, buffer->byte_offset, 0, "a launch argument");
      place(&address, sizeof address);
    } else if (const auto* scalar = std::get_if<core::ScalarArgument>(&arguments[k])) {
      place(&scalar->bits, scalar->size);
    } else {
      const TensorMapBytes map = encode(std::get<core::TensorMapArgument>(arguments[k]), bindings);
      place(map.data(), map.size());
    }
  }
  Options options;
  options.policy = settings.policy;
  options.lateness = settings.lateness;
  options.seed = ordinal == 0 ? settings.seed : core::mix64(settings.seed + ordinal);
  options.race = settings.race;
  options.step_budget = settings.step_budget;
  options.deadline = deadline_;
  options.pct_depth = settings.pct_depth;
  options.unwritten_shared = settings.unwritten_shared;
  options.unwritten_local = settings.unwritten_local;
  options.access_statistics = settings.access_statistics;
  options.observer = observer;
  LaunchReport launched = device_.launch(spec, options);
  report.status = launched.status;
  report.message = std::move(launched.message);
  if (report.status == core::ExecutionStatus::out_of_time) {
    report.message =
        fmt::format("timed out after {:g} s while still making progress ({}); raise --timeout",
                    settings.timeout_s, report.message);
  }
  report.details = std::move(launched.details);
  merge_races(report.races, launched.races);
  merge_accesses(report.accesses, launched.accesses);
  report.thread_instructions += launched.thread_instructions;
  report.visible_steps += launched.visible_steps;
}

void ProgramRunner::execute(const Step& step, std::span<const core::BufferHandle> bindings,
                            const RunSettings& settings, TouchedMemory* touched,
                            core::ExecutionReport& report) {
  const auto touch = [&](const core::BufferArgument& buffer, std::uint64_t bytes, Touch kind) {
    if (touched == nullptr) return;
    const std::uint64_t base = bindings[buffer.buffer].id;
    touched->add(base, device_.name_at(base), buffer.byte_offset, bytes, kind);
  };
  if (const auto* what = std::get_if<core::LaunchOperation>(&step.operation->what)) {
    launch(*what, *step.arguments, bindings, settings, step.launch, touched, report);
  } else if (const auto* what = std::get_if<core::CopyOperation>(&step.operation->what)) {
    const std::uint64_t to = address_of(bindings, what->destination.buffer,
                                        what->destination.byte_offset, what->bytes, "a copy");
    const std::uint64_t from =
        address_of(bindings, what->source.buffer, what->source.byte_offset, what->bytes, "a copy");
    std::vector<std::byte> bytes(what->bytes);
    device_.read(from, bytes);
    device_.write(to, bytes);
    touch(what->source, what->bytes, Touch::read);
    touch(what->destination, what->bytes, Touch::write);
  } else if (const auto* what = std::get_if<core::FillOperation>(&step.operation->what)) {
    device_.fill(address_of(bindings, what->destination.buffer, what->destination.byte_offset,
                            what->bytes, "a fill"),
                 what->bytes, what->word);
    touch(what->destination, what->bytes, Touch::write);
  } else if (const auto* what = std::get_if<core::HostStepOperation>(&step.operation->what)) {
    if (what->step) what->step();
  }
}

core::ExecutionReport ProgramRunner::run(const core::Program& program,
                                         std::span<const core::BufferHandle> bindings,
                                         const RunSettings& settings) {
  core::ExecutionReport report;
  const OperationOrder order(program);
  // Beyond some centuries a limit is none; the conversion to clock ticks would overflow.
  constexpr double kNever = 1e9;
  deadline_.reset();
  if (settings.timeout_s < kNever) {
    deadline_ = std::chrono::steady_clock::now() +
                std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                    std::chrono::duration<double>(settings.timeout_s));
  }
  // In one stream everything is ordered, and nothing need be watched.
  const bool watch = order.has_several_streams() && settings.race != core::RaceMode::off;
  TouchedBySteps touched;
  for (const std::uint32_t index : order.schedule(settings.policy, settings.seed)) {
    TouchedMemory* memory = nullptr;
    if (watch) memory = (touched[index] = std::make_unique<TouchedMemory>()).get();
    try {
      execute(order.steps()[index], bindings, settings, memory, report);
    } catch (const ParseError& error) {
      report.status = core::ExecutionStatus::unsupported;
      report.message = error.what();
    }
    if (report.status != core::ExecutionStatus::completed) break;
  }
  if (watch) merge_races(report.races, find_stream_races(program, order, touched));
  return report;
}

}  // namespace faultline::simulator
