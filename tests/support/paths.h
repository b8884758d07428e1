// Where the tests' files are. One source file knows, so that the others compile alike in every checkout. Test programs
// that were taken to another machine are told by TESSERA_TEST_SOURCE_DIR and TESSERA_TEST_PLUGIN_DIR.
#pragma once

#include <string>

namespace tessera::testing {

/// The repository: source_dir("tests/golden/gpt2-nano").
std::string source_dir(const std::string& below = "");
/// The build's plugins.
std::string plugin_dir();

}  // namespace tessera::testing
