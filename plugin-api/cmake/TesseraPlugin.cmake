# tessera_add_plugin(<name> SOURCES files... [LIBRARIES libs...])
#
# Sources in C++ get the headers of the C++ layer, and C++20.
# Makes <name>.so, a plugin that exports tsr_plugin_query_v1 and nothing else: hidden visibility, a version script, no
# unique symbols (they would be shared between plugins), all symbols resolved when it is linked and when it is loaded.
# It is put into TESSERA_PLUGIN_OUTPUT_DIR if that is set. The target is called tessera_plugin_<name>.
set(TESSERA_PLUGIN_MAP "${CMAKE_CURRENT_LIST_DIR}/plugin.map" CACHE INTERNAL "Version script of plugins")

function(tessera_add_plugin name)
  cmake_parse_arguments(arg "" "" "SOURCES;LIBRARIES" ${ARGN})
  set(target tessera_plugin_${name})
  add_library(${target} MODULE ${arg_SOURCES})
  set_target_properties(
    ${target}
    PROPERTIES PREFIX ""
               OUTPUT_NAME ${name}
               SUFFIX .so
               C_VISIBILITY_PRESET hidden
               CXX_VISIBILITY_PRESET hidden
               VISIBILITY_INLINES_HIDDEN ON
               LINK_DEPENDS "${TESSERA_PLUGIN_MAP}")
  if(TESSERA_PLUGIN_OUTPUT_DIR)
    set_target_properties(${target} PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${TESSERA_PLUGIN_OUTPUT_DIR}")
  endif()
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fno-gnu-unique>)
  # Sanitizer runtimes are resolved from the host, so -z defs cannot hold there.
  target_link_options(${target} PRIVATE "LINKER:--version-script=${TESSERA_PLUGIN_MAP}" LINKER:-z,now LINKER:-z,relro)
  if(NOT TESSERA_SANITIZE)
    target_link_options(${target} PRIVATE LINKER:-z,defs)
  endif()
  if("${arg_SOURCES}" MATCHES "\\.(cc|cpp|cxx)(;|$)")
    target_link_libraries(${target} PRIVATE tessera::plugin_api_cpp)
  endif()
  target_link_libraries(${target} PRIVATE tessera::plugin_api ${arg_LIBRARIES})
endfunction()
