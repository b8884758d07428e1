#include "support/paths.h"

#include <cstdlib>

namespace tessera::testing {
namespace {

std::string from_environment(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value && *value ? value : otherwise;
}

}  // namespace

std::string source_dir(const std::string& below) {
  const std::string root = from_environment("TESSERA_TEST_SOURCE_DIR", TESSERA_SOURCE_DIR);
  return below.empty() ? root : root + "/" + below;
}

std::string plugin_dir() {
  return from_environment("TESSERA_TEST_PLUGIN_DIR", TESSERA_PLUGIN_DIR);
}

}  // namespace tessera::testing
