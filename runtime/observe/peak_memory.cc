#include "observe/peak_memory.h"

#include <fstream>
#include <string>

#include "tessera/error.hpp"

namespace tessera {

// Not getrusage: its ru_maxrss survives exec, so a rank would report its launcher's peak.
int64_t peak_resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind("VmHWM:", 0) == 0) return std::stoll(line.substr(6)) * 1024;
  throw Error(TSR_E_UNAVAILABLE, "/proc/self/status has no line VmHWM, so the peak memory is not known; mount /proc");
}

}  // namespace tessera
