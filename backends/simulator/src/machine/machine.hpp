// SPDX-License-Identifier: Apache-2.0
// Runs one launch: resident CTAs, the scheduling loop, and what handlers need from their machine.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "faultline/simulator/device.hpp"
#include "machine/cta.hpp"
#include "machine/global_memory.hpp"
#include "observe/observer.hpp"
#include "schedule/policy.hpp"

namespace faultline::simulator {

// Ends a launch: a fault of the kernel, an unsupported instruction, an exhausted budget, a
// deadlock.
class Stop : public std::runtime_error {
 public:
  Stop(core::ExecutionStatus status, const std::string& message)
      : std::runtime_error(message), status_(status) {}
  core::ExecutionStatus status() const { return status_; }

 private:
  core::ExecutionStatus status_;
};

struct LaunchGeometry {
  std::array<std::uint32_t, 3> grid{1, 1, 1}, block{1, 1, 1}, cluster{1, 1, 1};
  std::uint32_t dynamic_shared_bytes = 0;
};

class Machine {
 public:
  Machine(GlobalMemory& memory) : memory_(memory) {}

  // Runs to the end; throws Stop. Observers are called in order.
  void run(std::shared_ptr<const Program> program, const LaunchGeometry& geometry,
           std::span<const std::byte> parameters, Policy& policy, core::CopyLateness lateness,
           std::uint64_t step_budget, std::optional<std::chrono::steady_clock::time_point> deadline,
           std::span<Observer* const> observers);
  // What shared and local memory hold before anybody writes them, of the launches from now on.
  void set_unwritten(std::uint32_t shared, std::uint32_t local) {
    unwritten_shared_ = shared;
    unwritten_local_ = local;
  }

  // ---- for handlers ----
  const Program& program() const { return *program_; }
  GlobalMemory& memory() { return memory_; }
  const LaunchGeometry& geometry() const { return geometry_; }
  std::span<const std::byte> parameters() const { return parameters_; }
  std::span<Observer* const> observers() const { return observers_; }
  bool observed() const { return !observers_.empty(); }
  core::CopyLateness lateness() const { return lateness_; }
  Policy& policy() { return *policy_; }
  std::uint64_t clock() const { return warp_instructions_; }
  std::string& output() { return output_; }
  void made_progress() { ++progress_; }
  // Hands over a copy: completed at once, or kept until the scheduler says so.
  void issue_copy(PendingCopy copy);
  void complete_copies_of(Cta& cta, std::span<const std::uint32_t> numbers);
  bool copy_is_pending(const Cta& cta, std::uint32_t number) const;
  // bar.arrive and the blocking forms; releases the barrier when it is complete.
  void arrive_at_barrier(Warp& warp, const Instruction& instruction, std::uint32_t mask,
                         bool waits);
  void mbarrier_arrive(Cta& owner, Mbarrier& barrier, std::uint32_t count);
  void mbarrier_complete_bytes(Cta& owner, Mbarrier& barrier, std::int64_t bytes,
                               std::uint32_t site);
  void mbarrier_check_phase(Cta& owner, Mbarrier& barrier);
  Mbarrier& find_mbarrier(Warp& warp, const Instruction& instruction, std::uint32_t lane,
                          Cta& owner, std::uint32_t offset);
  void cluster_arrive(Warp& warp, std::uint32_t mask);

  [[noreturn]] void fault(const Warp& warp, const Instruction& instruction, std::uint32_t lane,
                          const std::string& what) const;
  std::string shared_name(std::uint32_t offset) const;
  std::string mbarrier_name(std::uint32_t offset) const;

  std::uint64_t thread_instructions() const { return thread_instructions_; }
  std::uint64_t warp_instructions() const { return warp_instructions_; }
  std::uint64_t steps() const { return steps_; }
  std::uint64_t now() const { return steps_ + slept_; }
  const std::vector<std::string>& details() const { return details_; }

 private:
  void start_cluster();
  void initialise(Cta& cta, std::uint32_t linear);
  void fill_specials(Warp& warp);
  void finish_ctas();
  void complete_copy(std::size_t index);
  bool wake_timed_out_waiters();
  template <class Body>
  void for_each_sleeper(Body body);
  void wake_sleepers();
  bool wake_first_sleeper();
  void schedule_loop();
  std::size_t pick_split(Warp& warp);
  void run_split(Warp& warp, std::size_t split, std::uint32_t quantum);
  void diverge(Warp& warp, std::size_t split, std::uint32_t target, std::uint32_t taken);
  void merge_splits(Warp& warp);
  void exit_lanes(Warp& warp, std::uint32_t mask);
  void check_barrier(Cta& cta, std::uint32_t id);
  bool mbarrier_ready(Warp& warp, const Instruction& instruction, std::uint32_t mask,
                      std::uint32_t& ready_lanes);
  void wake_mbarrier_waiters(Cta& owner, std::uint32_t address);
  void release_cluster_barrier();
  [[noreturn]] void deadlock(const char* reason);
  [[noreturn]] void stop_unsupported(const Instruction& instruction) const;

  GlobalMemory& memory_;
  std::shared_ptr<const Program> program_;
  LaunchGeometry geometry_;
  std::span<const std::byte> parameters_;
  std::vector<std::byte> parameter_storage_;
  Policy* policy_ = nullptr;
  core::CopyLateness lateness_ = core::CopyLateness::eager;
  std::span<Observer* const> observers_;
  std::vector<std::unique_ptr<Cta>> resident_;
  std::vector<std::unique_ptr<Cta>> spare_;
  std::vector<std::unique_ptr<std::vector<Cta*>>> clusters_;
  std::vector<PendingCopy> copies_;
  std::vector<Warp*> ready_;
  std::uint32_t next_cta_ = 0;
  std::uint32_t grid_ctas_ = 0;
  std::uint64_t progress_ = 0;
  std::uint64_t timed_out_at_ = ~std::uint64_t{0};
  std::uint64_t steps_ = 0;
  std::uint64_t slept_ = 0;     ///< steps that passed while all that could run were asleep
  std::uint64_t sleepers_ = 0;  // splits in nanosleep
  std::uint64_t step_budget_ = 0;
  std::uint32_t unwritten_shared_ = 0, unwritten_local_ = 0;
  std::optional<std::chrono::steady_clock::time_point> deadline_;
  std::uint64_t thread_instructions_ = 0;
  std::uint64_t warp_instructions_ = 0;
  std::string output_;
  std::vector<std::string> details_;
};

}  // namespace faultline::simulator
