// Where the tests' files are. One source file knows, so that ccache takes the others from another checkout. Test
// programs that were taken to another machine are told by TESSERA_TEST_SOURCE_DIR and TESSERA_TEST_PLUGIN_DIR.
#pragma once

#include <string>

namespace tessera::testing {

/// The repository: source_dir("tests/golden/gpt2-nano").
std::string source_dir(const std::string& below = "");
/// What was built of it: binary_dir("tests/bad_plugins").
std::string binary_dir(const std::string& below = "");
/// The program.
std::string tessera_program();
/// Its plugins.
std::string plugin_dir();

}  // namespace tessera::testing
