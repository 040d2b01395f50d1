// SPDX-License-Identifier: Apache-2.0
// `faultline replay TOKEN`: one trial again.
#include "faultline/stress/replay.hpp"

#include <fmt/format.h>

#include "backend_choice.hpp"
#include "faultline/core/errors.hpp"
#include "memory.hpp"
#include "record.hpp"
#include "work.hpp"

namespace faultline::app {

int replay_command(const Context& context) {
  const Options& options = context.options;
  if (options.words.size() > 1 && options.words.front().starts_with("fl1.")) {
    throw core::UsageError(fmt::format("a token is a whole case: leave '{}' out; `faultline verify "
                                       "SUBJECT@VARIANT k=v ...` runs another",
                                       options.words[1]));
  }
  if (options.words.size() != 1) {
    throw core::UsageError(
        "replay takes one TOKEN, as printed under a failure (it begins with 'fl1.')");
  }
  const Options plain;
  if (!options.variant.empty() || !options.config.empty() || options.data != plain.data ||
      options.seed != plain.seed) {
    throw core::UsageError("a token holds the variant, config, data and seed of its trial: leave "
                           "--variant, --config, --data and --seed out");
  }
  const core::TrialToken token = core::decode_token(options.words.front());
  if (options.backend != "auto" && options.backend != token.backend) {
    throw core::UsageError(fmt::format("this token was made on the {} backend and replays there; "
                                       "leave out --backend {}",
                                       token.backend, options.backend));
  }
  Run run(context, "replay");
  run.use_race_mode(token.race);
  const auto backend = choose_backend(token.backend);
  run.use_backend(backend->info());
  require_memory(context.registry, token, backend->info());

  Work work(context);
  stress::ReplayOptions replay_options;
  if (options.repeats > 0) replay_options.repeats = options.repeats;
  replay_options.run = work.run_options();
  stress::Replay replay = stress::replay(*backend, context.registry, token, replay_options);
  work.finish();
  if (!replay.warning.empty()) fmt::print(stderr, "faultline: warning: {}\n", replay.warning);
  run.identify(replay.trial);
  run.record().seed = token.seed;
  run.record().analysis_plan =
      backend->info().is_model
          ? fmt::format("trial {} of seed {} again, with its schedule", token.trial, token.seed)
          : fmt::format("inputs and perturbation of trial {} of seed {}, {} times", token.trial,
                        token.seed, replay_options.repeats);
  return run.finish(std::move(replay.evidence));
}

}  // namespace faultline::app
