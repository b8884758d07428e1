# What `tessera --version` says of the build: build_info.h with the commit, which is read at every build, the compiler
# and the libraries that tessera_uses() named. As a script (-P) it writes that header, if it would change.
if(CMAKE_SCRIPT_MODE_FILE)
  cmake_minimum_required(VERSION 3.25)  # a script has no policies otherwise, and warns
  if(NOT COMMIT)
    execute_process(COMMAND git -C "${SOURCE}" describe --always --dirty --abbrev=12 --exclude=*
                    OUTPUT_VARIABLE COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
    if(failed)
      set(COMMIT "unknown")
    endif()
  endif()
  file(READ "${LIBRARIES_FILE}" LIBRARIES)
  file(CONFIGURE OUTPUT "${OUT}" @ONLY CONTENT "// Written by cmake/TesseraBuildInfo.cmake.
#define TESSERA_COMMIT \"@COMMIT@\"
#define TESSERA_COMPILER \"@COMPILER@\"
#define TESSERA_LIBRARIES \"@LIBRARIES@\"
")
  return()
endif()

set(TESSERA_COMMIT "" CACHE STRING "The commit that --version says; empty: asked of git")

# tessera_uses(<name> <version>): a library of this build.
function(tessera_uses name version)
  set_property(GLOBAL APPEND PROPERTY TESSERA_LIBRARIES "${name} ${version}")
endfunction()

# tessera_build_info(<target>): its sources may include build_info.h.
function(tessera_build_info target)
  set(folder "${PROJECT_BINARY_DIR}/build_info")
  add_custom_target(
    tessera_build_info
    COMMAND "${CMAKE_COMMAND}" "-DCOMMIT=${TESSERA_COMMIT}" "-DSOURCE=${PROJECT_SOURCE_DIR}"
            "-DCOMPILER=${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}, ${CMAKE_BUILD_TYPE}"
            "-DLIBRARIES_FILE=${folder}/libraries" "-DOUT=${folder}/build_info.h" -P
            "${PROJECT_SOURCE_DIR}/cmake/TesseraBuildInfo.cmake"
    BYPRODUCTS "${folder}/build_info.h" VERBATIM)
  add_dependencies(${target} tessera_build_info)
  target_include_directories(${target} PRIVATE "${folder}")
endfunction()

# tessera_write_libraries(): at the end of the project, when all are known.
function(tessera_write_libraries)
  get_property(libraries GLOBAL PROPERTY TESSERA_LIBRARIES)
  list(REMOVE_DUPLICATES libraries)
  list(SORT libraries CASE INSENSITIVE)
  list(JOIN libraries ", " text)
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/build_info/libraries" CONTENT "${text}")
endfunction()
