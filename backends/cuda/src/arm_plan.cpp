// SPDX-License-Identifier: Apache-2.0
#include "arm_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "faultline/core/errors.hpp"
#include "faultline/core/launch_streams.hpp"
#include "program_traits.hpp"
#include "trial_abi.hpp"

namespace faultline::cuda {

namespace {

constexpr std::uint32_t kMaxBatch = 65535;         // a grid's second extent
constexpr std::uint64_t kColdBytes = 700'000'000;  // several times the 60 MB L2 of an H200
constexpr std::uint64_t kMinSets = 3;
constexpr std::uint64_t kLongestBlockerNs = 1'000'000'000;
constexpr double kReplayNs = 100e6;  // of one timed graph, about

void append(std::string& note, const std::string& text) {
  note += (note.empty() ? "" : "; ") + text;
}

std::uint64_t ceil_div(std::uint64_t a, std::uint64_t b) { return (a + b - 1) / b; }

void validate(const core::TrialPlan& plan, const core::TrialRequest& request) {
  const auto refuse = [&](const std::string& why) {
    throw core::UsageError(fmt::format("cannot run trials of '{}': {}", plan.subject, why));
  };
  if (!plan.program) {
    refuse("its plan has no program");
  }
  if (!plan.reference && !plan.device_oracle) {
    refuse("its plan has neither a reference nor a device oracle, so nothing could be compared");
  }
  if (request.count == 0) {
    refuse("0 trials were asked for");
  }
  if (request.perturbation.offset_bytes % 16 != 0) {
    refuse(fmt::format("offset_bytes={}: addresses can move by multiples of 16 bytes",
                       request.perturbation.offset_bytes));
  }
  std::size_t inputs = 0, outputs = 0, workspaces = 0;
  for (const core::BufferSpec& buffer : plan.buffers) {
    inputs += buffer.role == core::BufferRole::input;
    workspaces += buffer.role == core::BufferRole::workspace;
    if (buffer.role != core::BufferRole::output) {
      continue;
    }
    ++outputs;
    if (buffer.elements() <= 0 || buffer.elements() >= std::int64_t{1} << 31) {
      refuse(fmt::format("output '{}' has {} elements; 1 to 2^31 - 1 can be compared", buffer.name,
                         buffer.elements()));
    }
    if (buffer.tiles.rows * buffer.tiles.cols != buffer.elements() || buffer.tiles.tile_rows < 1 ||
        buffer.tiles.tile_cols < 1) {
      refuse(
          fmt::format("the tiles of output '{}' ({} x {} in {} x {}) do not cover its {} elements",
                      buffer.name, buffer.tiles.rows, buffer.tiles.cols, buffer.tiles.tile_rows,
                      buffer.tiles.tile_cols, buffer.elements()));
    }
  }
  if (outputs == 0) {
    refuse("it has no output, so nothing could be compared");
  }
  if (inputs > abi::kMaxInputs || outputs > abi::kMaxOutputs ||
      outputs + workspaces > abi::kMaxPoisoned) {
    refuse(fmt::format("it has {} inputs, {} outputs and {} workspaces; this backend takes {} "
                       "inputs, {} outputs, and {} outputs and workspaces together",
                       inputs, outputs, workspaces, abi::kMaxInputs, abi::kMaxOutputs,
                       abi::kMaxPoisoned));
  }
}

std::uint32_t histogram_every(std::uint32_t wanted, std::uint32_t batch) {
  if (wanted <= 1) return wanted;
  constexpr std::uint32_t kLaunches = 8;
  return std::bit_ceil(std::max(wanted, batch > 1 ? kLaunches * batch : 1));
}

std::uint32_t resolve_batch(const core::TrialPlan& plan, const core::Perturbation& perturbation,
                            std::uint64_t blocks, int multiprocessors, std::string& note) {
  const std::uint32_t limit = std::clamp<std::uint32_t>(plan.max_batch, 1, kMaxBatch);
  std::uint64_t wanted = std::max<std::uint32_t>(1, perturbation.batch);
  if (perturbation.ctas_per_sm > 0.0 && blocks > 0) {
    wanted = std::max<std::uint64_t>(
        wanted, static_cast<std::uint64_t>(std::ceil(perturbation.ctas_per_sm * multiprocessors /
                                                     static_cast<double>(blocks))));
  }
  if (wanted > limit) {
    append(note,
           fmt::format("{} trials in one grid were wanted, the subject takes {}", wanted, limit));
    wanted = limit;
  }
  return static_cast<std::uint32_t>(wanted);
}

}  // namespace

std::uint64_t input_bytes(const core::TrialPlan& plan) {
  std::uint64_t bytes = 0;
  for (const core::BufferSpec& buffer : plan.buffers) {
    bytes += buffer.role == core::BufferRole::input ? buffer.bytes() : 0;
  }
  return bytes;
}

std::uint64_t output_and_workspace_bytes(const core::TrialPlan& plan) {
  std::uint64_t bytes = 0;
  for (const core::BufferSpec& buffer : plan.buffers) {
    bytes += buffer.role == core::BufferRole::input ? 0 : buffer.bytes();
  }
  return bytes;
}

std::uint64_t reference_bytes(const core::TrialPlan& plan) {
  std::uint64_t bytes = 0;
  for (const core::BufferSpec& buffer : plan.buffers) {
    if (buffer.role == core::BufferRole::output) {
      bytes += 2 * sizeof(double) * static_cast<std::uint64_t>(buffer.elements());
    }
  }
  return bytes;
}

ArmPlan plan_arm(const core::TrialPlan& plan, const core::TrialRequest& request,
                 const DeviceLimits& device) {
  validate(plan, request);
  const core::Perturbation& perturbation = request.perturbation;
  ArmPlan arm;
  const ProgramTraits traits = traits_of(plan.program(1));
  const std::uint64_t blocks = std::max<std::uint64_t>(traits.blocks, 1);
  arm.fresh_inputs = perturbation.fresh_inputs;
  arm.batch = resolve_batch(plan, perturbation, blocks, device.multiprocessors, arm.note);
  // Of the arm, whatever its last block has left: all blocks count the errors of the same trials.
  arm.histogram_every = histogram_every(request.histogram_every, arm.batch);
  arm.batch = static_cast<std::uint32_t>(std::min<std::uint64_t>(arm.batch, request.count));
  // What remains is for the comparison, captures and stress kernels.
  const std::uint64_t usable = device.free_bytes / 10 * 8;
  const std::uint64_t trial_inputs = std::max<std::uint64_t>(1, input_bytes(plan));
  const std::uint64_t trial_shared = output_and_workspace_bytes(plan);
  const std::uint64_t trial_references = arm.fresh_inputs ? reference_bytes(plan) : 0;
  const std::uint64_t trials_fitting =
      std::max<std::uint64_t>(1, usable / (trial_inputs + trial_shared + trial_references));
  if (arm.batch > trials_fitting) {
    append(arm.note, fmt::format("{} trials in one grid instead of {}: device memory",
                                 trials_fitting, arm.batch));
    arm.batch = static_cast<std::uint32_t>(trials_fitting);
  }
  arm.launches = ceil_div(request.count, arm.batch);

  if (perturbation.pool_bytes > 0) {
    const std::uint64_t set_inputs = trial_inputs * arm.batch;
    const std::uint64_t set_all = set_inputs + trial_references * arm.batch;
    const std::uint64_t shared = trial_shared * arm.batch;  // by all sets
    arm.input_sets = std::max<std::uint64_t>(1, perturbation.pool_bytes / set_inputs);
    const std::uint64_t fitting =
        std::max<std::uint64_t>(1, usable > shared ? (usable - shared) / set_all : 0);
    if (arm.input_sets > fitting) {
      append(arm.note, fmt::format("the pool holds {} input sets instead of {}: device memory",
                                   fitting, arm.input_sets));
      arm.input_sets = fitting;
    }
    if (arm.input_sets == 1) {
      append(arm.note, fmt::format("a pool of {} bytes holds one input set of {} bytes: nothing "
                                   "rotates",
                                   perturbation.pool_bytes, set_inputs));
    }
  }
  arm.references_per_set = arm.fresh_inputs && arm.input_sets > 1;
  arm.oracle_per_launch = arm.fresh_inputs && !arm.references_per_set;
  if (arm.fresh_inputs && !plan.device_oracle) {
    append(arm.note, "no device oracle: the host computes the reference of each trial's inputs, "
                     "and the device waits for it");
  }

  const auto skip = [&arm](std::string why) {
    arm.skipped = true;
    arm.note = std::move(why);
    return arm;
  };
  if (perturbation.one_stream || perturbation.eager || perturbation.calls != 1 ||
      perturbation.delay_sites != 0) {
    return skip("changes of the program are made before a backend sees it");
  }
  if (perturbation.blocker_ns > kLongestBlockerNs) {
    return skip(
        fmt::format("a blocker of {} ns; {} at most", perturbation.blocker_ns, kLongestBlockerNs));
  }
  if (perturbation.free_sms > 0) {
    if (perturbation.free_sms >= static_cast<std::uint64_t>(device.multiprocessors)) {
      return skip(fmt::format("{} multiprocessors were to be left, the device has {}",
                              perturbation.free_sms, device.multiprocessors));
    }
    if (perturbation.co_resident != core::CoResident::none) {
      return skip("a stress kernel would fill the multiprocessors that are left");
    }
    if (traits.has_clusters) {
      return skip("the subject's clusters need multiprocessors that are neighbours");
    }
    if (traits.reloads_modules || perturbation.reload_module) {
      return skip("modules are loaded anew: that may wait for the blocks that hold "
                  "multiprocessors");
    }
  }
  if (perturbation.dirty_shared && perturbation.co_resident != core::CoResident::none) {
    return skip("a stress kernel holds shared memory, and leaves some that nothing can be laid in");
  }
  if (perturbation.dirty_shared && traits.launches_in_several_streams) {
    return skip(core::kSeveralStreamsNotDirtied);
  }
  if (traits.reloads_modules && perturbation.co_resident != core::CoResident::none) {
    return skip("the subject loads a module before its launches: that may wait for the kernel that "
                "would run beside it");
  }
  if (perturbation.graph_trials > 0) {
    if (traits.has_host_steps || traits.has_captures || traits.reloads_modules) {
      return skip(fmt::format("the subject's program has {}, which cannot be captured in a graph",
                              traits.has_host_steps ? "host steps"
                              : traits.has_captures ? "graphs of its own"
                                                    : "modules that it loads anew"));
    }
    if (arm.oracle_per_launch && !plan.device_oracle) {
      return skip("fresh inputs in a graph need a device oracle, which the subject does not have");
    }
    arm.launches_per_graph = static_cast<std::uint32_t>(
        std::min<std::uint64_t>({ceil_div(perturbation.graph_trials, arm.batch), arm.launches,
                                 arm.input_sets > 1 ? arm.input_sets : arm.launches}));
    if (perturbation.sync_each) {
      append(arm.note,
             "inside a graph nothing waits for the host: it synchronises between replays");
    }
  }

  // Neighbours on a multiprocessor must agree on the carve-out, or one waits for the other to end.
  const double half = 0.5 * static_cast<double>(device.shared_per_multiprocessor);
  arm.carveout_percent = traits.largest_dynamic_shared > half - 8.0 * 1024 ? 100 : 50;
  return arm;
}

std::uint32_t stress_blocks_beside(const std::vector<BlockNeeds>& subject, const BlockNeeds& stress,
                                   std::uint32_t most, const MultiprocessorSpace& space) {
  constexpr std::uint64_t kWarp = 32, kUnit = 256, kPartitions = 4;
  const auto warps = [](const BlockNeeds& block) { return ceil_div(block.threads, kWarp); };
  // Of the partition that gets the most warps of a block.
  const auto registers = [&](const BlockNeeds& block) {
    return ceil_div(warps(block), kPartitions) * ceil_div(block.registers * kWarp, kUnit) * kUnit;
  };
  const auto shared = [&](const BlockNeeds& block) {
    return block.shared_bytes + space.reserved_bytes;
  };
  std::uint32_t count = most;
  const auto all_fit = [&] {
    return std::all_of(subject.begin(), subject.end(), [&](const BlockNeeds& block) {
      return kWarp * (warps(block) + count * warps(stress)) <= space.threads &&
             registers(block) + count * registers(stress) <= space.registers / kPartitions &&
             shared(block) + count * shared(stress) <= space.shared_bytes;
    });
  };
  while (count > 0 && !all_fit()) --count;
  return count;
}

double slow_down(std::uint64_t blocks, std::uint64_t multiprocessors, std::uint64_t free) {
  const double used = static_cast<double>(std::min(blocks, multiprocessors));
  return std::max(1.0, used / static_cast<double>(std::max<std::uint64_t>(free, 1)));
}

std::uint64_t timing_sets(std::uint64_t rotated_bytes, bool cold, std::uint64_t free_bytes) {
  if (!cold || rotated_bytes == 0) {
    return 1;
  }
  const std::uint64_t wanted = std::max(kMinSets, ceil_div(kColdBytes, rotated_bytes));
  return std::clamp<std::uint64_t>(free_bytes / rotated_bytes, 1, wanted);
}

std::uint64_t timing_launches(std::uint64_t sets, std::uint64_t rotated_bytes,
                              double execution_ns) {
  const std::uint64_t by_traffic =
      rotated_bytes == 0 ? 64 : (std::uint64_t{8} << 30) / rotated_bytes + 1;
  const std::uint64_t by_time =
      execution_ns > 0.0 ? static_cast<std::uint64_t>(std::min(kReplayNs / execution_ns, 63.0)) + 1
                         : 64;
  const std::uint64_t wanted = std::max(sets, std::min<std::uint64_t>({64, by_traffic, by_time}));
  return ceil_div(wanted, sets) * sets;
}

}  // namespace faultline::cuda
