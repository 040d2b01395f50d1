// SPDX-License-Identifier: Apache-2.0
// A folder of a test's own, and .npy files written byte by byte.
#pragma once

#include <faultline/core/tensor.hpp>

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace faultline::app::test {

/// Removed with everything in it at the end of the test.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "faultline_XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr) << name;
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline void write_bytes(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  ASSERT_TRUE(file.good()) << path;
}

/// Magic, version, the header's length and the header.
inline std::string npy_prefix(std::string_view dictionary, int major = 1) {
  std::string bytes("\x93NUMPY", 6);
  bytes += static_cast<char>(major);
  bytes += '\0';
  const std::size_t length = dictionary.size() + 1;
  for (int i = 0; i < (major == 1 ? 2 : 4); ++i) {
    bytes += static_cast<char>(length >> (8 * i) & 0xff);
  }
  bytes += dictionary;
  bytes += '\n';
  return bytes;
}

inline std::string npy_dictionary(std::string_view descr, const core::Shape& shape,
                                  bool fortran = false) {
  std::string text = "{'descr': '" + std::string(descr) +
                     "', 'fortran_order': " + (fortran ? "True" : "False") + ", 'shape': (";
  for (const std::int64_t extent : shape) text += std::to_string(extent) + ", ";
  return text + "), }";
}

/// A tensor as numpy.save() would write it.
inline void save(const std::filesystem::path& path, const core::Tensor& tensor) {
  const char* descr = tensor.dtype == core::Dtype::f16   ? "<f2"
                      : tensor.dtype == core::Dtype::f32 ? "<f4"
                                                         : "<f8";
  std::string bytes = npy_prefix(npy_dictionary(descr, tensor.shape));
  bytes.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
  write_bytes(path, bytes);
}

}  // namespace faultline::app::test
