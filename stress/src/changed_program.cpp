// SPDX-License-Identifier: Apache-2.0
#include "changed_program.hpp"

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
  return p.one_stream || p.eager || p.delay_sites != 0;
}

core::Perturbation for_backend(core::Perturbation p) {
  const core::Perturbation plain;
  p.one_stream = plain.one_stream;
  p.eager = plain.eager;
  p.delay_sites = plain.delay_sites;
  p.delay_site = plain.delay_site;
  p.delay_ns = plain.delay_ns;
  p.delay_seed = plain.delay_seed;
  return p;
}

core::TrialPlan with_changed_program(core::TrialPlan plan, const core::Perturbation& p) {
  const core::Program one = plan.program(1);
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
  plan.program = [program = std::move(plan.program), p](std::uint32_t batch) {
    core::Program changed = program(batch);
    if (p.eager) changed = without_graphs(changed);
    if (p.one_stream) changed = in_one_stream(std::move(changed));
    if (p.delay_sites == 0) return changed;
    return with_kept_delays(changed, p);
  };
  return plan;
}

}  // namespace faultline::stress::detail
