// SPDX-License-Identifier: Apache-2.0
// The DeltaNet family over the cross of its inputs, shapes and tilings, on the simulator.
//
// Cover: a pairwise cover of the cross, where any two values that can meet do meet, for the clean
// kernels; and every mutant in half of the pairs of dtype and regime of keys, the other half for
// the next mutant (all with FAULTLINE_ALL_CELLS, label nightly), where it must get the class that
// it declares, or, where its effect is below the bound, anything but a pass. Cross
// (FAULTLINE_FULL_CROSS, label nightly): the whole cross. FAULTLINE_CROSS_PART=I/N runs the I-th of
// N parts of about the same size (I from 0), so that N processes share the work.
#include <faultline/kernels/subject.hpp>
#include <faultline/simulator/simulator_backend.hpp>

#include <faultline/core/errors.hpp>
#include <faultline/core/generator.hpp>
#include <faultline/diagnosis/diagnose.hpp>
#include <faultline/reference/deltanet_bounds.hpp>
#include <faultline/stress/captures.hpp>
#include <faultline/stress/verify.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace faultline::kernels {
namespace {

using Values = std::vector<core::Assignment::Value>;

const SubjectRegistry& registry() {
  static const SubjectRegistry subjects = [] {
    SubjectRegistry all;
    register_builtin_subjects(all);
    return all;
  }();
  return subjects;
}

core::Backend& simulator() {
  static const std::unique_ptr<core::Backend> backend = simulator::make_simulator_backend();
  return *backend;
}

// ---- The cross ----------------------------------------------------------------------------------

enum Factor : std::size_t {
  kSubject,
  kVariant,  // of the clean ones
  kDtype,
  kKeys,
  kBeta,
  kGate,
  kStates,
  kDk,
  kDv,
  kLength,    // sequences: around the edges of a chunk
  kChunk,     // sequences; decode: which of its tiles
  kSegments,  // sequences; decode: the state's dtype
  kFactors
};
using Row = std::array<std::uint8_t, kFactors>;
using Levels = std::array<std::vector<std::string>, kFactors>;

/// One family of the cross: subjects with the same factors.
struct Space {
  bool decode = false;
  Levels levels{};

  const std::string& at(const Row& row, Factor factor) const { return levels[factor][row[factor]]; }
};

Space sequences() {
  Space space;
  space.levels = {{{"deltanet_fwd", "gated_deltanet_fwd", "deltanet_bwd", "gated_deltanet_bwd"},
                   {"0", "1"},
                   {"f16", "bf16", "f32"},
                   {"small", "unit", "correlated", "identical", "repeated"},
                   {"half", "uniform", "coin"},
                   {"none", "0", "0.01", "1", "20"},
                   {"zero", "random"},
                   {"64", "128"},
                   {"64", "128"},
                   {"1", "chunk-1", "chunk", "chunk+1", "2chunk+21"},
                   {"32", "64"},
                   {"1", "2", "3"}}};
  return space;
}

Space decodes() {
  Space space = sequences();
  space.decode = true;
  space.levels[kSubject] = {"deltanet_decode", "gated_deltanet_decode"};
  space.levels[kLength] = {"1"};
  space.levels[kChunk] = {"0", "1", "2", "3"};
  space.levels[kSegments] = {"f32", "input"};
  return space;
}

std::vector<std::string> clean_variants(const std::string& subject) {
  std::vector<std::string> names;
  for (const Variant& variant : registry().get(subject).variants) {
    if (!variant.is_mutant) {
      names.push_back(variant.name);
    }
  }
  return names;
}

std::int64_t length_of(const std::string& level, std::int64_t chunk) {
  static const std::map<std::string, std::array<std::int64_t, 2>> kLengths{{"1", {0, 1}},
                                                                           {"chunk-1", {1, -1}},
                                                                           {"chunk", {1, 0}},
                                                                           {"chunk+1", {1, 1}},
                                                                           {"2chunk+21", {2, 21}}};
  const auto& [chunks, more] = kLengths.at(level);
  return chunks * chunk + more;
}

/// Rows that exist: what the subjects refuse or declare weak is left out, and f32 beyond 85 rows,
/// whose plain loops have no segments and cost the simulator seconds a trial.
bool exists(const Space& space, const Row& row) {
  static const std::map<std::string, std::size_t> kVariants = [] {
    std::map<std::string, std::size_t> counts;
    for (const auto& subject : registry().all()) {
      counts[subject->name] = clean_variants(subject->name).size();
    }
    return counts;
  }();
  const std::string& subject = space.at(row, kSubject);
  const bool gated = subject.starts_with("gated_");
  if (gated == (row[kGate] == 0) || row[kVariant] >= kVariants.at(subject)) {
    return false;
  }
  if (space.decode) {
    return row[kVariant] == 0 || row[kChunk] == 0;  // `lanes` has one tile
  }
  const std::int64_t chunk = row[kChunk] == 0 ? 32 : 64;
  const std::int64_t t = length_of(space.at(row, kLength), chunk);
  const std::int64_t chunks = (t + chunk - 1) / chunk, segments = row[kSegments] + 1;
  const bool plain = row[kDtype] == 2;
  if (segments > chunks || (plain && (segments > 1 || t > 85))) {
    return false;
  }
  const bool forward = subject.ends_with("_fwd");
  if (forward && segments > 1 && row[kDk] == 1 && chunk == 32) {
    return false;  // dk > 2 chunk
  }
  core::Assignment problem;
  problem.set("keys", space.at(row, kKeys));
  const std::string variant = clean_variants(subject)[row[kVariant]];
  return registry().get(subject).find_variant(variant)->declared_weakness(problem, {}).empty();
}

std::vector<Row> cross(const Space& space) {
  std::vector<Row> rows;
  Row row{};
  for (;;) {
    if (exists(space, row)) {
      rows.push_back(row);
    }
    std::size_t f = 0;
    while (f < kFactors && ++row[f] == space.levels[f].size()) {
      row[f++] = 0;
    }
    if (f == kFactors) {
      return rows;
    }
  }
}

#ifndef FAULTLINE_FULL_CROSS

// ---- The cover ----------------------------------------------------------------------------------

/// Two factors and a level of each, as one number.
std::size_t pair_of(const Row& row, std::size_t a, std::size_t b) {
  constexpr std::size_t kLevels = 8;
  return ((a * kFactors + b) * kLevels + row[a]) * kLevels + row[b];
}

class PairSet {
 public:
  void add(const Row& row) { change(row, true); }
  void remove(const Row& row) { change(row, false); }
  int count_in(const Row& row) const {
    int count = 0;
    for (std::size_t a = 0; a < kFactors; ++a) {
      for (std::size_t b = a + 1; b < kFactors; ++b) {
        count += holds_[pair_of(row, a, b)];
      }
    }
    return count;
  }
  std::int64_t size() const { return std::count(holds_.begin(), holds_.end(), true); }

 private:
  void change(const Row& row, bool value) {
    for (std::size_t a = 0; a < kFactors; ++a) {
      for (std::size_t b = a + 1; b < kFactors; ++b) {
        holds_[pair_of(row, a, b)] = value;
      }
    }
  }
  std::vector<bool> holds_ = std::vector<bool>(kFactors * kFactors * 64, false);
};

/// The greedy cover: always the row that holds most pairs not yet covered, the first such row of
/// the cross in a fixed shuffled order.
std::vector<Row> pairwise_cover(std::vector<Row> rows) {
  PairSet missing;
  for (const Row& row : rows) {
    missing.add(row);
  }
  for (std::size_t i = rows.size(); i > 1; --i) {
    std::swap(rows[i - 1], rows[core::mix64(i) % i]);
  }
  std::vector<Row> cover;
  while (missing.size() > 0) {
    const auto best = std::max_element(rows.begin(), rows.end(), [&](const Row& a, const Row& b) {
      return missing.count_in(a) < missing.count_in(b);
    });
    missing.remove(*best);
    cover.push_back(*best);
  }
  return cover;
}

#endif

// ---- Running a row ------------------------------------------------------------------------------

core::TrialPlan plan_of(const Space& space, const Row& row) {
  const std::string& subject = space.at(row, kSubject);
  const std::string variant = clean_variants(subject)[row[kVariant]];
  // The scale is no factor: any value serves every row.
  static constexpr std::array kScales{"1", "auto", "-0.5"};
  std::uint64_t number = 0;
  for (const std::uint8_t level : row) {
    number = number * 8 + level;
  }
  Values problem{{"dk", space.at(row, kDk)},
                 {"dv", space.at(row, kDv)},
                 {"dtype", space.at(row, kDtype)},
                 {"keys", space.at(row, kKeys)},
                 {"beta", space.at(row, kBeta)},
                 {"states", space.at(row, kStates)},
                 {"scale", kScales[core::mix64(number) % kScales.size()]}};
  if (row[kGate] != 0) {
    problem.emplace_back("gate", space.at(row, kGate));
  }
  if (space.at(row, kLength) == "1") {
    problem.emplace_back("h", "4");  // one step of one head has one beta, which may be 0
  }
  Values config;
  if (!space.decode) {
    const std::int64_t chunk = std::stoll(space.at(row, kChunk));
    problem.emplace_back("t", std::to_string(length_of(space.at(row, kLength), chunk)));
    config = {{"chunk", space.at(row, kChunk)}, {"segments", space.at(row, kSegments)}};
    return resolve(registry(), subject + "@" + variant, problem, config).plan;
  }
  problem.emplace_back("state", space.at(row, kSegments));
  const ResolvedTrial trial = resolve(registry(), subject + "@" + variant, problem, {});
  const std::vector<core::Config> configs = trial.subject->configs(trial.problem, variant);
  return trial.subject->plan(trial.problem, variant, configs.at(row[kChunk]));
}

/// What users of 16-bit kernels take for granted of a whole output, far from the bound of any one
/// element.
const std::map<std::string, double>& largest_relative_l2() {
  static const std::map<std::string, double> largest{{"f16", 2e-3}, {"bf16", 2e-2}};
  return largest;
}

/// An output whose relative L2 is above that.
struct LargeError {
  std::string where;
  double relative_l2 = 0.0;
  double plan_relative_l2 =
      0.0;  ///< of the numeric plan itself: s of the bound 7 s, by Monte Carlo
};

/// What clean rows gave.
struct Summary {
  std::uint64_t rows = 0, elements = 0;
  double worst_ratio = 0.0;
  std::map<std::string, double> relative_l2;  ///< worst by dtype of the problem
  std::map<std::string, std::string> at;      ///< where
  std::vector<LargeError> large;
};

/// The relative L2 that the numeric plan has whoever computes it: its bound's s over the reference.
double plan_relative_l2(const core::TrialPlan& plan, const core::TrialRequest& request,
                        std::size_t output) {
  const std::vector<core::ReferenceTensor> reference = plan.reference(
      stress::make_inputs(plan, request.data, core::trial_seed(request.seed, request.first_trial)));
  double errors = 0.0, values = 0.0;
  for (std::size_t i = 0; i < reference.at(output).bound.size(); ++i) {
    const double s = reference[output].bound[i] / reference::kBoundLambda;
    errors += s * s;
    values += reference[output].expected[i] * reference[output].expected[i];
  }
  return std::sqrt(errors / values);
}

/// Whether a relative error says something: of a norm, not of a few elements that can each be a sum
/// that cancels, and not of what is zero within what the inputs are rounded to.
bool has_relative_error(const core::OutputTotals& output) {
  constexpr std::uint64_t kElements = 32;
  const double rms =
      std::sqrt(output.sum_squared_expected / static_cast<double>(output.compared_elements));
  return output.compared_elements >= kElements && rms >= 1e-4;
}

void run_clean(const Space& space, const Row& row, Summary& summary) {
  const core::TrialPlan plan = plan_of(space, row);
  core::TrialRequest request;
  request.count = 1;
  request.race = core::RaceMode::strict;
  const core::TrialResult result = simulator().run_trials(plan, request);
  const std::string line =
      fmt::format("{} @{} {}", plan.problem.line(), plan.variant, plan.config.line());
  SCOPED_TRACE(line);
  EXPECT_EQ(result.status, core::ExecutionStatus::completed) << result.message;
  EXPECT_EQ(result.trials, 1u);
  EXPECT_EQ(result.failed, 0u);
  EXPECT_EQ(result.raced, 0u);
  const std::vector<std::uint32_t> outputs = plan.output_indices();
  ASSERT_EQ(result.outputs.size(), outputs.size());
  ++summary.rows;
  const std::string dtype = plan.problem.values.text("dtype");
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    const core::OutputTotals& output = result.outputs[o];
    EXPECT_EQ(output.compared_elements,
              static_cast<std::uint64_t>(plan.buffers[outputs[o]].elements()));
    EXPECT_EQ(output.bad_elements, 0u) << output.name << ": " << output.worst_ratio;
    summary.elements += output.compared_elements;
    summary.worst_ratio = std::max(summary.worst_ratio, output.worst_ratio);
    if (!has_relative_error(output)) {
      continue;
    }
    const auto largest = largest_relative_l2().find(dtype);
    if (largest != largest_relative_l2().end() && output.relative_l2() > largest->second) {
      summary.large.push_back(
          {output.name + " of " + line, output.relative_l2(), plan_relative_l2(plan, request, o)});
    }
    double& worst = summary.relative_l2[dtype];
    if (output.relative_l2() > worst) {
      worst = output.relative_l2();
      summary.at[dtype] = output.name + " of " + line;
    }
  }
}

/// An output may be further from the reference than users take for granted only where the plan, the
/// kernel's roundings alone, is: a system that is ill-conditioned for the dtype. One kernel is one
/// draw of what the plan has on average; over the whole cross no draw was above 1.0 of it.
void expect_small_errors(const Summary& summary) {
  constexpr double kOneDraw = 2.0;
  for (const LargeError& large : summary.large) {
    const std::string dtype = large.where.find("dtype=bf16") == std::string::npos ? "f16" : "bf16";
    EXPECT_GT(large.plan_relative_l2, largest_relative_l2().at(dtype)) << large.where;
    EXPECT_LE(large.relative_l2, kOneDraw * large.plan_relative_l2) << large.where;
  }
}

void report(const std::string& name, const Summary& summary) {
  fmt::print("{}: {} rows, {} elements, worst {:.3f} of the bound", name, summary.rows,
             summary.elements, summary.worst_ratio);
  for (const auto& [dtype, worst] : summary.relative_l2) {
    fmt::print("; {} relative L2 {:.3g} ({})", dtype, worst, summary.at.at(dtype));
  }
  fmt::print("\n");
  for (const LargeError& large : summary.large) {
    fmt::print("  relative L2 {:.3g}, of the plan itself {:.3g}: {}\n", large.relative_l2,
               large.plan_relative_l2, large.where);
  }
}

std::vector<std::string> family() {
  std::vector<std::string> names;
  for (const Space& space : {sequences(), decodes()}) {
    names.insert(names.end(), space.levels[kSubject].begin(), space.levels[kSubject].end());
  }
  return names;
}

#ifdef FAULTLINE_FULL_CROSS

/// FAULTLINE_CROSS_PART=I/N
struct Part {
  std::uint64_t index = 0, of = 1;
};

Part part() {
  const char* text = std::getenv("FAULTLINE_CROSS_PART");
  if (text == nullptr) {
    return {};
  }
  const std::string_view given = text;
  Part part;
  const auto [slash, first] = std::from_chars(given.begin(), given.end(), part.index);
  if (first != std::errc{} || slash == given.end() || *slash != '/') {
    throw core::UsageError(fmt::format("FAULTLINE_CROSS_PART is I/N, not '{}'", given));
  }
  const auto [end, second] = std::from_chars(slash + 1, given.end(), part.of);
  if (second != std::errc{} || end != given.end() || part.index >= part.of) {
    throw core::UsageError(fmt::format("FAULTLINE_CROSS_PART is I/N with I < N, not '{}'", given));
  }
  return part;
}

class Cross : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(Cross, IsRightAndFreeOfRaces) {
  const auto& [subject, dtype] = GetParam();
  const Part mine = part();
  Summary summary;
  for (const Space& space : {sequences(), decodes()}) {
    const std::vector<Row> rows = cross(space);
    std::uint64_t number = 0;
    for (const Row& row : rows) {
      if (space.at(row, kSubject) == subject && space.at(row, kDtype) == dtype &&
          core::mix64(number++) % mine.of == mine.index) {
        run_clean(space, row, summary);
      }
    }
  }
  EXPECT_GT(summary.rows, 0u);
  report(subject, summary);
  expect_small_errors(summary);
}

INSTANTIATE_TEST_SUITE_P(Family, Cross,
                         ::testing::Combine(::testing::ValuesIn(family()),
                                            ::testing::Values("f16", "bf16", "f32")),
                         [](const auto& info) {
                           return std::get<0>(info.param) + "_" + std::get<1>(info.param);
                         });

#else

TEST(Pairs, OfTheCrossAreAllInTheCover) {
  for (const Space& space : {sequences(), decodes()}) {
    const std::vector<Row> rows = cross(space), cover = pairwise_cover(rows);
    std::set<std::tuple<std::size_t, std::size_t, int, int>> possible, covered;
    const auto collect = [](const std::vector<Row>& from, auto& pairs) {
      for (const Row& row : from) {
        for (std::size_t a = 0; a < kFactors; ++a) {
          for (std::size_t b = a + 1; b < kFactors; ++b) {
            pairs.emplace(a, b, row[a], row[b]);
          }
        }
      }
    };
    collect(rows, possible);
    collect(cover, covered);
    EXPECT_EQ(possible, covered);
    EXPECT_LT(cover.size(), 100u);
    for (const Row& row : cover) {
      EXPECT_TRUE(exists(space, row));
    }
    for (std::size_t f = 0; f < kFactors; ++f) {  // no level is impossible
      std::set<int> levels;
      for (const Row& row : cover) {
        levels.insert(row[f]);
      }
      EXPECT_EQ(levels.size(), space.levels[f].size()) << f;
    }
    fmt::print("{} rows in the cross, {} pairs, {} rows in the cover\n", rows.size(),
               possible.size(), cover.size());
  }
}

class Cover : public ::testing::TestWithParam<std::string> {};

TEST_P(Cover, IsRightAndFreeOfRaces) {
  Summary summary;
  for (const Space& space : {sequences(), decodes()}) {
    if (std::count(space.levels[kSubject].begin(), space.levels[kSubject].end(), GetParam()) == 0) {
      continue;
    }
    const std::vector<Row> cover = pairwise_cover(cross(space));
    for (const Row& row : cover) {
      if (space.at(row, kSubject) == GetParam()) {
        run_clean(space, row, summary);
      }
    }
  }
  EXPECT_GT(summary.rows, 0u);
  report(GetParam(), summary);
  expect_small_errors(summary);
}

INSTANTIATE_TEST_SUITE_P(Family, Cover, ::testing::ValuesIn(family()),
                         [](const auto& info) { return info.param; });

// ---- Mutants ------------------------------------------------------------------------------------

struct Mutant {
  std::string subject, variant;
  std::size_t number = 0;
};

std::vector<Mutant> mutants() {
  std::vector<Mutant> all;
  for (const std::string& subject : family()) {
    for (const Variant& variant : registry().get(subject).variants) {
      if (variant.is_mutant) {
        all.push_back({subject, variant.name, all.size()});
      }
    }
  }
  return all;
}

std::string text_of(const core::Verdict& verdict) {
  std::string text = verdict.summary;
  for (const core::Finding& finding : verdict.findings) {
    text += "\n" + finding.headline;
  }
  return text;
}

/// The largest effect of the mutant's defect, in bounds.
double visibility_of(const core::Evidence& evidence) {
  double visibility = 0.0;
  for (const core::TermEvidence& term : evidence.terms) {
    if (term.name == evidence.hypothesis) {
      visibility = std::max(visibility, term.visibility);
    }
  }
  return visibility;
}

class Mutants : public ::testing::TestWithParam<Mutant> {};

/// Where the mutant says that it shows, but with all keys and dtypes, and short sequences: one
/// short chunk entered by a state, unless the defect takes several.
TEST_P(Mutants, GetTheirClassWhereTheyShowAndNeverPass) {
  const Subject& subject = registry().get(GetParam().subject);
  const Variant& variant = *subject.find_variant(GetParam().variant);
  const bool accumulates = variant.required_finding == core::FindingClass::accumulation;
  // A fit is plain where an effect stands out of rounding in many elements, not in one.
  constexpr double kPlain = 6.0;
  const std::vector<std::string> regimes = sequences().levels[kKeys];
  std::size_t named = 0, cells = 0;
  const bool all_cells = std::getenv("FAULTLINE_ALL_CELLS") != nullptr;
  std::size_t cell = GetParam().number;
  for (const char* dtype : {"f16", "bf16", "f32"}) {
    std::size_t named_in_dtype = 0;
    for (const std::string& keys : regimes) {
      if (cell++ % 2 != 0 && !all_cells) {
        continue;
      }
      Values values = variant.shows_at;
      const auto set = [&](const std::string& name, const std::string& value) {
        std::erase_if(values, [&](const auto& entry) { return entry.first == name; });
        values.emplace_back(name, value);
      };
      set("dtype", dtype);
      set("keys", keys);
      if (subject.problem_domain.find("t")) {
        set("t", accumulates ? "256" : "64");
      }
      const ResolvedTrial trial =
          resolve(registry(), subject.name + "@" + variant.name, values, {});
      SCOPED_TRACE(trial.problem.line() + " " + trial.config.line());
      stress::VerifyOptions options;
      options.trials = 1;
      options.configs = {trial.config};
      const core::Evidence evidence =
          stress::run_verify(simulator(), subject, variant, {trial.problem}, options);
      const core::Verdict verdict = diagnosis::diagnose(evidence);
      ++cells;
      const double visible = visibility_of(evidence);
      const bool must_show = variant.hypothesis.empty() || visible >= kPlain;
      if (!must_show) {
        EXPECT_NE(verdict.outcome, core::Outcome::pass) << visible << " " << text_of(verdict);
        continue;
      }
      ASSERT_FALSE(verdict.findings.empty()) << verdict.summary;
      EXPECT_EQ(verdict.findings.front().finding, *variant.required_finding)
          << visible << " bounds: " << text_of(verdict);
      if (!variant.hypothesis.empty()) {
        EXPECT_EQ(verdict.outcome, core::Outcome::fail) << text_of(verdict);
      }
      ++named_in_dtype;
    }
    // A state in bf16 is no more than the operands of a bf16 problem are rounded to.
    if (!accumulates || std::string_view(dtype) != "bf16") {
      EXPECT_GT(named_in_dtype, 0u) << dtype;
    }
    named += named_in_dtype;
  }
  fmt::print("{}@{}: shows in {} of {} cells\n", subject.name, variant.name, named, cells);
}

INSTANTIATE_TEST_SUITE_P(Family, Mutants, ::testing::ValuesIn(mutants()), [](const auto& info) {
  return info.param.subject + "_" + info.param.variant;
});

#endif

}  // namespace
}  // namespace faultline::kernels
