# SPDX-License-Identifier: Apache-2.0
#
# FAULTLINE_QUICK_BUILD: the same program, compiled in about half of the time. For a machine
# that builds once, as a new user's or a continuous-integration job's.
#   - the headers of the standard library, fmt and GoogleTest are precompiled, once for all; a
#     component may name more (PRECOMPILED)
#   - code that is not hot and bench/ are compiled at -O1, tests at -O0 (their Eigen code at -O1)
#   - a component's or a test's sources are compiled a dozen at a time (UNITY_BUILD), but for
#     kernels/, whose files name their parts alike on purpose
# Values do not depend on it: nothing here changes floating point. It is off by default, because
# both hide a forgotten #include, and one changed source would compile its whole dozen again.

include_guard(GLOBAL)
option(FAULTLINE_QUICK_BUILD "Precompiled headers, and -O1 where code is not hot" OFF)

set(FAULTLINE_PRECOMPILED_STANDARD
  <algorithm> <array> <cmath> <cstdint> <functional> <map> <memory> <optional> <set> <span>
  <sstream> <string> <string_view> <utility> <variant> <vector>)

# At -O1, and in large units, GCC 12 follows values too poorly for these, and gives false ones.
set(_faultline_false_warnings -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread)

# Sources of one target may then not name two things alike, in unnamed namespaces either. GCC takes
# such a namespace in an included file for a mistake, and follows values less well.
function(_faultline_unite target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
  target_compile_options(${target} PRIVATE -Wno-subobject-linkage -Wno-maybe-uninitialized
    ${_faultline_false_warnings})
endfunction()

# A library that holds nothing but a precompiled header. All targets that reuse it must be compiled
# with the same options and at least the same definitions.
function(_faultline_precompile name optimisation)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "HEADERS;DEPENDS")
  set(source "${CMAKE_BINARY_DIR}/precompiled/${name}.cpp")
  file(CONFIGURE OUTPUT "${source}" CONTENT "// Empty: the precompiled header is what counts.\n")
  add_library(${name} OBJECT "${source}")
  target_link_libraries(${name} PRIVATE faultline::options ${arg_DEPENDS})
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:${optimisation}>)
  target_precompile_headers(${name} PRIVATE ${arg_HEADERS})
endfunction()

# For a component: nothing unless the option is on.
function(faultline_quicken_component target)
  if(NOT FAULTLINE_QUICK_BUILD)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "DEPENDS;PRECOMPILED")
  if(NOT target MATCHES "_kernels$")
    _faultline_unite(${target})
  endif()
  set(shared faultline_precompiled_hot)
  set(optimisation -O3)
  if(target MATCHES "_(app|diagnosis|kernels|properties|reports|store)$")
    set(shared faultline_precompiled_cold)
    set(optimisation -O1)
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1> ${_faultline_false_warnings})
  endif()
  if(arg_PRECOMPILED)
    target_precompile_headers(${target} PRIVATE ${FAULTLINE_PRECOMPILED_STANDARD}
      ${arg_PRECOMPILED})
    return()
  endif()
  if(NOT "fmt::fmt" IN_LIST arg_DEPENDS)
    return()  # the shared header was compiled with fmt's definitions
  endif()
  if(NOT TARGET ${shared})
    _faultline_precompile(${shared} ${optimisation}
      HEADERS ${FAULTLINE_PRECOMPILED_STANDARD} <fmt/format.h> DEPENDS fmt::fmt)
    set_target_properties(${shared} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  endif()
  target_precompile_headers(${target} REUSE_FROM ${shared})
endfunction()

# For a program of bench/: it must compile, and is not what to measure with.
function(faultline_quicken_bench)
  if(FAULTLINE_QUICK_BUILD)
    foreach(target IN LISTS ARGN)
      target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
    endforeach()
  endif()
endfunction()

# For a test. Tests of the reference are Eigen code of their own, too slow at -O0; `computes` is
# true of others that are.
function(faultline_quicken_test target computes)
  if(NOT FAULTLINE_QUICK_BUILD)
    return()
  endif()
  _faultline_unite(${target})
  cmake_path(GET CMAKE_CURRENT_SOURCE_DIR FILENAME folder)
  if(folder STREQUAL "reference" OR computes)
    return()
  endif()
  if(NOT TARGET faultline_precompiled_test)
    _faultline_precompile(faultline_precompiled_test -O0
      HEADERS ${FAULTLINE_PRECOMPILED_STANDARD} <gtest/gtest.h> <gmock/gmock.h>
      DEPENDS GTest::gtest GTest::gmock)
  endif()
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O0>)
  target_precompile_headers(${target} REUSE_FROM faultline_precompiled_test)
endfunction()
