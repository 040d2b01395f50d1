// SPDX-License-Identifier: Apache-2.0
// Names of outputs, terms, paths and wrong forms, and what each would do to the outputs.
#include <faultline/reference/deltanet.hpp>

#include <faultline/core/errors.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace faultline::reference {

namespace {

constexpr std::array<std::string_view, kDeltaOutputCount> kOutputNames{"o",  "hT",    "dq", "dk",
                                                                       "dv", "dbeta", "dg", "dh0"};

constexpr std::array<std::string_view, kDeltaTermCount> kTermNames{
    "dk_partial", "dk_corr",  "dk_wu",          "dk_A",     "du_partial", "du_corr", "dw_local",
    "dw_cross",   "dh_local", "dh_coefficient", "dbeta_wu", "dbeta_A",    "dG_out",  "dG_state",
    "dG_wu",      "dG_A"};

constexpr std::array<std::string_view, kDeltaWrongFormCount> kWrongFormNames{
    "none",        "w_scaled_outside", "w_scaled_outside_total", "no_reverse_cumsum",
    "gamma_twice", "strict_tril"};

/// The formula that a wrong form gets wrong, for reports.
constexpr std::array<std::string_view, kDeltaWrongFormCount> kWrongFormTerms{
    "",
    "W = X diag(beta e^G) K",
    "W = X diag(beta e^G) K",
    "dg = reverse cumsum of dG",
    "h' = gamma h + K^^T v_new",
    "P = tril(Q K^T Gamma)"};

constexpr DeltaTermSet kAInv{DeltaTerm::dk_A, DeltaTerm::dbeta_A, DeltaTerm::dG_A};
constexpr DeltaTermSet kDhCoefficient{DeltaTerm::dh_coefficient};
constexpr DeltaTermSet kDwCross{DeltaTerm::dw_cross};

constexpr std::array<DeltaPath, 9> kPaths{{
    {"A_inv", kAInv},
    {"dh_coefficient", kDhCoefficient},
    {"dw_cross", kDwCross},
    {"du_corr", {DeltaTerm::du_corr}},
    {"dk_corr", {DeltaTerm::dk_corr}},
    {"A_inv+dh_coefficient", kAInv | kDhCoefficient},
    {"A_inv+dw_cross", kAInv | kDwCross},
    {"dh_coefficient+dw_cross", kDhCoefficient | kDwCross},
    {"A_inv+dh_coefficient+dw_cross", kAInv | kDhCoefficient | kDwCross},
}};

template <typename Enum, std::size_t n>
std::optional<Enum> find_name(const std::array<std::string_view, n>& names, std::string_view name) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<Enum>(found - names.begin());
}

/// minuend - subtrahend; empty when nothing differs. Both are empty where the problem has no such
/// output.
std::vector<double> difference(const std::vector<double>& minuend,
                               const std::vector<double>& subtrahend) {
  if (minuend == subtrahend) return {};
  std::vector<double> result(minuend.size());
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = minuend[i] - subtrahend[i];
  return result;
}

bool is_gradient(DeltaOutput output) {
  return output != DeltaOutput::o && output != DeltaOutput::hT;
}

/// Collects hypotheses until their values are too many.
class Hypotheses {
  using Kind = core::ErrorHypothesis::Kind;

 public:
  Hypotheses(const DeltaInputs& inputs, std::int64_t chunk, std::span<const DeltaOutput> outputs,
             std::int64_t value_limit)
      : inputs_(inputs),
        chunk_(chunk),
        outputs_(outputs.begin(), outputs.end()),
        room_(value_limit),
        backward_(std::any_of(outputs_.begin(), outputs_.end(), is_gradient)),
        right_(run({}, DeltaWrongForm::none)) {}

  bool backward() const { return backward_; }

  void add_term(std::string_view name, DeltaTermSet terms) {
    add({.name = std::string(name), .terms = to_string(terms), .kind = Kind::term, .effect = {}},
        terms, DeltaWrongForm::none);
  }
  void add_wrong_form(DeltaWrongForm form) {
    add({.name = std::string(name_of(form)),
         .terms = std::string(kWrongFormTerms[static_cast<std::size_t>(form)]),
         .kind = Kind::wrong_form,
         .effect = {}},
        {}, form);
  }
  std::vector<core::ErrorHypothesis> take() { return std::move(found_); }

 private:
  DeltaOutputs run(DeltaTermSet dropped, DeltaWrongForm wrong) const {
    const ChunkwiseOptions options{.chunk = chunk_, .dropped = dropped, .wrong = wrong};
    return (backward_ ? chunkwise_backward(inputs_, options) : chunkwise_forward(inputs_, options))
        .outputs;
  }

  /// What leaving out `dropped`, or computing it in the form `wrong`, does. One that is left out
  /// keeps its place, its name and the reason.
  void add(core::ErrorHypothesis hypothesis, DeltaTermSet dropped, DeltaWrongForm wrong) {
    const auto leave_out = [&](std::string reason) {
      hypothesis.left_out = std::move(reason);
      hypothesis.effect.assign(outputs_.size(), {});
      found_.push_back(std::move(hypothesis));
    };
    if (full_) return leave_out("not evaluated: too many values");
    const DeltaOutputs changed = run(dropped, wrong);
    std::int64_t values = 0;
    for (const DeltaOutput output : outputs_) {
      hypothesis.effect.push_back(hypothesis.kind == Kind::term
                                      ? difference(right_[output], changed[output])
                                      : difference(changed[output], right_[output]));
      values += static_cast<std::int64_t>(hypothesis.effect.back().size());
    }
    if (values > 0) {
      const auto same = std::find_if(found_.begin(), found_.end(), [&](const auto& other) {
        return other.kind == hypothesis.kind && other.effect == hypothesis.effect;
      });
      if (same != found_.end()) return leave_out("moves what " + same->name + " moves");
      full_ = values > room_;
      if (full_) return leave_out("not evaluated: too many values");
    }
    room_ -= values;
    found_.push_back(std::move(hypothesis));
  }

  const DeltaInputs& inputs_;
  std::int64_t chunk_;
  std::vector<DeltaOutput> outputs_;
  std::int64_t room_;
  bool backward_;
  bool full_ = false;
  DeltaOutputs right_;
  std::vector<core::ErrorHypothesis> found_;
};

}  // namespace

std::string_view name_of(DeltaOutput output) {
  return kOutputNames[static_cast<std::size_t>(output)];
}
std::optional<DeltaOutput> parse_delta_output(std::string_view name) {
  return find_name<DeltaOutput>(kOutputNames, name);
}

const std::vector<double>& DeltaOutputs::operator[](DeltaOutput output) const {
  switch (output) {
  case DeltaOutput::o: return o;
  case DeltaOutput::hT: return hT;
  case DeltaOutput::dq: return dq;
  case DeltaOutput::dk: return dk;
  case DeltaOutput::dv: return dv;
  case DeltaOutput::dbeta: return dbeta;
  case DeltaOutput::dg: return dg;
  case DeltaOutput::dh0: break;
  }
  return dh0;
}
std::vector<double>& DeltaOutputs::operator[](DeltaOutput output) {
  return const_cast<std::vector<double>&>(std::as_const(*this)[output]);
}

std::string_view name_of(DeltaTerm term) { return kTermNames[static_cast<std::size_t>(term)]; }
std::optional<DeltaTerm> parse_delta_term(std::string_view name) {
  return find_name<DeltaTerm>(kTermNames, name);
}

std::string_view name_of(DeltaWrongForm form) {
  return kWrongFormNames[static_cast<std::size_t>(form)];
}
std::optional<DeltaWrongForm> parse_delta_wrong_form(std::string_view name) {
  return find_name<DeltaWrongForm>(kWrongFormNames, name);
}

std::string to_string(DeltaTermSet terms) {
  std::string text;
  for (std::size_t i = 0; i < kDeltaTermCount; ++i) {
    const DeltaTerm term = static_cast<DeltaTerm>(i);
    if (!terms.contains(term)) continue;
    if (!text.empty()) text += ", ";
    text += name_of(term);
  }
  return text;
}

std::span<const DeltaPath> delta_paths() { return kPaths; }

DeltaTermSet parse_delta_terms(std::string_view text) {
  DeltaTermSet terms;
  std::string_view rest = text;
  while (true) {
    const std::size_t end = std::min(rest.find_first_of("+,"), rest.size());
    const std::string_view name = rest.substr(0, end);
    const auto path = std::find_if(kPaths.begin(), kPaths.end(),
                                   [&](const DeltaPath& p) { return p.name == name; });
    if (const std::optional<DeltaTerm> term = parse_delta_term(name)) {
      terms = terms | DeltaTermSet{*term};
    } else if (path != kPaths.end()) {
      terms = terms | path->terms;
    } else {
      throw core::UsageError(
          fmt::format("'{}' in '{}' names no term of the DeltaNet adjoint: use A_inv or {}", name,
                      text, fmt::join(kTermNames, ", ")));
    }
    if (end == rest.size()) return terms;
    rest.remove_prefix(end + 1);
  }
}

std::vector<core::ErrorHypothesis> delta_hypotheses(const DeltaInputs& inputs, std::int64_t chunk,
                                                    std::span<const DeltaOutput> outputs,
                                                    std::int64_t value_limit) {
  Hypotheses hypotheses(inputs, chunk, outputs, value_limit);
  if (hypotheses.backward()) {
    for (const DeltaPath& path : kPaths) hypotheses.add_term(path.name, path.terms);
  }
  for (std::size_t i = 1; i < kDeltaWrongFormCount; ++i) {
    hypotheses.add_wrong_form(static_cast<DeltaWrongForm>(i));
  }
  if (hypotheses.backward()) {
    for (std::size_t i = 0; i < kDeltaTermCount; ++i) {
      const DeltaTermSet alone{static_cast<DeltaTerm>(i)};
      const bool is_path = std::any_of(kPaths.begin(), kPaths.end(),
                                       [&](const DeltaPath& path) { return path.terms == alone; });
      if (!is_path) hypotheses.add_term(kTermNames[i], alone);
    }
  }
  return hypotheses.take();
}

}  // namespace faultline::reference
