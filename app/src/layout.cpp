// SPDX-License-Identifier: Apache-2.0
#include "layout.hpp"

#include <algorithm>
#include <cstdio>

#include "faultline/reports/terminal.hpp"

namespace faultline::app {
namespace {

/// Where what is continued of a line begins.
std::size_t hanging(std::string_view line, std::size_t width) {
  constexpr std::size_t kRoom = 24;  // of the last column, at least
  const std::size_t leading = std::min(line.find_first_not_of(' '), line.size());
  std::size_t column = leading + 4;
  for (std::size_t i = leading + 2; i < line.size() && i + kRoom <= width; ++i) {
    if (line[i] != ' ' && line[i - 1] == ' ' && line[i - 2] == ' ') column = i;
  }
  return column;
}

/// Of a line whose words fit beside `indent`.
std::string wrapped_line(std::string_view line, std::size_t indent, std::size_t width) {
  std::string text;
  std::size_t room = width;
  line = line.substr(0, line.find_last_not_of(' ') + 1);
  while (line.size() > room) {
    const std::size_t end = line.rfind(' ', room);
    if (end == line.npos || line.find_first_not_of(' ') >= end) break;
    text += std::string(line.substr(0, line.find_last_not_of(' ', end) + 1));
    text += '\n' + std::string(indent, ' ');
    line.remove_prefix(line.find_first_not_of(' ', end));
    room = width - indent;
  }
  return text + std::string(line);
}

}  // namespace

int columns(const Options& options) {
  return options.width > 0 ? options.width : reports::terminal_options_for(stdout).width;
}

std::string wrapped(std::string_view text, int width) {
  const auto most = static_cast<std::size_t>(std::max(width, 1));
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    std::size_t longest = 0, word = 0;
    for (const char c : line) {
      word = c == ' ' ? 0 : word + 1;
      longest = std::max(longest, word);
    }
    const std::size_t indent = hanging(line, most);
    const bool whole = line.size() <= most || indent + longest > most;
    out += whole ? std::string(line) : wrapped_line(line, indent, most);
    if (end < text.size()) out += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

}  // namespace faultline::app
