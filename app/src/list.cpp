// SPDX-License-Identifier: Apache-2.0
// `faultline list`: subjects, variants, domains.
#include <fmt/format.h>

#include "commands.hpp"
#include "faultline/core/verdict.hpp"

namespace faultline::app {
namespace {

void print_domain(const char* title, const core::Domain& domain) {
  fmt::print("  {}\n", title);
  if (domain.parameters.empty()) fmt::print("    (none)\n");
  for (const auto& parameter : domain.parameters) {
    fmt::print("    {:<16} {} (default {})\n", parameter.name, parameter.domain_text(),
               parameter.default_value);
    if (!parameter.description.empty()) fmt::print("    {:<16}   {}\n", "", parameter.description);
  }
}

void print_variants(const kernels::Subject& subject) {
  fmt::print("  variants\n");
  for (const auto& variant : subject.variants) {
    if (!variant.is_mutant) {
      fmt::print("    {:<18} {}\n", variant.name, variant.description);
      for (const auto& [name, value] : variant.weak_at) {
        fmt::print("    {:<18}   declared weak at {}={}: {}\n", "", name, value, variant.weakness);
      }
      continue;
    }
    fmt::print("    {:<18} mutant of {}; must get {}\n", variant.name, variant.clean_twin,
               variant.required_finding ? core::name_of(*variant.required_finding) : "no finding");
    fmt::print("    {:<18}   {}\n", "", variant.description);
    if (!variant.shows_at.empty()) {
      fmt::print("    {:<18}   shows at {}\n", "", core::Assignment(variant.shows_at).line());
    }
  }
}

}  // namespace

int list_command(const Context& context) {
  const auto& words = context.options.words;
  if (words.empty()) {
    if (context.registry.all().empty()) {
      fmt::print("No subjects: this build had no nvcc when it was configured "
                 "(`faultline doctor` says how to get one).\n");
    }
    for (const auto& subject : context.registry.all()) {
      fmt::print("{:<14} {}\n", subject->name, subject->description);
      std::string clean, mutants;
      for (const auto& variant : subject->variants) {
        std::string& list = variant.is_mutant ? mutants : clean;
        list += (list.empty() ? "" : ", ") + variant.name;
      }
      fmt::print("{:<14}   clean: {}\n{:<14}   mutants: {}\n", "", clean, "", mutants);
    }
    fmt::print("\n`faultline list SUBJECT` prints the domains of its problems and configs.\n");
    return 0;
  }
  for (const auto& word : words) {
    const kernels::Subject& subject = context.registry.get(word);
    fmt::print("{}: {}\n", subject.name, subject.description);
    print_variants(subject);
    print_domain("problem", subject.problem_domain);
    for (const auto& variant : subject.variants) {
      if (variant.is_mutant) continue;
      const std::string title = fmt::format("config of {}", variant.name);
      print_domain(title.c_str(), subject.config_domain(variant.name));
    }
    if (subject.numeric_plan) {
      fmt::print("  numeric plan (default problem): where the kernel rounds\n");
      const core::Problem problem{
          subject.name, core::complete(subject.problem_domain, {}, "problem of " + subject.name)};
      for (const auto& point : subject.numeric_plan(problem)) {
        fmt::print("    {:<34} stored {}, accumulated {}{}{}\n", point.name,
                   core::name_of(point.stored), core::name_of(point.accumulate),
                   point.reduction.empty() ? "" : ", reduction over ", point.reduction);
      }
    }
  }
  return 0;
}

}  // namespace faultline::app
