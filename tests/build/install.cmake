# SPDX-License-Identifier: Apache-2.0
# Installs BUILD_DIR below PREFIX, which is emptied first: a file that is no longer installed must
# be missed by the consumers.
file(REMOVE_RECURSE "${PREFIX}")
execute_process(COMMAND "${CMAKE_COMMAND}" --install "${BUILD_DIR}" --prefix "${PREFIX}"
  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)

# The package must not remember where it was built.
file(GLOB_RECURSE files "${PREFIX}/*.cmake")
foreach(file IN LISTS files)
  file(READ "${file}" text)
  string(FIND "${text}" "${BUILD_DIR}" where)
  if(NOT where EQUAL -1)
    message(FATAL_ERROR "${file} names the build folder ${BUILD_DIR}")
  endif()
endforeach()
if(NOT files)
  message(FATAL_ERROR "nothing was installed below ${PREFIX}")
endif()
