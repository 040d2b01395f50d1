# SPDX-License-Identifier: Apache-2.0
#
# The installed package: libraries and headers come from faultline_component(); here are the targets
# file, the config with its dependencies, the version file and what faultline_kernels() needs.
include(CMakePackageConfigHelpers)

get_property(_faultline_components GLOBAL PROPERTY FAULTLINE_COMPONENTS)
if(_faultline_components)
  set(_faultline_cmake_dir "${CMAKE_INSTALL_LIBDIR}/cmake/faultline")
  install(EXPORT faultlineTargets NAMESPACE faultline:: DESTINATION "${_faultline_cmake_dir}")
  configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/faultlineConfig.cmake.in"
    "${CMAKE_BINARY_DIR}/faultlineConfig.cmake" INSTALL_DESTINATION "${_faultline_cmake_dir}")
  # Before 1.0 a minor release may break its users, so only the same minor version is compatible.
  write_basic_package_version_file("${CMAKE_BINARY_DIR}/faultlineConfigVersion.cmake"
    COMPATIBILITY SameMinorVersion)
  install(FILES
    "${CMAKE_BINARY_DIR}/faultlineConfig.cmake"
    "${CMAKE_BINARY_DIR}/faultlineConfigVersion.cmake"
    "${CMAKE_CURRENT_LIST_DIR}/FaultlineKernels.cmake"
    "${CMAKE_CURRENT_LIST_DIR}/FaultlineCudaRuntime.cmake"
    "${CMAKE_CURRENT_LIST_DIR}/faultline_embed.cmake"
    DESTINATION "${_faultline_cmake_dir}")
endif()
