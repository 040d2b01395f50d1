// SPDX-License-Identifier: Apache-2.0
#include "input_file.hpp"

#include <fmt/format.h>

#include <string>
#include <system_error>

#include "faultline/core/errors.hpp"

namespace faultline::app {
namespace {

namespace fs = std::filesystem;

std::string_view kind_of(fs::file_type type) {
  switch (type) {
  case fs::file_type::directory: return "a folder";
  case fs::file_type::fifo: return "a pipe (FIFO)";
  case fs::file_type::socket: return "a socket";
  case fs::file_type::character:
  case fs::file_type::block: return "a device";
  default: return "no regular file";
  }
}

}  // namespace

void require_regular_file(const fs::path& path, std::string_view what, bool missing_is_usage) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_regular_file(status)) return;
  if (status.type() != fs::file_type::none && fs::exists(status)) {
    throw core::UsageError(fmt::format("{}: is {}, and the {} must be a regular file",
                                       path.string(), kind_of(status.type()), what));
  }
  std::error_code link_error;
  const bool dangling = fs::is_symlink(fs::symlink_status(path, link_error));
  const std::string message =
      dangling
          ? fmt::format("{}: is a link to {}, which cannot be read ({}); mend the link or give "
                        "the {} itself",
                        path.string(), fs::read_symlink(path, link_error).string(),
                        std::generic_category().message(error ? error.value() : ENOENT), what)
          : fmt::format("{}: cannot be read ({}): give the path of the {}", path.string(),
                        std::generic_category().message(error ? error.value() : ENOENT), what);
  if (missing_is_usage) throw core::UsageError(message);
  throw core::EnvironmentError(message);
}

}  // namespace faultline::app
