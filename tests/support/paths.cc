#include "support/paths.h"

namespace tessera::testing {

std::string source_dir(const std::string& below) {
  return below.empty() ? TESSERA_SOURCE_DIR : TESSERA_SOURCE_DIR "/" + below;
}

std::string plugin_dir() {
  return TESSERA_PLUGIN_DIR;
}

}  // namespace tessera::testing
