// SPDX-License-Identifier: Apache-2.0
#include "sqlite.hpp"

#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <limits>
#include <thread>
#include <utility>

#include "faultline/core/errors.hpp"

namespace faultline::store::detail {
namespace {

std::string system_reason(int error) {
  switch (error) {
  case 0: return "it cannot be opened";
  case ENOSPC: return "the disk is full";
  case EDQUOT: return "the disk quota is used up";
  case EFBIG: return "the limit on the size of files is reached";
  case ENOENT: return "it or its folder does not exist";
  case EACCES:
  case EPERM: return "no permission";
  case EROFS: return "the file system is read-only";
  default: return std::strerror(error);
  }
}

/// Why a file could not be opened, `error` being what came of SQLite's last try: one to read it.
std::string open_reason(const std::string& path, bool write, int error) {
  const std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
  std::error_code ignored;
  const bool could_be_made =
      write && error == ENOENT && std::filesystem::is_directory(folder, ignored);
  return could_be_made ? "no permission to make it in its folder" : system_reason(error);
}

/// A file that nobody may change for us is read as it lies there: in WAL mode SQLite would need to
/// make a file beside it. Empty: it can be opened as any other.
std::string unchangeable(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
  if (::access(path.c_str(), R_OK) != 0 || ::access(path.c_str(), W_OK) == 0 ||
      ::access(folder.c_str(), W_OK) == 0 || ::access((path + "-wal").c_str(), F_OK) == 0) {
    return {};
  }
  // With "//" and an empty authority: a path may begin with two slashes itself.
  std::string uri = path.starts_with('/') ? "file://" : "file:";
  for (const char c : path) {
    if (c == '%' || c == '?' || c == '#') {
      uri += fmt::format("%{:02x}", static_cast<unsigned char>(c));
    } else {
      uri += c;
    }
  }
  return uri + "?immutable=1";
}

/// A path that SQLite takes for a file: not ":memory:", and no URI.
std::string file_name(const std::string& path) {
  return path.starts_with(':') || path.starts_with("file:") ? "./" + path : path;
}

constexpr int kPrimary = 0xff;  // of an extended error code

}  // namespace

Connection::Connection(std::string path, bool write, int wait_ms)
    : path_(std::move(path)), wait_ms_(wait_ms) {
  struct stat status {};
  if (::stat(path_.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    fail(S_ISDIR(status.st_mode) ? "it is a folder" : "it is no regular file",
         "Give the path of a file.");
  }
  // A reader that may write removes the files of WAL mode when it is the last; SQLite itself goes
  // on to read what may not be written.
  const std::string uri = write ? "" : unchangeable(path_);
  const int flags = SQLITE_OPEN_NOMUTEX |
                    (uri.empty() ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY | SQLITE_OPEN_URI) |
                    (write ? SQLITE_OPEN_CREATE : 0);
  const std::string name = uri.empty() ? file_name(path_) : uri;
  if (sqlite3_open_v2(name.c_str(), &handle_, flags, nullptr) != SQLITE_OK) {
    const std::string reason = handle_ == nullptr
                                   ? "out of memory"
                                   : open_reason(path_, write, sqlite3_system_errno(handle_));
    sqlite3_close(handle_);
    fail(reason, write ? "Give a path that can be written." : "Give the path of a store.");
  }
  sqlite3_extended_result_codes(handle_, 1);
  sqlite3_busy_timeout(handle_, wait_ms);
  // SQLite opens for reading what it may not write.
  if (write && sqlite3_db_readonly(handle_, "main") == 1) {
    sqlite3_close(handle_);
    fail("no permission to write, or a read-only file system", "Give a path that can be written.");
  }
}

Connection::~Connection() { sqlite3_close(handle_); }

void Connection::fail(std::string_view reason, std::string_view advice) const {
  throw core::EnvironmentError(
      fmt::format("The store '{}' cannot be used: {}. {}", path_, reason, advice));
}

void Connection::fail() const {
  const int code = sqlite3_extended_errcode(handle_);
  // SQLite does not keep the reason of every failed write.
  const int error = sqlite3_system_errno(handle_) != 0 ? sqlite3_system_errno(handle_) : errno;
  const std::string what = sqlite3_errmsg(handle_);
  switch (code & kPrimary) {
  case SQLITE_FULL: fail("the disk is full", "Make room, or give another file.");
  case SQLITE_READONLY: fail("it is read-only", "Give a path that can be written.");
  case SQLITE_PERM:
  case SQLITE_AUTH: fail("no permission", "Give a path that can be written.");
  case SQLITE_BUSY:
  case SQLITE_LOCKED:
    fail(fmt::format("another process has held it for more than {:.3g} s", wait_ms_ / 1000.0),
         "Wait until that has ended, or give another file.");
  case SQLITE_NOTADB:
    fail("it is no SQLite database", "Give another file: this one is left as it is.");
  case SQLITE_CORRUPT:
    fail(fmt::format("it is damaged ({})", what),
         "Give another file; `sqlite3 FILE .recover` may save what is in this one.");
  case SQLITE_CANTOPEN: fail(system_reason(error), "Give a path that can be written.");
  case SQLITE_IOERR:
    fail(error == 0 ? what : system_reason(error), "Make room or mend it, or give another file.");
  case SQLITE_TOOBIG: fail("a record is larger than SQLite takes", "Keep it as a file: --json.");
  default: fail(what, "Give another file.");
  }
}

void Connection::execute(const char* sql) {
  errno = 0;
  if (sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr) != SQLITE_OK) fail();
}

void Connection::use_wal_mode() {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::milliseconds(wait_ms_);
  constexpr std::chrono::milliseconds kBetweenTries(5);
  const auto keep = [](void* mode, int columns, char** values, char**) {
    if (columns > 0 && values[0]) *static_cast<std::string*>(mode) = values[0];
    return 0;
  };
  for (;;) {
    std::string mode;
    errno = 0;
    const int code = sqlite3_exec(handle_, "PRAGMA journal_mode = WAL", keep, &mode, nullptr);
    if (code == SQLITE_OK && mode == "wal") return;
    if (code == SQLITE_OK) {
      fail(fmt::format("it cannot be put into WAL mode (SQLite stays in mode '{}')", mode),
           "Give a file on a local disk.");
    }
    if ((code & kPrimary) != SQLITE_BUSY || std::chrono::steady_clock::now() >= give_up) fail();
    std::this_thread::sleep_for(kBetweenTries);
  }
}

std::int64_t Connection::integer(const char* sql) {
  Statement statement(*this, sql);
  return statement.step() ? statement.integer() : 0;
}

std::int64_t Connection::last_insert_id() const { return sqlite3_last_insert_rowid(handle_); }

Statement::Statement(Connection& connection, const char* sql) : connection_(connection) {
  if (sqlite3_prepare_v2(connection.handle(), sql, -1, &handle_, nullptr) != SQLITE_OK) {
    connection.fail();
  }
}

Statement::~Statement() { sqlite3_finalize(handle_); }

Statement& Statement::bind(std::string_view text) {
  if (sqlite3_bind_text64(handle_, next_parameter_++, text.data() ? text.data() : "", text.size(),
                          SQLITE_TRANSIENT, SQLITE_UTF8) != SQLITE_OK) {
    connection_.fail();
  }
  return *this;
}

Statement& Statement::bind_or_null(std::string_view text) {
  if (!text.empty()) return bind(text);
  if (sqlite3_bind_null(handle_, next_parameter_++) != SQLITE_OK) connection_.fail();
  return *this;
}

Statement& Statement::bind(std::int64_t value) {
  if (sqlite3_bind_int64(handle_, next_parameter_++, value) != SQLITE_OK) connection_.fail();
  return *this;
}

Statement& Statement::bind(std::uint64_t value) {
  constexpr auto kLargest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  return bind(static_cast<std::int64_t>(value < kLargest ? value : kLargest));
}

Statement& Statement::bind(double value) {
  if (sqlite3_bind_double(handle_, next_parameter_++, value) != SQLITE_OK) connection_.fail();
  return *this;
}

bool Statement::step() {
  next_column_ = 0;
  errno = 0;
  const int code = sqlite3_step(handle_);
  if (code == SQLITE_ROW) return true;
  if (code != SQLITE_DONE) connection_.fail();
  return false;
}

void Statement::run() {
  while (step()) {
  }
}

std::string Statement::text() {
  const int column = next_column_++;
  const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(handle_, column));
  if (bytes == nullptr) return {};
  return {bytes, static_cast<std::size_t>(sqlite3_column_bytes(handle_, column))};
}

std::int64_t Statement::integer() { return sqlite3_column_int64(handle_, next_column_++); }

Transaction::Transaction(Connection& connection) : connection_(connection) {
  connection_.execute("BEGIN IMMEDIATE");
}

Transaction::~Transaction() {
  // A full disk may have rolled it back already; then there is nothing to do.
  if (open_) sqlite3_exec(connection_.handle(), "ROLLBACK", nullptr, nullptr, nullptr);
}

void Transaction::commit() {
  connection_.execute("COMMIT");
  open_ = false;
}

}  // namespace faultline::store::detail
