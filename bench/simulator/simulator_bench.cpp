// SPDX-License-Identifier: Apache-2.0
// Speed of the simulator on one core, in processor time: thread-instructions per second on gemv,
// trials per second on one CTA of gla_decode, plain and race-checked. A trial is everything:
// poison, run, compare on the host. Medians over samples; exit code 1 when a figure misses its
// target.
#include <algorithm>
#include <cstdint>
#include <ctime>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "faultline/kernels/subject.hpp"
#include "faultline/simulator/simulator_backend.hpp"

namespace {

using namespace faultline;

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

struct Rate {
  double instructions = 0;  // per second
  double trials = 0;        // per second
};

Rate measure(core::Backend& backend, const core::TrialPlan& plan, core::RaceMode race,
             std::uint64_t trials) {
  constexpr int kSamples = 7;
  std::vector<Rate> samples;
  for (int sample = 0; sample < kSamples; ++sample) {
    core::TrialRequest request;
    request.count = trials;
    request.race = race;
    request.seed = static_cast<std::uint64_t>(sample) + 1;
    const double start = thread_seconds();
    const core::TrialResult result = backend.run_trials(plan, request);
    const double seconds = thread_seconds() - start;
    if (result.failed != 0 || result.trials != trials) {
      fmt::print("a clean trial failed: {}\n", result.message);
      std::exit(1);
    }
    samples.push_back({static_cast<double>(result.thread_instructions) / seconds,
                       static_cast<double>(result.trials) / seconds});
  }
  const auto middle = samples.begin() + kSamples / 2;
  std::nth_element(samples.begin(), middle, samples.end(),
                   [](const Rate& a, const Rate& b) { return a.trials < b.trials; });
  return *middle;
}

struct Row {
  const char* subject;
  std::vector<core::Assignment::Value> problem, config;
  std::uint64_t trials;
  double plain_target, race_target;  // million thread-instructions per second
  double trial_target;               // race-checked trials per second
};

}  // namespace

int main() {
  kernels::SubjectRegistry registry;
  kernels::register_builtin_subjects(registry);
  const auto backend = simulator::make_simulator_backend();
  const std::vector<Row> rows = {
      {"gemv@register", {{"n", "256"}, {"k", "8192"}, {"dtype", "bf16"}}, {}, 2, 400, 80, 0},
      {"gemv@pipelined", {{"n", "256"}, {"k", "8192"}, {"dtype", "bf16"}}, {}, 2, 0, 0, 0},
      {"gla_decode@pipelined", {{"dtype", "bf16"}}, {{"copy", "bulk"}}, 100, 0, 0, 200},
      {"gla_decode@pipelined", {{"dtype", "bf16"}}, {{"copy", "tensor"}}, 100, 0, 0, 200},
      {"gla_decode@scalar", {{"dtype", "f32"}}, {{"copy", "bulk"}}, 100, 0, 0, 0},
  };
  fmt::print("{:<56} {:>12} {:>12} {:>10} {:>10}\n", "one core, processor time", "plain M ti/s",
             "race M ti/s", "plain tr/s", "race tr/s");
  bool missed = false;
  for (const Row& row : rows) {
    const auto trial = kernels::resolve(registry, row.subject, row.problem, row.config);
    const Rate plain = measure(*backend, trial.plan, core::RaceMode::off, row.trials);
    const Rate race = measure(*backend, trial.plan, core::RaceMode::strict, row.trials);
    const std::string name = fmt::format("{} {}", row.subject, trial.config.line());
    fmt::print("{:<56.56} {:>12.1f} {:>12.1f} {:>10.0f} {:>10.0f}\n", name,
               plain.instructions * 1e-6, race.instructions * 1e-6, plain.trials, race.trials);
    missed = missed || plain.instructions * 1e-6 < row.plain_target ||
             race.instructions * 1e-6 < row.race_target || race.trials < row.trial_target;
  }
  if (missed) fmt::print("a target was missed: 400 and 80 M ti/s on gemv@register, 200 trials/s\n");
  return missed ? 1 : 0;
}
