// SPDX-License-Identifier: Apache-2.0
#include "changed_program.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "faultline/core/errors.hpp"
#include "faultline/stress/ptx_delay.hpp"

namespace faultline::stress::detail {
namespace {

bool has_graphs(const core::Program& program) {
  for (const core::Operation& operation : program.operations) {
    if (std::holds_alternative<core::ReplayOperation>(operation.what)) return true;
  }
  return false;
}

/// In the order in which the operations were issued, which a host that waits for each would give.
core::Program in_one_stream(core::Program program) {
  std::erase_if(program.operations, [](const core::Operation& operation) {
    return std::holds_alternative<core::EventRecordOperation>(operation.what) ||
           std::holds_alternative<core::EventWaitOperation>(operation.what);
  });
  for (core::Operation& operation : program.operations) operation.stream = 0;
  return program;
}

/// A replay becomes the operations that were captured, with the arguments that the replay gives
/// them.
core::Program without_graphs(const core::Program& program) {
  core::Program eager = program;
  eager.operations.clear();
  std::map<std::uint32_t, std::vector<core::Operation>> captured;
  std::vector<core::Operation>* into = &eager.operations;
  core::OperationId next_id = 0;
  for (const core::Operation& operation : program.operations) {
    next_id = std::max(next_id, operation.id + 1);
  }
  for (const core::Operation& operation : program.operations) {
    if (const auto* begin = std::get_if<core::CaptureBeginOperation>(&operation.what)) {
      into = &captured[begin->graph];
      into->clear();
    } else if (std::holds_alternative<core::CaptureEndOperation>(operation.what)) {
      into = &eager.operations;
    } else if (const auto* replay = std::get_if<core::ReplayOperation>(&operation.what)) {
      for (core::Operation issued : captured[replay->graph]) {
        for (const auto& [id, arguments] : replay->changed_arguments) {
          auto* launch = std::get_if<core::LaunchOperation>(&issued.what);
          if (launch && id == issued.id) launch->arguments = arguments;
        }
        issued.id = next_id++;
        issued.stream = operation.stream;
        eager.operations.push_back(std::move(issued));
      }
    } else {
      into->push_back(operation);
    }
  }
  return eager;
}

constexpr std::uint32_t kMostCalls = 1000;

/// One past the largest id of each kind.
struct Ids {
  std::uint64_t operations = 0, events = 0, graphs = 0;
};

Ids ids_of(const core::Program& program) {
  Ids ids;
  const auto cover = [](std::uint64_t& end, std::uint64_t id) { end = std::max(end, id + 1); };
  for (const core::Operation& operation : program.operations) {
    cover(ids.operations, operation.id);
    if (const auto* record = std::get_if<core::EventRecordOperation>(&operation.what)) {
      cover(ids.events, record->event);
    } else if (const auto* wait = std::get_if<core::EventWaitOperation>(&operation.what)) {
      cover(ids.events, wait->event);
    } else if (const auto* begin = std::get_if<core::CaptureBeginOperation>(&operation.what)) {
      cover(ids.graphs, begin->graph);
    }
  }
  return ids;
}

/// The operations of call number `call`, no id of which another call has.
std::vector<core::Operation> operations_of_call(const core::Program& program, std::uint32_t call,
                                                const Ids& ids) {
  const auto move = [call](auto& id, std::uint64_t each) {
    id += static_cast<std::uint32_t>(call * each);
  };
  std::vector<core::Operation> moved = program.operations;
  for (core::Operation& operation : moved) {
    move(operation.id, ids.operations);
    if (auto* record = std::get_if<core::EventRecordOperation>(&operation.what)) {
      move(record->event, ids.events);
    } else if (auto* wait = std::get_if<core::EventWaitOperation>(&operation.what)) {
      move(wait->event, ids.events);
    } else if (auto* begin = std::get_if<core::CaptureBeginOperation>(&operation.what)) {
      move(begin->graph, ids.graphs);
    } else if (auto* end = std::get_if<core::CaptureEndOperation>(&operation.what)) {
      move(end->graph, ids.graphs);
    } else if (auto* replay = std::get_if<core::ReplayOperation>(&operation.what)) {
      move(replay->graph, ids.graphs);
      for (auto& [launch, arguments] : replay->changed_arguments) move(launch, ids.operations);
    }
  }
  return moved;
}

/// An output and where in `workspace` what was laid in it before the first call is kept.
struct KeptOutput {
  std::uint32_t output = 0, workspace = 0;  ///< buffers
  std::uint64_t offset = 0, bytes = 0;
};

/// `calls` calls one after another. Each finds the outputs as the first one did, so that what a
/// later call does not write is seen; workspaces, inputs and the variables of modules are what the
/// calls before left. All streams wait for the end of a call.
core::Program with_calls(const core::Program& program, std::uint32_t calls,
                         const std::vector<KeptOutput>& outputs) {
  const Ids ids = ids_of(program);
  std::set<core::StreamId> streams;
  for (const core::Operation& operation : program.operations) streams.insert(operation.stream);
  const core::StreamId first = streams.empty() ? 0 : *streams.begin();
  core::Program repeated = program;
  repeated.operations.clear();
  auto next_id = static_cast<core::OperationId>(calls * ids.operations);
  auto next_event = static_cast<core::EventId>(calls * ids.events);
  const auto add = [&](decltype(core::Operation::what) what, core::StreamId stream) {
    repeated.operations.push_back({next_id++, stream, std::move(what)});
  };
  const auto wait_for = [&](core::StreamId waiting, core::StreamId stream) {
    if (waiting == stream) return;
    add(core::EventRecordOperation{next_event}, stream);
    add(core::EventWaitOperation{next_event}, waiting);
    ++next_event;
  };
  for (std::uint32_t call = 0; call < calls; ++call) {
    if (call > 0) {
      for (const core::StreamId stream : streams) wait_for(first, stream);
    }
    for (const KeptOutput& kept : outputs) {
      const core::BufferArgument output{kept.output, 0}, copy{kept.workspace, kept.offset};
      add(call == 0 ? core::CopyOperation{copy, output, kept.bytes}
                    : core::CopyOperation{output, copy, kept.bytes},
          first);
    }
    for (const core::StreamId stream : streams) wait_for(stream, first);
    for (core::Operation& operation : operations_of_call(program, call, ids)) {
      repeated.operations.push_back(std::move(operation));
    }
  }
  return repeated;
}

/// Bindings from number `from` on move `by` further on.
void move_bindings(core::Program& program, std::uint32_t from, std::uint32_t by) {
  const auto move = [&](std::uint32_t& buffer) {
    if (buffer >= from) buffer += by;
  };
  const auto move_all = [&](std::vector<core::Argument>& arguments) {
    for (core::Argument& argument : arguments) {
      if (auto* buffer = std::get_if<core::BufferArgument>(&argument)) move(buffer->buffer);
      if (auto* map = std::get_if<core::TensorMapArgument>(&argument)) move(map->buffer);
    }
  };
  for (core::Operation& operation : program.operations) {
    if (auto* launch = std::get_if<core::LaunchOperation>(&operation.what)) {
      move_all(launch->arguments);
    } else if (auto* copy = std::get_if<core::CopyOperation>(&operation.what)) {
      move(copy->destination.buffer);
      move(copy->source.buffer);
    } else if (auto* fill = std::get_if<core::FillOperation>(&operation.what)) {
      move(fill->destination.buffer);
    } else if (auto* replay = std::get_if<core::ReplayOperation>(&operation.what)) {
      for (auto& [launch, arguments] : replay->changed_arguments) move_all(arguments);
    }
  }
}

/// The plan with a workspace more, in which what is laid in its outputs is kept: each begins at a
/// boundary of 256 bytes.
std::vector<KeptOutput> keep_outputs(core::TrialPlan& plan) {
  constexpr std::uint64_t kBoundary = 256;
  const auto workspace = static_cast<std::uint32_t>(plan.buffers.size());
  std::vector<KeptOutput> outputs;
  std::uint64_t bytes = 0;
  for (const std::uint32_t index : plan.output_indices()) {
    const std::uint64_t own = plan.buffers[index].bytes();
    outputs.push_back({index, workspace, bytes, own});
    bytes += (own + kBoundary - 1) / kBoundary * kBoundary;
  }
  core::BufferSpec kept;
  kept.name = "outputs as laid";
  kept.role = core::BufferRole::workspace;
  // Of the dtype whose poison tells most tiles apart.
  kept.dtype = core::Dtype::f64;
  kept.shape = {static_cast<std::int64_t>(bytes / core::size_of(kept.dtype))};
  plan.buffers.push_back(std::move(kept));
  if (plan.device_oracle) {
    plan.device_oracle = [oracle = std::move(plan.device_oracle), workspace](std::uint32_t batch) {
      core::Program moved = oracle(batch);
      move_bindings(moved, workspace, 1);
      return moved;
    };
  }
  return outputs;
}

void check_calls(const core::Perturbation& p, const core::Program& one) {
  if (p.calls == 0 || p.calls > kMostCalls) {
    throw core::UsageError(
        fmt::format("calls={}: a trial makes 1 to {} calls of its subject", p.calls, kMostCalls));
  }
  if (p.calls == 1) return;
  if (p.batch != 1 || p.ctas_per_sm != 0.0) {
    throw core::UnsupportedError("several calls are made of one trial in a grid");
  }
  const Ids ids = ids_of(one);
  constexpr std::uint64_t kMostIds = std::uint64_t{1} << 31;
  if (p.calls * std::max({ids.operations, ids.events, ids.graphs}) > kMostIds) {
    throw core::UsageError(fmt::format("calls={}: too many for ids as large as those of this "
                                       "program",
                                       p.calls));
  }
}

/// Modules with delays are kept, because a backend compiles each that it has not seen before, and a
/// campaign comes back to an arm for every block of its trials. The oldest make room.
core::Program with_kept_delays(const core::Program& program, const core::Perturbation& p) {
  constexpr std::size_t kMost = 64;
  static std::mutex mutex;
  static std::vector<std::pair<std::string, core::ModuleRef>> made;
  const std::lock_guard lock(mutex);
  core::Program changed = with_delays(program, p, made);
  if (made.size() > kMost) made.erase(made.begin(), made.end() - kMost);
  return changed;
}

}  // namespace

bool changes_program(const core::Perturbation& p) {
  return p.one_stream || p.eager || p.calls != 1 || p.delay_sites != 0;
}

core::Perturbation for_backend(core::Perturbation p) {
  const core::Perturbation plain;
  p.one_stream = plain.one_stream;
  p.eager = plain.eager;
  p.calls = plain.calls;
  p.delay_sites = plain.delay_sites;
  p.delay_site = plain.delay_site;
  p.delay_ns = plain.delay_ns;
  p.delay_seed = plain.delay_seed;
  return p;
}

core::TrialPlan with_changed_program(core::TrialPlan plan, const core::Perturbation& p) {
  const core::Program one = plan.program(1);
  check_calls(p, one);
  if (p.one_stream && !one.devices.empty()) {
    throw core::UnsupportedError("streams of several devices cannot become one");
  }
  if (p.eager && !has_graphs(one)) throw core::UnsupportedError("the program has no graph");
  if (p.delay_sites != 0) {
    const std::size_t sites = find_sites(one, p.delay_sites).size();
    if (sites == 0) throw core::UnsupportedError("its PTX has no site for a delay");
    if (p.delay_site > sites) {
      throw core::UnsupportedError(fmt::format(
          "its PTX has {} sites for a delay, and {} is asked for", sites, p.delay_site));
    }
  }
  std::vector<KeptOutput> outputs;
  if (p.calls > 1) outputs = keep_outputs(plan);
  plan.program = [program = std::move(plan.program), p,
                  outputs = std::move(outputs)](std::uint32_t batch) {
    core::Program changed = program(batch);
    if (p.calls > 1) changed = with_calls(changed, p.calls, outputs);
    if (p.eager) changed = without_graphs(changed);
    if (p.one_stream) changed = in_one_stream(std::move(changed));
    if (p.delay_sites == 0) return changed;
    return with_kept_delays(changed, p);
  };
  return plan;
}

}  // namespace faultline::stress::detail
