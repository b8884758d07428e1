#include "observe/peak_memory.h"

#include <fstream>
#include <string>

#include "tessera/error.hpp"

namespace tessera {
namespace {

int64_t status_bytes(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(name)) return std::stoll(line.substr(name.size())) * 1024;
  throw Error(TSR_E_UNAVAILABLE,
              "/proc/self/status has no line " + name + " so memory in use is not known; mount /proc");
}

}  // namespace

// Not getrusage: its ru_maxrss survives exec, so a rank would report its launcher's peak.
int64_t peak_resident_bytes() {
  return status_bytes("VmHWM:");
}

int64_t resident_bytes() {
  return status_bytes("VmRSS:");
}

}  // namespace tessera
