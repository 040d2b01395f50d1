// SPDX-License-Identifier: Apache-2.0
// The contract that every ValueDomain keeps, checked from outside: a property over a domain whose
// values are invalid, whose shrinks leave the domain or whose text does not parse says nothing.
#pragma once

#include <algorithm>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "faultline/core/generator.hpp"
#include "faultline/properties/value_domain.hpp"

namespace faultline::properties {

struct ContractOptions {
  std::uint64_t seed = 1;
  int values = 60;        ///< values drawn, at sizes from 0 to 100
  int shrinks = 24;       ///< shrinks looked at of one value
  int longest_walk = 50;  ///< steps of one walk down the tree of shrinks
};

namespace detail {

/// What is wrong with one value, "" when nothing is.
template <typename T>
std::string value_violation(const ValueDomain<T>& domain, const T& value) {
  if (const std::string why = domain.complaint(value); !why.empty()) {
    return fmt::format("'{}' is not in the domain: {}", domain.show(value), why);
  }
  const std::string text = domain.show(value);
  try {
    const T back = domain.parse(text);
    if (domain.show(back) != text) {
      return fmt::format("'{}' parses back as '{}'", text, domain.show(back));
    }
    if (domain.measure(back) != domain.measure(value)) {
      return fmt::format("'{}' parses back as another value", text);
    }
  } catch (const std::exception& error) {
    return fmt::format("'{}' does not parse: {}", text, error.what());
  }
  return {};
}

/// Walks from `start` to a shrink of it, a shrink of that, ...: the child is `choose` of how many
/// there are. The first violation on the way, "" when there is none.
template <typename T, typename Choose>
std::string walk_violation(const ValueDomain<T>& domain, rc::Shrinkable<T> at,
                           const ContractOptions& options, Choose choose) {
  for (int step = 0; step < options.longest_walk; ++step) {
    const T parent = at.value();
    std::vector<rc::Shrinkable<T>> children;
    for (rc::Seq<rc::Shrinkable<T>> rest = at.shrinks();;) {
      rc::Maybe<rc::Shrinkable<T>> child = rest.next();
      if (!child || static_cast<int>(children.size()) == options.shrinks) break;
      const T value = child->value();
      if (std::string why = value_violation(domain, value); !why.empty()) {
        return fmt::format("shrink of '{}': {}", domain.show(parent), why);
      }
      if (!(domain.measure(value) < domain.measure(parent))) {
        return fmt::format("'{}' shrinks to '{}', which is not smaller", domain.show(parent),
                           domain.show(value));
      }
      children.push_back(std::move(*child));
    }
    if (children.empty()) return {};
    at = children[choose(children.size(), step)];
  }
  return {};  // long, but each step was to something smaller: it ends
}

}  // namespace detail

/// Violations found, as sentences; empty: the domain keeps its contract.
///   values lie in the domain, and equal random states give equal values
///   the text of a value parses back to the value
///   every shrink lies in the domain and is smaller by the domain's measure, so shrinking ends
template <typename T>
std::vector<std::string> domain_violations(const ValueDomain<T>& domain,
                                           const ContractOptions& options = {}) {
  std::vector<std::string> violations;
  const auto note = [&](std::string sentence) {
    if (!sentence.empty()) violations.push_back(domain.name + ": " + std::move(sentence));
  };
  std::optional<std::size_t> components;
  for (int i = 0; i < options.values && violations.size() < 8; ++i) {
    const rc::Random random(core::trial_seed(options.seed, static_cast<std::uint64_t>(i)));
    const int size = options.values > 1 ? i * rc::kNominalSize / (options.values - 1) : 0;
    try {
      const rc::Shrinkable<T> shrinkable = domain.generator(random, size);
      const T value = shrinkable.value();
      note(detail::value_violation(domain, value));
      if (domain.show(domain.generator(random, size).value()) != domain.show(value)) {
        note(fmt::format("the same random state gave '{}' and another value", domain.show(value)));
      }
      const std::size_t count = domain.measure(value).size();
      if (components.value_or(count) != count) {
        note(fmt::format("measures have {} and {} components", *components, count));
      }
      components = count;
      note(detail::walk_violation(domain, shrinkable, options,
                                  [](std::size_t, int) { return std::size_t{0}; }));
      note(detail::walk_violation(domain, shrinkable, options,
                                  [](std::size_t children, int) { return children - 1; }));
      note(detail::walk_violation(domain, shrinkable, options, [&](std::size_t children, int step) {
        const auto number = static_cast<std::uint64_t>(i) << 32 | static_cast<unsigned>(step);
        return static_cast<std::size_t>(core::mix64(number) % children);
      }));
    } catch (const std::exception& error) {
      note(fmt::format("drawing value {} threw: {}", i, error.what()));
    }
  }
  return violations;
}

}  // namespace faultline::properties
