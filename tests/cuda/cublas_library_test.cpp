// SPDX-License-Identifier: Apache-2.0
#include "cublas_library.hpp"

#include <faultline/core/errors.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#if __has_include(<cublasLt.h>)
#include <cublasLt.h>
#include <cublas_v2.h>
#endif

namespace faultline::cuda {
namespace {

using testing::HasSubstr;

std::string message_of(const std::vector<std::string>& places) {
  try {
    CublasLibrary::open(places);
  } catch (const core::EnvironmentError& error) {
    return error.what();
  }
  return "opened";
}

TEST(CublasLibrary, OpensACompleteLibrary) {
  const std::vector<std::string> places{FAULTLINE_STUB_COMPLETE_PATH};
  const auto library = CublasLibrary::open(places);
  EXPECT_EQ(library->version(), "13.1.2");
  EXPECT_EQ(library->path(), FAULTLINE_STUB_COMPLETE_PATH);
  void* handle = nullptr;
  EXPECT_EQ(library->functions().create(&handle), 0);
  EXPECT_NE(library->functions().lt_matmul, nullptr);
}

TEST(CublasLibrary, SaysWhichFunctionIsMissing) {
  const std::string message = message_of({FAULTLINE_STUB_MISSING_FUNCTION_PATH});
  EXPECT_THAT(message, HasSubstr("cublasGemmEx"));
  EXPECT_THAT(message, HasSubstr(FAULTLINE_STUB_MISSING_FUNCTION_PATH));
}

TEST(CublasLibrary, SaysWhichVersionIsWrong) {
  const std::string message = message_of({FAULTLINE_STUB_WRONG_VERSION_PATH});
  EXPECT_THAT(message, HasSubstr("cuBLAS 11.1.2"));
  EXPECT_THAT(message, HasSubstr("12 to 13"));
}

TEST(CublasLibrary, SaysWhatWasTriedWhenThereIsNone) {
  const std::string message = message_of({"/nowhere/a", "/nowhere/b.so"});
  EXPECT_THAT(message, HasSubstr("FAULTLINE_CUBLAS_PATH"));
  EXPECT_THAT(message, HasSubstr("/nowhere/b.so"));
  EXPECT_THAT(message, HasSubstr("/nowhere/a"));
}

TEST(CublasLibrary, TriesTheNextPlace) {
  const std::vector<std::string> places{"/nowhere/a.so", FAULTLINE_STUB_COMPLETE_PATH};
  EXPECT_EQ(CublasLibrary::open(places)->path(), FAULTLINE_STUB_COMPLETE_PATH);
}

TEST(CublasPlaces, TheVariableIsFinal) {
  EXPECT_EQ(cublas_places("/a:/b::/c"), (std::vector<std::string>{"/a", "/b", "/c"}));
  EXPECT_EQ(cublas_places("").front(), "");  // the dynamic linker's own search
}

#if __has_include(<cublasLt.h>)
TEST(CublasConstants, EqualNvidiasHeaders) {
  EXPECT_EQ(cublas::kOpN, CUBLAS_OP_N);
  EXPECT_EQ(cublas::kOpT, CUBLAS_OP_T);
  EXPECT_EQ(cublas::kReal16F, CUDA_R_16F);
  EXPECT_EQ(cublas::kReal16BF, CUDA_R_16BF);
  EXPECT_EQ(cublas::kReal32F, CUDA_R_32F);
  EXPECT_EQ(cublas::kCompute32F, CUBLAS_COMPUTE_32F);
  EXPECT_EQ(cublas::kGemmDefault, CUBLAS_GEMM_DEFAULT);
  EXPECT_EQ(cublas::kMatmulDescTransA, CUBLASLT_MATMUL_DESC_TRANSA);
  EXPECT_EQ(cublas::kPreferenceMaxWorkspaceBytes, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
  EXPECT_EQ(cublas::kPropertyMajor, MAJOR_VERSION);
  EXPECT_EQ(cublas::kPropertyMinor, MINOR_VERSION);
  EXPECT_EQ(cublas::kPropertyPatch, PATCH_LEVEL);
  EXPECT_EQ(sizeof(cublas::HeuristicResult), sizeof(cublasLtMatmulHeuristicResult_t));
  EXPECT_EQ(offsetof(cublas::HeuristicResult, state),
            offsetof(cublasLtMatmulHeuristicResult_t, state));
  EXPECT_EQ(offsetof(cublas::HeuristicResult, workspace_bytes),
            offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
}
#endif

}  // namespace
}  // namespace faultline::cuda
