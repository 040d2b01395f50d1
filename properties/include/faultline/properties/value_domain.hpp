// SPDX-License-Identifier: Apache-2.0
// What a property draws its values from: a RapidCheck generator together with what is needed to
// check the generator itself.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <rapidcheck.h>

namespace faultline::properties {

/// A set of values. Every domain of this folder passes domain_violations() of domain_contract.hpp.
template <typename T>
struct ValueDomain {
  std::string name;
  /// Draws and shrinks. Equal random states give equal values.
  rc::Gen<T> generator;
  /// "" for a value of the domain, else a sentence that says why it is none.
  std::function<std::string(const T&)> complaint;
  /// The text that a counterexample prints, and the value that it stands for.
  std::function<std::string(const T&)> show;
  std::function<T(const std::string&)> parse;
  /// Size of a value: natural numbers, the same count for all values of the domain. Every shrink is
  /// lexicographically smaller than its parent; that order is well-founded, so shrinking ends.
  std::function<std::vector<std::uint64_t>(const T&)> measure;
  /// The shrinks of a value, the most promising first: what domains built on this one shrink by.
  std::function<std::vector<T>(const T&)> smaller;
};

/// Independent draws, one after the other, for generators of composite values.
class Source {
 public:
  Source(const rc::Random& random, int size) : random_(random), size_(size) {}

  std::uint64_t bits() { return random_.split().next(); }
  /// Uniform on [0, count); count >= 1. The bias of at most count / 2^64 does not matter here.
  std::uint64_t below(std::uint64_t count) { return bits() % count; }
  /// True once in `of` draws on average.
  bool once_in(std::uint64_t of) { return below(of) == 0; }
  template <typename Container>
  const auto& pick(const Container& values) {
    return *(std::begin(values) + static_cast<std::ptrdiff_t>(below(std::size(values))));
  }
  template <typename T>
  T draw(const rc::Gen<T>& generator) {
    return generator(random_.split(), size_).value();
  }

 private:
  rc::Random random_;
  int size_;
};

/// Generator of draw(Source&) -> T whose shrinks are shrink(value) -> vector<T>, recursively. Both
/// must be pure.
template <typename Draw, typename Shrink>
auto make_generator(Draw draw, Shrink shrink) {
  using T = decltype(draw(std::declval<Source&>()));
  return rc::Gen<T>(
      [draw = std::move(draw), shrink = std::move(shrink)](const rc::Random& random, int size) {
        Source source(random, size);
        return rc::shrinkable::shrinkRecur(draw(source), [shrink](const T& value) {
          return rc::seq::fromContainer(shrink(value));
        });
      });
}

}  // namespace faultline::properties
