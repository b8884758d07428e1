# The flags of our own code as one interface target, and the helpers that make libraries and tests from it.
# Third-party plugins do not use this file: they use plugin-api/cmake.

add_library(tessera_flags INTERFACE)
target_compile_features(tessera_flags INTERFACE cxx_std_20 c_std_11)
# Exactness (docs: design, exactness contract): no implicit contraction; FMA is written where it is meant.
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
endif()

# tessera_library(<name> SOURCES ... [PUBLIC libs...] [PRIVATE libs...]): a static, position-independent library.
# Headers of the host are included from runtime/ as "folder/file.h".
function(tessera_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden
                                           VISIBILITY_INLINES_HIDDEN ON)
  target_link_libraries(${name} PUBLIC tessera::plugin_api_cpp ${arg_PUBLIC} PRIVATE tessera_flags ${arg_PRIVATE})
endfunction()

# tessera_runtime_library(<folder> ...): the library tessera_<folder> of runtime/<folder>.
function(tessera_runtime_library folder)
  tessera_library(tessera_${folder} ${ARGN})
  target_include_directories(tessera_${folder} PUBLIC "${PROJECT_SOURCE_DIR}/runtime")
endfunction()
