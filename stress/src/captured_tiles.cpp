// SPDX-License-Identifier: Apache-2.0
#include "captured_tiles.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include "faultline/core/comparison.hpp"
#include "faultline/stress/captures.hpp"

namespace faultline::stress::detail {
namespace {

/// Of each output: its errors are in bins for the trials that are multiples of this; 0: for none.
std::vector<std::uint64_t> counted_every(const core::TrialResult& result) {
  std::vector<std::uint64_t> every;
  for (const core::OutputTotals& output : result.outputs) {
    every.push_back(output.ratio_bins.empty() ? 0 : std::max(output.bins_every, 1u));
  }
  return every;
}

void compare(const core::TrialPlan& plan, const core::Capture& capture,
             const std::vector<core::ReferenceTensor>& references,
             const std::vector<std::uint64_t>& every, core::TrialResult& result) {
  const std::vector<std::uint32_t> outputs = plan.output_indices();
  const core::PoisonMap poisons(plan.buffers);
  std::vector<core::WrongTile> wrong_tiles;
  for (std::size_t k = 0; k < outputs.size() && k < capture.outputs.size(); ++k) {
    const core::BufferSpec& buffer = plan.buffers[outputs[k]];
    core::OutputTotals totals = core::make_output_totals(buffer);
    const std::size_t known = wrong_tiles.size();
    core::compare_output(capture.outputs[k], references.at(k), buffer.tiles,
                         poisons.of(outputs[k], capture.poison), totals, buffer.shape,
                         &wrong_tiles);
    for (std::size_t i = known; i < wrong_tiles.size(); ++i) {
      wrong_tiles[i].output = static_cast<std::uint32_t>(k);
    }
    // This trial may have been counted already.
    if (k < every.size() && (every[k] == 0 || capture.trial % every[k] != 0)) {
      core::add_bins(result.outputs[k].ratio_bins, totals.ratio_bins);
      core::add_bins(result.outputs[k].ulp_bins, totals.ulp_bins);
    }
  }
  const auto failure =
      std::find_if(result.failures.begin(), result.failures.end(),
                   [&](const core::FailedTrial& f) { return f.trial == capture.trial; });
  if (failure == result.failures.end()) return;
  // As many as core::add_failure() keeps.
  failure->wrong_tiles.clear();
  std::size_t kept = wrong_tiles.size();
  for (const core::FailedTrial& other : result.failures) kept += other.wrong_tiles.size();
  if (kept <= core::TrialResult::kWrongTilesKept) failure->wrong_tiles = std::move(wrong_tiles);
}

}  // namespace

void add_captured_tiles(const core::TrialPlan& plan, core::DataMode data,
                        core::TrialResult& result) {
  constexpr std::size_t kInputSets = 8;
  const bool compared_here =
      std::any_of(result.failures.begin(), result.failures.end(),
                  [](const core::FailedTrial& f) { return !f.wrong_tiles.empty(); });
  if (compared_here || !plan.reference) return;
  const std::vector<std::uint64_t> every = counted_every(result);
  std::map<std::uint64_t, std::vector<core::ReferenceTensor>> references;
  for (const core::Capture& capture : result.captures) {
    auto found = references.find(capture.input_seed);
    if (found == references.end()) {
      if (references.size() == kInputSets) continue;
      found = references
                  .emplace(capture.input_seed,
                           plan.reference(make_inputs(plan, data, capture.input_seed)))
                  .first;
    }
    compare(plan, capture, found->second, every, result);
  }
}

}  // namespace faultline::stress::detail
