#include "support/paths.h"

#include <cstdlib>

namespace tessera::testing {
namespace {

std::string from_environment(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value && *value ? value : otherwise;
}

std::string in(const std::string& folder, const std::string& below) {
  return below.empty() ? folder : folder + "/" + below;
}

}  // namespace

std::string source_dir(const std::string& below) {
  return in(from_environment("TESSERA_TEST_SOURCE_DIR", TESSERA_SOURCE_DIR), below);
}

std::string binary_dir(const std::string& below) {
  return in(TESSERA_BINARY_DIR, below);
}

std::string tessera_program() {
  return binary_dir("tessera");
}

std::string plugin_dir() {
  return from_environment("TESSERA_TEST_PLUGIN_DIR", binary_dir("plugins"));
}

}  // namespace tessera::testing
