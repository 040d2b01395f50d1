// SPDX-License-Identifier: Apache-2.0
// Errors that reach the user, and the exit codes they map to.
#pragma once

#include <stdexcept>
#include <string>

namespace faultline::core {

/// Process exit codes; the worst wins: error > fail > inconclusive > pass.
enum class ExitCode : int {
  pass = 0,
  fail = 1,
  usage = 2,
  error = 3,
  inconclusive = 4,
  skipped = 77,
  interrupted = 130,
};

/// Base of all errors that faultline raises on purpose. what() is one clear sentence.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

/// Bad command line, problem line, config, token (exit 2).
class UsageError : public Error {
 public:
  explicit UsageError(const std::string& message) : Error(ExitCode::usage, message) {}
};

/// Device, driver, memory or file-system trouble (exit 3).
class EnvironmentError : public Error {
 public:
  explicit EnvironmentError(const std::string& message) : Error(ExitCode::error, message) {}
};

/// Something that this build or backend cannot judge (exit 4): never a pass.
class UnsupportedError : public Error {
 public:
  explicit UnsupportedError(const std::string& message) : Error(ExitCode::inconclusive, message) {}
};

}  // namespace faultline::core
