# SPDX-License-Identifier: Apache-2.0
#
# Everything faultline takes from the system. quickstart.sh has the Debian packages that hold it.
# Imported targets: Eigen3::Eigen fmt::fmt nlohmann_json::nlohmann_json CLI11::CLI11 SQLite::SQLite3
# Boost::headers zstd::libzstd_static rapidcheck GTest::{gtest,gtest_main,gmock}; with a toolkit
# CUDA::cudart_static.

find_package(Eigen3 3.4 REQUIRED NO_MODULE)
find_package(fmt 9 REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(CLI11 2.1 REQUIRED)
find_package(SQLite3 3.40 REQUIRED)
find_package(Boost 1.74 REQUIRED)
find_package(zstd 1.4 REQUIRED)  # embedded modules are packed; static: one library less at start
find_package(Threads REQUIRED)
find_package(rapidcheck REQUIRED)
if(FAULTLINE_BUILD_TESTS)
  find_package(GTest 1.12 REQUIRED)
  include(GoogleTest)
  # For tests of the tree and of schemas. The system's python3 first: python3-jsonschema is its.
  find_program(FAULTLINE_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH DOC "python3, for tests")
  find_program(FAULTLINE_PYTHON python3)
  if(NOT FAULTLINE_PYTHON)
    message(FATAL_ERROR "The tests need python3. Install it (Debian: python3-jsonschema), or "
                        "configure with -DFAULTLINE_BUILD_TESTS=OFF.")
  endif()
endif()

# FAULTLINE_NVCC compiles the subjects; FAULTLINE_HAVE_CUDA says that the runtime's headers and
# static library are there too, which backends/cuda needs. Neither needs a device or a driver.
include("${CMAKE_CURRENT_LIST_DIR}/FaultlineKernels.cmake")
set(FAULTLINE_HAVE_CUDA OFF)
if(FAULTLINE_CUDA STREQUAL "OFF")
  set(FAULTLINE_NVCC "")
else()
  include("${CMAKE_CURRENT_LIST_DIR}/FaultlineCudaRuntime.cmake")
  if(FAULTLINE_CUDA STREQUAL "ON" AND NOT FAULTLINE_HAVE_CUDA)
    message(FATAL_ERROR "FAULTLINE_CUDA=ON, but no cuda_runtime_api.h and libcudart_static.a is "
                        "near nvcc ('${FAULTLINE_NVCC}') or in /usr/local/cuda.")
  endif()
  if(NOT FAULTLINE_NVCC)
    if(FAULTLINE_CUDA STREQUAL "ON")
      set(_faultline_level FATAL_ERROR)
    else()
      set(_faultline_level WARNING)
    endif()
    message(${_faultline_level}
      "No nvcc was found: the subjects (kernels/) are not built, everything else is. To get one "
      "without a CUDA installation, in the source folder:\n"
      "  python3 -m venv .venv && .venv/bin/pip install 'nvidia-cuda-nvcc==13.0.*' "
      "'nvidia-cuda-crt==13.0.*' 'nvidia-nvvm==13.0.*' 'nvidia-cuda-runtime==13.0.*' "
      "'nvidia-cuda-cccl==13.0.*'\n"
      "then configure again; or pass -DFAULTLINE_NVCC=/path/to/nvcc.")
  endif()
endif()
