# SPDX-License-Identifier: Apache-2.0
# Configures, builds and tests the project SOURCE in BINARY against the package installed in PREFIX.
file(REMOVE_RECURSE "${BINARY}")
execute_process(
  COMMAND "${CMAKE_COMMAND}" -S "${SOURCE}" -B "${BINARY}" -G Ninja
          "-DCMAKE_PREFIX_PATH=${PREFIX}" "-DCMAKE_CXX_COMPILER=${COMPILER}"
          "-DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}" "-DFAULTLINE_NVCC=${NVCC}"
          -DCMAKE_BUILD_TYPE=Release
  COMMAND_ERROR_IS_FATAL ANY)
file(STRINGS "${BINARY}/CMakeCache.txt" found REGEX "^faultline_DIR:")
string(FIND "${found}" "${PREFIX}" where)
if(where EQUAL -1)
  message(FATAL_ERROR "the consumer found another faultline than the one in ${PREFIX}: ${found}")
endif()
execute_process(COMMAND "${CMAKE_COMMAND}" --build "${BINARY}" -j 2 COMMAND_ERROR_IS_FATAL ANY)
execute_process(
  COMMAND "${CMAKE_CTEST_COMMAND}" --output-on-failure --no-tests=error
  WORKING_DIRECTORY "${BINARY}" COMMAND_ERROR_IS_FATAL ANY)
