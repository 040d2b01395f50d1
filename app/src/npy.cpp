// SPDX-License-Identifier: Apache-2.0
#include "npy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "faultline/core/errors.hpp"
#include "faultline/reports/output.hpp"
#include "input_file.hpp"
#include "memory.hpp"

namespace faultline::app {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are copied as they lie");

constexpr std::string_view kMagic("\x93NUMPY", 6);
constexpr std::uint32_t kMaxHeader = 1u << 20;

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& what) {
  throw core::UsageError(path.string() + ": " + what);
}

/// The header: a Python dictionary literal with the keys descr, fortran_order and shape.
class Header {
 public:
  Header(std::string_view text, const std::filesystem::path& path) : rest_(text), path_(path) {
    expect('{');
    while (!accept('}')) {
      const std::string key = quoted();
      expect(':');
      if (key == "descr" && !descr_) {
        if (peek() == '[') refuse(path_, "structured dtypes are not supported: save one array");
        descr_ = quoted();
      } else if (key == "fortran_order" && !fortran_) {
        fortran_ = boolean();
      } else if (key == "shape" && !shape_) {
        shape_ = tuple();
      } else {
        malformed();
      }
      if (!accept(',') && peek() != '}') malformed();
    }
    skip_blanks();
    if (!rest_.empty() || !descr_ || !fortran_ || !shape_) malformed();
  }

  core::Dtype dtype() const {
    if (*descr_ == "<f2") return core::Dtype::f16;
    if (*descr_ == "<f4") return core::Dtype::f32;
    if (*descr_ == "<f8") return core::Dtype::f64;
    const bool bfloat16 = *descr_ == "<V2" || *descr_ == "|V2";
    refuse(path_,
           fmt::format("dtype '{}' is not one of '<f2', '<f4', '<f8' (float16, float32, "
                       "float64, little-endian){}",
                       *descr_,
                       bfloat16 ? "; save bfloat16 as float32, which holds it exactly" : ""));
  }
  bool fortran_order() const { return *fortran_; }
  const core::Shape& shape() const { return *shape_; }

 private:
  [[noreturn]] void malformed() const {
    refuse(path_, "its header is not that of a .npy file (descr, fortran_order, shape)");
  }
  void skip_blanks() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r\n"), rest_.size()));
  }
  char peek() {
    skip_blanks();
    return rest_.empty() ? '\0' : rest_.front();
  }
  bool accept(char c) {
    if (peek() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!accept(c)) malformed();
  }
  bool accept_word(std::string_view word) {
    skip_blanks();
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  std::string quoted() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') malformed();
    const std::size_t end = rest_.find(quote, 1);
    if (end == rest_.npos) malformed();
    std::string text(rest_.substr(1, end - 1));
    rest_.remove_prefix(end + 1);
    return text;
  }
  bool boolean() {
    if (accept_word("True")) return true;
    if (accept_word("False")) return false;
    malformed();
  }
  core::Shape tuple() {
    core::Shape shape;
    expect('(');
    while (!accept(')')) {
      skip_blanks();
      std::int64_t extent = 0;
      const char* end = rest_.data() + rest_.size();
      const auto [stop, error] = std::from_chars(rest_.data(), end, extent);
      if (error != std::errc() || extent < 0) malformed();
      rest_.remove_prefix(static_cast<std::size_t>(stop - rest_.data()));
      shape.push_back(extent);
      if (!accept(',') && peek() != ')') malformed();
    }
    return shape;
  }

  std::string_view rest_;
  const std::filesystem::path& path_;
  std::optional<std::string> descr_;
  std::optional<bool> fortran_;
  std::optional<core::Shape> shape_;
};

}  // namespace

core::Tensor read_npy(const std::filesystem::path& path) {
  require_regular_file(path, "array", true);
  std::error_code error;
  const std::uintmax_t file_size = std::filesystem::file_size(path, error);
  std::ifstream file(path, std::ios::binary);
  if (error || !file) {
    const std::error_code reason = error ? error : std::error_code(errno, std::generic_category());
    refuse(path, "cannot be read (" + reason.message() + ")");
  }
  const auto read = [&](void* to, std::size_t n, const char* what) {
    if (!file.read(static_cast<char*>(to), static_cast<std::streamsize>(n))) {
      refuse(path, fmt::format("ends within its {}", what));
    }
  };
  char start[8];
  read(start, sizeof start, "first 8 bytes");
  if (std::string_view(start, 6) != kMagic) refuse(path, "is not a .npy file (no NumPy magic)");
  const int major = static_cast<unsigned char>(start[6]);
  if (major < 1 || major > 3) {
    refuse(path, fmt::format("has format version {}; 1, 2 and 3 are known", major));
  }
  std::uint32_t length = 0;
  const std::size_t length_bytes = major == 1 ? 2 : 4;
  read(&length, length_bytes, "header");
  if (length > kMaxHeader) refuse(path, fmt::format("claims a header of {} bytes", length));
  std::string text(length, '\0');
  read(text.data(), text.size(), "header");

  const Header header(text, path);
  const core::Dtype dtype = header.dtype();
  if (header.fortran_order() && header.shape().size() > 1) {
    refuse(path, "is in Fortran order: save numpy.ascontiguousarray(array)");
  }
  const std::string shape = core::to_string(header.shape());
  std::int64_t elements = 0;
  try {
    elements = core::element_count(header.shape());
  } catch (const core::UsageError&) {
    refuse(path, "its shape " + shape + " is too large");
  }
  const std::uintmax_t offset = sizeof start + length_bytes + length;
  const std::uintmax_t held = file_size - offset;
  const std::uintmax_t wanted = static_cast<std::uintmax_t>(elements) * core::size_of(dtype);
  if (held != wanted) {
    refuse(path, fmt::format("holds {} bytes of elements where {} {} needs {}: {}", held,
                             core::name_of(dtype), shape, wanted,
                             held < wanted ? "it is truncated" : "something follows the array"));
  }
  if (const auto available = available_memory(); available && wanted > *available) {
    throw core::EnvironmentError(fmt::format("{}: out of memory: it holds {} and {} can be had "
                                             "here; split the array over several calls",
                                             path.string(), bytes_text(wanted),
                                             bytes_text(*available)));
  }
  core::Tensor tensor(dtype, header.shape());
  read(tensor.bytes.data(), tensor.bytes.size(), "elements");
  return tensor;
}

void write_npy(const std::filesystem::path& path, const core::Shape& shape,
               std::span<const double> values, const std::filesystem::path& shown) {
  std::string header = "{'descr': '<f8', 'fortran_order': False, 'shape': (";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    header += fmt::format("{}{}", i == 0 ? "" : " ", shape[i]);
    if (i + 1 < shape.size() || shape.size() == 1) header += ',';
  }
  header += "), }";
  // Elements start at a multiple of 64 bytes; the header ends with a line feed.
  constexpr std::size_t kPrefix = 10, kAlignment = 64;
  while ((kPrefix + header.size() + 1) % kAlignment != 0) header += ' ';
  header += '\n';
  if (header.size() > std::numeric_limits<std::uint16_t>::max()) {
    throw core::UsageError(path.string() + ": too many extents for a .npy file");
  }
  const std::uint16_t length = static_cast<std::uint16_t>(header.size());

  std::string prefix(kMagic);
  prefix.append("\x01\x00", 2);
  prefix.append(reinterpret_cast<const char*>(&length), sizeof length);
  prefix += header;
  const std::string_view elements(reinterpret_cast<const char*>(values.data()),
                                  values.size_bytes());
  reports::write_output(path.string(), {prefix, elements},
                        shown.empty() ? path.string() : shown.string());
}

}  // namespace faultline::app
