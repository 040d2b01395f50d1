// SPDX-License-Identifier: Apache-2.0
// Races in words.
#include <algorithm>

#include "observe/access_statistics.hpp"
#include "race/detector.hpp"

namespace faultline::simulator {
namespace {

const SharedVariable* variable_at(const Program& program, std::uint64_t offset) {
  const SharedVariable* best = nullptr;
  for (const SharedVariable& variable : program.shared) {
    if (variable.offset <= offset && (best == nullptr || variable.offset >= best->offset))
      best = &variable;
  }
  return best;
}

}  // namespace

std::string RaceDetector::actor_text(std::uint32_t actor, std::uint32_t cta) const {
  const auto thread_text = [&](std::uint32_t thread) {
    return "cta " + std::to_string(cta) + " warp " + std::to_string(thread / kLanes) + " lane " +
           std::to_string(thread % kLanes);
  };
  if (actor < threads_) return thread_text(actor);
  if (actor < first_mbarrier_) return "cp.async of " + thread_text(actor - threads_);
  if (actor < first_bulk_) {
    std::string name = "mbarrier";
    const auto it = slot_addresses_.find({cta, actor - first_mbarrier_});
    if (it != slot_addresses_.end()) {
      if (const SharedVariable* variable = variable_at(*program_, it->second)) {
        const std::uint32_t inside = it->second - variable->offset;
        name += " " + variable->name;
        if (variable->size == 0)
          name += "+" + std::to_string(inside);
        else if (variable->size > 8)
          name += "[" + std::to_string(inside / 8) + "]";
      } else {
        name += " at shared offset " + std::to_string(it->second);
      }
    }
    return "bulk copy of cta " + std::to_string(cta) + " completing on " + name;
  }
  for (const auto& state : resident_) {
    if (state->linear != cta) continue;
    for (const auto& [thread, pair] : state->bulk_agents) {
      if (pair == (actor - first_bulk_) / 2) return "bulk copy group of " + thread_text(thread);
    }
  }
  return "bulk copy group of a thread of cta " + std::to_string(cta);
}

core::AccessSite RaceDetector::describe(std::uint32_t site, std::uint32_t actor, std::uint32_t cta,
                                        bool writes, bool async) const {
  core::AccessSite result;
  result.kernel = program_->entry;
  result.instruction = std::string(program_->opcode_at(site));
  result.where = source_chain(*program_, site);
  result.actor = actor_text(actor, cta);
  result.is_write = writes;
  result.async_proxy = async;
  return result;
}

std::string RaceDetector::missing_edge(const Race& race) const {
  const std::string what = (race.space == core::MemorySpace::shared ? "shared " : "") + race.buffer;
  const std::string first =
      std::string(race.first_async ? "asynchronous " : "") + (race.first_writes ? "write" : "read");
  const std::string second = std::string(race.second_async ? "asynchronous " : "") +
                             (race.second_writes ? "write" : "read");
  if (race.missing_fence) {
    return "barriers order the " + first + " of " + what + " before the " + second +
           ", but no fence.proxy.async stands between them: the async proxy may overtake the "
           "generic one";
  }
  if (race.second_async) {
    return "nothing orders the " + first + " of " + what +
           " before this copy was issued: the issuing thread has not waited for it";
  }
  if (race.first_async) {
    return "nothing orders this " + second + " of " + what +
           " behind the completion of the copy: it did not wait on the copy's mbarrier or group";
  }
  if (race.cross_cta) {
    return "nothing orders the " + first + " of " + what + " by another CTA before this " + second +
           ": there is no release and acquire between them";
  }
  if (race.first_actor / kLanes == race.second_actor / kLanes) {
    return "nothing orders the " + first + " of " + what + " before this " + second +
           ": lanes of one warp need __syncwarp() between them";
  }
  return "nothing orders the " + first + " of " + what + " before this " + second +
         ": no barrier stands between the two warps";
}

std::vector<core::RaceReport> RaceDetector::finish() {
  std::vector<core::RaceReport> result;
  for (auto& [key, race] : races_) {
    core::RaceReport report;
    report.kind = race.kind;
    report.space = race.space;
    report.byte_begin = race.begin;
    report.byte_end = race.end;
    if (race.space == core::MemorySpace::shared) {
      if (const SharedVariable* variable = variable_at(*program_, race.begin)) {
        race.buffer = variable->name;
        report.byte_begin -= variable->offset;
        report.byte_end -= variable->offset;
      } else {
        race.buffer = "memory";
      }
    }
    report.buffer = race.buffer;
    report.first = describe(race.first_site, race.first_actor, race.first_cta, race.first_writes,
                            race.first_async);
    report.second = describe(race.second_site, race.second_actor, race.second_cta,
                             race.second_writes, race.second_async);
    report.cross_cta = race.cross_cta;
    report.missing_proxy_fence = race.missing_fence;
    report.note_only = race.note;
    report.count = race.count;
    report.missing_edge = missing_edge(race);
    result.push_back(std::move(report));
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const core::RaceReport& a, const core::RaceReport& b) {
                     if (a.note_only != b.note_only) return !a.note_only;
                     return !a.missing_proxy_fence && b.missing_proxy_fence;
                   });
  return result;
}

}  // namespace faultline::simulator
