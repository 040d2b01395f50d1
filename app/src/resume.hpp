// SPDX-License-Identifier: Apache-2.0
// `--resume DIR`: which run a folder holds, and whether this process may continue it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "commands.hpp"
#include "faultline/core/run_record.hpp"
#include "faultline/store/journal.hpp"
#include "faultline/store/store.hpp"

namespace faultline::app {

/// Kind of the journal's line that says where the run is stored; key: its number, value: the store,
/// from the root.
inline constexpr const char* kStoredRun = "stored_run";

/// The options of a run that is continued: those of the run that the folder of `given` holds, with
/// the reports, the time and the looks of `given`. UsageError, in one sentence, when the folder
/// holds no unfinished run, one of another command, or when `arguments` hold another command line.
Options continued(const Options& given, const std::vector<std::string>& arguments);

/// The journal of the run's folder, with who writes it at its head; nullptr without a folder, and,
/// with a warning, when the head cannot be written. One
/// that is resumed must have been begun by this build for the same results: UsageError otherwise.
std::unique_ptr<store::Journal> open_journal(const Context& context, const char* command);

/// Note what the run runs on (backend, device, driver, runtime, and `tools`), or check it against
/// what the journal says. UsageError when any of it or the kernels' code is another.
void identify_journal(store::Journal& journal, const core::RunRecord& record,
                      const std::string& tools);

/// The command line that the run was begun with, without the program; and in one line, with it and
/// "(resumed)" behind it.
std::vector<std::string> arguments_of(const store::Journal& journal);
std::string resumed_line(const store::Journal& journal);

/// Stored cases as they were when a run began with them, all that their replay depends on; and
/// back. UsageError when the text is none of cases.
std::string cases_to_text(const std::vector<store::FailingCase>& cases);
std::vector<store::FailingCase> cases_from_text(const std::string& text);

/// Whether the folder holds a run that was begun and is not finished.
bool holds_journal(const std::string& folder);

}  // namespace faultline::app
