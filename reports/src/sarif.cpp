// SPDX-License-Identifier: Apache-2.0
#include "faultline/reports/sarif.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <vector>

#include "faultline/diagnosis/race_class.hpp"
#include "sha256.hpp"
#include "text.hpp"
#include "view.hpp"

namespace faultline::reports {
namespace {

using Json = nlohmann::ordered_json;
using core::FindingClass;

constexpr const char* kSchema =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";
constexpr const char* kRoot = "%SRCROOT%";  // what project-relative paths are relative to
constexpr std::size_t kMostResults = 5000;  // as many as code scanning shows

/// What a class says, for readers who meet it without docs/verdicts.md.
const char* meaning_of(FindingClass finding) {
  switch (finding) {
  case FindingClass::race_shared: return "Accesses to shared memory that nothing orders.";
  case FindingClass::race_async:
    return "An asynchronous copy or matrix unit races with other accesses.";
  case FindingClass::race_grid: return "Blocks of one launch access global memory in no order.";
  case FindingClass::race_stream: return "Launches or copies access the same memory in no order.";
  case FindingClass::nondeterminism_benign: return "Right results that differ in their last bits.";
  case FindingClass::systematic_offset: return "The same wrong values in every configuration.";
  case FindingClass::config: return "Some launch configurations are wrong, others are right.";
  case FindingClass::output_rounding: return "The largest error is the rounding of the output.";
  case FindingClass::accumulation: return "Errors grow as sums of low precision let them grow.";
  case FindingClass::missing_term: return "A term of the mathematics is absent or counted twice.";
  case FindingClass::wrong_term: return "A term of the mathematics has the wrong form or factor.";
  case FindingClass::tail: return "Sizes that are no multiple of a tile are wrong.";
  case FindingClass::isolation: return "One head, batch or row changes the result of another.";
  case FindingClass::index32: return "An offset does not fit into 32 bits.";
  case FindingClass::layout: return "Strides or offsets of the operands are not honoured.";
  case FindingClass::oob: return "An access lies outside its buffer.";
  case FindingClass::uninitialised: return "Memory is read that nobody wrote.";
  case FindingClass::missed_write: return "Output elements are not written.";
  case FindingClass::special_values: return "NaN or infinity where the result is finite.";
  case FindingClass::state: return "State of an earlier call changes the result of a later one.";
  case FindingClass::graph: return "A replayed graph uses the arguments of capture time.";
  case FindingClass::stale_code: return "The code of another call ran.";
  case FindingClass::device: return "Work on several devices is not ordered.";
  case FindingClass::hang: return "The kernel does not end.";
  case FindingClass::crash: return "The kernel was stopped by a fault.";
  case FindingClass::contract: return "The inputs lie outside what the subject accepts.";
  case FindingClass::vacuous: return "The test would accept outputs that compute nothing.";
  case FindingClass::slow_uncoalesced: return "Accesses touch more sectors than they need.";
  case FindingClass::slow_lane_folded: return "Lanes of a warp read the same addresses.";
  case FindingClass::slow_bank_conflicts: return "Lanes of a warp wait for the same bank.";
  case FindingClass::slow_dispatch: return "The host takes longer than the kernel.";
  case FindingClass::timing_contaminated: return "Timings spread too far to be relied on.";
  case FindingClass::no_evidence: return "The run cannot tell: the evidence is missing.";
  case FindingClass::bound_vacuous: return "An effect stays below the error bound.";
  case FindingClass::unknown: return "Wrong values that no rule explains.";
  }
  return "A finding.";
}

const char* level_of(core::Severity severity) {
  switch (severity) {
  case core::Severity::error: return "error";
  case core::Severity::warning: return "warning";
  case core::Severity::note: return "note";
  }
  return "error";
}

bool has_race_reports(FindingClass finding) {
  return core::is_race(finding) || finding == FindingClass::device;
}

Json message(std::string_view text) { return {{"text", visible(text)}}; }

/// A path as a URI reference (RFC 3986): relative, or file:///... of an absolute one.
std::string uri_of(std::string_view path) {
  std::string valid;
  for (const char32_t c : decode_utf8(path)) append_utf8(valid, c);
  std::string uri;
  for (const char c : valid) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("-._~/").find(c) != std::string_view::npos;
    uri += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return path.starts_with('/') ? "file://" + uri : uri;
}

Json physical_location(const core::SourceLocation& where) {
  Json artifact = {{"uri", uri_of(where.file)}};
  if (!where.file.starts_with('/')) artifact["uriBaseId"] = kRoot;
  Json location = {{"artifactLocation", std::move(artifact)}};
  if (where.line > 0) location["region"] = {{"startLine", where.line}};
  return location;
}

/// `where` may have no file; then the place has a name alone.
Json location_of(const core::SourceLocation& where, std::string_view kernel) {
  Json location = Json::object();
  if (!where.file.empty()) location["physicalLocation"] = physical_location(where);
  const std::string_view name = where.function.empty() ? kernel : std::string_view(where.function);
  if (!name.empty()) {
    location["logicalLocations"] =
        Json::array({Json{{"name", visible(name)}, {"kind", "function"}}});
  }
  return location;
}

core::SourceLocation place_of(const core::AccessSite& site) {
  return site.where.empty() ? core::SourceLocation{} : site.where.front();
}

/// Where to look first: the place in the kernel's own folder, as in the headline, rather than a
/// helper of another folder that was inlined there.
core::SourceLocation own_place_of(const core::AccessSite& site) {
  const auto folder = [](const core::SourceLocation& at) {
    return at.file.substr(0, at.file.find_last_of('/') + 1);
  };
  for (const core::SourceLocation& at : site.where) {
    if (!at.file.empty() && folder(at) == folder(site.where.back())) return at;
  }
  return place_of(site);
}

std::string site_message(const core::AccessSite& site) {
  std::string text = site.is_write ? "write" : "read";
  if (!site.instruction.empty()) text += ": " + site.instruction;
  if (!site.actor.empty()) text += " by " + site.actor;
  return text;
}

/// One access as a thread of its own: from the kernel inwards to the line that was inlined last.
Json thread_flow(const core::AccessSite& site, const char* id) {
  Json locations = Json::array();
  int depth = 0;
  for (auto at = site.where.rbegin(); at != site.where.rend(); ++at, ++depth) {
    Json location = location_of(*at, site.kernel);
    location["message"] =
        message(at + 1 == site.where.rend() ? site_message(site) : "calls, inlined");
    locations.push_back({{"location", std::move(location)}, {"nestingLevel", depth}});
  }
  if (locations.empty()) {
    Json location = location_of({}, site.kernel);
    location["message"] = message(site_message(site));
    locations.push_back({{"location", std::move(location)}});
  }
  return {{"id", id}, {"locations", std::move(locations)}};
}

class SarifWriter {
 public:
  explicit SarifWriter(const core::RunRecord& record) : record_(record) {}

  std::string text() {
    list_rules();
    list_results();
    Json run = {
        {"tool", {{"driver", driver()}}},
        {"invocations", Json::array({invocation()})},
        {"automationDetails", {{"id", category()}}},
        {"originalUriBaseIds", {{kRoot, {{"description", message("The project's root.")}}}}},
        {"columnKind", "unicodeCodePoints"},
        {"results", std::move(results_)}};
    if (!record_.verdict.summary.empty()) {
      run["properties"] = {{"verdict", visible(record_.verdict.summary)},
                           {"problem", visible(problem_text(record_))},
                           {"config", visible(record_.config)},
                           {"seed", record_.seed}};
    }
    const Json log = {
        {"$schema", kSchema}, {"version", "2.1.0"}, {"runs", Json::array({std::move(run)})}};
    return log.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
  }

 private:
  void list_rules() {
    std::set<FindingClass> used;
    for (const core::Finding& finding : record_.verdict.findings) used.insert(finding.finding);
    for (const FindingClass finding : used) {
      rule_index_[finding] = rules_.size();
      std::string name;  // "RaceAsync", as viewers show it
      bool start = true;
      for (const char c : core::name_of(finding)) {
        const bool letter = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (letter) name += start && c >= 'a' ? static_cast<char>(c - 'a' + 'A') : c;
        start = !letter;
      }
      rules_.push_back({{"id", core::name_of(finding)},
                        {"name", name},
                        {"shortDescription", message(meaning_of(finding))},
                        {"fullDescription", message(meaning_of(finding))},
                        {"help", message(fmt::format("{} docs/verdicts.md says when {} is found.",
                                                     meaning_of(finding), core::name_of(finding)))},
                        {"properties", {{"tags", {"cuda", "correctness"}}}}});
    }
  }

  Json driver() const {
    Json driver = {{"name", "faultline"}};
    if (!record_.provenance.faultline_version.empty()) {
      driver["version"] = visible(record_.provenance.faultline_version);
    }
    driver["rules"] = rules_;
    return driver;
  }

  std::string category() const {
    return visible(fmt::format("faultline/{}/{}/", record_.command, subject_text(record_)));
  }

  /// Whether faultline could do its work, and what a reader must know beside the results.
  Json invocation() const {
    const core::Outcome outcome = record_.verdict.outcome;
    const bool judged = outcome == core::Outcome::pass || outcome == core::Outcome::fail;
    Json invocation = {{"executionSuccessful", judged},
                       {"exitCode", static_cast<int>(core::exit_code(record_.verdict))}};
    if (!record_.provenance.command_line.empty()) {
      invocation["commandLine"] = visible(record_.provenance.command_line);
    }
    Json notes = Json::array();
    if (outcome != core::Outcome::pass) {
      // A run that fails without a finding (a mutant that survived) is not silent.
      notes.push_back(
          {{"level", outcome == core::Outcome::skipped ? "warning" : "error"},
           {"message", message(record_.verdict.summary.empty() ? std::string(core::name_of(outcome))
                                                               : record_.verdict.summary)}});
    }
    if (left_out_ > 0) {
      notes.push_back(
          {{"level", "warning"},
           {"message", message(fmt::format("{} more results were left out.", left_out_))}});
    }
    if (!notes.empty()) invocation["toolExecutionNotifications"] = std::move(notes);
    return invocation;
  }

  void list_results() {
    const auto& races = record_.evidence.races;
    std::vector<std::vector<const core::RaceReport*>> of_finding(record_.verdict.findings.size());
    for (const core::RaceReport& race : races) {
      if (auto* own = races_of(race, of_finding)) own->push_back(&race);
    }
    for (std::size_t i = 0; i < of_finding.size(); ++i) {
      const core::Finding& finding = record_.verdict.findings[i];
      if (of_finding[i].empty()) {
        add(finding, nullptr);
        continue;
      }
      for (const core::RaceReport* race : of_finding[i]) add(finding, race);
    }
  }

  /// The finding that a report belongs to: of its class; else the first one of a race.
  std::vector<const core::RaceReport*>*
  races_of(const core::RaceReport& race,
           std::vector<std::vector<const core::RaceReport*>>& of_finding) const {
    const auto& findings = record_.verdict.findings;
    const FindingClass wanted = diagnosis::class_of(race);
    for (std::size_t i = 0; i < findings.size(); ++i) {
      if (findings[i].finding == wanted) return &of_finding[i];
    }
    for (std::size_t i = 0; i < findings.size(); ++i) {
      if (has_race_reports(findings[i].finding)) return &of_finding[i];
    }
    return nullptr;
  }

  void add(const core::Finding& finding, const core::RaceReport* race) {
    if (results_.size() >= kMostResults) {
      ++left_out_;
      return;
    }
    std::string text = finding.headline.empty() ? meaning_of(finding.finding) : finding.headline;
    if (race) {
      text += fmt::format("\n\n{}: {}; {}.", kind_text(race->kind), memory_text(*race),
                          seen_text(*race));
      if (!race->missing_edge.empty()) text += " " + race->missing_edge;
    }
    for (const std::string& sentence : finding.evidence) text += "\n- " + sentence;
    if (!finding.advice.empty()) text += "\n\n" + finding.advice;
    if (!record_.replay_lines.empty()) text += "\n\nRerun: " + record_.replay_lines.front();

    Json result = {{"ruleId", core::name_of(finding.finding)},
                   {"ruleIndex", rule_index_.at(finding.finding)},
                   {"level", level_of(finding.severity)},
                   {"message", message(text)}};
    std::string identity{core::name_of(finding.finding)};
    if (race) {
      add_sites(result, *race, identity);
    } else {
      add_place(result, finding, identity);
    }
    // A second pair of sites with the same names is told by its number, in the record's order.
    const int ordinal = ++seen_[identity];
    result["partialFingerprints"] = {
        {kFingerprintName, fmt::format("{}:{}", sha256_hex(identity).substr(0, 32), ordinal)}};
    result["properties"] = {{"confidence", finding.confidence}};
    if (finding.runner_up) {
      result["properties"]["runnerUp"] = core::name_of(*finding.runner_up);
    }
    results_.push_back(std::move(result));
  }

  void add_sites(Json& result, const core::RaceReport& race, std::string& identity) {
    const core::AccessSite* sites[] = {&race.first, &race.second};
    Json related = Json::array(), threads = Json::array();
    for (int i = 0; i < 2; ++i) {
      const core::AccessSite& site = *sites[i];
      const core::SourceLocation at = own_place_of(site);
      Json location = {{"id", i}};
      location.update(location_of(at, site.kernel));
      location["message"] = message(
          fmt::format("{} {}", i == 0 ? "first access," : "second access,", site_message(site)));
      related.push_back(std::move(location));
      threads.push_back(thread_flow(site, i == 0 ? "first access" : "second access"));
      for (const core::SourceLocation& where : site.where) {
        identity += '\0' + where.file + '\0' + where.function;
      }
      identity += '\0' + site.instruction;
    }
    // The access that comes too early is the one to move.
    const core::SourceLocation second = own_place_of(race.second), first = own_place_of(race.first);
    result["locations"] =
        Json::array({second.file.empty() ? location_of(first, race.first.kernel)
                                         : location_of(second, race.second.kernel)});
    result["relatedLocations"] = std::move(related);
    result["codeFlows"] = Json::array({Json{{"threadFlows", std::move(threads)}}});
  }

  void add_place(Json& result, const core::Finding& finding, std::string& identity) {
    core::SourceLocation at;
    std::string instruction;
    // What the host does has no line of a kernel.
    if (core::is_slow(finding.finding) && finding.finding != FindingClass::slow_dispatch) {
      const core::AccessStatistics* worst = nullptr;
      for (const core::AccessStatistics& access : record_.evidence.accesses) {
        const bool shared = access.space == core::MemorySpace::shared;
        if (shared != (finding.finding == FindingClass::slow_bank_conflicts)) continue;
        if (!worst || waste_of(access) > waste_of(*worst)) worst = &access;
      }
      if (worst) {
        at = worst->where;
        instruction = worst->instruction;
      }
    } else if (!core::is_slow(finding.finding) && record_.evidence.races.empty() &&
               record_.evidence.accesses.empty() && !record_.excerpts.empty()) {
      at.file = record_.excerpts.front().file;
      at.line = record_.excerpts.front().marked_line;
    }
    Json location = location_of(at, subject_text(record_));
    if (!location.empty()) result["locations"] = Json::array({std::move(location)});
    for (const std::string& part :
         {at.file, at.file.empty() ? subject_text(record_) : at.function, instruction}) {
      identity += '\0' + part;
    }
  }

  const core::RunRecord& record_;
  Json rules_ = Json::array(), results_ = Json::array();
  std::map<FindingClass, std::size_t> rule_index_;
  std::map<std::string, int> seen_;
  std::size_t left_out_ = 0;
};

}  // namespace

std::string to_sarif(const core::RunRecord& record) { return SarifWriter(record).text(); }

}  // namespace faultline::reports
