// SPDX-License-Identifier: Apache-2.0
#include "faultline/store/store.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <utility>

#include "faultline/core/errors.hpp"
#include "schema.hpp"
#include "sqlite.hpp"

namespace faultline::store {
namespace {

using detail::Connection;
using detail::Statement;
using detail::Transaction;

std::string now() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::chrono::system_clock::now()));
}

struct Counts {
  std::uint64_t trials = 0, failed = 0;
};

Counts counts_of(const core::Evidence& evidence) {
  Counts counts;
  const auto add = [&](const core::TrialResult& result) {
    counts.trials += result.trials;
    counts.failed += result.failed;
  };
  for (const core::ArmEvidence& arm : evidence.arms) add(arm.result);
  for (const core::ConfigEvidence& cell : evidence.configs) add(cell.result);
  return counts;
}

std::string words_of_tables(Connection& connection) {
  Statement tables(connection, "SELECT name FROM sqlite_schema WHERE type = 'table' LIMIT 3");
  std::string words;
  while (tables.step()) words += (words.empty() ? "" : ", ") + tables.text();
  return words;
}

/// New: to be laid out. Ours: to be used. Anything else throws.
bool is_new(Connection& connection) {
  const std::int64_t application = connection.integer("PRAGMA application_id");
  const std::int64_t version = connection.integer("PRAGMA user_version");
  if (application == detail::kApplicationId) {
    if (version == kSchemaVersion) return false;
    if (version > kSchemaVersion) {
      connection.fail(fmt::format("it was written by a newer faultline (schema {}; this one knows "
                                  "schemas up to {})",
                                  version, kSchemaVersion),
                      "Use that faultline, or give another file.");
    }
    connection.fail(fmt::format("its schema {} is none of faultline's", version),
                    "Give another file.");
  }
  const std::string tables = words_of_tables(connection);
  if (application == 0 && version == 0 && tables.empty()) return true;
  connection.fail(fmt::format("it is a database of something else ({})",
                              tables.empty() ? fmt::format("application id {}", application)
                                             : "tables: " + tables),
                  "Give another file: this one is left as it is.");
}

void lay_out(Connection& connection) {
  Transaction transaction(connection);
  if (is_new(connection)) {  // another process may have been faster
    connection.execute(detail::kSchema);
    connection.execute(fmt::format("PRAGMA application_id = {}", detail::kApplicationId).c_str());
    connection.execute(fmt::format("PRAGMA user_version = {}", kSchemaVersion).c_str());
  }
  transaction.commit();
}

constexpr const char* kCaseColumns =
    "id, origin, token, subject, variant, problem, config, backend, seed, command, finding, "
    "reason, failed, trials, first_seen, last_seen, times_seen, fixed_at";

/// The token decides; where it cannot be read, the columns say what the case was.
void read_trial(Statement& row, FailingCase& stored) {
  const std::string token = row.text();
  core::TrialToken columns;
  columns.subject = row.text();
  columns.variant = row.text();
  columns.problem = row.text();
  columns.config = row.text();
  columns.backend = row.text();
  const std::string seed = row.text();
  std::from_chars(seed.data(), seed.data() + seed.size(), columns.seed);
  try {
    stored.trial = core::decode_token(token);
  } catch (const core::UsageError& error) {
    stored.trial = std::move(columns);
    stored.unreadable = error.what();
  }
}

FailingCase read_case(Statement& row) {
  FailingCase stored;
  stored.id = row.integer();
  stored.origin = row.text();
  read_trial(row, stored);
  stored.command = row.text();
  stored.finding = row.text();
  stored.reason = row.text();
  stored.failed = row.count();
  stored.trials = row.count();
  stored.first_seen = row.text();
  stored.last_seen = row.text();
  stored.times_seen = row.count();
  stored.fixed_at = row.text();
  return stored;
}

void write_findings(Connection& connection, std::int64_t run, const core::Verdict& verdict) {
  Statement(connection, "DELETE FROM findings WHERE run_id = ?").bind(run).run();
  std::int64_t rank = 0;
  for (const core::Finding& finding : verdict.findings) {
    Statement(connection, "INSERT INTO findings VALUES (?, ?, ?, ?, ?, ?, ?)")
        .bind(run)
        .bind(++rank)
        .bind(core::name_of(finding.finding))
        .bind(core::name_of(finding.severity))
        .bind(finding.headline)
        .bind_or_null(finding.runner_up ? core::name_of(*finding.runner_up) : "")
        .bind(finding.confidence)
        .run();
  }
}

/// A case that is there is seen once more, once a run, and no longer fixed. `run` 0: outside a run.
void write_case(Connection& connection, std::int64_t run, const FailingCase& found) {
  const core::TrialToken& trial = found.trial;
  const std::string time = now();
  const std::string number = run > 0 ? std::to_string(run) : "NULL";
  const std::string sql = fmt::format(
      "INSERT INTO failing_cases (origin, subject, variant, problem, config, backend, data, seed, "
      "trial, perturbation, race, token, command, finding, reason, failed, trials, first_run_id, "
      "last_run_id, first_seen, last_seen, times_seen) "
      "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, {0}, {0}, ?, ?, 1) "
      "ON CONFLICT DO UPDATE SET token = excluded.token, command = excluded.command, "
      "finding = excluded.finding, reason = excluded.reason, failed = excluded.failed, "
      "trials = excluded.trials, last_seen = excluded.last_seen, fixed_at = NULL, "
      "times_seen = times_seen + (last_run_id IS NULL OR last_run_id IS NOT {0}), "
      "last_run_id = {0}",
      number);
  Statement(connection, sql.c_str())
      .bind(found.origin)
      .bind(trial.subject)
      .bind(trial.variant)
      .bind(trial.problem)
      .bind(trial.config)
      .bind(trial.backend)
      .bind(core::name_of(trial.data))
      .bind(std::to_string(trial.seed))
      .bind(std::to_string(trial.trial))
      .bind(core::to_text(trial.perturbation))
      .bind(core::name_of(trial.race))
      .bind(core::encode(trial))
      .bind(found.command)
      .bind(found.finding)
      .bind(found.reason)
      .bind(found.failed)
      .bind(found.trials)
      .bind(time)
      .bind(time)
      .run();
}

/// Seen again once a run, as in write_case(). What passes keeps the rate at which it failed.
void write_result(Connection& connection, std::int64_t run, const CaseResult& result) {
  const std::string time = now();
  const std::string number = run > 0 ? std::to_string(run) : "NULL";
  const std::string sql =
      result.failed > 0
          ? fmt::format("UPDATE failing_cases SET failed = ?, trials = ?, last_seen = ?, "
                        "fixed_at = NULL, times_seen = times_seen + (last_run_id IS NULL OR "
                        "last_run_id IS NOT {0}), last_run_id = {0} WHERE id = ?",
                        number)
          : "UPDATE failing_cases SET fixed_at = ? WHERE id = ?";
  Statement update(connection, sql.c_str());
  if (result.failed > 0) update.bind(result.failed).bind(result.trials);
  update.bind(time).bind(result.id).run();
}

}  // namespace

class Store::Database : public Connection {
 public:
  using Connection::Connection;

  void write_run(std::int64_t run, const core::RunRecord& record, bool finished,
                 const std::vector<FailingCase>& cases, const std::vector<CaseResult>& replayed) {
    const std::string json = core::to_json(record);
    const Counts counts = counts_of(record.evidence);
    Transaction transaction(*this);
    Statement(*this, "UPDATE runs SET problem = ?, config = ?, finished_at = ?, outcome = ?, "
                     "summary = ?, trials = ?, failed = ?, record = ? WHERE id = ?")
        .bind(record.problem)
        .bind(record.config)
        .bind_or_null(finished ? now() : "")
        .bind(core::name_of(record.verdict.outcome))
        .bind(record.verdict.summary)
        .bind(counts.trials)
        .bind(counts.failed)
        .bind(json)
        .bind(run)
        .run();
    write_findings(*this, run, record.verdict);
    // What was replayed first: a case that failed again may be among those of the run, too.
    for (const CaseResult& result : replayed) write_result(*this, run, result);
    for (const FailingCase& found : cases) write_case(*this, run, found);
    transaction.commit();
  }

  std::vector<FailingCase> cases(const std::string& where, const std::vector<std::string>& values) {
    const std::string sql = fmt::format("SELECT {} FROM failing_cases {} "
                                        "ORDER BY last_seen DESC, id DESC",
                                        kCaseColumns, where);
    Statement rows(*this, sql.c_str());
    for (const std::string& value : values) rows.bind(value);
    std::vector<FailingCase> found;
    while (rows.step()) found.push_back(read_case(rows));
    return found;
  }
};

Store::Store(std::string path, const StoreOptions& options) {
  const bool write = options.access == Access::write;
  database_ = std::make_unique<Database>(std::move(path), write, options.wait_ms);
  Database& database = *database_;
  database.execute("PRAGMA foreign_keys = ON");
  // One look at the file: another process may be laying it out.
  database.execute("BEGIN");
  const bool fresh = is_new(database);
  database.execute("COMMIT");
  if (!write) {
    database.execute("PRAGMA query_only = ON");
    if (fresh) database.fail("it is empty", "Give the path of a store.");
    return;
  }
  database.use_wal_mode();
  // A commit is on the disk when it returns.
  database.execute("PRAGMA synchronous = FULL");
  if (options.max_pages > 0) {
    database.execute(fmt::format("PRAGMA max_page_count = {}", options.max_pages).c_str());
  }
  if (fresh) lay_out(database);
}

Store::~Store() = default;

const std::string& Store::path() const { return database_->path(); }

std::int64_t Store::begin_run(const core::RunRecord& record) {
  Transaction transaction(*database_);
  Statement(*database_,
            "INSERT INTO runs (command, subject, variant, problem, config, backend, seed, "
            "started_at, outcome, summary, trials, failed, command_line, record) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, ?, ?)")
      .bind(record.command)
      .bind(record.subject)
      .bind(record.variant)
      .bind(record.problem)
      .bind(record.config)
      .bind(record.provenance.backend.name)
      .bind(std::to_string(record.seed))
      .bind(record.provenance.started_at)
      .bind(core::name_of(record.verdict.outcome))
      .bind(record.verdict.summary)
      .bind(record.provenance.command_line)
      .bind(core::to_json(record))
      .run();
  const std::int64_t run = database_->last_insert_id();
  transaction.commit();
  return run;
}

void Store::update_run(std::int64_t run, const core::RunRecord& so_far,
                       const std::vector<FailingCase>& cases,
                       const std::vector<CaseResult>& replayed) {
  database_->write_run(run, so_far, false, cases, replayed);
}

void Store::finish_run(std::int64_t run, const core::RunRecord& record,
                       const std::vector<FailingCase>& cases,
                       const std::vector<CaseResult>& replayed) {
  database_->write_run(run, record, true, cases, replayed);
}

void Store::add_cases(const std::vector<FailingCase>& cases) {
  Transaction transaction(*database_);
  for (const FailingCase& found : cases) write_case(*database_, 0, found);
  transaction.commit();
}

void Store::update_cases(const std::vector<CaseResult>& replayed) {
  Transaction transaction(*database_);
  for (const CaseResult& result : replayed) write_result(*database_, 0, result);
  transaction.commit();
}

std::vector<RunSummary> Store::runs() const {
  Statement rows(*database_,
                 "SELECT id, command, subject, variant, problem, config, backend, started_at, "
                 "finished_at, outcome, summary, trials, failed FROM runs ORDER BY id DESC");
  std::vector<RunSummary> runs;
  while (rows.step()) {
    RunSummary& run = runs.emplace_back();
    run.id = rows.integer();
    run.command = rows.text();
    run.subject = rows.text();
    run.variant = rows.text();
    run.problem = rows.text();
    run.config = rows.text();
    run.backend = rows.text();
    run.started_at = rows.text();
    run.finished_at = rows.text();
    run.outcome = rows.text();
    run.summary = rows.text();
    run.trials = rows.count();
    run.failed = rows.count();
  }
  return runs;
}

core::RunRecord Store::record(std::int64_t run) const {
  Statement row(*database_, "SELECT record FROM runs WHERE id = ?");
  row.bind(run);
  if (!row.step()) {
    throw core::UsageError(fmt::format(
        "the store '{}' has no run {}: `faultline report --store FILE` lists them", path(), run));
  }
  return core::record_from_json(row.text());
}

std::vector<FailingCase> Store::failing_cases(const std::string& subject,
                                              const std::string& variant,
                                              const std::string& backend) const {
  std::string where = "WHERE fixed_at IS NULL";
  std::vector<std::string> values;
  for (const auto& [column, value] :
       {std::pair<const char*, const std::string&>{"subject", subject},
        {"variant", variant},
        {"backend", backend}}) {
    if (value.empty()) continue;
    where += fmt::format(" AND {} = ?", column);
    values.push_back(value);
  }
  return database_->cases(where, values);
}

std::vector<FailingCase> Store::all_cases() const { return database_->cases("", {}); }

FailingCase Store::failing_case(std::int64_t id) const {
  std::vector<FailingCase> found = database_->cases(fmt::format("WHERE id = {}", id), {});
  if (found.empty()) {
    throw core::UsageError(fmt::format("the store '{}' has no failing case {}: `faultline report "
                                       "--store FILE` lists them",
                                       path(), id));
  }
  return found.front();
}

}  // namespace faultline::store
