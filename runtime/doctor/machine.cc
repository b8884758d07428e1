// What /proc, /sys and a few system calls report about this machine. Entries that are missing are left out: kernels and
// containers differ. Nothing here needs root or changes anything.

#include <fcntl.h>
#include <gnu/libc-version.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "base/concat.h"
#include "doctor/finding.h"
#include "machine/cgroup.h"
#include "machine/core_binding.h"

namespace tessera::host {
namespace {

#if defined(__clang__)
constexpr std::string_view kCompiler = __VERSION__;
#else
constexpr std::string_view kCompiler = "GCC " __VERSION__;
#endif

using Level = Finding::Level;

// A container of Docker has 64 MiB unless it is given more.
constexpr uint64_t kMinShm = uint64_t{256} << 20;
constexpr uint64_t kMinDisk = uint64_t{1} << 30;
// Without high-resolution timers a clock moves with the tick of the kernel, by 1 ms or more.
constexpr int64_t kSlowClockNs = 1'000'000;  // its resolution

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// The value after "NAME:" in a file such as /proc/meminfo; empty if there is none.
std::string value_in(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(name) && line.find(':') != line.npos) {
      const size_t begin = line.find_first_not_of(" \t", line.find(':') + 1);
      return begin == line.npos ? "" : line.substr(begin);
    }
  return "";
}

uint64_t kilobytes_in_meminfo(const std::string& name) {
  std::istringstream text(value_in("/proc/meminfo", name));
  uint64_t kilobytes = 0;
  text >> kilobytes;
  return kilobytes * 1024;
}

void examine_system(Findings& findings) {
  utsname name{};
  if (::uname(&name) == 0)
    findings.push_back(
        {"machine", "system", Level::ok, concat(name.sysname, " ", name.release, " ", name.machine), ""});
  findings.push_back({"machine", "C library", Level::ok, concat("glibc ", ::gnu_get_libc_version()), ""});
  const std::string model = value_in("/proc/cpuinfo", "model name");
  std::istringstream words(value_in("/proc/cpuinfo", "flags") + " " + value_in("/proc/cpuinfo", "Features"));
  std::set<std::string> flags;
  for (std::string word; words >> word;)
    flags.insert(word);
  std::string has;
  for (const char* feature : {"avx2", "fma", "avx512f", "avx512_bf16", "amx_tile", "amx_bf16", "asimd", "sve", "bf16"})
    if (flags.contains(feature)) has += concat(has.empty() ? "" : " ", feature);
  findings.push_back({"machine", "processor", Level::ok,
                      concat(model.empty() ? "unknown" : model, has.empty() ? "" : concat(": ", has)), ""});
}

void examine_memory(Findings& findings) {
  const uint64_t total = kilobytes_in_meminfo("MemTotal"), available = kilobytes_in_meminfo("MemAvailable");
  findings.push_back(
      {"machine", "memory", Level::ok, concat(human_bytes(total), ", ", human_bytes(available), " available"), ""});
  const uint64_t limit = cgroup_limits().memory_bytes.value_or(total);
  if (limit >= total) return;
  findings.push_back({"machine", "memory of the cgroup", Level::warning, human_bytes(limit),
                      "The kernel kills a rank that uses more; raise the limit of the container or the job, or give "
                      "--device-memory so that runs that need more are refused."});
}

void examine_cores(Findings& findings) {
  const auto seen = std::max(1u, std::thread::hardware_concurrency());
  const auto online = static_cast<unsigned>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
  findings.push_back(
      {"machine", "cores", seen < online ? Level::note : Level::ok,
       seen < online ? concat(seen, " of ", online, " (CPU affinity of this process)") : std::to_string(seen), ""});
  const double quota = cgroup_limits().cores.value_or(seen);
  if (quota >= seen) return;
  findings.push_back({"machine", "cores of the cgroup", Level::warning, format("%.2f", quota),
                      concat("Threads beyond the quota are throttled in each period: runs use ", num_cores(),
                             " unless --threads says otherwise; several ranks share them.")});
}

void examine_pages(Findings& findings) {
  const std::string transparent = first_line("/sys/kernel/mm/transparent_hugepage/enabled");
  const uint64_t reserved = std::strtoull(value_in("/proc/meminfo", "HugePages_Total").c_str(), nullptr, 10);
  const bool is_off = transparent.find("[never]") != transparent.npos;
  findings.push_back({"machine", "huge pages", is_off ? Level::note : Level::ok,
                      concat("transparent: ", transparent.empty() ? "unknown" : transparent, "; reserved: ", reserved),
                      is_off ? "Large models may run faster with transparent huge pages: as root, echo madvise > "
                               "/sys/kernel/mm/transparent_hugepage/enabled."
                             : ""});
}

/// The source counts: hpet and acpi_pm are devices, and reading one takes about a microsecond, where tsc is a register
/// of the processor.
void examine_clock(Findings& findings) {
  timespec resolution{}, before{}, now{};
  ::clock_getres(CLOCK_MONOTONIC, &resolution);
  bool is_monotonic = true;
  int64_t least = INT64_MAX;
  ::clock_gettime(CLOCK_MONOTONIC, &before);
  for (int i = 0; i < 10'000; ++i) {
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    const int64_t passed = (now.tv_sec - before.tv_sec) * 1'000'000'000 + now.tv_nsec - before.tv_nsec;
    is_monotonic &= passed >= 0;
    if (passed > 0) least = std::min(least, passed);
    before = now;
  }
  const std::string source = first_line("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  const bool is_slow = source == "hpet" || source == "acpi_pm" || resolution.tv_nsec >= kSlowClockNs;
  findings.push_back({"machine", "clock",
                      !is_monotonic ? Level::failure
                      : is_slow     ? Level::warning
                                    : Level::ok,
                      concat(is_monotonic ? "monotonic" : "goes backwards", ", resolution ", resolution.tv_nsec,
                             " ns, least step seen ", least == INT64_MAX ? 0 : least, " ns, source ",
                             source.empty() ? "unknown" : source),
                      !is_monotonic
                          ? "Timeouts cannot be trusted on this machine; choose another clocksource in /sys/devices/"
                            "system/clocksource."
                      : is_slow ? "Reading this clock is slow; boot with clocksource=tsc if the processor's is stable."
                                : ""});
}

void examine_space(Findings& findings) {
  const auto add = [&](const char* path, const std::string& name, uint64_t least, const char* remedy) {
    struct statvfs space {};
    if (::statvfs(path, &space) != 0) {
      findings.push_back({"machine", name, Level::warning, std::strerror(errno), remedy});
      return;
    }
    const uint64_t free_bytes = uint64_t{space.f_bavail} * space.f_frsize,
                   all = uint64_t{space.f_blocks} * space.f_frsize;
    const bool is_small = free_bytes < least;
    findings.push_back({"machine", name, is_small ? Level::warning : Level::ok,
                        concat(human_bytes(free_bytes), " free of ", human_bytes(all)), is_small ? remedy : ""});
  };
  add("/dev/shm", "/dev/shm", kMinShm,
      "NCCL connects GPUs of one machine through it; give the container more, such as docker run --shm-size=1g.");
  add(".", "disk of this folder", kMinDisk,
      "Checkpoints and --offload-dir need space; free some, or name folders on another disk.");
}

/// In a process of its own, since a seccomp filter may kill the caller. Returns 0 or the errno, or -1.
int try_io_uring() {
  const pid_t child = ::fork();
  if (child < 0) return errno;
  if (child == 0) {
    alignas(8) char parameters[256] = {};  // struct io_uring_params is 120 bytes
    const long descriptor = ::syscall(SYS_io_uring_setup, 4, parameters);
    ::_exit(descriptor >= 0 ? 0 : errno);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void examine_io_uring(Findings& findings) {
  const int error = try_io_uring();
  findings.push_back({"machine", "io_uring", error == 0 ? Level::ok : Level::note,
                      error == 0  ? "allowed"
                      : error < 0 ? std::string("forbidden: the kernel kills a process that uses it")
                                  : concat("refused: ", std::strerror(error)),
                      error == 0
                          ? ""
                          : "--offload-dir uses threads instead; to allow it, set kernel.io_uring_disabled to 0 and "
                            "let the container's seccomp profile have io_uring_setup, io_uring_enter and "
                            "io_uring_register."});
}

/// Ranks on one machine read one another's memory with process_vm_readv (decision 0011), which Yama restricts.
void examine_memory_of_others(Findings& findings) {
  const std::string scope = first_line("/proc/sys/kernel/yama/ptrace_scope");
  if (scope.empty() || scope == "0") return;
  findings.push_back({"machine", "memory of other ranks", Level::note, "kernel.yama.ptrace_scope is " + scope,
                      "Ranks on one machine may have to copy through sockets; set it to 0, or give the container "
                      "CAP_SYS_PTRACE."});
}

void examine_driver(Findings& findings) {
  const std::string nvidia = first_line("/proc/driver/nvidia/version");
  if (!nvidia.empty()) findings.push_back({"machine", "NVIDIA driver", Level::ok, nvidia, ""});
}

}  // namespace

Findings examine_machine() {
  Findings findings;
  findings.push_back({"machine", "tessera", Level::ok, concat(TESSERA_VERSION, ", built by ", kCompiler), ""});
  examine_system(findings);
  examine_cores(findings);
  examine_memory(findings);
  examine_pages(findings);
  examine_space(findings);
  examine_io_uring(findings);
  examine_memory_of_others(findings);
  examine_clock(findings);
  examine_driver(findings);
  return findings;
}

}  // namespace tessera::host
