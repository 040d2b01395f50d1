// SPDX-License-Identifier: Apache-2.0
// `faultline list`: subjects, variants, domains.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "commands.hpp"
#include "faultline/core/verdict.hpp"
#include "layout.hpp"

namespace faultline::app {
namespace {

/// Prints lines of at most so many columns.
class Lines {
 public:
  explicit Lines(const Options& options) : width_(columns(options)) {}
  template <class... T>
  void operator()(fmt::format_string<T...> format, T&&... values) const {
    fmt::print("{}\n", wrapped(fmt::format(format, std::forward<T>(values)...), width_));
  }

 private:
  int width_;
};

/// Columns for the names of what is listed.
template <class Named>
std::size_t name_width(const Named& listed) {
  std::size_t width = 0;
  for (const auto& one : listed) width = std::max(width, one.name.size());
  return width;
}

/// "register (default), shared_x"
std::string names_of(const kernels::Subject& subject, bool mutants) {
  std::string names;
  for (const auto& variant : subject.variants) {
    if (variant.is_mutant != mutants) continue;
    names += (names.empty() ? "" : ", ") + variant.name;
    if (!mutants && &variant == &subject.variants.front()) names += " (default)";
  }
  return names;
}

void print_all(const kernels::SubjectRegistry& registry, const Lines& line) {
  std::size_t width = 0;
  for (const auto& subject : registry.all()) width = std::max(width, subject->name.size());
  for (const auto& subject : registry.all()) {
    line("{:<{}}  {}", subject->name, width, subject->description);
    for (const bool mutants : {false, true}) {
      const std::string names = names_of(*subject, mutants);
      if (!names.empty()) line("{:<{}}    {}: {}", "", width, mutants ? "mutants" : "clean", names);
    }
  }
  line("\n`faultline list SUBJECT` prints the domains of its problems and configs.");
}

void print_domain(const Lines& line, const std::string& title, const core::Domain& domain) {
  line("  {}", title);
  if (domain.parameters.empty()) line("    (none)");
  const std::size_t width = name_width(domain.parameters);
  for (const auto& parameter : domain.parameters) {
    line("    {:<{}}  {} (default {})", parameter.name, width, parameter.domain_text(),
         parameter.default_value);
    if (!parameter.description.empty()) line("    {:<{}}    {}", "", width, parameter.description);
  }
}

void print_variants(const Lines& line, const kernels::Subject& subject, std::string_view only) {
  line("  variants");
  const std::size_t width = name_width(subject.variants);
  for (const auto& variant : subject.variants) {
    if (!only.empty() && variant.name != only) continue;
    if (!variant.is_mutant) {
      line("    {:<{}}  {}{}", variant.name, width, variant.description,
           &variant == &subject.variants.front() ? " (default)" : "");
      for (const auto& [name, value] : variant.weak_at) {
        line("    {:<{}}    declared weak at {}={}: {}", "", width, name, value, variant.weakness);
      }
      continue;
    }
    line("    {:<{}}  mutant of {}; must get {}", variant.name, width, variant.clean_twin,
         variant.required_finding ? core::name_of(*variant.required_finding) : "no finding");
    line("    {:<{}}    {}", "", width, variant.description);
    if (!variant.shows_at.empty()) {
      line("    {:<{}}    shows at {}", "", width, core::Assignment(variant.shows_at).line());
    }
  }
}

}  // namespace

int list_command(const Context& context) {
  const auto& words = context.options.words;
  const Lines line(context.options);
  if (words.empty()) {
    if (context.registry.all().empty()) {
      line("No subjects: this build had no nvcc when it was configured (`faultline doctor` says "
           "how to get one).");
    }
    print_all(context.registry, line);
    return 0;
  }
  for (const auto& word : words) {
    const size_t at = word.find('@');
    const kernels::Subject& subject = context.registry.get(word.substr(0, at));
    // One variant: it, and the domain of its configs. Refused where there is none of the name.
    const std::string only =
        at == word.npos ? "" : kernels::resolve(context.registry, word, {}, {}).variant->name;
    line("{}: {}", subject.name, subject.description);
    print_variants(line, subject, only);
    print_domain(line, "problem", subject.problem_domain);
    for (const auto& variant : subject.variants) {
      if (only.empty() ? variant.is_mutant : variant.name != only) continue;
      print_domain(line, "config of " + variant.name, subject.config_domain(variant.name));
    }
    if (subject.numeric_plan) {
      line("  numeric plan (default problem): where the kernel rounds");
      const core::Problem problem{
          subject.name, core::complete(subject.problem_domain, {}, "problem of " + subject.name)};
      const auto points = subject.numeric_plan(problem);
      const std::size_t width = name_width(points);
      for (const auto& point : points) {
        line("    {:<{}}  stored {}, accumulated {}{}{}", point.name, width,
             core::name_of(point.stored), core::name_of(point.accumulate),
             point.reduction.empty() ? "" : ", reduction over ", point.reduction);
      }
    }
  }
  return 0;
}

}  // namespace faultline::app
