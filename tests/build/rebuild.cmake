# SPDX-License-Identifier: Apache-2.0
# An edited header must reach the embedded PTX, cubin and source text: a stale kernel would be a
# test of something that no longer exists. Edits a copy of SOURCE in BINARY, against the package in
# PREFIX.
file(REMOVE_RECURSE "${BINARY}")
file(COPY "${SOURCE}/" DESTINATION "${BINARY}/source")
execute_process(
  COMMAND "${CMAKE_COMMAND}" -S "${BINARY}/source" -B "${BINARY}/build" -G Ninja
          "-DCMAKE_PREFIX_PATH=${PREFIX}" "-DCMAKE_CXX_COMPILER=${COMPILER}"
          "-DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}" "-DFAULTLINE_NVCC=${NVCC}"
  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)

# Builds, and runs the program that compares the embedded text with the files as they are now.
function(build what)
  execute_process(COMMAND "${CMAKE_COMMAND}" --build "${BINARY}/build" -j 2 --target embeds_kernel
    OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND "${BINARY}/build/embeds_kernel" "${BINARY}/source" RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "after ${what}: what is embedded is not what is in the files")
  endif()
  foreach(kind IN ITEMS ptx cubin)
    file(SHA256 "${BINARY}/build/consumer_kernels/scale.${kind}" hash)
    set(${kind} "${hash}" PARENT_SCOPE)
  endforeach()
endfunction()

set(header "${BINARY}/source/kernels/twice.cuh")
file(READ "${header}" text)
build("the first build")
set(first_ptx "${ptx}")
set(first_cubin "${cubin}")

file(WRITE "${header}" "${text}// a comment\n")
build("an edited comment")
if(NOT cubin STREQUAL first_cubin)
  message(FATAL_ERROR "a comment at the end of a header changed the cubin")
endif()

string(REPLACE "x + x" "x * x" edited "${text}")
file(WRITE "${header}" "${edited}")
build("an edited expression")
if(ptx STREQUAL first_ptx OR cubin STREQUAL first_cubin)
  message(FATAL_ERROR "an edited header did not reach the PTX and the cubin")
endif()

file(WRITE "${header}" "${text}")
build("the edit taken back")
if(NOT ptx STREQUAL first_ptx OR NOT cubin STREQUAL first_cubin)
  message(FATAL_ERROR "the same sources gave another PTX or cubin")
endif()

execute_process(COMMAND "${CMAKE_COMMAND}" --build "${BINARY}/build" --target embeds_kernel
  OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
if(NOT output MATCHES "no work to do")
  message(FATAL_ERROR "a second build without an edit built something:\n${output}")
endif()
