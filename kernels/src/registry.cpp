// SPDX-License-Identifier: Apache-2.0
#include <faultline/kernels/subject.hpp>

#include <faultline/core/errors.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace faultline::kernels {

namespace {

/// What is missing for the subject to be usable, or "".
std::string missing_part(const Subject& subject) {
  const std::pair<bool, const char*> parts[] = {
      {!subject.name.empty(), "a name"},
      {!subject.variants.empty(), "a variant"},
      {static_cast<bool>(subject.config_domain), "config_domain"},
      {static_cast<bool>(subject.configs), "configs"},
      {static_cast<bool>(subject.verify_problems), "verify_problems"},
      {static_cast<bool>(subject.numeric_plan), "numeric_plan"},
      {static_cast<bool>(subject.plan), "plan"},
      {static_cast<bool>(subject.lengths), "lengths"},
      {static_cast<bool>(subject.traffic_bytes), "traffic_bytes"},
  };
  for (const auto& [present, what] : parts) {
    if (!present) {
      return what;
    }
  }
  for (const Variant& variant : subject.variants) {
    if (!variant.clean_twin.empty() && !subject.find_variant(variant.clean_twin)) {
      return fmt::format("the variant '{}' that '{}' names as its clean twin", variant.clean_twin,
                         variant.name);
    }
    if (!variant.weak_at.empty() && variant.weakness.empty()) {
      return fmt::format("the reason why variant '{}' is weak", variant.name);
    }
    if (!variant.known_warnings.empty() && variant.known_reason.empty()) {
      return fmt::format("the reason why the warnings of variant '{}' are left alone",
                         variant.name);
    }
    if (variant.is_mutant && (variant.clean_twin.empty() || !variant.required_finding)) {
      return fmt::format("the clean twin or the required finding of mutant '{}'", variant.name);
    }
  }
  return "";
}

/// "; did you mean 'x'?" or ".", to end a sentence about an unknown name.
std::string suggestion(std::string_view name, const std::vector<std::string_view>& known) {
  const std::string nearest = core::nearest_name(name, known);
  return nearest.empty() ? "." : fmt::format("; did you mean '{}'?", nearest);
}

}  // namespace

std::string Variant::declared_weakness(const core::Assignment& problem,
                                       const core::Assignment& config) const {
  for (const auto& [name, value] : weak_at) {
    const core::Assignment* in = problem.has(name)  ? &problem
                                 : config.has(name) ? &config
                                                    : nullptr;
    if (in != nullptr && in->text(name) == value) {
      return fmt::format("declared weak at {}={}: {}", name, value, weakness);
    }
  }
  return "";
}

const Variant* Subject::find_variant(std::string_view variant_name) const {
  const auto found = std::find_if(variants.begin(), variants.end(), [&](const Variant& variant) {
    return variant.name == variant_name;
  });
  return found == variants.end() ? nullptr : &*found;
}

void SubjectRegistry::add(Subject subject) {
  if (const std::string missing = missing_part(subject); !missing.empty()) {
    throw core::UsageError(
        fmt::format("subject '{}' cannot be registered: it lacks {}", subject.name, missing));
  }
  for (const auto& [name, value] : subject.contiguous) {
    if (!subject.problem_domain.find(name)) {
      throw core::UsageError(fmt::format("subject '{}' cannot be registered: Subject::contiguous "
                                         "names '{}', which is no parameter "
                                         "of its problem",
                                         subject.name, name));
    }
  }
  for (const std::unique_ptr<Subject>& other : subjects_) {
    if (other->name == subject.name) {
      throw core::UsageError(fmt::format(
          "subject '{}' cannot be registered: there is one of that name already", subject.name));
    }
  }
  subjects_.push_back(std::make_unique<Subject>(std::move(subject)));
}

const Subject& SubjectRegistry::get(std::string_view name) const {
  std::vector<std::string_view> known;
  for (const std::unique_ptr<Subject>& subject : subjects_) {
    if (subject->name == name) {
      return *subject;
    }
    known.push_back(subject->name);
  }
  if (known.empty()) {
    throw core::UsageError(
        fmt::format("unknown subject '{}': this build has none (it was made without nvcc)", name));
  }
  throw core::UsageError(fmt::format("unknown subject '{}'{} Known: {}", name,
                                     suggestion(name, known), fmt::join(known, ", ")));
}

void check_plan(const core::TrialPlan& plan) {
  if (plan.device_oracle && !plan.reference) {
    throw core::UsageError(fmt::format(
        "the plan of {}@{} has a device oracle and no host reference: nothing would check the "
        "oracle. Give TrialPlan::reference too",
        plan.subject, plan.variant));
  }
}

ResolvedTrial resolve(const SubjectRegistry& registry, std::string_view subject_and_variant,
                      const std::vector<core::Assignment::Value>& problem_values,
                      const std::vector<core::Assignment::Value>& config_values) {
  const std::size_t at = subject_and_variant.find('@');
  const std::string_view subject_name = subject_and_variant.substr(0, at);
  ResolvedTrial trial;
  trial.subject = &registry.get(subject_name);
  const Subject& subject = *trial.subject;

  if (at == std::string_view::npos) {
    trial.variant = &subject.variants.front();
  } else {
    const std::string_view variant_name = subject_and_variant.substr(at + 1);
    trial.variant = subject.find_variant(variant_name);
    if (!trial.variant) {
      std::vector<std::string_view> known;
      for (const Variant& variant : subject.variants) {
        known.push_back(variant.name);
      }
      throw core::UsageError(fmt::format("unknown variant '{}' of {}{} Known: {}", variant_name,
                                         subject.name, suggestion(variant_name, known),
                                         fmt::join(known, ", ")));
    }
  }
  const std::string& variant = trial.variant->name;

  trial.problem = {.subject = subject.name,
                   .values = core::complete(subject.problem_domain, problem_values,
                                            "problem of " + subject.name)};
  // Validates what was given; where values were left open, the sweep's first config that agrees
  // with the given ones is preferred to the domain's defaults, which need not go together.
  trial.config =
      core::complete(subject.config_domain(variant), config_values, "config of " + subject.name);
  const auto agrees = [&](const core::Config& config) {
    return std::all_of(config_values.begin(), config_values.end(), [&](const auto& given) {
      return config.text(given.first) == trial.config.text(given.first);
    });
  };
  const std::vector<core::Config> configs = subject.configs(trial.problem, variant);
  const auto preferred = std::find_if(configs.begin(), configs.end(), agrees);
  if (preferred != configs.end()) {
    trial.config = *preferred;
  }
  trial.plan = subject.plan(trial.problem, variant, trial.config);
  check_plan(trial.plan);
  return trial;
}

}  // namespace faultline::kernels
