# SPDX-License-Identifier: Apache-2.0
#
# How a part of faultline describes itself to CMake:
#
#   faultline_component(...)  a library faultline::<name> with public headers, installed
#   faultline_test(...)       a GoogleTest executable and its entries in ctest
#   faultline_kernels(...)    CUDA sources -> embedded PTX, cubin, text (FaultlineKernels.cmake)

include_guard(GLOBAL)
include("${CMAKE_CURRENT_LIST_DIR}/FaultlineKernels.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/FaultlineQuickBuild.cmake")

# Instrumented code takes its time: the limits below are for code as users have it.
set(FAULTLINE_TEST_PATIENCE 1 CACHE STRING "What the time limits of tests are multiplied by")

# The options every faultline translation unit is compiled with. Contraction is off because the
# reference and the simulator decide values: a*b+c must round twice wherever it is written so.
add_library(faultline_options INTERFACE)
add_library(faultline::options ALIAS faultline_options)
target_compile_features(faultline_options INTERFACE cxx_std_20)
target_compile_options(faultline_options INTERFACE
  -ffp-contract=off
  $<$<BOOL:${FAULTLINE_WARNINGS}>:-Wall -Wextra>
  # g++ 12 sees overlapping copies in plain std::string concatenation (GCC bug 105651, fixed in 13).
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>
  $<$<BOOL:${FAULTLINE_WERROR}>:-Werror>)

#[[ faultline_component(NAME <name>
      SOURCES <file>...            none makes a header-only library
      HEADERS <file>...            include/faultline/<name>/x.hpp, or only x.hpp
      [DEPENDS <target>...]        what the public headers use
      [PRIVATE_DEPENDS <target>...]  what only the sources use
      [PRECOMPILED <header>...])   for FAULTLINE_QUICK_BUILD: what most of the sources include)

  Defines the target faultline_<name> and its alias faultline::<name>. A '/' in the name becomes '_'
  in the target (NAME backends/cuda -> faultline_backends_cuda, faultline::backends_cuda).
  HEADERS and SOURCES are explicit lists, relative to the calling folder; tests/build
  compiles every header alone. ]]
function(faultline_component)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME"
    "SOURCES;HEADERS;DEPENDS;PRIVATE_DEPENDS;PRECOMPILED")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_NAME)
    message(FATAL_ERROR "faultline_component: NAME is required; not understood: "
                        "'${arg_UNPARSED_ARGUMENTS}'")
  endif()
  string(REPLACE "/" "_" name "${arg_NAME}")
  set(target faultline_${name})
  set(headers)
  foreach(header IN LISTS arg_HEADERS)
    if(NOT header MATCHES "^include/")
      set(header "include/faultline/${arg_NAME}/${header}")
    endif()
    list(APPEND headers "${CMAKE_CURRENT_SOURCE_DIR}/${header}")
  endforeach()

  if(arg_SOURCES)
    add_library(${target} STATIC ${arg_SOURCES})
    set(scope PUBLIC)
    target_link_libraries(${target}
      PUBLIC ${arg_DEPENDS}
      PRIVATE $<BUILD_INTERFACE:faultline::options> ${arg_PRIVATE_DEPENDS})
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    faultline_quicken_component(${target} DEPENDS ${arg_DEPENDS} ${arg_PRIVATE_DEPENDS}
      PRECOMPILED ${arg_PRECOMPILED})
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
    target_link_libraries(${target} INTERFACE ${arg_DEPENDS})
  endif()
  add_library(faultline::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  target_compile_features(${target} ${scope} cxx_std_20)
  target_sources(${target} ${scope}
    FILE_SET HEADERS BASE_DIRS "${CMAKE_CURRENT_SOURCE_DIR}/include" FILES ${headers})

  install(TARGETS ${target} EXPORT faultlineTargets
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
    FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

  set_property(GLOBAL APPEND PROPERTY FAULTLINE_COMPONENTS ${target})
  set_property(GLOBAL PROPERTY FAULTLINE_HEADERS_${target} "${headers}")
endfunction()

#[[ faultline_test(NAME <name>
      SOURCES <file>...
      [DEPENDS <target>...]     what is tested
      [LABELS <label>...]       ctest labels; the folder below tests/ is always one
      [ARGS <argument>...]      arguments of the executable
      [DEFINES <definition>...] compile definitions
      [TIMEOUT <seconds>]       of one ctest entry, 300 unless told
      [COST <seconds>]          of a whole executable: ctest starts the long ones first
      [GPU]                     needs a device: label gpu, RESOURCE_LOCK gpu, exit code 77 = skipped
      [WHOLE]                   one ctest entry for the whole executable (a costly set-up)
      [NO_MAIN]                 the sources have their own main (implies WHOLE)
      [COMPUTES]                its own code takes the time: optimised in a quick build, too)

  Without WHOLE each GoogleTest case is an entry <name>.<Suite>.<Case>, discovered when ctest runs.
  A WHOLE or GPU suite skips by exit code 77, so its main must return that when nothing could run:
  <tests/support/gpu_main.cpp> does, and is what a GPU suite links unless it says NO_MAIN. ]]
function(faultline_test)
  cmake_parse_arguments(PARSE_ARGV 0 arg "GPU;WHOLE;NO_MAIN;COMPUTES" "NAME;TIMEOUT;COST"
    "SOURCES;DEPENDS;LABELS;ARGS;DEFINES")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_NAME OR NOT arg_SOURCES)
    message(FATAL_ERROR "faultline_test: NAME and SOURCES are required; not understood: "
                        "'${arg_UNPARSED_ARGUMENTS}'")
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * ${FAULTLINE_TEST_PATIENCE}")
  file(RELATIVE_PATH folder "${PROJECT_SOURCE_DIR}/tests" "${CMAKE_CURRENT_SOURCE_DIR}")
  if(NOT folder MATCHES "^\\.\\.")
    string(REPLACE "/" "_" folder "${folder}")
    list(APPEND arg_LABELS ${folder})
  endif()

  add_executable(${arg_NAME} ${arg_SOURCES})
  target_link_libraries(${arg_NAME} PRIVATE
    faultline::options ${arg_DEPENDS} GTest::gtest GTest::gmock)
  target_compile_definitions(${arg_NAME} PRIVATE ${arg_DEFINES})
  # Tests call the optimised libraries; their own code at -O3 would only double its compilation.
  target_compile_options(${arg_NAME} PRIVATE $<$<CONFIG:Release>:-O1>)
  faultline_quicken_test(${arg_NAME} ${arg_COMPUTES})
  if(arg_GPU AND NOT arg_NO_MAIN)
    target_sources(${arg_NAME} PRIVATE "${PROJECT_SOURCE_DIR}/tests/support/gpu_main.cpp")
  elseif(NOT arg_NO_MAIN)
    target_link_libraries(${arg_NAME} PRIVATE GTest::gtest_main)
  endif()

  set(properties TIMEOUT ${arg_TIMEOUT})
  if(arg_COST)
    list(APPEND properties COST ${arg_COST})
  endif()
  if(arg_GPU)
    list(APPEND arg_LABELS gpu)
    list(APPEND properties RESOURCE_LOCK gpu)
  endif()
  if(arg_GPU OR arg_WHOLE OR arg_NO_MAIN)
    add_test(NAME ${arg_NAME} COMMAND ${arg_NAME} ${arg_ARGS})
    set_tests_properties(${arg_NAME} PROPERTIES ${properties} SKIP_RETURN_CODE 77
      LABELS "${arg_LABELS}")
  else()
    gtest_discover_tests(${arg_NAME} TEST_PREFIX "${arg_NAME}." EXTRA_ARGS ${arg_ARGS}
      DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 120
      PROPERTIES ${properties})
    # gtest_discover_tests() cannot pass a list as a property's value, so labels are set afterwards.
    set(labels_file "${CMAKE_CURRENT_BINARY_DIR}/${arg_NAME}_labels.cmake")
    file(CONFIGURE OUTPUT "${labels_file}" @ONLY CONTENT
[[foreach(test IN LISTS @arg_NAME@_TESTS)
  set_tests_properties("${test}" PROPERTIES LABELS "@arg_LABELS@")
endforeach()
]])
    set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${labels_file}")
  endif()
endfunction()
