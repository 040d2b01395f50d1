// SPDX-License-Identifier: Apache-2.0
#include "faultline/core/kill_matrix.hpp"

#include <algorithm>

namespace faultline::core {

namespace {

template <class Wanted>
std::uint64_t count(const std::vector<KillRow>& rows, Wanted wanted) {
  return static_cast<std::uint64_t>(std::count_if(rows.begin(), rows.end(), wanted));
}

}  // namespace

bool KillRow::applicable() const {
  // A sanitizer neither kills nor blames: where it alone ran, nothing was judged.
  return !no_evidence && std::any_of(cells.begin(), cells.end(), [](const KillCell& cell) {
    return cell.ran && cell.detector != Detector::sanitizer;
  });
}

std::uint64_t KillMatrix::mutants() const {
  return count(rows, [](const KillRow& row) { return row.applicable() && row.is_mutant; });
}
std::uint64_t KillMatrix::killed() const {
  return count(rows,
               [](const KillRow& row) { return row.applicable() && row.is_mutant && row.killed; });
}
std::uint64_t KillMatrix::named_right() const {
  return count(rows,
               [](const KillRow& row) { return row.applicable() && row.is_mutant && row.right; });
}
std::uint64_t KillMatrix::clean_variants() const {
  return count(rows, [](const KillRow& row) { return row.applicable() && !row.is_mutant; });
}
std::uint64_t KillMatrix::false_alarms() const {
  return count(rows,
               [](const KillRow& row) { return row.applicable() && !row.is_mutant && !row.right; });
}

}  // namespace faultline::core
