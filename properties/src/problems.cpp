// SPDX-License-Identifier: Apache-2.0
#include "faultline/properties/problems.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ostream>

#include <fmt/format.h>

#include "faultline/core/errors.hpp"
#include "faultline/properties/integers.hpp"

namespace faultline::properties {
namespace {

using core::ParameterSpec;
using Kind = core::ParameterSpec::Kind;

/// Reals are drawn as multiples of 1/64: their text is exact and their size a natural number.
constexpr double kRealGrid = 64.0;

/// However small its default, a length goes beyond a vector of 8.
constexpr std::int64_t kShort = 9;

std::string context_of(const kernels::Subject& subject) { return "problem of " + subject.name; }

/// The values that a parameter takes here, smallest first, where they are listed.
std::vector<std::string> listed_values(const ParameterSpec& spec, const ProblemLimits& limits) {
  std::vector<std::string> values;
  if (spec.kind == Kind::integer) {
    std::vector<std::int64_t> sorted = spec.allowed;
    std::sort(sorted.begin(), sorted.end());
    for (const std::int64_t value : sorted) values.push_back(std::to_string(value));
    return values;
  }
  if (spec.kind != Kind::dtype || (limits.dtypes.empty() && !spec.choices.empty())) {
    return spec.choices;
  }
  std::vector<core::Dtype> dtypes = limits.dtypes;
  if (dtypes.empty()) {
    dtypes = {core::Dtype::f16, core::Dtype::bf16, core::Dtype::f32, core::Dtype::f64};
  }
  for (const core::Dtype dtype : dtypes) values.emplace_back(core::name_of(dtype));
  return values;
}

IntegerRange range_of(const ParameterSpec& spec, const ProblemLimits& limits) {
  IntegerRange range{spec.minimum, spec.maximum, spec.multiple_of, {}};
  const auto limit = std::find_if(limits.parameters.begin(), limits.parameters.end(),
                                  [&](const ParameterLimit& l) { return l.name == spec.name; });
  if (limit != limits.parameters.end()) {
    range.maximum = std::min(range.maximum, limit->maximum);
    range.tiles = limit->tiles;
    return range;
  }
  if (!spec.default_value.empty()) {
    const std::int64_t usual =
        std::max(kShort, std::int64_t{std::strtoll(spec.default_value.c_str(), nullptr, 10)});
    range.maximum = std::max(range.minimum, std::min(range.maximum, usual));
  }
  for (std::int64_t tile = 2; tile <= range.maximum; tile *= 2) range.tiles.push_back(tile);
  return range;
}

bool is_free_integer(const ParameterSpec& spec) {
  return spec.kind == Kind::integer && spec.allowed.empty();
}

std::uint64_t position_of(const std::vector<std::string>& values, const std::string& value) {
  return static_cast<std::uint64_t>(std::find(values.begin(), values.end(), value) -
                                    values.begin());
}

/// Canonical text of a real.
std::string real_text(double value) { return fmt::format("{}", value); }

bool in_range(const ParameterSpec& spec, double value) {
  return value >= spec.real_minimum && value <= spec.real_maximum;
}

std::string draw_real(Source& source, const ParameterSpec& spec) {
  if (!spec.choices.empty() && source.once_in(2)) return source.pick(spec.choices);
  double value = 1.0;
  if (source.once_in(2)) {
    value = std::ldexp(1.0, static_cast<int>(source.below(10)) - 6);  // 1/64 to 8
  } else {
    value = static_cast<double>(1 + source.below(256)) / kRealGrid;
  }
  if (source.once_in(2)) value = -value;
  value = std::clamp(value, spec.real_minimum, spec.real_maximum);
  return real_text(value);
}

std::uint64_t real_measure(const ParameterSpec& spec, const std::string& text) {
  const std::uint64_t named = position_of(spec.choices, text);
  if (named < spec.choices.size()) return named;
  const double value = std::strtod(text.c_str(), nullptr);
  if (value == 1.0) return spec.choices.size();
  const double grid = std::ceil(2.0 * kRealGrid * std::fabs(value));
  return spec.choices.size() + 1 + static_cast<std::uint64_t>(grid) + (value < 0.0 ? 1 : 0);
}

std::vector<std::string> smaller_reals(const ParameterSpec& spec, const std::string& text) {
  std::vector<std::string> smaller = spec.choices;
  const double value = std::strtod(text.c_str(), nullptr);
  for (const double candidate : {1.0, std::fabs(value), std::trunc(value)}) {
    // 0 would make whatever the factor multiplies untestable.
    if (candidate != 0.0 && in_range(spec, candidate)) smaller.push_back(real_text(candidate));
  }
  std::erase_if(smaller, [&](const std::string& candidate) {
    return real_measure(spec, candidate) >= real_measure(spec, text);
  });
  return smaller;
}

class ProblemSpace {
 public:
  ProblemSpace(const kernels::Subject& subject, ProblemLimits limits)
      : subject_(&subject), limits_(std::move(limits)) {}

  core::Problem draw(Source& source) const {
    core::Assignment values;
    for (const ParameterSpec& spec : parameters()) values.set(spec.name, draw_value(source, spec));
    core::Problem problem{subject_->name, std::move(values)};
    make_affordable(source, problem);
    return problem;
  }

  /// First of everything that is listed, the minimum of everything else.
  core::Problem smallest() const {
    core::Assignment values;
    for (const ParameterSpec& spec : parameters()) {
      if (is_free_integer(spec)) {
        values.set(spec.name, range_of(spec, limits_).minimum);
      } else if (spec.kind == Kind::real) {
        values.set(spec.name, spec.choices.empty()
                                  ? real_text(std::clamp(1.0, spec.real_minimum, spec.real_maximum))
                                  : spec.choices.front());
      } else {
        values.set(spec.name, listed_values(spec, limits_).front());
      }
    }
    return {subject_->name, std::move(values)};
  }

  std::vector<core::Problem> shrink(const core::Problem& problem) const {
    std::vector<core::Problem> smaller;
    for (const ParameterSpec& spec : parameters()) {
      for (std::string& value : smaller_texts(spec, problem.values.text(spec.name))) {
        core::Problem candidate = problem;
        candidate.values.set(spec.name, std::move(value));
        if (complaint(candidate).empty()) smaller.push_back(std::move(candidate));
      }
    }
    return smaller;
  }

  std::string complaint(const core::Problem& problem) const {
    if (problem.subject != subject_->name) return "it is a problem of " + problem.subject;
    try {
      const core::Assignment complete =
          core::complete(subject_->problem_domain, problem.values.values(), context_of(*subject_));
      if (!(complete == problem.values)) return "it is not in canonical form";
    } catch (const core::UsageError& error) {
      return error.what();
    }
    for (const ParameterSpec& spec : parameters()) {
      const std::string& text = problem.values.text(spec.name);
      if (is_free_integer(spec)) {
        const IntegerRange range = range_of(spec, limits_);
        if (problem.values.integer(spec.name) > range.maximum) {
          return fmt::format("{}={} is above the limit {}", spec.name, text, range.maximum);
        }
      } else if (spec.kind == Kind::dtype) {
        const std::vector<std::string> listed = listed_values(spec, limits_);
        if (position_of(listed, text) == listed.size()) {
          return fmt::format("{}={} is not among the dtypes drawn", spec.name, text);
        }
      }
    }
    const double bytes = subject_->traffic_bytes(problem);
    if (!(bytes <= limits_.traffic_bytes)) {
      return fmt::format("it moves {} bytes, more than {}", bytes, limits_.traffic_bytes);
    }
    return {};
  }

  core::Problem parse(const std::string& text) const {
    const std::size_t blank = std::min(text.find(' '), text.size());
    if (text.substr(0, blank) != subject_->name) {
      throw core::UsageError(fmt::format("'{}' is not a problem of {}", text, subject_->name));
    }
    return {subject_->name,
            core::complete(subject_->problem_domain,
                           core::parse_assignments(std::string_view(text).substr(blank)),
                           context_of(*subject_))};
  }

  std::vector<std::uint64_t> measure(const core::Problem& problem) const {
    std::vector<std::uint64_t> sizes;
    for (const ParameterSpec& spec : parameters()) {
      const std::string& text = problem.values.text(spec.name);
      sizes.push_back(is_free_integer(spec)
                          ? static_cast<std::uint64_t>(problem.values.integer(spec.name))
                      : spec.kind == Kind::real ? real_measure(spec, text)
                                                : position_of(listed_values(spec, limits_), text));
    }
    return sizes;
  }

 private:
  const std::vector<ParameterSpec>& parameters() const {
    return subject_->problem_domain.parameters;
  }

  std::string draw_value(Source& source, const ParameterSpec& spec) const {
    if (is_free_integer(spec)) {
      return std::to_string(source.draw(tile_edges(range_of(spec, limits_)).generator));
    }
    if (spec.kind == Kind::real) return draw_real(source, spec);
    return source.pick(listed_values(spec, limits_));
  }

  std::vector<std::string> smaller_texts(const ParameterSpec& spec, const std::string& text) const {
    if (spec.kind == Kind::real) return smaller_reals(spec, text);
    std::vector<std::string> smaller;
    if (is_free_integer(spec)) {
      const std::int64_t value = std::strtoll(text.c_str(), nullptr, 10);
      for (const std::int64_t candidate : smaller_values(range_of(spec, limits_), value)) {
        smaller.push_back(std::to_string(candidate));
      }
      return smaller;
    }
    smaller = listed_values(spec, limits_);
    smaller.resize(std::min<std::size_t>(smaller.size(), position_of(smaller, text)));
    return smaller;
  }

  bool affordable(const core::Problem& problem) const {
    return subject_->traffic_bytes(problem) <= limits_.traffic_bytes;
  }

  void make_affordable(Source& source, core::Problem& problem) const {
    std::vector<const ParameterSpec*> order;
    for (const ParameterSpec& spec : parameters()) {
      if (is_free_integer(spec)) {
        const auto at = static_cast<std::ptrdiff_t>(source.below(order.size() + 1));
        order.insert(order.begin() + at, &spec);
      }
    }
    // The first parameter of the order gives way first, so that the others keep their edges.
    for (const ParameterSpec* spec : order) {
      const IntegerRange range = range_of(*spec, limits_);
      while (!affordable(problem)) {
        const std::int64_t value = problem.values.integer(spec->name);
        const std::int64_t half = value / 2 / range.multiple_of * range.multiple_of;
        if (half < range.minimum) break;
        problem.values.set(spec->name, half);
      }
    }
    // Then listed values, which have fewer steps to give.
    for (const ParameterSpec& spec : parameters()) {
      if (is_free_integer(spec) || (spec.kind != Kind::integer && spec.kind != Kind::dtype)) {
        continue;
      }
      const std::vector<std::string> listed = listed_values(spec, limits_);
      for (std::uint64_t at = position_of(listed, problem.values.text(spec.name));
           at > 0 && !affordable(problem); --at) {
        problem.values.set(spec.name, listed[at - 1]);
      }
    }
  }

  const kernels::Subject* subject_;
  ProblemLimits limits_;
};

}  // namespace

bool is_sequence(const kernels::Subject& subject) { return subject.problem_domain.find("t"); }

ProblemLimits simulator_limits(const kernels::Subject& subject) {
  ProblemLimits limits;
  if (subject.name == "gemv") {
    // Rows of a block: 1, 2, 4, 8, 32. Columns: 16-byte chunks, a warp's pass over them, the
    // mutant's 256, tiles of 512, 1024 and 2048.
    limits.parameters = {{"n", 80, {2, 4, 8, 32}}, {"k", 6200, {8, 256, 512, 1024, 2048}}};
    return limits;
  }
  if (subject.name == "gemm") {
    // Tiles of C: 64, 128, 256 columns. Of k: chunks of 4 and 8, tensor-core steps, tiles of 16, 32
    // and 64. A sweep has the widest tile from 65 rows and 129 columns on.
    limits.parameters = {
        {"m", 130, {64, 128}}, {"n", 257, {8, 64, 128, 256}}, {"k", 80, {8, 16, 32, 64}}};
    limits.traffic_bytes = 48.0 * 1024.0;
    return limits;
  }
  if (subject.name == "gla_decode") {
    limits.parameters = {{"b", 3, {2}}, {"h", 3, {2}}, {"dk", 256, {16, 32}}};
    limits.traffic_bytes = 128.0 * 1024.0;
    return limits;
  }
  const core::Domain& domain = subject.problem_domain;
  for (const char* heads : {"b", "h"}) {
    if (domain.find(heads)) limits.parameters.push_back({heads, 3, {2}});
  }
  // Chunks of 32 and 64 rows, three of the short ones.
  constexpr std::int64_t kChunk = 32;
  if (is_sequence(subject)) limits.parameters.push_back({"t", 70, {kChunk, 2 * kChunk}});
  // The widest states are drawn too, with a sequence that crosses the edge of a chunk.
  std::vector<core::Assignment::Value> widest;
  for (const ParameterSpec& spec : domain.parameters) {
    if (is_free_integer(spec)) {
      const bool steps = spec.name == "t";
      widest.emplace_back(spec.name, std::to_string(steps ? kChunk + 1 : spec.minimum));
    } else if (spec.kind == Kind::integer) {
      widest.emplace_back(spec.name, listed_values(spec, limits).back());
    }
  }
  const core::Problem problem{subject.name, core::complete(domain, widest, context_of(subject))};
  limits.traffic_bytes = std::max(limits.traffic_bytes, subject.traffic_bytes(problem));
  return limits;
}

ProblemLimits with_values(ProblemLimits limits, const kernels::Subject& subject,
                          const std::vector<core::Assignment::Value>& values) {
  std::vector<core::Assignment::Value> of_problem;
  for (const auto& [name, value] : values) {
    const ParameterSpec* spec = subject.problem_domain.find(name);
    if (!spec) continue;
    of_problem.emplace_back(name, value);
    if (!is_free_integer(*spec)) continue;
    auto limit =
        std::find_if(limits.parameters.begin(), limits.parameters.end(),
                     [&, &wanted = name](const ParameterLimit& l) { return l.name == wanted; });
    if (limit == limits.parameters.end()) {
      const IntegerRange range = range_of(*spec, limits);
      limit = limits.parameters.insert(limit, {name, range.maximum, range.tiles});
    }
    const std::int64_t shown = std::strtoll(value.c_str(), nullptr, 10);
    limit->maximum = std::max(limit->maximum, shown);
    if (shown > 1) limit->tiles.push_back(shown);
  }
  const core::Problem problem{
      subject.name, core::complete(subject.problem_domain, of_problem, context_of(subject))};
  limits.traffic_bytes = std::max(limits.traffic_bytes, subject.traffic_bytes(problem));
  return limits;
}

ValueDomain<core::Problem> problems(const kernels::Subject& subject, ProblemLimits limits) {
  const ProblemSpace space(subject, std::move(limits));
  if (const std::string why = space.complaint(space.smallest()); !why.empty()) {
    throw core::UsageError(
        fmt::format("these limits leave no problem of {}: of the smallest, {}", subject.name, why));
  }
  const auto shrink = [space](const core::Problem& problem) { return space.shrink(problem); };
  return {
      .name = "problems of " + subject.name,
      .generator = make_generator([space](Source& source) { return space.draw(source); }, shrink),
      .complaint = [space](const core::Problem& problem) { return space.complaint(problem); },
      .show = [](const core::Problem& problem) { return problem.line(); },
      .parse = [space](const std::string& text) { return space.parse(text); },
      .measure = [space](const core::Problem& problem) { return space.measure(problem); },
      .smaller = shrink,
  };
}

}  // namespace faultline::properties

void faultline::core::showValue(const Problem& problem, std::ostream& out) {
  out << problem.line();
}
