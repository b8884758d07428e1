// What is needed to build the program again, for reports of errors:
//
//     tessera 0.12.0, plugin ABI 0.12
//     commit     1a2b3c4
//     compiler   ...
//     libraries  ...

#include "cli/version.h"

#include "base/concat.h"
#include "build_info.h"  // TESSERA_COMMIT, TESSERA_COMPILER, TESSERA_LIBRARIES: cmake/TesseraBuildInfo.cmake
#include "tessera/core.h"

namespace tessera::host {

std::string version_text() {
  return concat("tessera ", TESSERA_VERSION, ", plugin ABI ", TSR_ABI_MAJOR, ".", TSR_ABI_MINOR, "\ncommit     ",
                TESSERA_COMMIT, "\ncompiler   ", TESSERA_COMPILER, "\nlibraries  ", TESSERA_LIBRARIES, "\n");
}

}  // namespace tessera::host
