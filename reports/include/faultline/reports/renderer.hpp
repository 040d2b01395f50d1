// SPDX-License-Identifier: Apache-2.0
// The formats that a record can be written in, as one table. A new format is one function and one
// line there.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "faultline/core/run_record.hpp"

namespace faultline::reports {

/// One file format.
struct Renderer {
  std::string_view name;         ///< also the flag: "json" for --json FILE
  std::string_view extension;    ///< ".json"
  std::string_view description;  ///< one line, for --help
  std::string (*render)(const core::RunRecord& record);
};

/// All formats, in the order of --help.
std::span<const Renderer> renderers();
/// The format with that name; nullptr when there is none.
const Renderer* find_renderer(std::string_view name);

/// Render and write to `path` ("-": standard output), see write_output().
void write_report(const core::RunRecord& record, const Renderer& renderer, const std::string& path);

}  // namespace faultline::reports
