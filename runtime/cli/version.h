// What this program was built with.
#pragma once

#include <string>

namespace tessera::host {

/// `tessera --version`: version and ABI, commit, compiler, and the libraries of the host and its plugins.
std::string version_text();

}  // namespace tessera::host
