// Resident memory by /proc/self/status. Not by getrusage: its ru_maxrss survives exec, so a rank would report its
// launcher's peak. Linux writes
//
//     VmHWM:     51200 kB
//     VmRSS:     48640 kB

#include "base/resident_memory.h"

#include <sys/resource.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

#include "base/concat.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

constexpr const char* kFile = "/proc/self/status";

// This is among the first files that a run opens, so a limit of descriptors that is too low shows here.
[[noreturn]] void fail_to_open(int error) {
  rlimit limit{};
  if (error == EMFILE && ::getrlimit(RLIMIT_NOFILE, &limit) == 0)
    throw Error(TSR_E_RESOURCE_EXHAUSTED,
                concat("this process may have ", limit.rlim_cur, " files open and needs more; raise the limit with ",
                       "ulimit -n (", kFile, ": ", std::strerror(error), ")"));
  throw Error(TSR_E_UNAVAILABLE,
              concat("cannot open ", kFile, " to measure memory: ", std::strerror(error), "; mount /proc"));
}

}  // namespace

ResidentMemory resident_memory() {
  ResidentMemory memory;
  std::ifstream status(kFile);
  if (!status) fail_to_open(errno);
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) memory.peak_bytes = std::stoll(line.substr(6)) * 1024;
    if (line.starts_with("VmRSS:")) {  // comes after the peak
      memory.now_bytes = std::stoll(line.substr(6)) * 1024;
      return memory;
    }
  }
  throw Error(TSR_E_UNAVAILABLE, concat(kFile, " has no line VmRSS, so memory cannot be measured; mount /proc"));
}

}  // namespace tessera::host
