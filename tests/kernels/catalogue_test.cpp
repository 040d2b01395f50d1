// SPDX-License-Identifier: Apache-2.0
// The catalogue on the simulator: a clean variant passes verify, stress and race without a finding;
// a mutant gets the finding that it must get, as the first one, from at least one of them.
#include "catalogue/subjects.hpp"

#include <faultline/core/token.hpp>
#include <faultline/diagnosis/diagnose.hpp>
#include <faultline/kernels/subject.hpp>
#include <faultline/simulator/simulator_backend.hpp>
#include <faultline/stress/campaign.hpp>
#include <faultline/stress/race.hpp>
#include <faultline/stress/verify.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

namespace faultline::kernels {
namespace {

constexpr std::uint64_t kStressTrials = 24;  // two of each arm

const SubjectRegistry& registry() {
  static const SubjectRegistry subjects = [] {
    SubjectRegistry all;
    for (Subject& subject : catalogue::all_subjects()) all.add(std::move(subject));
    return all;
  }();
  return subjects;
}

struct Name {
  std::string subject, variant;
};

void PrintTo(const Name& name, std::ostream* out) { *out << name.subject << "@" << name.variant; }

std::vector<Name> variants(bool mutants) {
  std::vector<Name> names;
  for (const auto& subject : registry().all()) {
    for (const Variant& variant : subject->variants) {
      if (variant.is_mutant == mutants) names.push_back({subject->name, variant.name});
    }
  }
  return names;
}

std::string test_name(const testing::TestParamInfo<Name>& info) {
  return info.param.subject + "_" + info.param.variant;
}

std::string all_text(const core::Verdict& verdict) {
  std::string text = verdict.summary + "\n";
  for (const core::Finding& finding : verdict.findings) {
    text += fmt::format("[{} {} {:.2f}] {}\n", core::name_of(finding.finding),
                        core::name_of(finding.severity), finding.confidence, finding.headline);
    for (const std::string& sentence : finding.evidence) text += "  - " + sentence + "\n";
  }
  return text;
}

class Catalogue : public testing::TestWithParam<Name> {
 protected:
  Catalogue() : backend_(simulator::make_simulator_backend()) {}

  const Subject& subject() const { return registry().get(GetParam().subject); }
  const Variant& variant() const { return *subject().find_variant(GetParam().variant); }

  /// The default problem and config, or where a mutant says that it shows.
  ResolvedTrial trial() const {
    std::vector<core::Assignment::Value> problem, config;
    for (const core::Assignment::Value& value : variant().shows_at) {
      (subject().problem_domain.find(value.first) ? problem : config).push_back(value);
    }
    return resolve(registry(), subject().name + "@" + variant().name, problem, config);
  }

  core::Backend& backend() { return *backend_; }

  core::Verdict verify() const {
    return diagnosis::diagnose(
        stress::run_verify(*backend_, subject(), variant(), subject().verify_problems(true)));
  }
  core::Verdict stress() const {
    const ResolvedTrial here = trial();
    return diagnosis::diagnose(stress::run_campaign(
        *backend_, here,
        stress::default_plan(backend_->info(), here.plan, {.trials = kStressTrials, .arms = {}})));
  }
  core::Verdict race() const {
    return diagnosis::diagnose(stress::run_race(*backend_, trial(), {.run = {}}));
  }

  /// A mode and what it found.
  using Mode = std::pair<const char*, core::Verdict (Catalogue::*)() const>;
  static constexpr std::array<Mode, 3> kModes{
      {{"race", &Catalogue::race}, {"verify", &Catalogue::verify}, {"stress", &Catalogue::stress}}};

 private:
  std::unique_ptr<core::Backend> backend_;
};

class CatalogueClean : public Catalogue {};
class CatalogueMutant : public Catalogue {};

TEST_P(CatalogueClean, PassesWithoutAFinding) {
  for (const auto& [name, run] : kModes) {
    const core::Verdict verdict = (this->*run)();
    EXPECT_EQ(verdict.outcome, core::Outcome::pass) << name << ": " << all_text(verdict);
    for (const core::Finding& finding : verdict.findings) {
      EXPECT_EQ(finding.severity, core::Severity::note) << name << ": " << all_text(verdict);
    }
  }
}

/// Bounds hold for any data, not for those alone that the subject declares.
TEST_P(CatalogueClean, IsRightOnAllKindsOfData) {
  const ResolvedTrial here = trial();
  for (const core::DataMode data :
       {core::DataMode::exact, core::DataMode::address, core::DataMode::epoch,
        core::DataMode::digits, core::DataMode::illconditioned, core::DataMode::special}) {
    if (!core::why_not(data, here.plan.buffers).empty()) continue;
    core::TrialRequest request;
    request.count = 2;
    request.data = data;
    request.race = core::RaceMode::off;
    request.perturbation.fresh_inputs = true;
    const core::TrialResult result = backend().run_trials(here.plan, request);
    EXPECT_EQ(result.trials, 2u) << core::name_of(data) << ": " << result.message;
    EXPECT_EQ(result.failed, 0u) << core::name_of(data);
  }
}

/// The required finding is first, and the run ends as a run with such a finding has to: a warning
/// of wasted time leaves it a pass, anything else is a failure.
bool named_right(const core::Verdict& verdict, core::FindingClass required) {
  if (verdict.findings.empty() || verdict.findings.front().finding != required) return false;
  const bool wasteful = core::name_of(required).starts_with("slow.");
  return verdict.outcome == (wasteful ? core::Outcome::pass : core::Outcome::fail) &&
         verdict.findings.front().severity ==
             (wasteful ? core::Severity::warning : core::Severity::error);
}

TEST_P(CatalogueMutant, GetsItsFindingFirst) {
  ASSERT_TRUE(variant().required_finding.has_value());
  std::string others;
  for (const auto& [name, run] : kModes) {
    const core::Verdict verdict = (this->*run)();
    if (named_right(verdict, *variant().required_finding)) {
      SUCCEED();
      return;
    }
    others += fmt::format("{}: {}", name, all_text(verdict));
  }
  FAIL() << "no mode finds " << core::name_of(*variant().required_finding) << "\n" << others;
}

INSTANTIATE_TEST_SUITE_P(Subjects, CatalogueClean, testing::ValuesIn(variants(false)), test_name);
INSTANTIATE_TEST_SUITE_P(Subjects, CatalogueMutant, testing::ValuesIn(variants(true)), test_name);

}  // namespace
}  // namespace faultline::kernels
