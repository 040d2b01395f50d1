// SPDX-License-Identifier: Apache-2.0
#include "backend/operation_order.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "faultline/core/errors.hpp"
#include "faultline/core/generator.hpp"

namespace faultline::simulator {
namespace {

using Frontier = std::vector<std::uint32_t>;  // what the next operation waits for, by index

void join(Frontier& into, const Frontier& from) {
  for (const std::uint32_t index : from) {
    if (std::find(into.begin(), into.end(), index) == into.end()) into.push_back(index);
  }
}

struct Node {  // of a captured graph
  const core::Operation* operation;
  Frontier after;
};

struct Graph {
  std::vector<Node> nodes;
  Frontier last_replay;  // replays of one graph do not overlap
  bool captured = false;

  Frontier leaves() const {
    std::vector<bool> is_leaf(nodes.size(), true);
    for (const Node& node : nodes) {
      for (const std::uint32_t before : node.after) is_leaf[before] = false;
    }
    Frontier result;
    for (std::uint32_t k = 0; k < nodes.size(); ++k) {
      if (is_leaf[k]) result.push_back(k);
    }
    return result;
  }
};

// Of an event: what it marks the end of.
struct Recorded {
  Frontier work;  // steps, or nodes of the graph
  std::optional<std::uint32_t> graph;
};

// Issues the operations one after another, as a host does.
class Issue {
 public:
  Issue(const core::Program& program, std::vector<Step>& steps)
      : program_(program), steps_(steps) {}

  void operator()(const core::Operation& operation) {
    std::visit([&](const auto& what) { issue(operation, what); }, operation.what);
  }
  void finish() const {
    if (capturing_) refuse(fmt::format("does not end the capture of graph {}", *capturing_));
  }

 private:
  void issue(const core::Operation& operation, const core::LaunchOperation& launch) {
    if (is_captured(operation.stream)) {
      capture(operation);
    } else {
      add(operation, operation.stream).arguments = &launch.arguments;
    }
  }
  void issue(const core::Operation& operation, const core::CopyOperation&) { work(operation); }
  void issue(const core::Operation& operation, const core::FillOperation&) { work(operation); }
  void issue(const core::Operation& operation, const core::HostStepOperation&) {
    // The host waits for no stream, and issues nothing more until it has done its step.
    Step step{.operation = &operation, .stream = operation.stream, .after = host_};
    host_ = {static_cast<std::uint32_t>(steps_.size())};
    steps_.push_back(std::move(step));
  }
  void issue(const core::Operation& operation, const core::EventRecordOperation& record) {
    if (is_captured(operation.stream)) {
      events_[record.event] = {branches_[operation.stream], capturing_};
    } else {
      events_[record.event] = {streams_[operation.stream], std::nullopt};
    }
  }
  void issue(const core::Operation& operation, const core::EventWaitOperation& wait) {
    const auto event = events_.find(wait.event);
    if (event == events_.end()) {
      refuse(fmt::format("waits for event {} in stream {}, which nothing before it records",
                         wait.event, operation.stream));
    }
    const Recorded& recorded = event->second;
    if (recorded.graph) {
      if (recorded.graph != capturing_) {
        refuse(fmt::format("waits for event {} in stream {}, which was recorded into graph {}: "
                           "nothing outside the graph can wait for it",
                           wait.event, operation.stream, *recorded.graph));
      }
      join(branches_[operation.stream], recorded.work);  // the stream joins the capture
    } else if (is_captured(operation.stream)) {
      refuse(fmt::format("waits for event {} in stream {} while graph {} captures it: a graph "
                         "cannot wait for work outside it",
                         wait.event, operation.stream, *capturing_));
    } else {
      join(streams_[operation.stream], recorded.work);
    }
  }
  void issue(const core::Operation& operation, const core::CaptureBeginOperation& begin) {
    if (capturing_) {
      refuse(fmt::format("begins the capture of graph {} inside that of graph {}", begin.graph,
                         *capturing_));
    }
    capturing_ = begin.graph;
    graphs_[begin.graph] = {};
    branches_ = {{operation.stream, {}}};
    origin_ = operation.stream;
  }
  void issue(const core::Operation&, const core::CaptureEndOperation& end) {
    if (capturing_ != end.graph) {
      refuse(fmt::format("ends the capture of graph {}, which it has not begun", end.graph));
    }
    Graph& graph = graphs_[end.graph];
    std::set<std::uint32_t> joined;
    Frontier open = branches_[origin_];
    while (!open.empty()) {
      const std::uint32_t node = open.back();
      open.pop_back();
      if (joined.insert(node).second) join(open, graph.nodes[node].after);
    }
    for (const auto& [stream, work] : branches_) {
      if (std::all_of(work.begin(), work.end(), [&](auto node) { return joined.contains(node); }))
        continue;
      refuse(fmt::format("ends the capture of graph {} while stream {} has not joined stream {} "
                         "again: record an event there and wait for it",
                         end.graph, stream, origin_));
    }
    graph.captured = true;
    capturing_.reset();
    branches_.clear();
  }
  void issue(const core::Operation& operation, const core::ReplayOperation& replay) {
    const auto found = graphs_.find(replay.graph);
    if (found == graphs_.end() || !found->second.captured) {
      refuse(fmt::format("replays graph {}, which was never captured", replay.graph));
    }
    if (is_captured(operation.stream)) {
      refuse(fmt::format("replays graph {} while graph {} is captured", replay.graph, *capturing_));
    }
    Graph& graph = found->second;
    for (const auto& [id, arguments] : replay.changed_arguments) {
      const bool is_launch =
          std::any_of(graph.nodes.begin(), graph.nodes.end(), [&, id = id](const Node& node) {
            return node.operation->id == id &&
                   std::holds_alternative<core::LaunchOperation>(node.operation->what);
          });
      if (!is_launch) {
        refuse(fmt::format("changes arguments of operation {}, which is no launch of graph {}", id,
                           replay.graph));
      }
    }
    const auto first = static_cast<std::uint32_t>(steps_.size());
    Frontier before = streams_[operation.stream];
    join(before, graph.last_replay);
    for (const Node& node : graph.nodes) {
      Step& step = add(*node.operation, operation.stream);
      step.replayed = true;
      step.after = node.after;
      for (std::uint32_t& index : step.after) index += first;
      if (step.after.empty()) step.after = before;
      join(step.after, host_);
      const auto* launch = std::get_if<core::LaunchOperation>(&node.operation->what);
      if (launch == nullptr) continue;
      step.arguments = &launch->arguments;
      for (const auto& [id, arguments] : replay.changed_arguments) {
        if (id == node.operation->id) step.arguments = &arguments;
      }
    }
    if (graph.nodes.empty()) return;
    graph.last_replay = graph.leaves();
    for (std::uint32_t& index : graph.last_replay) index += first;
    streams_[operation.stream] = graph.last_replay;
  }

  void work(const core::Operation& operation) {
    if (is_captured(operation.stream))
      capture(operation);
    else
      add(operation, operation.stream);
  }
  Step& add(const core::Operation& operation, core::StreamId stream) {
    Step step{.operation = &operation, .stream = stream, .after = streams_[stream]};
    join(step.after, host_);
    if (std::holds_alternative<core::LaunchOperation>(operation.what)) step.launch = launches_++;
    streams_[stream] = {static_cast<std::uint32_t>(steps_.size())};
    steps_.push_back(std::move(step));
    return steps_.back();
  }
  void capture(const core::Operation& operation) {
    Graph& graph = graphs_[*capturing_];
    Frontier& branch = branches_[operation.stream];
    const auto index = static_cast<std::uint32_t>(graph.nodes.size());
    graph.nodes.push_back({&operation, std::exchange(branch, {index})});
  }
  bool is_captured(core::StreamId stream) const { return branches_.contains(stream); }
  [[noreturn]] void refuse(const std::string& what) const {
    throw core::UsageError(fmt::format("program '{}' {}", program_.name, what));
  }

  const core::Program& program_;
  std::vector<Step>& steps_;
  std::map<core::StreamId, Frontier> streams_;
  std::map<core::EventId, Recorded> events_;
  std::map<std::uint32_t, Graph> graphs_;
  std::optional<std::uint32_t> capturing_;
  core::StreamId origin_ = 0;
  std::map<core::StreamId, Frontier> branches_;  // streams of the capture, by nodes of its graph
  Frontier host_;                                // the last host step
  std::uint32_t launches_ = 0;
};

}  // namespace

OperationOrder::OperationOrder(const core::Program& program) {
  Issue issue(program, steps_);
  for (const core::Operation& operation : program.operations) {
    if (operation.stream != program.operations.front().stream) several_streams_ = true;
    issue(operation);
  }
  issue.finish();
  if (!several_streams_) return;
  const std::size_t words = (steps_.size() + 63) / 64;
  before_.assign(steps_.size(), std::vector<std::uint64_t>(words));
  for (std::size_t k = 0; k < steps_.size(); ++k) {
    for (const std::uint32_t earlier : steps_[k].after) {
      for (std::size_t w = 0; w < words; ++w) before_[k][w] |= before_[earlier][w];
      before_[k][earlier / 64] |= std::uint64_t{1} << (earlier % 64);
    }
  }
}

std::vector<std::uint32_t> OperationOrder::schedule(core::SchedulePolicy policy,
                                                    std::uint64_t seed) const {
  std::vector<std::uint32_t> result(steps_.size());
  std::iota(result.begin(), result.end(), 0u);
  if (!several_streams_ || policy == core::SchedulePolicy::round_robin) return result;
  std::vector<std::size_t> missing;
  std::vector<std::vector<std::uint32_t>> followers(steps_.size());
  std::vector<std::uint32_t> ready;
  for (std::uint32_t k = 0; k < steps_.size(); ++k) {
    missing.push_back(steps_[k].after.size());
    for (const std::uint32_t earlier : steps_[k].after) followers[earlier].push_back(k);
    if (steps_[k].after.empty()) ready.push_back(k);
  }
  constexpr std::uint64_t kOfOperations = 0x6f7065726174696full;  // other draws use the seed itself
  const std::uint64_t key = core::mix64(seed ^ kOfOperations);
  for (std::size_t done = 0; done < result.size(); ++done) {
    const std::size_t choice = (core::element_bits(key, done) >> 32) * ready.size() >> 32;
    const std::uint32_t next = ready[choice];
    ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(choice));
    result[done] = next;
    for (const std::uint32_t follower : followers[next]) {
      if (--missing[follower] == 0) ready.push_back(follower);
    }
  }
  return result;
}

}  // namespace faultline::simulator
