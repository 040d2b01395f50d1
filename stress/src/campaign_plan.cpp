// SPDX-License-Identifier: Apache-2.0
#include "faultline/stress/campaign_plan.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "faultline/core/errors.hpp"
#include "faultline/diagnosis/experiment.hpp"
#include "faultline/stress/ptx_delay.hpp"

namespace faultline::stress {
namespace {

using core::CoResident;
using core::HostWait;
using core::Perturbation;

constexpr std::uint64_t kMegabyte = 1'000'000;

/// Arms of a device. The order is that of their measured power on races inside a launch; host
/// delays and reloads come last, as controls: they change nothing there and are there to show it.
struct DeviceArms {
  CampaignPlan& campaign;
  std::uint64_t trials;
  bool pooled;                    ///< some input is large enough to rotate
  bool batching;                  ///< several trials fit into one grid
  bool sites;                     ///< some place of the PTX synchronises and can be delayed
  bool shared_sites;              ///< some place accesses shared memory
  std::uint32_t multiprocessors;  ///< of the device
  std::string all_of_them;        ///< why the subject needs them all; empty: it does not
  std::string not_dirtied;        ///< why its shared memory cannot be; empty: it can

  /// Time that an arm may spend waiting: 5 s, whatever the number of trials asked for.
  static constexpr std::uint64_t kWaitBudgetNs = 5'000'000'000;

  void add(Perturbation perturbation, std::string reason) {
    std::uint64_t n = trials;
    const std::uint64_t waited = perturbation.wait_ns + perturbation.blocker_ns;
    if (waited > 0 || perturbation.reload_module) {
      constexpr std::uint64_t kReloadNs = 70'000;
      const std::uint64_t each = waited + (perturbation.reload_module ? kReloadNs : 0);
      n = std::min(n, std::max<std::uint64_t>(kWaitBudgetNs / each, 1));
      if (n < trials) reason += fmt::format("; {} trials only, which wait 5 s in all", n);
    }
    if (perturbation.free_sms > 0) {
      // A trial takes up to so many times as long as on the whole device.
      n = std::min(n, diagnosis::kTrialsOfEachFree * perturbation.free_sms);
      if (n < trials) reason += fmt::format("; {} trials only, which take longer", n);
      std::string why = all_of_them;
      if (why.empty() && perturbation.free_sms >= multiprocessors) {
        why = fmt::format("the device has {}", multiprocessors);
      }
      if (!why.empty()) {
        campaign.left_out.push_back(fmt::format("{}: {}", perturbation.name, why));
        return;
      }
    }
    if (!pooled && perturbation.pool_bytes > 0) {
      campaign.left_out.push_back(
          fmt::format("{}: the subject names no input large enough to rotate", perturbation.name));
      return;
    }
    if (perturbation.dirty_shared && !not_dirtied.empty()) {
      campaign.left_out.push_back(fmt::format("{}: {}", perturbation.name, not_dirtied));
      return;
    }
    const std::uint32_t delayed = perturbation.delay_sites;
    if (delayed != 0 && !((delayed & kSynchronisationSites) != 0 ? sites : shared_sites)) {
      campaign.left_out.push_back(fmt::format(
          "{}: the PTX of its kernels has no {}", perturbation.name,
          (delayed & kSynchronisationSites) != 0 ? "synchronisation site"
                                                 : "access to shared memory that can be delayed"));
      return;
    }
    if (!batching && (perturbation.batch > 1 || perturbation.ctas_per_sm > 0)) {
      campaign.left_out.push_back(
          fmt::format("{}: the subject runs one trial in a grid", perturbation.name));
      return;
    }
    campaign.arms.push_back({std::move(perturbation), n, std::move(reason)});
  }
};

void add_device_arms(DeviceArms arms) {
  const std::uint64_t cold = 512 * kMegabyte;
  arms.add({.name = "memory_stress", .co_resident = CoResident::memory_stress},
           "memory traffic beside the trials: late copies, slow loads");
  arms.add({.name = "flush_l2", .flush_l2 = true}, "every input comes from DRAM");
  arms.add({.name = "cold_pool_512mb", .pool_bytes = cold},
           "inputs rotate over a pool far larger than L2");
  arms.add(
      {.name = "memory_stress_cold", .pool_bytes = cold, .co_resident = CoResident::memory_stress},
      "memory traffic and cold inputs");
  arms.add({.name = "memory_stress_fresh",
            .co_resident = CoResident::memory_stress,
            .fresh_inputs = true},
           "memory traffic, new inputs every trial");
  arms.add({.name = "cold_pool_32mb", .pool_bytes = 32 * kMegabyte},
           "a pool of about the size of L2");
  arms.add({.name = "cold_pool_20mb", .pool_bytes = 20 * kMegabyte},
           "a pool that only just leaves L2");
  arms.add({.name = "three_ctas_per_sm", .ctas_per_sm = 3.0, .fresh_inputs = true},
           "blocks share their SMs");
  arms.add({.name = "one_cta_per_sm", .ctas_per_sm = 1.0, .fresh_inputs = true},
           "every SM has one block");
  arms.add({.name = "batched", .batch = 256, .fresh_inputs = true}, "256 trials in one grid");
  arms.add({.name = "sm_limit_1", .free_sms = 1},
           "one multiprocessor left: blocks run in order, a few at a time");
  arms.add({.name = "sm_limit_8", .free_sms = 8},
           "eight multiprocessors left: other orders of blocks, more waves");
  arms.add({.name = "sm_limit_half", .free_sms = std::max(arms.multiprocessors / 2, 1u)},
           "half of the multiprocessors left");
  for (const auto& [name, ns] :
       {std::pair{"blocker_2us", 2'000u}, {"blocker_50us", 50'000u}, {"blocker_1ms", 1'000'000u}}) {
    arms.add({.name = name, .blocker_ns = ns},
             "a kernel holds the streams up while the host goes on: all of them, then each alone");
  }
  arms.add({.name = "compute_stress", .co_resident = CoResident::compute_stress},
           "arithmetic beside the trials: late threads");
  arms.add({.name = "compute_stress_cold",
            .pool_bytes = cold,
            .co_resident = CoResident::compute_stress},
           "arithmetic beside the trials, cold inputs");
  arms.add({.name = "compute_stress_fresh",
            .co_resident = CoResident::compute_stress,
            .fresh_inputs = true},
           "arithmetic beside the trials, new inputs");
  // Of twenty draws of delays twelve showed a race that any single one may miss.
  for (const std::uint64_t seed : {1, 2, 3}) {
    arms.add({.name = seed == 1 ? "ptx_delay" : fmt::format("ptx_delay_{}", seed),
              .delay_sites = kSynchronisationSites,
              .delay_ns = 8192,
              .delay_seed = seed},
             "nanosleep at the synchronisation sites of the PTX: warps drift apart");
  }
  // A barrier that is missing is no site: what it would have ordered is.
  for (const std::uint64_t seed : {1, 2}) {
    arms.add({.name = seed == 1 ? "ptx_delay_shared" : fmt::format("ptx_delay_shared_{}", seed),
              .delay_sites = bit(DelaySite::shared),
              .delay_ns = 2048,
              .delay_seed = seed},
             "nanosleep in front of accesses to shared memory: what no barrier orders");
  }
  arms.add({.name = "dirty_shared", .dirty_shared = true},
           "poison in shared memory in front of each launch: what is read before it is written");
  arms.add({.name = "graph_cold", .pool_bytes = cold, .graph_trials = 64},
           "64 trials in a replayed graph, cold inputs");
  arms.add({.name = "graph_hot", .graph_trials = 64}, "64 trials in a replayed graph");
  arms.add({.name = "none"}, "a tight loop over resident inputs: what the others compare with");
  arms.add({.name = "fresh_inputs", .fresh_inputs = true}, "a tight loop, new inputs every trial");
  arms.add({.name = "called_twice", .reload_module = true, .calls = 2},
           "a second call, of a module loaded anew, on the same buffers: what the first leaves");
  arms.add({.name = "sync_each", .sync_each = true}, "control: synchronised after every launch");
  arms.add({.name = "spin_1us", .wait = HostWait::spin, .wait_ns = 1'000}, "control: host delay");
  arms.add({.name = "spin_10us", .wait = HostWait::spin, .wait_ns = 10'000}, "control: host delay");
  arms.add({.name = "spin_100us", .wait = HostWait::spin, .wait_ns = 100'000},
           "control: host delay");
  arms.add({.name = "spin_1ms", .wait = HostWait::spin, .wait_ns = 1'000'000},
           "control: host delay");
  arms.add({.name = "sleep_1ms", .wait = HostWait::sleep, .wait_ns = 1'000'000},
           "control: host delay");
  arms.add({.name = "sleep_5ms", .wait = HostWait::sleep, .wait_ns = 5'000'000},
           "control: host delay");
  arms.add({.name = "reload_module", .reload_module = true},
           "control: the module is loaded anew for every trial");
}

/// Every name of an arm that some subject on some device has.
std::vector<std::string> device_arm_names() {
  CampaignPlan all;
  add_device_arms({.campaign = all,
                   .trials = 1,
                   .pooled = true,
                   .batching = true,
                   .sites = true,
                   .shared_sites = true,
                   .multiprocessors = 1000,
                   .all_of_them = {},
                   .not_dirtied = {}});
  std::vector<std::string> names;
  for (const PlannedArm& arm : all.arms) names.push_back(arm.perturbation.name);
  return names;
}

bool wanted(const std::vector<std::string>& names, const std::string& name) {
  return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
}

/// The names of all arms, those that were left out too, must cover `names`.
void check_names(const std::vector<std::string>& names, const std::vector<PlannedArm>& arms,
                 const std::vector<std::string>& left_out, bool model) {
  for (const std::string& name : names) {
    const bool known = std::any_of(arms.begin(), arms.end(), [&](const PlannedArm& arm) {
      return arm.perturbation.name == name;
    });
    if (known) continue;
    for (const std::string& reason : left_out) {
      if (reason.rfind(name + ":", 0) == 0) {
        throw core::UsageError(fmt::format("--plan: an arm that cannot run here: {}", reason));
      }
    }
    std::vector<std::string> all;
    for (const PlannedArm& arm : arms) all.push_back(arm.perturbation.name);
    if (model && wanted(device_arm_names(), name)) {
      throw core::UsageError(fmt::format("--plan: '{}' is a CUDA arm, for a device; those of the "
                                         "simulator are {}",
                                         name, fmt::join(all, ", ")));
    }
    throw core::UsageError(
        fmt::format("--plan: no arm '{}' here; the arms are {}", name, fmt::join(all, ", ")));
  }
}

void add_simulator_arms(CampaignPlan& campaign, std::uint64_t total,
                        const std::vector<std::string>& names) {
  using core::CopyLateness;
  using core::SchedulePolicy;
  std::vector<PlannedArm> arms;
  for (const CopyLateness lateness :
       {CopyLateness::random, CopyLateness::lazy, CopyLateness::eager}) {
    for (const SchedulePolicy policy : {SchedulePolicy::random, SchedulePolicy::pct,
                                        SchedulePolicy::skew, SchedulePolicy::round_robin}) {
      PlannedArm arm;
      arm.perturbation.policy = policy;
      arm.perturbation.lateness = lateness;
      arm.perturbation.name = fmt::format("{}_{}", name_of(policy), name_of(lateness));
      arm.reason = fmt::format("{} schedules, {} copies", name_of(policy), name_of(lateness));
      if (policy == SchedulePolicy::round_robin && lateness != CopyLateness::random) {
        arm.perturbation.fresh_inputs = true;
        arm.reason += "; there is one such schedule, so every trial has new inputs instead";
      }
      arms.push_back(std::move(arm));
    }
  }
  PlannedArm& second = arms.emplace_back();
  second.perturbation.name = "called_twice";
  second.perturbation.calls = 2;
  second.reason = "a second call on the same buffers: what the first leaves; few trials";
  check_names(names, arms, {}, true);
  std::erase_if(arms, [&](const PlannedArm& arm) { return !wanted(names, arm.perturbation.name); });
  if (!names.empty() && total < arms.size()) {
    throw core::UsageError(
        fmt::format("--plan names {} arms and --trials {}, of which each takes at "
                    "least one: give more trials or fewer arms",
                    arms.size(), total));
  }
  // A trial of two calls costs two, and a few tell: what a call leaves behind does not come and go.
  const bool twice = arms.size() > 1 && arms.back().perturbation.calls > 1;
  const std::uint64_t few = std::min<std::uint64_t>(4, total / arms.size());
  const std::uint64_t second_calls = twice ? std::max(few, total / 64) : 0;
  const std::uint64_t others = arms.size() - (twice ? 1 : 0), left = total - second_calls;
  for (std::size_t i = 0; i < arms.size(); ++i) {
    arms[i].trials = i < others ? left / others + (i < left % others ? 1 : 0) : second_calls;
    if (arms[i].trials > 0) {
      campaign.arms.push_back(std::move(arms[i]));
    } else {
      campaign.left_out.push_back(arms[i].perturbation.name + ": fewer trials than arms");
    }
  }
}

}  // namespace

std::string needs_all_multiprocessors(const core::Program& program) {
  for (const core::Operation& operation : program.operations) {
    const auto* launch = std::get_if<core::LaunchOperation>(&operation.what);
    if (!launch) continue;
    if (launch->cluster[0] * launch->cluster[1] * launch->cluster[2] > 1) {
      return "the subject's clusters need multiprocessors that are neighbours";
    }
    if (launch->reload_module) {
      return "the subject loads a module before its launches, which may wait for whatever runs";
    }
  }
  const std::string poll = polling_instruction(program);
  if (poll.empty()) return {};
  return fmt::format("blocks may wait for other blocks, which then have to run as well: {}", poll);
}

std::uint64_t CampaignPlan::total_trials() const {
  std::uint64_t total = 0;
  for (const PlannedArm& arm : arms) total += arm.trials;
  return total;
}

CampaignPlan default_plan(const core::BackendInfo& backend, const core::TrialPlan& plan,
                          const PlanOptions& options) {
  CampaignPlan campaign;
  campaign.seed = options.seed;
  campaign.data = options.data;
  campaign.race = backend.is_model ? options.race : core::RaceMode::off;
  if (backend.is_model) {
    add_simulator_arms(campaign, options.trials == 0 ? 2000 : options.trials, options.arms);
    return campaign;
  }
  const std::uint64_t trials = options.trials == 0 ? 1000 : options.trials;
  const bool pooled = std::any_of(plan.buffers.begin(), plan.buffers.end(),
                                  [](const core::BufferSpec& b) { return b.pooled; });
  const auto has_sites = [&plan](std::uint32_t kinds) {
    return plan.program && !find_sites(plan.program(1), kinds).empty();
  };
  add_device_arms(
      {.campaign = campaign,
       .trials = trials,
       .pooled = pooled,
       .batching = plan.max_batch > 1,
       .sites = has_sites(kSynchronisationSites),
       .shared_sites = has_sites(bit(DelaySite::shared)),
       .multiprocessors = static_cast<std::uint32_t>(std::max(backend.multiprocessors, 0)),
       .all_of_them = plan.program ? needs_all_multiprocessors(plan.program(1)) : "",
       .not_dirtied =
           plan.program ? why_not_dirtied(plan.program(1)) : "the subject has no program"});
  check_names(options.arms, campaign.arms, campaign.left_out, false);
  std::erase_if(campaign.arms, [&](const PlannedArm& arm) {
    return !wanted(options.arms, arm.perturbation.name);
  });
  campaign.rounds = trials >= 400 ? 4 : 1;
  return campaign;
}

std::string to_text(const CampaignPlan& plan) {
  std::string text = fmt::format("{} arms, {} trials, seed {}, data {}\n", plan.arms.size(),
                                 plan.total_trials(), plan.seed, name_of(plan.data));
  for (const PlannedArm& arm : plan.arms) {
    text +=
        fmt::format("  {:<22} {:>9} trials  {}\n", arm.perturbation.name, arm.trials, arm.reason);
  }
  for (const std::string& reason : plan.left_out) text += fmt::format("  left out: {}\n", reason);
  if (plan.rounds > 1) {
    text += fmt::format("Arms take turns: {} blocks each, so that drift is not taken for a "
                        "difference.\n",
                        plan.rounds);
  }
  text += "Shown: failure rates with Wilson 95 % intervals; no failure: one-sided 95 % bound.\n"
          "Claimed: a rate depends on an arm when its paired e-value reaches "
          "20 x the number of arms (alpha 0.05, valid at any stopping time).\n";
  return text;
}

}  // namespace faultline::stress
