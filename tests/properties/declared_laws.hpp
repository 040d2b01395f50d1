// SPDX-License-Identifier: Apache-2.0
// What subjects declare of their mathematics, as data: the laws of declared_laws_test.cpp follow
// from it. A law knows no subject by name.
#pragma once

#include <string>
#include <vector>

#include "faultline/core/problem.hpp"

namespace faultline::properties {

/// An index of the mathematics: where it runs in the buffers.
struct Axis {
  struct Place {
    std::string buffer;
    std::size_t dimension = 0;
  };
  std::string parameter;        ///< of the problem: its extent
  std::vector<Place> places{};  ///< empty: in every buffer, at `everywhere`
  std::size_t everywhere = 0;
};

/// Steps that hand a state on.
struct Recurrence {
  Axis steps;
  std::string state_in, state_out;
};

struct DeclaredLaws {
  std::string subject;
  /// Slices do not see each other: permuted they give the permuted outputs, alone they give what
  /// they give together, and one that changes leaves the others as they were. Bit for bit.
  std::vector<Axis> independent{};
  /// Permuted together, outputs with the axis are permuted and the others stay, but for rounding.
  std::vector<Axis> symmetric{};
  /// Inputs in which, taken together, the outputs are affine.
  std::vector<std::string> affine{};
  /// Inputs of which, all of them scaled by 2^k, every output is 2^k times what it was, exactly.
  std::vector<std::string> scaled{};
  /// Inputs of which every element reaches an output when all these hold -1 and 1.
  std::vector<std::string> heard{};
  /// Parameters that choose a layout in memory and no value.
  std::vector<std::string> layouts{};
  std::vector<Recurrence> recurrences{};
  /// Problem values at which the laws above hold.
  std::vector<core::Assignment::Value> at{};
  /// Those at which every element is heard, besides.
  std::vector<core::Assignment::Value> heard_at{};
};

/// In the order of the registry. A subject that declares nothing still keeps what holds of all:
/// two calls agree, variants and configs are twins.
const std::vector<DeclaredLaws>& declared_laws();

}  // namespace faultline::properties
