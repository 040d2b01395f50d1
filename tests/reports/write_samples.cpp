// SPDX-License-Identifier: Apache-2.0
// Writes every sample report into a folder, to be looked at and loaded by the browser test:
//   write_samples FOLDER
#include <fmt/format.h>

#include <cstdio>
#include <string>

#include "faultline/core/errors.hpp"
#include "faultline/reports/output.hpp"
#include "faultline/reports/renderer.hpp"
#include "faultline/reports/terminal.hpp"
#include "samples.hpp"

int main(int argc, char** argv) {
  using namespace faultline::reports;
  if (argc != 2) {
    std::fputs("usage: write_samples FOLDER\n", stderr);
    return 2;
  }
  try {
    for (const auto& [name, record] : samples::all()) {
      const std::string stem = fmt::format("{}/{}", argv[1], name);
      for (const Renderer& renderer : renderers()) {
        write_report(record, renderer, stem + std::string(renderer.extension));
      }
      for (const int width : {80, 160}) {
        write_output(fmt::format("{}.{}.txt", stem, width),
                     render_terminal(record, {.width = width}));
        write_output(fmt::format("{}.{}.ansi", stem, width),
                     render_terminal(record, {.width = width, .color = true, .unicode = true}));
      }
    }
    write_report(samples::stress_large(), *find_renderer("html"),
                 fmt::format("{}/stress_large.html", argv[1]));
  } catch (const faultline::core::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.code());
  }
  return 0;
}
