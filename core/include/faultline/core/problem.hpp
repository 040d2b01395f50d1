// SPDX-License-Identifier: Apache-2.0
// Problems and configs: named values in a declared domain, printed and parsed as one line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "faultline/core/dtype.hpp"

namespace faultline::core {

/// Domain of one named integer, enumeration, dtype or real parameter.
struct ParameterSpec {
  enum class Kind { integer, choice, dtype, real };
  std::string name{};
  Kind kind = Kind::integer;
  std::string description{};            ///< one line, for `faultline list`
  std::int64_t minimum = 1;             ///< integer
  std::int64_t maximum = 1;             ///< integer
  std::int64_t multiple_of = 1;         ///< integer
  std::vector<std::int64_t> allowed{};  ///< integer: non-empty = exactly these values
  std::vector<std::string>
      choices{};  ///< choice: names; dtype: canonical dtype names; real: words allowed
  double real_minimum = 0.0, real_maximum = 0.0;
  std::string default_value{};  ///< as it would be written on the command line

  /// "integer in [16, 256], a multiple of 16" and the like, for messages and listings.
  std::string domain_text() const;
};

/// Ordered list of parameters. Order is the print order.
struct Domain {
  std::vector<ParameterSpec> parameters{};
  const ParameterSpec* find(std::string_view name) const;
};

/// Values for every parameter of a domain, in its order. Integers and choices are kept as canonical
/// text; reals as shortest round-trip text.
class Assignment {
 public:
  using Value = std::pair<std::string, std::string>;

  Assignment() = default;
  explicit Assignment(std::vector<Value> values) : values_(std::move(values)) {}

  bool has(std::string_view name) const;
  /// Canonical text. Throws UsageError when absent.
  const std::string& text(std::string_view name) const;
  std::int64_t integer(std::string_view name) const;
  double real(std::string_view name) const;
  Dtype dtype(std::string_view name = "dtype") const;
  /// Replace or append, unvalidated: pass through `complete` afterwards when it came from outside.
  void set(std::string_view name, std::string value);
  void set(std::string_view name, std::int64_t value);
  const std::vector<Value>& values() const { return values_; }
  /// "b=2 h=4 dk=64": all values in order, separated by blanks.
  std::string line() const;
  friend bool operator==(const Assignment&, const Assignment&) = default;

 private:
  std::vector<Value> values_;
};

/// Fill defaults, canonicalise and validate `given` ("k=v" pairs) against `domain`. Errors
/// (UsageError) name the parameter, the value, the domain and, for unknown names, the nearest known
/// one. `context` is e.g. "problem of gla_decode" or "config of gemv".
Assignment complete(const Domain& domain, const std::vector<Assignment::Value>& given,
                    std::string_view context);

/// Known name nearest to `name` when near enough to be a slip of the keyboard, else "": for "did
/// you mean".
std::string nearest_name(std::string_view name, const std::vector<std::string_view>& known);

/// Split "a=1 b=2" or "a=1,b=2" into pairs; UsageError on anything else.
std::vector<Assignment::Value> parse_assignments(std::string_view text);

/// A kernel's named dimensions, dtype and options, with the subject's name in front when printed.
struct Problem {
  std::string subject{};
  Assignment values{};
  /// `gla_decode b=2 h=4 dk=64 dv=64 dtype=bf16`
  std::string line() const;
  friend bool operator==(const Problem&, const Problem&) = default;
};

/// Launch tunables (tile sizes, stages, threads).
using Config = Assignment;

}  // namespace faultline::core
