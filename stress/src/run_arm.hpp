// SPDX-License-Identifier: Apache-2.0
// Building blocks that campaign, verify, race and replay share.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "faultline/core/backend.hpp"
#include "faultline/core/evidence.hpp"
#include "faultline/core/token.hpp"
#include "faultline/kernels/subject.hpp"
#include "faultline/stress/campaign.hpp"

namespace faultline::stress::detail {

/// Run the request; what it throws becomes the status and message of the result, and so do
/// fewer trials than planned where neither `stop` nor the status accounts for it.
core::TrialResult run_safely(core::Backend& backend, const core::TrialPlan& plan,
                             const core::TrialRequest& request);

/// Add a later block of the same arm. Distinct outputs of fixed inputs become a lower bound: beyond
/// core::OutputHashes::kKept it is not kept which ones they were.
void add_block(core::TrialResult& into, const core::TrialResult& block, bool fresh_inputs,
               std::uint32_t capture_limit);

bool stopped(const std::atomic<bool>* stop);
bool stopped(const RunOptions& options);

/// What hangs or faults on a device takes the context of the process with it: nothing that is asked
/// for afterwards can run.
bool takes_the_device(const core::BackendInfo& backend, const core::TrialResult& result);
/// The result of trials that were planned behind that: skipped, with the reason.
core::TrialResult not_run_without_device(const std::string& lost_to);

/// The hash of the first kernel that the plan's program launches.
std::string module_hash(const core::TrialPlan& plan);

/// Token of trial `trial` of `request`.
std::string token_text(const std::string& backend, const core::TrialPlan& plan,
                       const core::TrialRequest& request, std::uint64_t trial);

/// Rate interval, upper bound and the token of the first failing trial.
core::ArmEvidence make_arm(const std::string& backend, const core::TrialPlan& plan,
                           const core::TrialRequest& request, core::TrialResult result);

/// Add a sentence to Evidence::not_examined, unless it is there.
void add_not_examined(core::Evidence& evidence, const std::string& what);
/// A device poisons a sparse workspace once an arm: leaves a note.
void note_sparse_workspaces(core::Evidence& evidence, const core::TrialPlan& plan);
/// A backend that never compared the inputs after a launch leaves a note.
void note_unchecked_inputs(core::Evidence& evidence, const core::TrialResult& result);
/// UsageError when the plan's inputs cannot be drawn in this mode.
void require_data_mode(core::DataMode data, const core::TrialPlan& plan);
/// Add what asynchronous instructions the program's kernels hold.
void note_asynchronous_instructions(core::Evidence& evidence, const core::Program& program);

/// Evidence with everything that describes the subject filled in.
core::Evidence start_evidence(const core::BackendInfo& backend, const core::TrialPlan& plan,
                              std::string mode);

/// One further trial, without race checks, that counts memory transactions line by line
/// (simulator). It is not an arm: its values are not judged.
void count_accesses(core::Backend& backend, const core::TrialPlan& plan, std::uint64_t seed,
                    core::DataMode data, const RunOptions& options, core::Evidence& evidence);

/// The bitwise repeat check: outputs of equal inputs over all arms; nothing when no input set was
/// run twice. Of several the one with most different outputs.
std::optional<core::RepeatEvidence> repeat_of(const std::vector<core::ArmEvidence>& arms);

/// Merge races and accesses, look at captures and named terms, fill in the repeat check. `seed` is
/// the campaign's; `templates` as of examine_captures().
void finish_evidence(core::Evidence& evidence, const core::TrialPlan& plan, core::DataMode data,
                     std::uint64_t seed, bool templates = true);

}  // namespace faultline::stress::detail
