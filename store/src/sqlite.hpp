// SPDX-License-Identifier: Apache-2.0
// SQLite's handles, with its error codes turned into sentences.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace faultline::store::detail {

/// An open database file. Every failure throws EnvironmentError: path, reason, what to do.
class Connection {
 public:
  Connection(std::string path, bool write, int wait_ms);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  const std::string& path() const { return path_; }
  sqlite3* handle() const { return handle_; }

  void execute(const char* sql);
  /// Readers and one writer side by side. Waits for others that use the file, which SQLite does not
  /// do by itself here.
  void use_wal_mode();
  std::int64_t integer(const char* sql);
  std::int64_t last_insert_id() const;
  /// Throws what SQLite's last error on this connection means.
  [[noreturn]] void fail() const;
  [[noreturn]] void fail(std::string_view reason, std::string_view advice) const;

 private:
  std::string path_;
  int wait_ms_ = 0;
  sqlite3* handle_ = nullptr;
};

/// One prepared statement; parameters are bound in order.
class Statement {
 public:
  Statement(Connection& connection, const char* sql);
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  /// Empty text of a nullable column is bound by bind_or_null().
  Statement& bind(std::string_view text);
  Statement& bind_or_null(std::string_view text);
  Statement& bind(std::int64_t value);
  /// Counts; beyond 2^63 - 1 that.
  Statement& bind(std::uint64_t value);
  Statement& bind(double value);

  /// True: a row is there.
  bool step();
  /// For statements without rows.
  void run();

  /// Columns of the row, in order.
  std::string text();
  std::int64_t integer();
  std::uint64_t count() { return static_cast<std::uint64_t>(integer()); }

 private:
  Connection& connection_;
  sqlite3_stmt* handle_ = nullptr;
  int next_parameter_ = 1, next_column_ = 0;
};

/// Rolled back unless committed. It takes the right to write at once, so that what is read in it
/// cannot change before it writes.
class Transaction {
 public:
  explicit Transaction(Connection& connection);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit();

 private:
  Connection& connection_;
  bool open_ = true;
};

}  // namespace faultline::store::detail
