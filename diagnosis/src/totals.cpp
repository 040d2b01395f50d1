// SPDX-License-Identifier: Apache-2.0
#include "faultline/diagnosis/totals.hpp"

#include <algorithm>
#include <tuple>

#include "faultline/core/comparison.hpp"

namespace faultline::diagnosis {
namespace {

auto location_key(const core::AccessSite& site) {
  const core::SourceLocation where = site.where.empty() ? core::SourceLocation{} : site.where[0];
  return std::tuple(where.file, where.line, site.instruction, site.kernel, site.async_proxy);
}

auto race_key(const core::RaceReport& race) {
  return std::tuple(race.note_only, race.kind, race.space, location_key(race.first),
                    location_key(race.second), race.buffer, race.cross_cta, race.cross_launch,
                    race.cross_device, race.missing_proxy_fence);
}

auto access_key(const core::AccessStatistics& access) {
  return std::tuple(access.space, access.where.file, access.where.line, access.instruction,
                    access.is_write);
}

}  // namespace

void accumulate(core::TileTotals& into, const core::TileTotals& from) {
  into.bad_trials += from.bad_trials;
  into.bad_elements += from.bad_elements;
  into.not_finite += from.not_finite;
  into.poison += from.poison;
  into.no_reference += from.no_reference;
  into.worst_ratio = std::max(into.worst_ratio, from.worst_ratio);
  into.worst_ulps = std::max(into.worst_ulps, from.worst_ulps);
  if (into.first_bad_index < 0 ||
      (from.first_bad_index >= 0 && from.first_bad_index < into.first_bad_index)) {
    into.first_bad_index = from.first_bad_index;
  }
}

void accumulate(core::OutputTotals& into, const core::OutputTotals& from) {
  if (into.name.empty()) {
    into = from;
    return;
  }
  into.compared_elements += from.compared_elements;
  into.bad_trials += from.bad_trials;
  into.bad_elements += from.bad_elements;
  into.not_finite += from.not_finite;
  into.poison += from.poison;
  into.no_reference += from.no_reference;
  into.worst_ratio = std::max(into.worst_ratio, from.worst_ratio);
  into.worst_ulps = std::max(into.worst_ulps, from.worst_ulps);
  into.worst_rounded_error = std::max(into.worst_rounded_error, from.worst_rounded_error);
  into.sum_squared_error += from.sum_squared_error;
  into.sum_squared_expected += from.sum_squared_expected;
  core::add_bins(into.ratio_bins, from.ratio_bins);
  core::add_bins(into.ulp_bins, from.ulp_bins);
  into.bins_every = std::max(into.bins_every, from.bins_every);
  // On a tie the larger reference value, so that the order of the results does not matter.
  if (std::tuple(from.worst_error, from.worst_error_expected) >
      std::tuple(into.worst_error, into.worst_error_expected)) {
    into.worst_error = from.worst_error;
    into.worst_error_expected = from.worst_error_expected;
  }
  if (into.geometry == from.geometry && into.tiles.size() == from.tiles.size()) {
    for (std::size_t i = 0; i < into.tiles.size(); ++i) accumulate(into.tiles[i], from.tiles[i]);
  } else {
    into.tiles.clear();
  }
}

std::vector<core::OutputTotals>
total_outputs(const std::vector<const core::TrialResult*>& results) {
  std::vector<core::OutputTotals> totals;
  for (const core::TrialResult* result : results) {
    for (const core::OutputTotals& output : result->outputs) {
      auto same = std::find_if(totals.begin(), totals.end(), [&](const core::OutputTotals& t) {
        return t.name == output.name && t.dtype == output.dtype;
      });
      if (same == totals.end()) {
        totals.push_back(output);
      } else {
        accumulate(*same, output);
      }
    }
  }
  return totals;
}

void merge_race(std::vector<core::RaceReport>& races, const core::RaceReport& report) {
  for (core::RaceReport& race : races) {
    if (race_key(race) != race_key(report)) continue;
    race.count += report.count;
    race.byte_begin = std::min(race.byte_begin, report.byte_begin);
    race.byte_end = std::max(race.byte_end, report.byte_end);
    return;
  }
  races.push_back(report);
}

void sort_races(std::vector<core::RaceReport>& races) {
  std::sort(races.begin(), races.end(), [](const core::RaceReport& a, const core::RaceReport& b) {
    return std::tuple(race_key(a), a.byte_begin, a.byte_end, a.count, a.first.actor,
                      a.second.actor) < std::tuple(race_key(b), b.byte_begin, b.byte_end, b.count,
                                                   b.first.actor, b.second.actor);
  });
}

void merge_accesses(std::vector<core::AccessStatistics>& into,
                    const std::vector<core::AccessStatistics>& from) {
  for (const core::AccessStatistics& access : from) {
    auto same = std::find_if(into.begin(), into.end(), [&](const core::AccessStatistics& a) {
      return access_key(a) == access_key(access);
    });
    if (same == into.end()) {
      into.push_back(access);
      continue;
    }
    // The stride of the one with more requests stands for both.
    if (std::tuple(access.requests, access.lane_stride_bytes) >
        std::tuple(same->requests, same->lane_stride_bytes)) {
      same->lane_stride_bytes = access.lane_stride_bytes;
    }
    same->requests += access.requests;
    same->sectors += access.sectors;
    same->ideal_sectors += access.ideal_sectors;
    same->lanes += access.lanes;
    same->distinct_addresses += access.distinct_addresses;
  }
}

}  // namespace faultline::diagnosis
