// The machine that a run is on.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tessera::host {

/// "host", "system", "processor", "cores", "memory" and "compiler", each with its value; without those that the system
/// does not report.
std::vector<std::pair<std::string, std::string>> run_environment();

}  // namespace tessera::host
