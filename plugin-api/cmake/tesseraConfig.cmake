include("${CMAKE_CURRENT_LIST_DIR}/tesseraTargets.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/TesseraPlugin.cmake")
