// SPDX-License-Identifier: Apache-2.0
#include "faultline/core/module.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include <fmt/format.h>
#include <zstd.h>

#include "faultline/core/errors.hpp"
#include "faultline/core/generator.hpp"
#include "text.hpp"

namespace faultline::core {

namespace {

std::string hash_of(std::string_view ptx, std::span<const std::byte> cubin) {
  std::uint64_t state = detail::fnv1a(ptx);
  state = detail::fnv1a(fmt::format("|{}|", ptx.size()), state);
  state = detail::fnv1a({reinterpret_cast<const char*>(cubin.data()), cubin.size()}, state);
  return fmt::format("{:016x}", mix64(state));
}

std::optional<std::string> read_file(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    errno = std::filesystem::is_directory(path, error) ? EISDIR : ENOENT;
    return std::nullopt;
  }
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || (file.peek() != std::ifstream::traits_type::eof() && !(text << file.rdbuf()))) {
    return std::nullopt;
  }
  return std::move(text).str();
}

/// Paths of the PTX's `.file N "path"` directives.
std::vector<std::string> file_directives(std::string_view ptx) {
  std::vector<std::string> paths;
  std::size_t line_begin = 0;
  while (line_begin < ptx.size()) {
    std::size_t line_end = ptx.find('\n', line_begin);
    line_end = line_end == std::string_view::npos ? ptx.size() : line_end;
    std::string_view line = ptx.substr(line_begin, line_end - line_begin);
    line_begin = line_end + 1;
    const std::size_t start = line.find_first_not_of(" \t");
    if (start == std::string_view::npos || !line.substr(start).starts_with(".file")) {
      continue;
    }
    const std::size_t open = line.find('"', start);
    const std::size_t close = open == std::string_view::npos ? open : line.find('"', open + 1);
    if (close != std::string_view::npos) {
      paths.emplace_back(line.substr(open + 1, close - open - 1));
    }
  }
  return paths;
}

}  // namespace

std::string unpack(const EmbeddedBytes& bytes) {
  const std::span<const std::byte> stored = bytes.stored;
  if (bytes.unpacked_size == 0) {
    return {reinterpret_cast<const char*>(stored.data()), stored.size()};
  }
  std::string unpacked(bytes.unpacked_size, '\0');
  const std::size_t size =
      ZSTD_decompress(unpacked.data(), unpacked.size(), stored.data(), stored.size());
  if (size != unpacked.size()) {
    throw EnvironmentError(fmt::format(
        "{} embedded bytes should unpack to {}, but {}: the binary is damaged, build it anew",
        stored.size(), unpacked.size(),
        ZSTD_isError(size) != 0 ? ZSTD_getErrorName(size) : fmt::format("gave {}", size)));
  }
  return unpacked;
}

ModuleRef make_module(const EmbeddedModule& embedded) {
  auto module = std::make_shared<Module>();
  module->name = embedded.name;
  module->ptx = unpack(embedded.ptx);
  const std::string cubin = unpack(embedded.cubin);
  const auto cubin_bytes = std::as_bytes(std::span(cubin));
  module->cubin.assign(cubin_bytes.begin(), cubin_bytes.end());
  for (const EmbeddedSource& source : embedded.sources) {
    module->sources.emplace_back(source.path, unpack(source.text));
  }
  module->hash = hash_of(module->ptx, module->cubin);
  return module;
}

ModuleRef load_ptx_module(const std::string& path) {
  errno = 0;
  auto text = read_file(path);
  if (!text) {
    throw EnvironmentError(fmt::format("cannot read the PTX file '{}': {}", path,
                                       std::strerror(errno != 0 ? errno : EIO)));
  }
  auto module = std::make_shared<Module>();
  module->name = std::filesystem::path(path).filename().string();
  module->ptx = std::move(*text);
  for (const std::string& source : file_directives(module->ptx)) {
    // A source is welcome, not needed: what is not there is left out.
    if (auto source_text = read_file(source)) {
      module->sources.emplace_back(source, std::move(*source_text));
    }
  }
  module->hash = hash_of(module->ptx, {});
  return module;
}

ModuleRef with_ptx(const Module& module, std::string ptx) {
  auto changed = std::make_shared<Module>();
  changed->name = module.name;
  changed->ptx = std::move(ptx);
  changed->sources = module.sources;
  changed->hash = hash_of(changed->ptx, {});
  return changed;
}

std::string source_line(const Module& module, std::string_view path, int line) {
  if (line < 1) {
    return {};
  }
  for (const auto& [source_path, text] : module.sources) {
    if (source_path != path) {
      continue;
    }
    std::size_t begin = 0;
    for (int i = 1; i < line; ++i) {
      begin = text.find('\n', begin);
      if (begin == std::string::npos) {
        return {};
      }
      ++begin;
    }
    std::string found = text.substr(begin, text.find('\n', begin) - begin);
    found.erase(found.find_last_not_of(" \t\r") + 1);
    return found;
  }
  return {};
}

std::vector<std::string> asynchronous_instructions(const Module& module, std::string_view entry) {
  static constexpr std::string_view kOpcodes[] = {"cp.async.bulk.tensor.", "cp.async.bulk.",
                                                  "cp.async.", "wgmma.mma_async."};
  const std::string_view ptx = module.ptx;
  // The definition is ".entry NAME(" or ".entry NAME\n"; its body ends where its braces balance.
  std::size_t at = std::string_view::npos;
  for (std::size_t found = ptx.find(".entry "); found != ptx.npos;
       found = ptx.find(".entry ", found + 1)) {
    const std::string_view rest = ptx.substr(found + 7);
    if (rest.starts_with(entry) && rest.size() > entry.size() &&
        (rest[entry.size()] == '(' || rest[entry.size()] == '\n' || rest[entry.size()] == ' ')) {
      at = found;
      break;
    }
  }
  if (at == ptx.npos) return {};
  const std::size_t begin = ptx.find('{', at);
  if (begin == ptx.npos) return {};
  std::size_t end = begin;
  for (int depth = 0; end < ptx.size(); ++end) {
    if (ptx[end] == '{') ++depth;
    if (ptx[end] == '}' && --depth == 0) break;
  }
  const std::string_view body = ptx.substr(begin, end - begin);
  std::vector<std::string> found;
  for (const char* stem : {"cp.async.", "wgmma.mma_async."}) {
    for (std::size_t i = body.find(stem); i != body.npos; i = body.find(stem, i + 1)) {
      const std::string_view text = body.substr(i);
      if (text.starts_with("cp.async.commit") || text.starts_with("cp.async.wait") ||
          text.starts_with("cp.async.bulk.commit") || text.starts_with("cp.async.bulk.wait")) {
        continue;
      }
      for (std::string_view opcode : kOpcodes) {
        if (!text.starts_with(opcode)) continue;
        opcode.remove_suffix(1);
        if (std::find(found.begin(), found.end(), opcode) == found.end()) {
          found.emplace_back(opcode);
        }
        break;
      }
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace faultline::core
