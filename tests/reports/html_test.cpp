// SPDX-License-Identifier: Apache-2.0
// What can be told from the text; browser_test.py loads the pages.
#include "faultline/reports/html.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "faultline/reports/renderer.hpp"
#include "html_script.hpp"
#include "html_style.hpp"
#include "samples.hpp"
#include "sha256.hpp"

namespace faultline::reports {
namespace {

using testing::HasSubstr;
using testing::Not;

std::size_t count_of(const std::string& text, std::string_view part) {
  std::size_t n = 0;
  for (std::size_t i = text.find(part); i != std::string::npos; i = text.find(part, i + 1)) {
    ++n;
  }
  return n;
}

TEST(Html, HostileTextStaysText) {
  const std::string page = to_html(samples::hostile());
  EXPECT_EQ(count_of(page, "<script"), 1u);
  EXPECT_EQ(count_of(page, "</script"), 1u);
  EXPECT_EQ(count_of(page, "<style"), 1u);
  EXPECT_THAT(page, Not(HasSubstr("<img")));
  EXPECT_THAT(page, Not(HasSubstr("\x1b")));
  EXPECT_THAT(page, Not(HasSubstr("\u202e")));
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;"));
}

TEST(Html, NeedsNothingElse) {
  for (const auto& [name, record] : samples::all()) {
    const std::string page = to_html(record);
    for (const char* loading : {" src=", "url(", "@import", " srcset=", " action="}) {
      // The hostile record holds "src=" in its text.
      EXPECT_EQ(count_of(page, loading),
                name == "hostile" ? count_of(page, "&lt;img" + std::string(loading)) : 0u)
          << name << ": " << loading;
    }
    EXPECT_EQ(count_of(page, " href="), count_of(page, " href=\"#")) << name;
    EXPECT_THAT(page, Not(HasSubstr("<link"))) << name;
    EXPECT_THAT(page,
                HasSubstr("default-src 'none'; style-src 'sha256-" + sha256_base64(kStyle) + "'"))
        << name;
    EXPECT_THAT(page, HasSubstr("script-src 'sha256-" + sha256_base64(kScript) + "'")) << name;
  }
}

TEST(Html, IsOfModestSizeAndDeterministic) {
  for (const auto& [name, record] : samples::all()) {
    const std::string page = to_html(record);
    EXPECT_LT(page.size(), 200'000u) << name;
    EXPECT_EQ(page, to_html(record)) << name;
  }
}

TEST(Html, StaysSmallForManyTrials) {
  const std::string page = to_html(samples::stress_large());
  EXPECT_LT(page.size(), 2'000'000u);
  EXPECT_THAT(page, HasSubstr("962 more are in the JSON record"));  // races
  EXPECT_THAT(page, HasSubstr("whose tiles the record holds"));
}

TEST(Html, ShowsBothSitesWithTheMarkedLine) {
  const std::string page = to_html(samples::stress_shared_buffer());
  for (const char* line : {"214", "171", "152", "61", "38"}) {
    EXPECT_THAT(page, HasSubstr(std::string("marked\" aria-current=\"true\"><span class=\"n\">") +
                                line + "<"));
  }
}

TEST(Html, HugeTileMapsAreBinned) {
  core::RunRecord record = samples::stress_clean();
  auto& output = record.evidence.arms[0].result.outputs[0];
  output.geometry = {4096, 4096, 16, 16, 0, 0, "16 x 16"};
  output.tiles.assign(65536, {.bad_trials = 1, .bad_elements = 7, .worst_ratio = 3.0});
  output.bad_trials = 1;
  output.bad_elements = 7 * 65536;
  const std::string page = to_html(record);
  EXPECT_THAT(page, HasSubstr("is the worst of"));
  EXPECT_LT(page.size(), 1'000'000u);
}

TEST(Renderer, TableFindsFormatsByName) {
  ASSERT_NE(find_renderer("html"), nullptr);
  ASSERT_NE(find_renderer("json"), nullptr);
  EXPECT_EQ(find_renderer("pdf"), nullptr);
  for (const auto& renderer : renderers()) {
    EXPECT_EQ(find_renderer(renderer.name), &renderer);
    EXPECT_FALSE(renderer.render(samples::stress_shared_buffer()).empty()) << renderer.name;
  }
}

}  // namespace
}  // namespace faultline::reports
