#include "observe/resident_memory.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

#include "observe/text.h"
#include "tessera/error.hpp"

namespace tessera {

// Not getrusage: its ru_maxrss survives exec, so a rank would report its launcher's peak.
ResidentMemory resident_memory() {
  ResidentMemory memory;
  std::ifstream status("/proc/self/status");
  if (!status)
    throw Error(TSR_E_UNAVAILABLE, concat("cannot open /proc/self/status, which tells how much memory is in use: ",
                                          std::strerror(errno), errno == EMFILE ? "; raise ulimit -n" : ""));
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) memory.peak_bytes = std::stoll(line.substr(6)) * 1024;
    if (line.starts_with("VmRSS:")) {  // comes after the peak
      memory.now_bytes = std::stoll(line.substr(6)) * 1024;
      return memory;
    }
  }
  throw Error(TSR_E_UNAVAILABLE, "/proc/self/status has no line VmRSS, so memory in use is not known; mount /proc");
}

}  // namespace tessera
