// SPDX-License-Identifier: Apache-2.0
// The layout of a store, the only place in code; docs/store.md explains it. A change raises
// kSchemaVersion and says in Store how an older file gets there.
#pragma once

namespace faultline::store::detail {

/// PRAGMA application_id of a store: "flts".
inline constexpr int kApplicationId = 0x666c7473;

inline constexpr const char* kSchema = R"sql(
CREATE TABLE runs (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  command      TEXT NOT NULL,
  subject      TEXT NOT NULL,
  variant      TEXT NOT NULL,
  problem      TEXT NOT NULL,
  config       TEXT NOT NULL,
  backend      TEXT NOT NULL,
  seed         TEXT NOT NULL,
  started_at   TEXT NOT NULL,
  finished_at  TEXT,
  outcome      TEXT NOT NULL,
  summary      TEXT NOT NULL,
  trials       INTEGER NOT NULL,
  failed       INTEGER NOT NULL,
  command_line TEXT NOT NULL,
  record       TEXT NOT NULL
) STRICT;

CREATE TABLE findings (
  run_id     INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  rank       INTEGER NOT NULL,
  class      TEXT NOT NULL,
  severity   TEXT NOT NULL,
  headline   TEXT NOT NULL,
  runner_up  TEXT,
  confidence REAL NOT NULL,
  PRIMARY KEY (run_id, rank)
) STRICT, WITHOUT ROWID;

CREATE TABLE failing_cases (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  origin       TEXT NOT NULL,
  subject      TEXT NOT NULL,
  variant      TEXT NOT NULL,
  problem      TEXT NOT NULL,
  config       TEXT NOT NULL,
  backend      TEXT NOT NULL,
  data         TEXT NOT NULL,
  seed         TEXT NOT NULL,
  trial        TEXT NOT NULL,
  perturbation TEXT NOT NULL,
  race         TEXT NOT NULL,
  token        TEXT NOT NULL,
  command      TEXT NOT NULL,
  finding      TEXT NOT NULL,
  reason       TEXT NOT NULL,
  failed       INTEGER NOT NULL,
  trials       INTEGER NOT NULL,
  first_run_id INTEGER REFERENCES runs (id) ON DELETE SET NULL,
  last_run_id  INTEGER REFERENCES runs (id) ON DELETE SET NULL,
  first_seen   TEXT NOT NULL,
  last_seen    TEXT NOT NULL,
  times_seen   INTEGER NOT NULL,
  fixed_at     TEXT,
  UNIQUE (origin, subject, variant, problem, config, backend, data, seed, trial, perturbation, race)
) STRICT;
)sql";

}  // namespace faultline::store::detail
