// SPDX-License-Identifier: Apache-2.0
// Text forms that a user copies: perturbations and tokens.
#include "faultline/core/token.hpp"

#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "faultline/core/errors.hpp"

namespace faultline::core {
namespace {

using ::testing::HasSubstr;

Perturbation random_perturbation(std::mt19937_64& engine) {
  const auto coin = [&] { return engine() % 2 == 0; };
  Perturbation p;
  if (coin()) p.name = coin() ? "host sleep, 1 ms = slow 100%" : std::string("\0\n\xff,", 4);
  p.sync_each = coin();
  p.wait = static_cast<HostWait>(engine() % 3);
  p.wait_ns = coin() ? engine() : 0;
  p.reload_module = coin();
  p.pool_bytes = coin() ? engine() : 0;
  p.flush_l2 = coin();
  p.co_resident = static_cast<CoResident>(engine() % 3);
  p.graph_trials = static_cast<std::uint32_t>(coin() ? engine() : 0);
  p.batch = static_cast<std::uint32_t>(engine());
  p.ctas_per_sm = coin() ? static_cast<double>(engine() >> 11) * 0x1p-50 : 0.0;
  p.fresh_inputs = coin();
  p.blocker_ns = coin() ? engine() : 0;
  p.free_sms = static_cast<std::uint32_t>(coin() ? engine() : 0);
  p.policy = static_cast<SchedulePolicy>(engine() % 4);
  p.lateness = static_cast<CopyLateness>(engine() % 3);
  return p;
}

TrialToken random_token(std::mt19937_64& engine) {
  TrialToken token;
  token.backend = engine() % 2 ? "cuda" : "simulator";
  token.subject = "gla_decode";
  token.variant = engine() % 2 ? "shared_buffer" : "";
  token.problem = "b=1 h=1 dk=64 dv=64 dtype=bf16 scale=0.125";
  token.config = engine() % 2 ? "stages=2" : std::string(300, 'c');
  token.seed = engine() % 2 ? engine() : 1;
  token.trial = engine() % 2 ? engine() : engine() % 2000;
  token.data = static_cast<DataMode>(engine() % 3);
  token.perturbation = random_perturbation(engine);
  token.race = static_cast<RaceMode>(engine() % 3);
  token.module_hash = "0123456789abcdef";
  return token;
}

TEST(Perturbation, TextHoldsWhatDiffersFromTheDefault) {
  EXPECT_EQ(to_text({}), "none");
  EXPECT_EQ(parse_perturbation("none"), Perturbation{});
  EXPECT_EQ(parse_perturbation(""), Perturbation{});
  Perturbation p;
  p.wait = HostWait::sleep;
  p.wait_ns = 1000000;
  p.flush_l2 = true;
  EXPECT_EQ(to_text(p), "wait=sleep,wait_ns=1000000,flush_l2=1");
  p.name = "sleep_1ms";
  EXPECT_EQ(to_text(p), "name=sleep_1ms,wait=sleep,wait_ns=1000000,flush_l2=1");
  EXPECT_EQ(parse_perturbation("policy=random,lateness=lazy").lateness, CopyLateness::lazy);
  p = {};
  p.ctas_per_sm = 0.1 + 0.2;
  EXPECT_EQ(to_text(p), "ctas_per_sm=0.30000000000000004");
}

TEST(Perturbation, TextRoundTrips) {
  std::mt19937_64 engine(1);
  for (int i = 0; i < 5000; ++i) {
    const Perturbation p = random_perturbation(engine);
    const std::string text = to_text(p);
    ASSERT_EQ(parse_perturbation(text), p) << text;
    ASSERT_EQ(text.find_first_of(" \n\t"), std::string::npos) << text;
  }
}

TEST(Perturbation, BadTextIsRefused) {
  for (const char* bad :
       {"wait", "wait=", "wait=nap", "wait_ns=-1", "wait_ns=1.5", "flush_l2=yes", "polcy=random",
        "batch=4294967296", "ctas_per_sm=nan", "ctas_per_sm=inf", "ctas_per_sm=-1", "=1", ",",
        "wait=spin,", "wait=spin,wait=sleep", "name=%4", "none,wait=spin"}) {
    EXPECT_THROW(parse_perturbation(bad), UsageError) << bad;
  }
  try {
    parse_perturbation("polcy=random");
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("did you mean 'policy'?"));
  }
}

TEST(Token, RoundTrips) {
  std::mt19937_64 engine(2);
  std::set<std::string> texts;
  for (int i = 0; i < 3000; ++i) {
    const TrialToken token = random_token(engine);
    const std::string text = encode(token);
    ASSERT_EQ(decode_token(text), token) << text;
    ASSERT_EQ(text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                     "0123456789-_."),
              std::string::npos);
    texts.insert(text);
  }
  EXPECT_GT(texts.size(), 2990u);
  EXPECT_EQ(decode_token(encode(TrialToken{})), TrialToken{});
}

TEST(Token, IsStable) {
  TrialToken token;
  token.backend = "simulator";
  token.subject = "gemv";
  token.trial = 7;
  EXPECT_EQ(encode(token), "fl1.AQlzaW11bGF0b3ICBGdlbXYHATeaZQE-") << "old tokens must stay valid";
}

TEST(Token, GarbageIsRefusedWithAReason) {
  const auto message = [](std::string_view text) -> std::string {
    try {
      decode_token(text);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "no error";
  };
  const std::string good = encode(TrialToken{.subject = "gemv", .trial = 3});
  EXPECT_THAT(message(""), HasSubstr("does not begin with 'fl1.'"));
  EXPECT_THAT(message("fl2." + good.substr(4)), HasSubstr("version 'fl2' is not known"));
  EXPECT_THAT(message("fl1."), HasSubstr("cut off"));
  EXPECT_THAT(message(good.substr(0, good.size() - 4)), HasSubstr("cut off"));
  EXPECT_THAT(message(good + "!"), HasSubstr("token"));
  EXPECT_THAT(message(good + " "), HasSubstr("character"));
  EXPECT_THAT(message("fl1." + std::string(1 << 20, 'A')), HasSubstr("characters long"));
}

TEST(Token, MutationsAreRefusedOrEqual) {
  std::mt19937_64 engine(3);
  const auto refused_or_equal = [](const std::string& text, const TrialToken& token) {
    try {
      ASSERT_EQ(decode_token(text), token) << text;
    } catch (const UsageError&) {
    }
  };
  const std::string alphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.=+/ \n";
  for (int i = 0; i < 300; ++i) {
    const TrialToken token = random_token(engine);
    const std::string text = encode(token);
    for (std::size_t length = 0; length < text.size(); length += 1 + engine() % 7) {
      ASSERT_THROW(decode_token(text.substr(0, length)), UsageError);
    }
    for (int j = 0; j < 50; ++j) {
      std::string mutated = text;
      for (std::uint64_t k = 0, n = 1 + engine() % 3; k < n; ++k) {
        const std::size_t place = engine() % mutated.size();
        switch (engine() % 4) {
        case 0: mutated[place] = alphabet[engine() % alphabet.size()]; break;
        case 1: mutated.erase(place, 1 + engine() % 4); break;
        case 2: mutated.insert(place, 1, alphabet[engine() % alphabet.size()]); break;
        default: mutated[place] = static_cast<char>(engine()); break;
        }
      }
      refused_or_equal(mutated, token);
    }
  }
}

}  // namespace
}  // namespace faultline::core
