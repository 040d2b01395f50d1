# SPDX-License-Identifier: Apache-2.0
#
# faultline_kernels(): CUDA sources as data. Used by faultline itself and, installed, by projects
# that test their own kernels. No CUDA language is enabled: nvcc is run as a command
# (docs/decisions/0001-nvcc-as-a-command.md).

include_guard(GLOBAL)

set(FAULTLINE_EMBED_SCRIPT "${CMAKE_CURRENT_LIST_DIR}/faultline_embed.cmake")

# Looks for nvcc: -DFAULTLINE_NVCC=, then $CUDA_PATH, PATH, /usr/local/cuda, and the wheels of a
# virtual environment .venv in the source tree. FAULTLINE_NVCC is false where there is none.
file(GLOB _faultline_wheel_nvcc_dirs
  "${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/nvidia/cu1*/bin")
find_program(FAULTLINE_NVCC nvcc
  HINTS "$ENV{CUDA_PATH}/bin"
  PATHS /usr/local/cuda/bin ${_faultline_wheel_nvcc_dirs}
  DOC "nvcc, the CUDA compiler, 13.0 or newer")
unset(_faultline_wheel_nvcc_dirs)

#[[ faultline_kernels(TARGET <target>
      SOURCES <file.cu>...
      [INCLUDES <file.cuh>...]        also embedded as source text, for reports
      [INCLUDE_DIRS <dir>...]         -I for nvcc; faultline::core's include folder and the
                                      project's source folder are always there
      [DEFINES <definition>...]       -D for nvcc
      [OPTIONS <option>...]           further options for nvcc
      [EXTRA_PTX_ARCHS compute_80...])

  Each .cu is compiled to PTX (compute_90a, with -lineinfo), and that PTX to a cubin (sm_90a). The
  PTX, the cubin and the text of every source named in the PTX's line table go, packed by zstd, into
  <target>, which is made as a static library if there is no such target yet. The generated header
  <target>_modules.hpp has

      namespace faultline::embedded { const core::EmbeddedModule& <stem>(); }

  for each source; and <stem>_compute_80() for an extra architecture, with PTX and an empty cubin.
  Paths in the PTX's .file lines are relative to the project's source folder, so nothing in the
  binary depends on where it was built. Stems are unique in a build: the functions
  share a namespace. ]]
function(faultline_kernels)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "TARGET"
    "SOURCES;INCLUDES;INCLUDE_DIRS;DEFINES;OPTIONS;EXTRA_PTX_ARCHS")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_TARGET OR NOT arg_SOURCES)
    message(FATAL_ERROR "faultline_kernels: TARGET and SOURCES are required; not understood: "
                        "'${arg_UNPARSED_ARGUMENTS}'")
  endif()
  if(NOT FAULTLINE_NVCC)
    message(FATAL_ERROR "faultline_kernels(TARGET ${arg_TARGET}): there is no nvcc. Guard the call "
                        "with if(FAULTLINE_NVCC), or pass -DFAULTLINE_NVCC=/path/to/nvcc.")
  endif()

  set(dir "${CMAKE_CURRENT_BINARY_DIR}/${arg_TARGET}")
  file(MAKE_DIRECTORY "${dir}")
  set(core_includes "$<TARGET_PROPERTY:faultline::core,INTERFACE_INCLUDE_DIRECTORIES>")
  set(core_flags
    "$<$<BOOL:${core_includes}>:-I$<JOIN:${core_includes},$<SEMICOLON>-I>>")
  set(flags -std=c++20 -O3 -lineinfo "-I${PROJECT_SOURCE_DIR}")
  foreach(include_dir IN LISTS arg_INCLUDE_DIRS)
    get_filename_component(include_dir "${include_dir}" ABSOLUTE)
    list(APPEND flags "-I${include_dir}")
  endforeach()
  list(TRANSFORM arg_DEFINES PREPEND -D)
  list(APPEND flags ${arg_DEFINES} ${arg_OPTIONS})

  set(includes)
  foreach(include IN LISTS arg_INCLUDES)
    get_filename_component(include "${include}" ABSOLUTE)
    list(APPEND includes "${include}")
  endforeach()

  set(declarations)
  set(generated)
  foreach(source IN LISTS arg_SOURCES)
    get_filename_component(source "${source}" ABSOLUTE)
    get_filename_component(stem "${source}" NAME_WE)
    foreach(arch IN ITEMS compute_90a ${arg_EXTRA_PTX_ARCHS})
      set(function ${stem})
      if(NOT arch STREQUAL "compute_90a")
        set(function ${stem}_${arch})
      endif()
      get_property(taken GLOBAL PROPERTY FAULTLINE_EMBEDDED_${function})
      if(taken)
        message(FATAL_ERROR "faultline_kernels(TARGET ${arg_TARGET}): ${source} would define "
                            "faultline::embedded::${function}(), which ${taken} defines already. "
                            "Rename one of the two files.")
      endif()
      set_property(GLOBAL PROPERTY FAULTLINE_EMBEDDED_${function} "${source}")

      file(RELATIVE_PATH shown "${PROJECT_SOURCE_DIR}" "${source}")
      set(ptx "${dir}/${function}.ptx")
      set(cubin)
      add_custom_command(
        OUTPUT "${ptx}"
        COMMAND "${FAULTLINE_NVCC}" -ptx ${flags} "${core_flags}"
                -gencode arch=${arch},code=${arch}
                -MD -MF "${ptx}.d" -MT "${ptx}" -o "${ptx}.raw" "${source}"
        COMMAND "${CMAKE_COMMAND}" -DSTEP=relative_paths "-DROOT=${PROJECT_SOURCE_DIR}"
                "-DIN=${ptx}.raw" "-DOUT=${ptx}" -P "${FAULTLINE_EMBED_SCRIPT}"
        DEPENDS "${source}" "${FAULTLINE_EMBED_SCRIPT}"
        DEPFILE "${ptx}.d"
        COMMENT "nvcc ${shown} -> PTX ${arch}"
        COMMAND_EXPAND_LISTS VERBATIM)
      if(arch STREQUAL "compute_90a")
        set(cubin "${dir}/${function}.cubin")
        add_custom_command(
          OUTPUT "${cubin}"
          COMMAND "${FAULTLINE_NVCC}" -cubin -lineinfo -gencode arch=compute_90a,code=sm_90a
                  -o ${function}.cubin ${function}.ptx
          DEPENDS "${ptx}"
          WORKING_DIRECTORY "${dir}"
          COMMENT "ptxas ${shown} -> cubin sm_90a"
          VERBATIM)
      endif()
      set(cpp "${dir}/${function}.cpp")
      add_custom_command(
        OUTPUT "${cpp}"
        COMMAND "${CMAKE_COMMAND}" -DSTEP=embed "-DROOT=${PROJECT_SOURCE_DIR}"
                "-DFUNCTION=${function}" "-DTARGET=${arg_TARGET}" "-DSOURCE=${source}"
                "-DINCLUDES=${includes}" "-DPTX=${ptx}" "-DCUBIN=${cubin}" "-DOUT=${cpp}"
                -P "${FAULTLINE_EMBED_SCRIPT}"
        DEPENDS "${ptx}" ${cubin} "${source}" ${includes} "${FAULTLINE_EMBED_SCRIPT}"
        COMMENT "embed ${function}" VERBATIM)
      list(APPEND generated "${cpp}")
      string(APPEND declarations "const core::EmbeddedModule& ${function}();  // ${shown}\n")
    endforeach()
  endforeach()

  file(CONFIGURE OUTPUT "${dir}/include/${arg_TARGET}_modules.hpp" @ONLY CONTENT
[[// SPDX-License-Identifier: Apache-2.0
// Generated by faultline_kernels(); do not edit.
#pragma once

#include <faultline/core/module.hpp>

namespace faultline::embedded {

@declarations@
}  // namespace faultline::embedded
]])

  set(created FALSE)
  if(NOT TARGET ${arg_TARGET})
    set(created TRUE)
    add_library(${arg_TARGET} STATIC)
    target_link_libraries(${arg_TARGET} PUBLIC faultline::core)
  endif()
  target_sources(${arg_TARGET} PRIVATE ${generated})
  if(FAULTLINE_QUICK_BUILD)
    set_target_properties(${arg_TARGET} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 16)
  endif()
  target_include_directories(${arg_TARGET} PUBLIC "$<BUILD_INTERFACE:${dir}/include>")
  if(created AND COMMAND faultline_component)
    set_target_properties(${arg_TARGET} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    install(TARGETS ${arg_TARGET} EXPORT faultlineTargets
      ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  endif()
endfunction()
