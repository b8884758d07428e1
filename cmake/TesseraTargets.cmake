# The flags of our own code as one interface target, and the helpers that make libraries and tests from it.
# Third-party plugins do not use this file: they use plugin-api/cmake.

add_library(tessera_flags INTERFACE)
target_compile_features(tessera_flags INTERFACE cxx_std_20 c_std_11)
# Exact bits (docs/architecture.md): no implicit contraction; FMA is written where it is meant.
target_compile_options(
  tessera_flags
  INTERFACE -Wall -Wextra -Wpedantic -Wshadow -ffp-contract=off $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>)
# GCC 12 sees overlapping copies in `"text" + std::string` that are not there (its bug 105329).
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(tessera_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()
if(TESSERA_SANITIZE)
  # Not vptr: it opens a pipe to look at an object, and takes a process whose descriptors are all in use for a broken one.
  target_compile_options(tessera_flags INTERFACE -fsanitize=${TESSERA_SANITIZE} -fno-sanitize=vptr
                                                 -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(tessera_flags INTERFACE -fsanitize=${TESSERA_SANITIZE})
  # For sources, since compilers have different macros for it.
  set(checks TESSERA_CHECKS_ADDRESSES)
  if(TESSERA_SANITIZE MATCHES thread)
    set(checks TESSERA_CHECKS_THREADS)
  endif()
  target_compile_definitions(tessera_flags INTERFACE TESSERA_IS_SANITIZED ${checks})
  # `#pragma omp simd` on loops that are too instrumented to be vectorized.
  target_compile_options(tessera_flags INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wno-pass-failed>)
endif()

if(TESSERA_FUZZ)
  target_compile_options(tessera_flags INTERFACE -fsanitize=fuzzer-no-link)  # counts which branches an input takes
endif()

# tessera_left_out(<sentence>): says what of this build cannot be made here; where TESSERA_COMPLETE asks for all, that is
# an error.
option(TESSERA_COMPLETE "Refuse to configure where a part would be left out" OFF)
function(tessera_left_out sentence)
  if(TESSERA_COMPLETE)
    message(FATAL_ERROR "${sentence}; with TESSERA_COMPLETE that is an error")
  endif()
  message(STATUS "${sentence}")
endfunction()

# The standard headers that most of our sources come to, parsed once for all libraries: the compiler takes a precompiled
# header only where all flags that change code are equal, so sources with flags of their own go without. It hides an
# #include that is missing; the presets `clang`, `asan` and `one-program` compile without it (CMAKE_DISABLE_PRECOMPILE_HEADERS);
# clang's also holds paths, so ccache would take nothing that one checkout compiled for another.
# A header costs those that do not need it too: <nlohmann/json.hpp> would add half a second to every test.
set(TESSERA_COMMON_HEADERS <algorithm> <array> <cstring> <functional> <map> <memory> <optional> <span> <sstream> <stdexcept>
                           <string> <string_view> <system_error> <utility> <vector>)
# The flags without which ccache keeps nothing that was compiled with a precompiled header; and warnings that GCC
# suppresses in the standard library's headers, but not in precompiled ones.
set(TESSERA_PRECOMPILED_FLAGS "")
if(NOT CMAKE_DISABLE_PRECOMPILE_HEADERS)
  set(TESSERA_PRECOMPILED_FLAGS
      "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess;-Wno-array-bounds;-Wno-stringop-overflow;-Wno-stringop-overread>"
      "$<$<COMPILE_LANG_AND_ID:CXX,Clang>:SHELL:-Xclang -fno-pch-timestamp>")
endif()

# tessera_precompile(<target> <headers>...): makes the target's precompiled header, for itself and REUSE_FROM.
function(tessera_precompile target)
  list(TRANSFORM ARGN REPLACE "<(.+)>" "$<$<COMPILE_LANGUAGE:CXX>:<\\1$<ANGLE-R>>" OUTPUT_VARIABLE headers)
  target_precompile_headers(${target} PRIVATE ${headers})
  target_compile_options(${target} PRIVATE ${TESSERA_PRECOMPILED_FLAGS})
endfunction()

# tessera_library(<name> SOURCES ... [PUBLIC libs...] [PRIVATE libs...]): a static, position-independent library.
# Headers of the host are included from runtime/ as "folder/file.h".
function(tessera_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden
                                           VISIBILITY_INLINES_HIDDEN ON)
  target_link_libraries(${name} PUBLIC tessera::plugin_api_cpp ${arg_PUBLIC} PRIVATE tessera_flags ${arg_PRIVATE})
  if(NOT name STREQUAL tessera_common_headers)
    target_precompile_headers(${name} REUSE_FROM tessera_common_headers)
    target_compile_options(${name} PRIVATE ${TESSERA_PRECOMPILED_FLAGS})
  endif()
endfunction()

file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/common_headers.cc" CONTENT "// Of a target that is its headers.\n")
tessera_library(tessera_common_headers SOURCES "${PROJECT_BINARY_DIR}/common_headers.cc")
tessera_precompile(tessera_common_headers ${TESSERA_COMMON_HEADERS})

# tessera_runtime_library(<folder> ...): the library tessera_<folder> of runtime/<folder>. The host has all of its minor.
function(tessera_runtime_library folder)
  tessera_library(tessera_${folder} ${ARGN})
  target_include_directories(tessera_${folder} PUBLIC "${PROJECT_SOURCE_DIR}/runtime")
  target_compile_definitions(tessera_${folder} PUBLIC TSR_TARGET_MINOR=TSR_ABI_MINOR)
endfunction()
