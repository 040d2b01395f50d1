// SPDX-License-Identifier: Apache-2.0
#include "npy.hpp"

#include <faultline/core/errors.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <iterator>
#include <string>
#include <vector>

#include "files.hpp"

namespace faultline::app {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::string elements(std::size_t bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes; ++i) text += static_cast<char>(i * 37);
  return text;
}

TEST(Npy, ReadsEveryVersionAndDtype) {
  const test::TemporaryFolder folder;
  const struct {
    const char* descr;
    core::Dtype dtype;
  } dtypes[] = {{"<f2", core::Dtype::f16}, {"<f4", core::Dtype::f32}, {"<f8", core::Dtype::f64}};
  for (const auto& d : dtypes) {
    for (const int major : {1, 2, 3}) {
      const std::string data = elements(6 * core::size_of(d.dtype));
      test::write_bytes(folder / "a.npy",
                        test::npy_prefix(test::npy_dictionary(d.descr, {2, 3}), major) + data);
      const core::Tensor tensor = read_npy(folder / "a.npy");
      EXPECT_EQ(tensor.dtype, d.dtype);
      EXPECT_EQ(tensor.shape, (core::Shape{2, 3}));
      EXPECT_EQ(
          std::string(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()),
          data);
    }
  }
}

// The header of numpy.save(numpy.float32([[1, 2]])) by numpy 1.24, to the byte.
TEST(Npy, ReadsWhatNumpyWrites) {
  const test::TemporaryFolder folder;
  std::string bytes("\x93NUMPY\x01\x00v\x00", 10);
  bytes += "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }";
  bytes.resize(127, ' ');
  bytes += '\n';
  bytes.append("\x00\x00\x80\x3f\x00\x00\x00\x40", 8);
  test::write_bytes(folder / "a.npy", bytes);
  EXPECT_EQ(read_npy(folder / "a.npy").to_doubles(), (std::vector<double>{1.0, 2.0}));
}

TEST(Npy, HeadersInOtherOrdersAndQuotes) {
  const test::TemporaryFolder folder;
  for (const char* header :
       {"{\"shape\":(4,),\"descr\":\"<f2\",\"fortran_order\":False}",
        "  { 'fortran_order' : True , 'descr' : '<f2' , 'shape' : ( 4 , ) , }  "}) {
    test::write_bytes(folder / "a.npy", test::npy_prefix(header) + elements(8));
    EXPECT_EQ(read_npy(folder / "a.npy").shape, (core::Shape{4})) << header;
  }
  test::write_bytes(folder / "s.npy",
                    test::npy_prefix(test::npy_dictionary("<f8", {})) + elements(8));
  EXPECT_EQ(read_npy(folder / "s.npy").shape, core::Shape{});
}

TEST(Npy, RoundTrip) {
  const test::TemporaryFolder folder;
  const std::vector<double> values{1.0, -0.0, 1e-310, 3.25, 2.0, 6.0};
  for (const core::Shape& shape : {core::Shape{6}, core::Shape{2, 3}, core::Shape{1, 3, 2, 1}}) {
    write_npy(folder / "a.npy", shape, values);
    const core::Tensor tensor = read_npy(folder / "a.npy");
    EXPECT_EQ(tensor.dtype, core::Dtype::f64);
    EXPECT_EQ(tensor.shape, shape);
    EXPECT_EQ(tensor.to_doubles(), values);
    EXPECT_EQ((std::filesystem::file_size(folder / "a.npy") - 48) % 64, 0u);
  }
}

void expect_refused(const std::filesystem::path& path, const std::string& bytes,
                    const char* message) {
  test::write_bytes(path, bytes);
  EXPECT_THAT([&] { read_npy(path); }, ThrowsMessage<core::UsageError>(testing::AllOf(
                                           HasSubstr(path.string()), HasSubstr(message))));
}

TEST(Npy, RefusesWhatItCannotRead) {
  const test::TemporaryFolder folder;
  const std::filesystem::path path = folder / "a.npy";
  const std::string good = test::npy_prefix(test::npy_dictionary("<f4", {2, 3})) + elements(24);
  expect_refused(path, "", "ends within its first 8 bytes");
  expect_refused(path, "PK\x03\x04 a zip file", "no NumPy magic");
  expect_refused(path, good.substr(0, 9), "ends within its header");
  expect_refused(path, good.substr(0, 40), "ends within its header");
  expect_refused(path, good.substr(0, good.size() - 1),
                 "holds 23 bytes of elements where f32 [2, 3] needs 24: it is truncated");
  expect_refused(path, good + "x", "needs 24: something follows the array");
  std::string version = good;
  version[6] = 4;
  expect_refused(path, version, "format version 4");

  const auto dtype = [&](const char* descr, const char* message) {
    expect_refused(path, test::npy_prefix(test::npy_dictionary(descr, {2})) + elements(8), message);
  };
  dtype(">f4", "dtype '>f4' is not one of '<f2', '<f4', '<f8'");
  dtype("<i4", "dtype '<i4'");
  dtype("<c8", "dtype '<c8'");
  dtype("<V2", "save bfloat16 as float32");
  const auto header = [&](const char* text, const char* message) {
    expect_refused(path, test::npy_prefix(text) + elements(24), message);
  };
  header("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }", "Fortran order");
  header("{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (2,)}", "structured");
  for (const char* text :
       {"", "{", "{}", "{'descr': '<f4', 'shape': (2, 3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, -3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2 3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': 6}",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (6,)}",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (6,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (6,), 'x': 1}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (6,)} trailing"}) {
    header(text, "its header is not that of a .npy file");
  }
  header("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}",
         "too large");
  EXPECT_THAT([&] { read_npy(folder / "absent.npy"); },
              ThrowsMessage<core::UsageError>(
                  HasSubstr("absent.npy: cannot be read (No such file or directory)")));
  EXPECT_THAT([&] { read_npy(folder.path()); },
              ThrowsMessage<core::UsageError>(HasSubstr("is a folder, and the array must be")));
}

TEST(Npy, RefusesAPipeAtOnceAndALinkToNothing) {
  const test::TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "q.npy").c_str(), 0600), 0);
  EXPECT_THAT([&] { read_npy(folder / "q.npy"); },
              ThrowsMessage<core::UsageError>(HasSubstr("q.npy: is a pipe (FIFO)")));
  std::filesystem::create_symlink("gone.npy", folder / "k.npy");
  EXPECT_THAT([&] { read_npy(folder / "k.npy"); },
              ThrowsMessage<core::UsageError>(HasSubstr("k.npy: is a link to gone.npy")));
}

TEST(Npy, RefusesWhatMemoryCannotHold) {
  const test::TemporaryFolder folder;
  const std::string prefix = test::npy_prefix(test::npy_dictionary("<f8", {1ll << 40}));
  test::write_bytes(folder / "q.npy", prefix);
  std::error_code error;  // holes: no disk is used
  std::filesystem::resize_file(folder / "q.npy", prefix.size() + (1ull << 43), error);
  if (error) GTEST_SKIP() << "no file of 8 TiB here: " << error.message();
  EXPECT_THAT([&] { read_npy(folder / "q.npy"); },
              ThrowsMessage<core::EnvironmentError>(HasSubstr("it holds 8.0 TiB")));
}

TEST(Npy, UnwritableFile) {
  const test::TemporaryFolder folder;
  const std::vector<double> values{1.0};
  EXPECT_THAT(
      [&] { write_npy(folder / "absent/a.npy", {1}, values); },
      ThrowsMessage<core::EnvironmentError>(HasSubstr("absent/a.npy': its folder does not exist")));
}

}  // namespace
}  // namespace faultline::app
