// The machine as the line of the run in the metrics has it, and as the report's page shows it:
//
//     "environment":{"host":"node7","system":"Linux 6.1.0 x86_64","processor":"Intel(R) Xeon(R) ...","cores":"16", ...}
//
// Only processors of x86 have a "model name" in /proc/cpuinfo.

#include "record/environment.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "base/concat.h"

namespace tessera::host {
namespace {

std::string processor() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != line.npos) return line.substr(colon + 2);
  }
  return "";
}

std::string compiler() {
#ifdef __clang__
  return __VERSION__;
#else
  return concat("GCC ", __VERSION__);
#endif
}

}  // namespace

std::vector<std::pair<std::string, std::string>> run_environment() {
  std::vector<std::pair<std::string, std::string>> all;
  const auto add = [&all](const char* name, const std::string& value) {
    if (!value.empty()) all.emplace_back(name, value);
  };
  utsname system{};
  if (::uname(&system) == 0) {
    add("host", system.nodename);
    add("system", concat(system.sysname, " ", system.release, " ", system.machine));
  }
  add("processor", processor());
  if (const unsigned cores = std::thread::hardware_concurrency()) add("cores", std::to_string(cores));
  const long pages = ::sysconf(_SC_PHYS_PAGES), page_bytes = ::sysconf(_SC_PAGE_SIZE);
  if (pages > 0 && page_bytes > 0)
    add("memory", human_bytes(static_cast<uint64_t>(pages) * static_cast<uint64_t>(page_bytes)));
  add("compiler", compiler());
  return all;
}

}  // namespace tessera::host
