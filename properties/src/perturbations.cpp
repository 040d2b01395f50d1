// SPDX-License-Identifier: Apache-2.0
#include "faultline/properties/perturbations.hpp"

#include <algorithm>
#include <limits>
#include <ostream>
#include <type_traits>

#include "texts.hpp"

namespace faultline::properties {
namespace {

using core::Perturbation;
using detail::draw_number;
using detail::draw_text;

/// Calls visit(member, largest value, default) for each field. Enumerations by their last value.
template <class P, class Visit>
void visit_fields(P& p, Visit&& visit) {
  constexpr std::uint64_t kWide = std::numeric_limits<std::uint64_t>::max();
  constexpr std::uint64_t kNarrow = std::numeric_limits<std::uint32_t>::max();
  visit(p.sync_each, 1);
  visit(p.wait, static_cast<std::uint64_t>(core::HostWait::sleep));
  visit(p.wait_ns, kWide);
  visit(p.reload_module, 1);
  visit(p.pool_bytes, kWide);
  visit(p.flush_l2, 1);
  visit(p.co_resident, static_cast<std::uint64_t>(core::CoResident::compute_stress));
  visit(p.graph_trials, kNarrow);
  visit(p.batch, kNarrow);
  visit(p.fresh_inputs, 1);
  visit(p.blocker_ns, kWide);
  visit(p.free_sms, kNarrow);
  visit(p.dirty_shared, 1);
  visit(p.policy, static_cast<std::uint64_t>(core::SchedulePolicy::skew));
  visit(p.lateness, static_cast<std::uint64_t>(core::CopyLateness::random));
  visit(p.offset_bytes, kNarrow);
  visit(p.one_stream, 1);
  visit(p.calls, kNarrow);
  visit(p.eager, 1);
  visit(p.delay_sites, kNarrow);
  visit(p.delay_site, kNarrow);
  visit(p.delay_ns, kNarrow);
  visit(p.delay_seed, kWide);
}

/// Values of the one real field are multiples of this, so that they have a size.
constexpr double kShare = 0.125;

/// Values of the field from its default upwards, then from 0: smaller is simpler.
std::uint64_t distance(std::uint64_t value, std::uint64_t usual) {
  if (value == usual) return 0;
  return value < usual ? value + 1 : value;
}

std::vector<std::uint64_t> measure_of(const Perturbation& p) {
  const Perturbation usual;
  std::vector<std::uint64_t> sizes{p.name == usual.name ? 0 : 1 + p.name.size()};
  std::vector<std::uint64_t> defaults;
  visit_fields(usual, [&](const auto& field, std::uint64_t) {
    defaults.push_back(static_cast<std::uint64_t>(field));
  });
  std::size_t i = 0;
  visit_fields(p, [&](const auto& field, std::uint64_t) {
    sizes.push_back(distance(static_cast<std::uint64_t>(field), defaults[i++]));
  });
  sizes.push_back(static_cast<std::uint64_t>(p.ctas_per_sm / kShare));
  return sizes;
}

std::vector<Perturbation> smaller_perturbations(const Perturbation& p) {
  const Perturbation usual;
  std::vector<Perturbation> smaller;
  const std::vector<std::uint64_t> size = measure_of(p);
  const auto add = [&](Perturbation candidate) {
    if (measure_of(candidate) < size) smaller.push_back(std::move(candidate));
  };
  add(usual);
  Perturbation candidate = p;
  candidate.name = usual.name;
  add(candidate);
  for (const std::string& name : detail::shorter_texts(p.name)) {
    candidate.name = name;
    add(candidate);
  }
  // Field by field: its default, then smaller values. Fields are told apart by their place.
  std::vector<std::uint64_t> defaults;
  visit_fields(usual, [&](const auto& field, std::uint64_t) {
    defaults.push_back(static_cast<std::uint64_t>(field));
  });
  for (std::size_t place = 0; place < defaults.size(); ++place) {
    std::uint64_t value = 0;
    std::size_t i = 0;
    visit_fields(p, [&](const auto& field, std::uint64_t) {
      if (i++ == place) value = static_cast<std::uint64_t>(field);
    });
    std::vector<std::uint64_t> values = detail::smaller_numbers(value);
    values.insert(values.begin(), defaults[place]);
    for (const std::uint64_t v : values) {
      Perturbation changed = p;
      i = 0;
      visit_fields(changed, [&](auto& field, std::uint64_t) {
        if (i++ == place) field = static_cast<std::remove_reference_t<decltype(field)>>(v);
      });
      if (changed.calls == 0) continue;  // none is no trial
      add(std::move(changed));
    }
  }
  for (const double share : {0.0, p.ctas_per_sm - kShare}) {
    if (share < 0.0) continue;
    Perturbation changed = p;
    changed.ctas_per_sm = share;
    add(std::move(changed));
  }
  return smaller;
}

Perturbation draw_perturbation(Source& source) {
  Perturbation p;
  if (source.once_in(2)) p.name = draw_text(source);
  visit_fields(p, [&](auto& field, std::uint64_t largest) {
    if (source.once_in(2)) return;
    const std::uint64_t value = largest == std::numeric_limits<std::uint64_t>::max()
                                    ? draw_number(source)
                                    : draw_number(source) % (largest + 1);
    field = static_cast<std::remove_reference_t<decltype(field)>>(value);
  });
  p.calls = std::max(p.calls, 1u);
  if (source.once_in(3)) p.ctas_per_sm = static_cast<double>(source.below(256)) * kShare;
  return p;
}

ValueDomain<Perturbation> domain_of(std::string name, rc::Gen<Perturbation> generator,
                                    std::function<std::string(const Perturbation&)> complaint) {
  return {
      .name = std::move(name),
      .generator = std::move(generator),
      .complaint = std::move(complaint),
      .show = [](const Perturbation& p) { return core::to_text(p); },
      .parse = [](const std::string& text) { return core::parse_perturbation(text); },
      .measure = measure_of,
      .smaller = smaller_perturbations,
  };
}

std::string share_complaint(const Perturbation& p) {
  const double shares = p.ctas_per_sm / kShare;
  const bool whole = shares >= 0.0 && shares == static_cast<double>(static_cast<int>(shares));
  return whole ? "" : "ctas_per_sm is no multiple of 1/8";
}

core::TrialToken draw_token(Source& source) {
  core::TrialToken token;
  for (std::string* text : {&token.backend, &token.subject, &token.variant, &token.problem,
                            &token.config, &token.module_hash}) {
    *text = draw_text(source, 40);
  }
  token.seed = draw_number(source);
  token.trial = draw_number(source);
  token.data = static_cast<core::DataMode>(source.below(3));
  token.race = static_cast<core::RaceMode>(source.below(3));
  token.perturbation = draw_perturbation(source);
  return token;
}

std::vector<std::uint64_t> token_measure(const core::TrialToken& token) {
  std::vector<std::uint64_t> sizes = measure_of(token.perturbation);
  for (const std::string* text : {&token.backend, &token.subject, &token.variant, &token.problem,
                                  &token.config, &token.module_hash}) {
    sizes.push_back(text->size());
  }
  sizes.push_back(token.seed);
  sizes.push_back(token.trial);
  sizes.push_back(static_cast<std::uint64_t>(token.data));
  sizes.push_back(static_cast<std::uint64_t>(token.race));
  return sizes;
}

std::vector<core::TrialToken> smaller_tokens(const core::TrialToken& token) {
  std::vector<core::TrialToken> smaller;
  const auto add = [&](auto&& change) {
    core::TrialToken candidate = token;
    change(candidate);
    if (token_measure(candidate) < token_measure(token)) smaller.push_back(std::move(candidate));
  };
  for (const Perturbation& p : smaller_perturbations(token.perturbation)) {
    add([&](auto& t) { t.perturbation = p; });
  }
  for (std::string core::TrialToken::*text :
       {&core::TrialToken::backend, &core::TrialToken::subject, &core::TrialToken::variant,
        &core::TrialToken::problem, &core::TrialToken::config, &core::TrialToken::module_hash}) {
    for (const std::string& shorter : detail::shorter_texts(token.*text)) {
      add([&](auto& t) { t.*text = shorter; });
    }
  }
  for (std::uint64_t core::TrialToken::*number :
       {&core::TrialToken::seed, &core::TrialToken::trial}) {
    for (const std::uint64_t value : detail::smaller_numbers(token.*number)) {
      add([&](auto& t) { t.*number = value; });
    }
  }
  add([](auto& t) { t.data = core::DataMode::normal; });
  add([](auto& t) { t.race = core::RaceMode::off; });
  return smaller;
}

}  // namespace

ValueDomain<Perturbation> perturbations() {
  return domain_of("perturbations", make_generator(draw_perturbation, smaller_perturbations),
                   share_complaint);
}

ValueDomain<Perturbation> simulator_perturbations() {
  const auto draw = [](Source& source) {
    Perturbation p;
    p.policy = static_cast<core::SchedulePolicy>(source.below(4));
    p.lateness = static_cast<core::CopyLateness>(source.below(3));
    p.fresh_inputs = source.once_in(2);
    return p;
  };
  const auto complaint = [](const Perturbation& p) -> std::string {
    Perturbation rest = p;
    const Perturbation usual;
    rest.policy = usual.policy;
    rest.lateness = usual.lateness;
    rest.fresh_inputs = usual.fresh_inputs;
    return rest == usual ? "" : "it has fields that the simulator does not know";
  };
  return domain_of("perturbations of the simulator", make_generator(draw, smaller_perturbations),
                   complaint);
}

ValueDomain<core::TrialToken> trial_tokens() {
  return {
      .name = "trial tokens",
      .generator = make_generator(draw_token, smaller_tokens),
      .complaint =
          [](const core::TrialToken& token) { return share_complaint(token.perturbation); },
      .show = [](const core::TrialToken& token) { return core::encode(token); },
      .parse = [](const std::string& text) { return core::decode_token(text); },
      .measure = token_measure,
      .smaller = smaller_tokens,
  };
}

}  // namespace faultline::properties

void faultline::core::showValue(const Perturbation& perturbation, std::ostream& out) {
  out << to_text(perturbation);
}

void faultline::core::showValue(const TrialToken& token, std::ostream& out) {
  out << encode(token);
}
