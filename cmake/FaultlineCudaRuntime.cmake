# SPDX-License-Identifier: Apache-2.0
#
# The CUDA runtime's headers and static library, as CUDA::cudart_static; FAULTLINE_HAVE_CUDA says
# whether they are there. Needs neither a device nor a driver. FindCUDAToolkit is not used: that of
# CMake 3.25 ends in an error with a CUDA 13 toolkit, which has no nvToolsExt library any more, and
# it wants a libcudart.so that NVIDIA's wheels do not have.

set(FAULTLINE_HAVE_CUDA OFF)
if(TARGET CUDA::cudart_static)
  set(FAULTLINE_HAVE_CUDA ON)
  return()
endif()

set(_faultline_cuda_roots)
if(FAULTLINE_NVCC)
  get_filename_component(_faultline_nvcc "${FAULTLINE_NVCC}" REALPATH)
  cmake_path(GET _faultline_nvcc PARENT_PATH _faultline_cuda_roots)
  cmake_path(GET _faultline_cuda_roots PARENT_PATH _faultline_cuda_roots)
  unset(_faultline_nvcc)
endif()
find_path(FAULTLINE_CUDA_INCLUDE_DIR cuda_runtime_api.h
  HINTS ${_faultline_cuda_roots} ENV CUDA_PATH PATHS /usr/local/cuda
  PATH_SUFFIXES include targets/x86_64-linux/include
  DOC "The folder of the CUDA runtime's headers")
find_library(FAULTLINE_CUDART_STATIC cudart_static
  HINTS ${_faultline_cuda_roots} ENV CUDA_PATH PATHS /usr/local/cuda
  PATH_SUFFIXES lib64 lib targets/x86_64-linux/lib
  DOC "The CUDA runtime's static library")
mark_as_advanced(FAULTLINE_CUDA_INCLUDE_DIR FAULTLINE_CUDART_STATIC)
unset(_faultline_cuda_roots)

if(FAULTLINE_CUDA_INCLUDE_DIR AND FAULTLINE_CUDART_STATIC)
  find_package(Threads REQUIRED)
  add_library(CUDA::cudart_static STATIC IMPORTED)
  set_target_properties(CUDA::cudart_static PROPERTIES
    IMPORTED_LOCATION "${FAULTLINE_CUDART_STATIC}"
    INTERFACE_INCLUDE_DIRECTORIES "${FAULTLINE_CUDA_INCLUDE_DIR}"
    INTERFACE_LINK_LIBRARIES "Threads::Threads;${CMAKE_DL_LIBS};rt")
  set(FAULTLINE_HAVE_CUDA ON)
endif()
