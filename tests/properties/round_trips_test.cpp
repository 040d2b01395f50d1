// SPDX-License-Identifier: Apache-2.0
// What is printed parses back to what was printed: problem lines, perturbations, tokens, records.
#include <cmath>
#include <string>

#include "faultline/core/errors.hpp"
#include "faultline/core/run_record.hpp"
#include "faultline/properties/floats.hpp"
#include "faultline/properties/perturbations.hpp"
#include "faultline/properties/records.hpp"
#include "property_test.hpp"

namespace faultline::properties {
namespace {

/// True when decoding the text is refused by a UsageError; anything else thrown is a defect.
template <typename Decode>
bool refused(Decode decode) {
  try {
    decode();
  } catch (const core::UsageError&) {
    return true;
  }
  return false;
}

TEST(RoundTrip, ElementsKeepTheirBits) {
  const auto domain = elements();
  check_property(2000, [&] {
    const ElementBits e = *domain.generator;
    const std::uint64_t back = core::encode(e.dtype, e.value());
    if (core::is_nan(e.value())) {
      RC_ASSERT(core::is_nan(core::decode(e.dtype, back)));
    } else {
      RC_ASSERT(back == e.bits);
    }
  });
}

TEST(RoundTrip, RoundingIsNearestAndIdempotent) {
  const auto targets = elements({core::Dtype::f16, core::Dtype::bf16, core::Dtype::f32});
  const auto doubles = elements({core::Dtype::f64}, FloatKind::finite);
  check_property(2000, [&] {
    const core::Dtype dtype = (*targets.generator).dtype;
    const double x = (*doubles.generator).value();
    const double r = core::round_to(dtype, x);
    RC_ASSERT(core::round_to(dtype, r) == r);
    if (core::is_finite(r)) RC_ASSERT(std::fabs(r - x) <= 0.5 * core::ulp_at(dtype, r));
  });
}

TEST(RoundTrip, Perturbations) {
  const auto domain = perturbations();
  check_property(500, [&] {
    const core::Perturbation p = *domain.generator;
    RC_ASSERT(core::parse_perturbation(core::to_text(p)) == p);
  });
}

TEST(RoundTrip, Tokens) {
  const auto domain = trial_tokens();
  check_property(500, [&] {
    const core::TrialToken token = *domain.generator;
    RC_ASSERT(core::decode_token(core::encode(token)) == token);
  });
}

TEST(RoundTrip, ATokenWithOneCharacterChangedOrCutOffIsRefused) {
  const auto domain = trial_tokens();
  check_property(500, [&] {
    const core::TrialToken token = *domain.generator;
    const std::string text = core::encode(token);
    const auto at = *rc::gen::inRange<std::size_t>(0, text.size());
    std::string changed = text;
    changed[at] = *rc::gen::elementOf(std::string("AZaz09-_.! "));
    RC_PRE(changed != text);
    // The last character of a token may hold bits that are not read: such a change is no change.
    const bool same =
        !refused([&] { core::decode_token(changed); }) && core::decode_token(changed) == token;
    const bool refuses = refused([&] { core::decode_token(changed); });
    RC_ASSERT((same && at + 1 == text.size()) || refuses);
    RC_ASSERT(refused([&] { core::decode_token(text.substr(0, at)); }));
  });
}

TEST(RoundTrip, Records) {
  const auto domain = run_records();
  check_property(60, [&] {
    const core::RunRecord record = *domain.generator;
    const std::string json = core::to_json(record);
    const core::RunRecord back = core::record_from_json(json);
    RC_ASSERT(core::to_json(back) == json);
    RC_ASSERT(core::to_json(back, false) == core::to_json(record, false));
    RC_ASSERT(back.verdict == record.verdict);
    RC_ASSERT(back.evidence.races == record.evidence.races);
    RC_ASSERT(back.evidence.accesses == record.evidence.accesses);
  });
}

TEST(RoundTrip, ProvenanceIsNotInTheReproduciblePart) {
  const auto domain = run_records();
  check_property(60, [&] {
    const core::RunRecord record = *domain.generator;
    core::RunRecord elsewhere = record;
    elsewhere.provenance = {};
    elsewhere.provenance.host += "another host";
    for (core::ArmEvidence& arm : elsewhere.evidence.arms) arm.result.elapsed_ns += 1;
    for (core::ConfigEvidence& config : elsewhere.evidence.configs) {
      config.result.elapsed_ns += 1;
    }
    RC_ASSERT(core::to_json(elsewhere, false) == core::to_json(record, false));
  });
}

TEST(RoundTrip, ATruncatedRecordIsRefused) {
  const auto domain = run_records();
  check_property(30, [&] {
    const std::string json = core::to_json(*domain.generator);
    const std::size_t last = json.find_last_of('}');
    const auto length = *rc::gen::inRange<std::size_t>(0, last);
    RC_ASSERT(refused([&] { core::record_from_json(json.substr(0, length)); }));
  });
}

}  // namespace
}  // namespace faultline::properties
