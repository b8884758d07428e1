# `cpack` makes Debian packages of what `cmake --install` installs, one a component:
#
#     tessera           the program, its plugins, manual pages, completions
#     libtessera-dev    headers, CMake package and documents for writing plugins
#     tessera-cuda      the plugins for NVIDIA GPUs, where this build has them
#
# Dependencies on libraries are found by dpkg-shlibdeps (Debian: dpkg-dev).
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_VENDOR "Tessera")
set(CPACK_PACKAGE_CONTACT "Tessera maintainers <maintainers@tessera.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_COMPONENTS_ALL runtime plugin-api)
if(TESSERA_HAS_CUDA)
  list(APPEND CPACK_COMPONENTS_ALL cuda)
endif()
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME tessera)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SHLIBDEPS ON)
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "Trains transformer models on many ranks.")
set(CPACK_DEBIAN_PLUGIN-API_PACKAGE_NAME libtessera-dev)
set(CPACK_DEBIAN_PLUGIN-API_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_PLUGIN-API_PACKAGE_ARCHITECTURE all)
set(CPACK_COMPONENT_PLUGIN-API_DESCRIPTION "Headers and documents for plugins of Tessera.")
set(CPACK_DEBIAN_CUDA_PACKAGE_NAME tessera-cuda)
set(CPACK_DEBIAN_CUDA_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_CUDA_PACKAGE_DEPENDS "tessera (= ${PROJECT_VERSION})")
set(CPACK_COMPONENT_CUDA_DESCRIPTION "Plugins of Tessera for NVIDIA GPUs: cuda-device and nccl-comm.")

# Where Debian's packages have it.
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/tessera RENAME copyright
        COMPONENT runtime)
if(TESSERA_HAS_CUDA)
  install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/tessera-cuda RENAME copyright
          COMPONENT cuda)
endif()
include(CPack)
