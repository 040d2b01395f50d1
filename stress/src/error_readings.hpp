// SPDX-License-Identifier: Apache-2.0
// What the bits of wrong elements say: each way of reading them (core::ErrorReading) is tried on
// every wrong, finite element, and those that explain half of an output's are kept.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "faultline/core/evidence.hpp"
#include "faultline/core/poison.hpp"
#include "faultline/core/trial.hpp"

namespace faultline::stress::detail {

/// The seed of the inputs that trial `other` of a campaign has, where trial `trial` has
/// `input_seed`, both with inputs of their own.
std::uint64_t input_seed_of_trial(std::uint64_t input_seed, std::uint64_t trial,
                                  std::uint64_t other);

class ErrorReadings {
 public:
  ErrorReadings(const core::TrialPlan& plan, core::DataMode data);

  /// Output `o` of one failing trial. `earlier`: what the trials before it should have given, the
  /// last one first; may be empty.
  void add(std::uint32_t o, const core::Capture& capture, const core::ReferenceTensor& expected,
           const std::vector<core::ReferenceTensor>& earlier);

  /// The best first, at most four of an output. Codes repeat after kCodes slices: where a slice is
  /// told by its code alone and there are more, `value` is their number, else 0.
  std::vector<core::ErrorReading> result() const;

  static constexpr int kCodes = 8;

 private:
  using Kind = core::ErrorReading::Kind;
  struct Element {
    std::int64_t index = 0, tile = 0;
    std::uint64_t bits = 0;
    double got = 0.0, expected = 0.0, bound = 0.0;
    double error() const { return got - expected; }
    double slack = 0.0;  ///< what the bound and half an ulp leave room for
  };
  struct Tally {
    std::uint64_t matched = 0, tiles = 0;
    double value = 0.0;
  };
  /// Output, kind, detail, other.
  using Key = std::tuple<std::uint32_t, Kind, std::int64_t, std::int64_t>;

  void read_bits(std::uint32_t o, const std::vector<Element>& wrong);
  void read_offset(std::uint32_t o, const std::vector<Element>& wrong);
  void read_scale(std::uint32_t o, const std::vector<Element>& wrong);
  void read_saturation(std::uint32_t o, const std::vector<Element>& wrong);
  void read_slices(std::uint32_t o, const std::vector<Element>& wrong);
  void read_addresses(std::uint32_t o, const std::vector<Element>& wrong);
  void read_earlier(std::uint32_t o, const std::vector<Element>& wrong,
                    const std::vector<core::ReferenceTensor>& earlier);
  void read_poison(std::uint32_t o, const core::Capture& capture,
                   const core::ReferenceTensor& reference);
  std::vector<core::ErrorReading> unwritten(std::uint32_t o) const;
  void count(const Key& key, const std::vector<const Element*>& matched, double value = 0.0);

  const core::TrialPlan& plan_;
  core::DataMode data_;
  std::vector<std::uint32_t> outputs_;
  /// Digit-coded reduction: what its slices add, and which is the first that adds as much; all of
  /// them together. 0: there is none.
  std::vector<std::pair<double, int>> codes_;
  std::vector<double> slices_;  ///< the code of each
  double code_sum_ = 0.0;
  std::vector<std::uint64_t> wrong_, wrong_with_earlier_;  ///< the latter where `earlier` was given
  std::map<Key, Tally> tallies_;

  /// Wrong elements of one output that hold the poison of another place than their own.
  struct Unwritten {
    struct Place {
      std::uint64_t elements = 0;
      std::set<std::int64_t> tiles;  ///< of this output
      void add(std::int64_t tile) {
        ++elements;
        tiles.insert(tile);
      }
    };
    std::uint64_t wrong = 0;  ///< all but those that hold their own poison
    std::map<core::PoisonedTile, Place> places;
    std::size_t sharing = 0;  ///< places with one code, at most
    Place shared, local;
  };
  core::PoisonMap poisons_;
  std::vector<Unwritten> unwritten_;
};

}  // namespace faultline::stress::detail
