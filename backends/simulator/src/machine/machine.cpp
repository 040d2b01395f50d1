// SPDX-License-Identifier: Apache-2.0
// Life of a launch: CTAs come and go, the policy chooses, splits run.
#include "machine/machine.hpp"

#include <algorithm>
#include <cstring>

#include "faultline/core/stop.hpp"

namespace faultline::simulator {
namespace {

// Picks without progress after which other splits of the warp get their turn, and picks of the
// whole machine after which pending copies are pushed, further CTAs are started, and at last the
// launch is declared stuck in a spin loop.
constexpr std::uint64_t kIdlePicksOfWarp = 4;
constexpr std::uint64_t kIdlePicksBeforeHelp = 256;
constexpr std::uint64_t kIdlePicksBeforeDeadlock = 200'000;
constexpr std::uint64_t kRoundsBetweenLooks = 64;  // at the clock
void fill(std::vector<std::uint8_t>& bytes, std::size_t count, std::uint32_t word) {
  bytes.resize((count + 3) / 4 * 4);
  std::uint8_t* to = bytes.data();  // bytes may alias the vector itself: not looked up each time
  for (std::size_t at = 0; at < count; at += 4) std::memcpy(to + at, &word, 4);
  bytes.resize(count);
}

}  // namespace

void Machine::run(std::shared_ptr<const Program> program, const LaunchGeometry& geometry,
                  std::span<const std::byte> parameters, Policy& policy,
                  core::CopyLateness lateness, std::uint64_t step_budget,
                  std::optional<std::chrono::steady_clock::time_point> deadline,
                  std::span<Observer* const> observers) {
  program_ = std::move(program);
  geometry_ = geometry;
  parameter_storage_.assign(parameters.begin(), parameters.end());
  parameter_storage_.resize(
      std::max<std::size_t>(parameter_storage_.size(), program_->parameter_bytes));
  parameters_ = parameter_storage_;
  policy_ = &policy;
  lateness_ = lateness;
  observers_ = observers;
  step_budget_ = step_budget;
  deadline_ = deadline;
  for (auto& cta : resident_) spare_.push_back(std::move(cta));  // left over by a stopped launch
  resident_.clear();
  clusters_.clear();
  copies_.clear();
  next_cta_ = 0;
  grid_ctas_ = geometry.grid[0] * geometry.grid[1] * geometry.grid[2];
  progress_ = steps_ = sleepers_ = thread_instructions_ = warp_instructions_ = 0;
  timed_out_at_ = ~std::uint64_t{0};
  output_.clear();
  details_.clear();
  schedule_loop();
}

void Machine::start_cluster() {
  const std::uint32_t size = geometry_.cluster[0] * geometry_.cluster[1] * geometry_.cluster[2];
  clusters_.push_back(std::make_unique<std::vector<Cta*>>());
  // CTAs of a cluster are neighbours in the grid; clusters are numbered row-major over the grid.
  const std::uint32_t across = geometry_.grid[0] / geometry_.cluster[0];
  const std::uint32_t down = geometry_.grid[1] / geometry_.cluster[1];
  const std::uint32_t number = next_cta_ / size;
  const std::uint32_t cx = number % across, cy = number / across % down,
                      cz = number / across / down;
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    const std::uint32_t x = cx * geometry_.cluster[0] + rank % geometry_.cluster[0];
    const std::uint32_t y =
        cy * geometry_.cluster[1] + rank / geometry_.cluster[0] % geometry_.cluster[1];
    const std::uint32_t z =
        cz * geometry_.cluster[2] + rank / geometry_.cluster[0] / geometry_.cluster[1];
    std::unique_ptr<Cta> cta;
    if (spare_.empty()) {
      cta = std::make_unique<Cta>();
    } else {
      cta = std::move(spare_.back());
      spare_.pop_back();
    }
    cta->id = {x, y, z};
    cta->cluster_rank = rank;
    cta->cluster = clusters_.back().get();
    initialise(*cta, x + geometry_.grid[0] * (y + geometry_.grid[1] * z));
    clusters_.back()->push_back(cta.get());
    resident_.push_back(std::move(cta));
    for (Observer* observer : observers_) observer->on_cta_begin(*resident_.back());
  }
  next_cta_ += size;
}

void Machine::initialise(Cta& cta, std::uint32_t linear) {
  cta.machine = this;
  cta.linear = linear;
  cta.threads = geometry_.block[0] * geometry_.block[1] * geometry_.block[2];
  fill(cta.shared, program_->static_shared_bytes + geometry_.dynamic_shared_bytes,
       unwritten_shared_);
  fill(cta.local, static_cast<std::size_t>(cta.threads) * program_->local_bytes, unwritten_local_);
  cta.mbarriers.clear();
  cta.slot_of_address.clear();
  cta.mbarrier_slots = 0;
  cta.cp_async.clear();
  cta.bulk.clear();
  cta.copies_issued = cta.cluster_arrivals = cta.cluster_phase = 0;
  for (NamedBarrier& barrier : cta.barriers) {
    barrier.arrivals.clear();
    barrier.arrived = barrier.expected = barrier.true_count = 0;
    barrier.all = true;
    barrier.any = false;
  }
  const std::uint32_t warps = (cta.threads + kLanes - 1) / kLanes;
  const std::size_t file_bytes = program_->initial_registers.size();
  cta.register_storage.resize(warps * file_bytes + 64);
  const auto raw = reinterpret_cast<std::uintptr_t>(cta.register_storage.data());
  std::uint8_t* base = cta.register_storage.data() + (64 - raw % 64) % 64;
  cta.warps.resize(warps);
  for (std::uint32_t w = 0; w < warps; ++w) {
    Warp& warp = cta.warps[w];
    warp.registers = base + w * file_bytes;
    warp.cta = &cta;
    warp.index = w;
    const std::uint32_t count = std::min(kLanes, cta.threads - w * kLanes);
    warp.lanes = warp.live = count == kLanes ? kAllLanes : (1u << count) - 1;
    warp.idle_picks = 0;
    warp.splits.assign(1, Split{});
    warp.splits[0].mask = warp.live;
    std::memcpy(warp.registers, program_->initial_registers.data(), file_bytes);
    fill_specials(warp);
  }
}

void Machine::fill_specials(Warp& warp) {
  const Cta& cta = *warp.cta;
  const auto& g = geometry_;
  for (const SpecialRegister& special : program_->specials) {
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
      const std::uint32_t thread = warp.index * kLanes + lane;
      std::uint64_t value = 0;
      switch (special.kind) {
      case Special::tid_x: value = thread % g.block[0]; break;
      case Special::tid_y: value = thread / g.block[0] % g.block[1]; break;
      case Special::tid_z: value = thread / g.block[0] / g.block[1]; break;
      case Special::ntid_x: value = g.block[0]; break;
      case Special::ntid_y: value = g.block[1]; break;
      case Special::ntid_z: value = g.block[2]; break;
      case Special::ctaid_x: value = cta.id[0]; break;
      case Special::ctaid_y: value = cta.id[1]; break;
      case Special::ctaid_z: value = cta.id[2]; break;
      case Special::nctaid_x: value = g.grid[0]; break;
      case Special::nctaid_y: value = g.grid[1]; break;
      case Special::nctaid_z: value = g.grid[2]; break;
      case Special::laneid: value = lane; break;
      case Special::warpid: value = warp.index; break;
      case Special::nwarpid: value = cta.warps.size(); break;
      case Special::smid: value = cta.linear % 132; break;
      case Special::nsmid: value = 132; break;
      case Special::gridid: value = 1; break;
      case Special::lanemask_eq: value = 1u << lane; break;
      case Special::lanemask_lt: value = (1u << lane) - 1; break;
      case Special::lanemask_le: value = (2ull << lane) - 1; break;
      case Special::lanemask_gt: value = kAllLanes & ~((2ull << lane) - 1); break;
      case Special::lanemask_ge: value = kAllLanes & ~((1ull << lane) - 1); break;
      case Special::clusterid_x: value = cta.id[0] / g.cluster[0]; break;
      case Special::clusterid_y: value = cta.id[1] / g.cluster[1]; break;
      case Special::clusterid_z: value = cta.id[2] / g.cluster[2]; break;
      case Special::nclusterid_x: value = g.grid[0] / g.cluster[0]; break;
      case Special::nclusterid_y: value = g.grid[1] / g.cluster[1]; break;
      case Special::nclusterid_z: value = g.grid[2] / g.cluster[2]; break;
      case Special::cluster_ctaid_x: value = cta.id[0] % g.cluster[0]; break;
      case Special::cluster_ctaid_y: value = cta.id[1] % g.cluster[1]; break;
      case Special::cluster_ctaid_z: value = cta.id[2] % g.cluster[2]; break;
      case Special::cluster_nctaid_x: value = g.cluster[0]; break;
      case Special::cluster_nctaid_y: value = g.cluster[1]; break;
      case Special::cluster_nctaid_z: value = g.cluster[2]; break;
      case Special::cluster_ctarank: value = cta.cluster_rank; break;
      case Special::cluster_nctarank: value = g.cluster[0] * g.cluster[1] * g.cluster[2]; break;
      case Special::is_explicit_cluster:
        value = g.cluster[0] * g.cluster[1] * g.cluster[2] > 1;
        break;
      case Special::dynamic_smem_size: value = g.dynamic_shared_bytes; break;
      case Special::total_smem_size: value = cta.shared.size(); break;
      }
      if (special.bytes == 0) {
        if (lane == 0) std::memset(warp.registers + special.offset, value ? 0xff : 0, 4);
      } else {
        const auto width = static_cast<std::size_t>(special.bytes);
        std::memcpy(warp.registers + special.offset + lane * width, &value, width);
      }
    }
  }
}

void Machine::finish_ctas() {
  for (std::size_t k = 0; k < resident_.size();) {
    // A cluster's CTAs leave together: peers may still read the shared memory of one that is done.
    const std::vector<Cta*>& cluster = *resident_[k]->cluster;
    const bool all =
        std::all_of(cluster.begin(), cluster.end(), [](const Cta* c) { return c->finished(); });
    if (!all) {
      ++k;
      continue;
    }
    for (std::size_t c = 0; c < copies_.size();) {
      if (copies_[c].cta == resident_[k].get())
        complete_copy(c);
      else
        ++c;
    }
    for (Observer* observer : observers_) observer->on_cta_end(*resident_[k]);
    spare_.push_back(std::move(resident_[k]));
    resident_.erase(resident_.begin() + static_cast<std::ptrdiff_t>(k));
    made_progress();
  }
}

void Machine::issue_copy(PendingCopy copy) {
  if (lateness_ == core::CopyLateness::eager) {
    copy.complete();
    made_progress();
    return;
  }
  copy.priority = policy_->copy_priority();
  copies_.push_back(std::move(copy));
}

void Machine::complete_copy(std::size_t index) {
  const PendingCopy copy = std::move(copies_[index]);
  copies_.erase(copies_.begin() + static_cast<std::ptrdiff_t>(index));
  copy.complete();
  made_progress();
}

bool Machine::copy_is_pending(const Cta& cta, std::uint32_t number) const {
  return std::any_of(copies_.begin(), copies_.end(), [&](const PendingCopy& copy) {
    return copy.cta == &cta && copy.number == number;
  });
}

void Machine::complete_copies_of(Cta& cta, std::span<const std::uint32_t> numbers) {
  for (std::size_t c = 0; c < copies_.size();) {
    const bool wanted = copies_[c].cta == &cta && std::find(numbers.begin(), numbers.end(),
                                                            copies_[c].number) != numbers.end();
    if (wanted)
      complete_copy(c);
    else
      ++c;
  }
}

bool Machine::wake_timed_out_waiters() {
  if (timed_out_at_ == progress_) return false;  // they woke before and nothing came of it
  bool any = false;
  for (auto& cta : resident_) {
    for (Warp& warp : cta->warps) {
      for (Split& split : warp.splits) {
        if (split.state != SplitState::waiting_mbarrier) continue;
        split.state = SplitState::ready;
        split.timed_out = true;
        any = true;
      }
    }
  }
  timed_out_at_ = progress_;
  return any;
}

template <class Body>
void Machine::for_each_sleeper(Body body) {
  if (sleepers_ == 0) return;
  for (auto& cta : resident_) {
    for (Warp& warp : cta->warps) {
      for (Split& split : warp.splits) {
        if (split.state == SplitState::sleeping) body(split);
      }
    }
  }
}

void Machine::wake_sleepers() {
  for_each_sleeper([&](Split& split) {
    if (split.wake > now()) return;
    split.state = SplitState::ready;
    --sleepers_;
  });
}

// Nobody else can run: time passes until the first of them wakes.
bool Machine::wake_first_sleeper() {
  Split* first = nullptr;
  for_each_sleeper([&](Split& split) {
    if (first == nullptr || split.wake < first->wake) first = &split;
  });
  if (first == nullptr) return false;
  slept_ += first->wake - std::min(first->wake, now());
  wake_sleepers();
  return true;
}

void Machine::schedule_loop() {
  std::uint64_t idle_picks = 0;
  std::uint64_t seen_progress = 0;
  std::uint64_t rounds = 0;
  const auto can_start = [&] { return next_cta_ < grid_ctas_; };
  for (;;) {
    if (resident_.empty()) {
      if (!can_start()) return;
      start_cluster();
    }
    wake_sleepers();
    ready_.clear();
    bool any_finished = false;
    for (auto& cta : resident_) {
      bool finished = true;
      for (Warp& warp : cta->warps) {
        if (warp.splits.empty()) continue;
        finished = false;
        if (warp.has_ready_split()) ready_.push_back(&warp);
      }
      any_finished |= finished;
    }
    if (any_finished) {
      const std::size_t before = resident_.size();
      finish_ctas();
      if (resident_.size() != before) continue;
    }
    if (steps_ > step_budget_) {
      throw Stop(core::ExecutionStatus::timeout,
                 "step budget of " + std::to_string(step_budget_) +
                     " visible operations used up in " + program_->entry +
                     " (raise the budget, or the kernel does not end)");
    }
    const bool look = ++rounds % kRoundsBetweenLooks == 0;
    if (look) core::throw_if_stopped();
    if (look && deadline_ && std::chrono::steady_clock::now() > *deadline_) {
      // A kernel that makes no progress is found above and below, by what its warps do.
      throw Stop(core::ExecutionStatus::out_of_time,
                 program_->entry + " had done " + std::to_string(steps_) + " visible operations");
    }
    if (progress_ != seen_progress) {
      seen_progress = progress_;
      idle_picks = 0;
      for (Warp* warp : ready_) warp->idle_picks = 0;
    }
    ++idle_picks;
    if (ready_.empty() && copies_.empty()) {
      if (wake_first_sleeper()) continue;
      if (wake_timed_out_waiters()) continue;
      if (can_start()) {
        start_cluster();
        continue;
      }
      deadlock("nothing can run");
    }
    if (idle_picks > kIdlePicksBeforeHelp) {  // a spin loop: help what it may be waiting for
      if (!copies_.empty()) {
        complete_copy(0);
        continue;
      }
      if (can_start()) {
        start_cluster();
        made_progress();
        continue;
      }
      if (idle_picks > kIdlePicksBeforeDeadlock)
        deadlock("every running thread polls and nothing changes");
    }
    const bool offer_copies = lateness_ == core::CopyLateness::random || ready_.empty();
    const Choices choices{ready_,
                          offer_copies ? std::span<const PendingCopy>(copies_)
                                       : std::span<const PendingCopy>(),
                          steps_};
    const Choice choice = policy_->next(choices);
    if (choice.is_copy) {
      complete_copy(choice.index);
      continue;
    }
    Warp& warp = *ready_[choice.index];
    // Spinning warps must not be able to starve the rest under any policy.
    if (idle_picks > kIdlePicksBeforeHelp / 2) {
      Warp& other = *ready_[idle_picks % ready_.size()];
      ++other.idle_picks;
      run_split(other, pick_split(other), 8);
      continue;
    }
    ++warp.idle_picks;
    run_split(warp, pick_split(warp), choice.quantum);
  }
}

std::size_t Machine::pick_split(Warp& warp) {
  std::size_t best = warp.splits.size();
  std::size_t ready = 0;
  for (std::size_t k = 0; k < warp.splits.size(); ++k) {
    if (warp.splits[k].state != SplitState::ready) continue;
    ++ready;
    if (best == warp.splits.size() || warp.splits[k].pc < warp.splits[best].pc) best = k;
  }
  if (ready < 2) return best;
  if (warp.idle_picks > kIdlePicksOfWarp) {  // the smallest one spins: rotate
    std::size_t wanted = warp.idle_picks % ready;
    for (std::size_t k = 0; k < warp.splits.size(); ++k) {
      if (warp.splits[k].state == SplitState::ready && wanted-- == 0) return k;
    }
  }
  return policy_->choose_split(warp, best);
}

std::string Machine::shared_name(std::uint32_t offset) const {
  const SharedVariable* best = nullptr;
  for (const SharedVariable& variable : program_->shared) {
    if (variable.offset <= offset && (best == nullptr || variable.offset >= best->offset))
      best = &variable;
  }
  if (best == nullptr) return "shared+" + std::to_string(offset);
  const std::uint32_t inside = offset - best->offset;
  return inside == 0 ? best->name : best->name + "+" + std::to_string(inside);
}

// Arrays of mbarriers are indexed: "full[1]".
std::string Machine::mbarrier_name(std::uint32_t offset) const {
  for (const SharedVariable& variable : program_->shared) {
    const std::uint32_t inside = offset - variable.offset;
    if (offset >= variable.offset && inside < variable.size && variable.size > 8 &&
        variable.size % 8 == 0 && inside % 8 == 0) {
      return variable.name + "[" + std::to_string(inside / 8) + "]";
    }
  }
  return shared_name(offset);
}

}  // namespace faultline::simulator
