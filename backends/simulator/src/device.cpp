// SPDX-License-Identifier: Apache-2.0
#include "faultline/simulator/device.hpp"

#include <algorithm>
#include <cstring>
#include <map>

#include "faultline/core/errors.hpp"
#include "machine/machine.hpp"
#include "observe/access_statistics.hpp"
#include "race/detector.hpp"

namespace faultline::simulator {
namespace {

constexpr std::uint32_t kMaxThreads = 1024;
constexpr std::uint32_t kMaxSharedBytes = 232'448;  // 227 KiB a block, compute capability 9.0

std::string shape_text(const std::array<std::uint32_t, 3>& v) {
  return "(" + std::to_string(v[0]) + ", " + std::to_string(v[1]) + ", " + std::to_string(v[2]) +
         ")";
}

const char* policy_name(core::SchedulePolicy policy) {
  switch (policy) {
  case core::SchedulePolicy::round_robin: return "round_robin";
  case core::SchedulePolicy::random: return "random";
  case core::SchedulePolicy::pct: return "pct";
  case core::SchedulePolicy::skew: return "skew";
  }
  return "";
}
const char* lateness_name(core::CopyLateness lateness) {
  switch (lateness) {
  case core::CopyLateness::eager: return "eager";
  case core::CopyLateness::lazy: return "lazy";
  case core::CopyLateness::random: return "random";
  }
  return "";
}

}  // namespace

struct Device::Implementation {
  GlobalMemory memory;
  Machine machine{memory};
  RaceDetector detector;
  AccessStatisticsCollector statistics;
  std::map<std::pair<const Module::Implementation*, std::string>, std::shared_ptr<const Program>>
      programs;
  std::map<std::pair<const Module::Implementation*, std::string_view>, std::uint64_t> globals;

  // Module-level variables live as long as the device, as on real hardware.
  std::uint64_t global_address(const Module& module, std::string_view name) {
    const Module::Implementation* source = module.implementation().get();
    const auto key = std::make_pair(source, name);
    if (const auto it = globals.find(key); it != globals.end()) return it->second;
    for (const ptx::Variable& variable : source->source.variables) {
      if (variable.name != name || variable.space == "shared") continue;
      const std::uint64_t base = memory.allocate(readable_name(name), variable.size, true).base;
      globals[key] = base;
      for (const ptx::Initializer& entry : variable.addresses) {
        global_address(module, entry.symbol);
      }
      initialise(source, variable, base);
      return base;
    }
    return 0;
  }

  void initialise(const Module::Implementation* source, const ptx::Variable& variable,
                  std::uint64_t base) {
    std::uint8_t* bytes = memory.find(base)->bytes;
    std::memset(bytes, 0, variable.size);
    std::copy_n(variable.bytes.begin(), std::min<std::size_t>(variable.bytes.size(), variable.size),
                bytes);
    for (const ptx::Initializer& entry : variable.addresses) {
      const auto symbol = globals.find({source, entry.symbol});
      const std::uint64_t address = symbol == globals.end() ? 0 : symbol->second;
      const std::uint64_t value = address + static_cast<std::uint64_t>(entry.addend);
      if (entry.byte_offset + 8 <= variable.size) {
        std::memcpy(bytes + entry.byte_offset, &value, 8);
      }
    }
  }

  void reset_variables() {
    for (const auto& [key, base] : globals) {
      const auto& [source, name] = key;
      for (const ptx::Variable& variable : source->source.variables) {
        if (variable.name != name || variable.space == "shared") continue;
        if (variable.space != "const") initialise(source, variable, base);
        break;
      }
    }
  }

  std::shared_ptr<const Program> program(const LaunchSpec& spec) {
    const auto key = std::make_pair(
        static_cast<const Module::Implementation*>(spec.module.implementation().get()), spec.entry);
    auto& program = programs[key];
    if (program == nullptr) {
      if (!spec.module.has_entry(spec.entry))
        spec.module.parameters(spec.entry);  // throws, with the names
      program = decode(spec.module, spec.entry,
                       [&](std::string_view name) { return global_address(spec.module, name); });
    }
    return program;
  }

  Allocation& find(std::uint64_t address, std::size_t bytes) const {
    Allocation* allocation = memory.find(address);
    if (allocation == nullptr || !allocation->contains(address, bytes == 0 ? 1 : bytes)) {
      throw core::UsageError("simulator: host access of " + std::to_string(bytes) +
                             " bytes at device address " + std::to_string(address) +
                             " is outside every buffer");
    }
    return *allocation;
  }
};

Device::Device() : implementation_(std::make_unique<Implementation>()) {}
Device::~Device() = default;
Device::Device(Device&&) noexcept = default;
Device& Device::operator=(Device&&) noexcept = default;

std::uint64_t Device::allocate(std::string name, std::size_t bytes) {
  return implementation_->memory.allocate(std::move(name), bytes).base;
}
void Device::set_offset(std::size_t bytes) { implementation_->memory.set_offset(bytes); }
void Device::reset_module_variables() { implementation_->reset_variables(); }
void Device::release(std::uint64_t address) {
  if (const Allocation* allocation = implementation_->memory.find(address)) {
    implementation_->detector.forget(allocation->id);
  }
  implementation_->memory.release(address);
}

void Device::write(std::uint64_t address, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  Allocation& allocation = implementation_->find(address, bytes.size());
  std::memcpy(allocation.bytes + (address - allocation.base), bytes.data(), bytes.size());
}
void Device::read(std::uint64_t address, std::span<std::byte> bytes) const {
  if (bytes.empty()) return;
  const Allocation& allocation = implementation_->find(address, bytes.size());
  std::memcpy(bytes.data(), allocation.bytes + (address - allocation.base), bytes.size());
}
void Device::fill(std::uint64_t address, std::size_t bytes, std::uint32_t word) {
  if (bytes == 0) return;
  Allocation& allocation = implementation_->find(address, bytes);
  if (bytes == allocation.size) return allocation.storage.fill(word);
  std::uint8_t* at = allocation.bytes + (address - allocation.base);
  for (std::size_t k = 0; k < bytes; k += 4)
    std::memcpy(at + k, &word, std::min<std::size_t>(4, bytes - k));
}
std::string Device::name_at(std::uint64_t address) const {
  const Allocation* allocation = implementation_->memory.find(address);
  return allocation == nullptr ? std::string{} : allocation->name;
}
std::span<std::byte> Device::bytes(std::uint64_t address) {
  Allocation& allocation = implementation_->find(address, 1);
  return {reinterpret_cast<std::byte*>(allocation.bytes), allocation.size};
}

LaunchReport Device::launch(const LaunchSpec& spec, const Options& options) {
  const std::shared_ptr<const Program> program = implementation_->program(spec);
  const auto require = [&](bool ok, const std::string& what) {
    if (!ok) throw core::UsageError("launch of " + spec.entry + ": " + what);
  };
  const auto volume = [](const std::array<std::uint32_t, 3>& v) {
    return std::uint64_t{v[0]} * v[1] * v[2];
  };
  require(volume(spec.grid) > 0 && volume(spec.grid) < (std::uint64_t{1} << 31),
          "impossible grid " + shape_text(spec.grid));
  require(volume(spec.block) > 0 && volume(spec.block) <= kMaxThreads,
          "a block " + shape_text(spec.block) + " must have 1 to 1024 threads");
  require(program->max_threads == 0 || volume(spec.block) <= program->max_threads,
          "the block " + shape_text(spec.block) + " exceeds the " +
              std::to_string(program->max_threads) + " threads the kernel was compiled for");
  for (int k = 0; k < 3; ++k) {
    const auto axis = static_cast<std::size_t>(k);
    require(spec.cluster[axis] > 0 && spec.grid[axis] % spec.cluster[axis] == 0,
            "the grid " + shape_text(spec.grid) + " is not a multiple of the cluster " +
                shape_text(spec.cluster));
  }
  require(volume(spec.cluster) <= 16, "a cluster of more than 16 CTAs");
  require(spec.parameters.size() >= program->parameter_bytes,
          "the kernel takes " + std::to_string(program->parameter_bytes) +
              " bytes of parameters, got " + std::to_string(spec.parameters.size()));
  require(std::uint64_t{program->static_shared_bytes} + spec.dynamic_shared_bytes <=
              kMaxSharedBytes,
          std::to_string(program->static_shared_bytes) + " static and " +
              std::to_string(spec.dynamic_shared_bytes) +
              " dynamic bytes of shared memory exceed 232448");

  LaunchReport report;
  report.token = std::string(policy_name(options.policy)) + "/" + lateness_name(options.lateness) +
                 "/" + std::to_string(options.seed);
  const LaunchGeometry geometry{spec.grid, spec.block, spec.cluster, spec.dynamic_shared_bytes};
  std::unique_ptr<Policy> base = make_policy(options.policy, options.seed, options.pct_depth);
  std::unique_ptr<Policy> replayer, recorder;
  Policy* policy = base.get();
  if (options.replay != nullptr)
    policy = (replayer = make_replayer(*policy, *options.replay)).get();
  if (options.record) policy = (recorder = make_recorder(*policy, report.schedule)).get();

  std::vector<Observer*> observers;
  if (options.race != core::RaceMode::off) {
    implementation_->detector.begin(program, geometry, options.race == core::RaceMode::lenient);
    observers.push_back(&implementation_->detector);
  }
  if (options.access_statistics) {
    implementation_->statistics.begin(program);
    observers.push_back(&implementation_->statistics);
  }
  if (options.observer != nullptr) observers.push_back(options.observer);
  Machine& machine = implementation_->machine;
  machine.set_unwritten(options.unwritten_shared, options.unwritten_local);
  try {
    machine.run(program, geometry, spec.parameters, *policy, options.lateness, options.step_budget,
                options.deadline, observers);
  } catch (const Stop& stop) {
    report.status = stop.status();
    report.message = stop.what();
    report.details = machine.details();
  }
  if (options.race != core::RaceMode::off) report.races = implementation_->detector.finish();
  if (options.access_statistics) report.accesses = implementation_->statistics.finish();
  report.thread_instructions = machine.thread_instructions();
  report.warp_instructions = machine.warp_instructions();
  report.visible_steps = machine.steps();
  report.output = machine.output();
  return report;
}

}  // namespace faultline::simulator
