// SPDX-License-Identifier: Apache-2.0
// Every mutant that is wrong in each run is caught within 200 cases, and the case shrinks to a
// problem line no larger than one made by hand. The lines made by hand are the table of
// docs/properties.md, read here: what is documented is what is checked.
//
// Quick draws the cases and tries the smallest first, as CI can afford; Whole lets RapidCheck draw,
// try and shrink them.
#include <algorithm>
#include <cctype>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "faultline/stress/campaign.hpp"
#include "property_test.hpp"
#include "subjects.hpp"

namespace faultline::properties {
namespace {

constexpr int kCases = 200;
constexpr std::uint64_t kSeeds = 16;

// ---- The table ----------------------------------------------------------------------------------

/// A row `| mutant | problem | config | why |` of the section on shrinking.
struct HandMade {
  std::string problem;
  std::string config;  ///< empty: the default
};
/// SUBJECT@VARIANT and its rows.
using Table = std::map<std::string, std::vector<HandMade>>;

std::string trimmed(std::string_view cell) {
  const auto is_frame = [](char c) { return c == ' ' || c == '`'; };
  while (!cell.empty() && is_frame(cell.front())) cell.remove_prefix(1);
  while (!cell.empty() && is_frame(cell.back())) cell.remove_suffix(1);
  return std::string(cell);
}

Table read_table() {
  std::ifstream document(FAULTLINE_PROPERTIES_DOCUMENT);
  Table rows;
  bool inside = false;
  for (std::string line; std::getline(document, line);) {
    if (line.starts_with("## ")) inside = line.starts_with("## Shrinking");
    if (!inside || !line.starts_with("| `")) continue;
    std::vector<std::string> cells;
    for (std::size_t at = 1, bar; (bar = line.find('|', at)) != std::string::npos; at = bar + 1) {
      cells.push_back(trimmed(std::string_view(line).substr(at, bar - at)));
    }
    if (cells.size() != 4) throw std::runtime_error("not a row of four cells: " + line);
    rows[cells[0]].push_back({cells[1], cells[2] == "default" ? "" : cells[2]});
  }
  return rows;
}

const Table& hand_made() {
  static const Table rows = read_table();
  return rows;
}

/// Whether a defect of this class shows in each run of a case that has it, in values or in how the
/// run ends.
bool shows_every_time(core::FindingClass finding) {
  const std::string_view name = core::name_of(finding);
  return !name.starts_with("race.") && !name.starts_with("slow.") &&
         finding != core::FindingClass::nondeterminism_benign &&
         finding != core::FindingClass::device;
}

/// Each of the trials of one call is right, and each of those of two is not: no case of one call
/// can show it.
bool shows_in_a_second_call_alone(const std::string& mutant) {
  const kernels::ResolvedTrial trial = kernels::resolve(subjects(), mutant, {}, {});
  const auto failed = [&](std::uint32_t calls) {
    stress::CampaignPlan plan;
    plan.arms.emplace_back().trials = 3;
    plan.arms[0].perturbation.calls = calls;
    plan.race = core::RaceMode::off;
    stress::RunOptions alone;
    alone.follow_ups = alone.experiments = false;
    return stress::run_campaign(simulator(), trial, plan, alone).arms.at(0).result.failed;
  };
  return failed(1) == 0 && failed(2) == 3;
}

TEST(HandMadeMinima, HaveARowForEveryDeterministicMutant) {
  std::set<std::string> mutants, wanted;
  for (const auto& subject : subjects().all()) {
    for (const kernels::Variant& variant : subject->variants) {
      if (!variant.is_mutant) continue;
      const std::string mutant = subject->name + "@" + variant.name;
      mutants.insert(mutant);
      if (shows_every_time(*variant.required_finding)) wanted.insert(mutant);
    }
  }
  for (const std::string& mutant : wanted) {
    EXPECT_TRUE(hand_made().count(mutant) || shows_in_a_second_call_alone(mutant))
        << mutant << " has no row";
  }
  for (const auto& [mutant, rows] : hand_made()) {
    EXPECT_TRUE(mutants.count(mutant)) << mutant << " is no mutant";
  }
}

// ---- One mutant ---------------------------------------------------------------------------------

class Minima : public testing::TestWithParam<Table::value_type> {
 protected:
  const std::string& mutant() const { return GetParam().first; }
  std::string subject() const { return mutant().substr(0, mutant().find('@')); }
  std::string variant() const { return mutant().substr(mutant().find('@') + 1); }

  /// What is drawn of the subject, and the sizes at which the mutant says that it shows.
  ValueDomain<Case> domain() const {
    const kernels::Subject& known = subjects().get(subject());
    CaseOptions options{.variants = {variant()}};
    if (is_sequence(known)) options.largest_trials = 1;
    return cases(
        subjects(), known.name,
        with_values(simulator_limits(known), known, known.find_variant(variant())->shows_at),
        options);
  }

  static bool fails(const Case& c) {
    const CaseVerdict verdict = check_case(simulator(), subjects(), c);
    if (verdict.result.skipped || verdict.result.status == core::ExecutionStatus::unsupported) {
      throw std::runtime_error(command_line(c) + ": not run: " + verdict.reason);
    }
    return !verdict.pass;
  }

  Case by_hand(const HandMade& row) const {
    const kernels::ResolvedTrial trial =
        kernels::resolve(subjects(), mutant(), core::parse_assignments(row.problem),
                         core::parse_assignments(row.config));
    Case c;
    c.problem = trial.problem;
    c.variant = variant();
    c.config = trial.config;
    // What depends on the inputs drawn (a coin that lands on its other side) needs a look at some.
    while (c.regime.seed < kSeeds && !fails(c)) ++c.regime.seed;
    return c;
  }

  /// The line printed is enough; hand-made lines fail too, and of one none of the sizes is smaller.
  void judge(const std::string& line) const {
    const ValueDomain<Case> drawn = domain();
    const Case shrunk = parse_case(subjects(), line);
    EXPECT_TRUE(fails(shrunk)) << line;
    const std::vector<std::uint64_t> got = drawn.measure(shrunk);
    bool bounded = false;
    std::string lines;
    for (const HandMade& row : GetParam().second) {
      const Case smallest = by_hand(row);
      lines += "\n  " + command_line(smallest);
      EXPECT_TRUE(fails(smallest)) << "made by hand: " << command_line(smallest);
      EXPECT_EQ(drawn.complaint(smallest), "");
      const std::vector<std::uint64_t> limit = drawn.measure(smallest);
      ASSERT_EQ(got.size(), limit.size());
      // Sizes of the problem, the place of the config, the trials; then come data, seed, race mode.
      bounded =
          bounded || std::equal(got.begin(), got.end() - 3, limit.begin(), std::less_equal<>{});
    }
    EXPECT_TRUE(bounded) << line << "\nis larger than what was made by hand:" << lines;
  }
};

TEST_P(Minima, Quick) {
  const ValueDomain<Case> drawn = domain();
  const kernels::Subject& known = subjects().get(subject());
  std::vector<Case> all;
  for (std::uint64_t i = 0; i < kCases; ++i) {
    all.push_back(drawn.generator(rc::Random(kDefaultSeed + i)).value());
  }
  std::stable_sort(all.begin(), all.end(), [&](const Case& a, const Case& b) {
    return known.traffic_bytes(a.problem) < known.traffic_bytes(b.problem);
  });
  const auto found = std::find_if(all.begin(), all.end(), fails);
  ASSERT_NE(found, all.end()) << mutant() << " was not caught in " << kCases << " cases";
  Case smallest = *found;
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (Case& candidate : drawn.smaller(smallest)) {
      if (!fails(candidate)) continue;
      smallest = std::move(candidate);
      smaller = true;
      break;
    }
  }
  fmt::print("{} cases, then {}\n", found - all.begin() + 1, command_line(smallest));
  judge(command_line(smallest));
}

class WholeMinima : public Minima {};

TEST_P(WholeMinima, CaughtByRapidCheck) {
  const ValueDomain<Case> drawn = domain();
  const PropertyResult result = run_property(
      [&] {
        if (fails(*drawn.generator)) RC_FAIL("the mutant is caught");
      },
      {.seed = kDefaultSeed, .cases = kCases});
  ASSERT_EQ(result.outcome, PropertyOutcome::falsified)
      << mutant() << " was not caught: " << result.message;
  ASSERT_EQ(result.counterexample.size(), 1u);
  fmt::print("{} cases, then {}\n", result.cases + 1, result.counterexample[0].second);
  judge(result.counterexample[0].second);
}

std::string test_name(const testing::TestParamInfo<Table::value_type>& test) {
  std::string name = test.param.first;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Mutants, Minima, testing::ValuesIn(hand_made()), test_name);
INSTANTIATE_TEST_SUITE_P(Mutants, WholeMinima, testing::ValuesIn(hand_made()), test_name);

}  // namespace
}  // namespace faultline::properties
