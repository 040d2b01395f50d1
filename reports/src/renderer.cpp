// SPDX-License-Identifier: Apache-2.0
#include "faultline/reports/renderer.hpp"

#include <algorithm>
#include <array>

#include "faultline/reports/csv.hpp"
#include "faultline/reports/html.hpp"
#include "faultline/reports/junit.hpp"
#include "faultline/reports/markdown.hpp"
#include "faultline/reports/output.hpp"
#include "faultline/reports/sarif.hpp"
#include "faultline/reports/terminal.hpp"

namespace faultline::reports {
namespace {

std::string to_json_file(const core::RunRecord& record) {
  std::string text = core::to_json(record);
  if (text.empty() || text.back() != '\n') {
    text += '\n';
  }
  return text;
}

std::string to_text_file(const core::RunRecord& record) {
  return render_terminal(record, {.width = 100, .verbosity = Verbosity::verbose});
}

constexpr std::array<Renderer, 7> kRenderers = {{
    {"json", ".json", "the whole record, for programs and for `faultline report`", to_json_file},
    {"html", ".html", "one self-contained page", to_html},
    {"md", ".md", "GitHub-flavoured Markdown, for a job summary: never above 1 MiB", to_markdown},
    {"junit", ".xml", "JUnit XML, a test case for each arm, cell or mutant", to_junit},
    {"sarif", ".sarif", "SARIF 2.1.0: findings with both sites, for code scanning", to_sarif},
    {"csv", ".csv", "the figures, a row for each arm, cell or mutant and detector", to_csv},
    {"text", ".txt", "the terminal report, verbose, plain ASCII, 100 columns", to_text_file},
}};

}  // namespace

std::span<const Renderer> renderers() { return kRenderers; }

const Renderer* find_renderer(std::string_view name) {
  const auto found =
      std::find_if(kRenderers.begin(), kRenderers.end(),
                   [name](const Renderer& renderer) { return renderer.name == name; });
  return found == kRenderers.end() ? nullptr : &*found;
}

void write_report(const core::RunRecord& record, const Renderer& renderer,
                  const std::string& path) {
  write_output(path, renderer.render(record));
}

}  // namespace faultline::reports
