// SPDX-License-Identifier: Apache-2.0
// A library with cuBLAS's function names that does nothing.
#if defined(FAULTLINE_STUB_WRONG_VERSION)
constexpr int kMajor = 11;
#else
constexpr int kMajor = 13;
#endif

extern "C" {
int cublasGetProperty(int which, int* value) {
  *value = which == 0 ? kMajor : which;
  return 0;
}
int cublasCreate_v2(void**) { return 0; }
int cublasDestroy_v2(void*) { return 0; }
int cublasSetStream_v2(void*, void*) { return 0; }
int cublasSetWorkspace_v2(void*, void*, unsigned long) { return 0; }
#if !defined(FAULTLINE_STUB_MISSING_FUNCTION)
int cublasGemmEx() { return 0; }
#endif
int cublasLtCreate(void**) { return 0; }
int cublasLtDestroy(void*) { return 0; }
int cublasLtMatmulDescCreate() { return 0; }
int cublasLtMatmulDescDestroy() { return 0; }
int cublasLtMatmulDescSetAttribute() { return 0; }
int cublasLtMatrixLayoutCreate() { return 0; }
int cublasLtMatrixLayoutDestroy() { return 0; }
int cublasLtMatmulPreferenceCreate() { return 0; }
int cublasLtMatmulPreferenceDestroy() { return 0; }
int cublasLtMatmulPreferenceSetAttribute() { return 0; }
int cublasLtMatmulAlgoGetHeuristic() { return 0; }
int cublasLtMatmul() { return 0; }
}
