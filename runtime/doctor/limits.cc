// The limits of getrlimit(2), which shells show as ulimit. Where more is needed than a limit, the hard limit counts:
// the program raises that of open files itself (launch/process_setup.h), and a user may raise the others. Limits on
// memory and on the size of a file may be intended; any is a note, by the soft limit, which is the one that the kernel
// applies.

#include <sys/resource.h>

#include <string>

#include "base/concat.h"
#include "doctor/finding.h"

namespace tessera::host {
namespace {

using Level = Finding::Level;

constexpr uint64_t kNone = RLIM_INFINITY;

struct Limit {
  int resource;
  const char* name;
  bool is_bytes;
  uint64_t least;  ///< of the hard limit, below which there is a warning; kNone: any limit is a note
  const char* remedy;
};
constexpr Limit kLimits[] = {
    // 8 MiB is the default of Linux since 5.16; before that it was 64 KiB.
    {RLIMIT_MEMLOCK, "locked memory (ulimit -l)", true, uint64_t{8} << 20,
     "GPUs and RDMA lock memory; raise it in /etc/security/limits.conf, or give docker run --ulimit memlock=-1."},
    {RLIMIT_NOFILE, "open files (ulimit -n)", false, 4096,
     "Each rank needs several for every other rank; raise the hard limit with ulimit -Hn or in limits.conf."},
    {RLIMIT_NPROC, "processes and threads (ulimit -u)", false, 1024,
     "Each rank runs one thread per stream; raise the limit with ulimit -u."},
    {RLIMIT_AS, "address space (ulimit -v)", true, kNone,
     "A rank that needs more fails; remove the limit with ulimit -v unlimited unless it is intended."},
    {RLIMIT_DATA, "data (ulimit -d)", true, kNone,
     "A rank that needs more fails; remove the limit with ulimit -d unlimited unless it is intended."},
    {RLIMIT_FSIZE, "size of a file (ulimit -f)", true, kNone,
     "Larger checkpoints cannot be written; remove the limit with ulimit -f unlimited."},
};

std::string text_of(uint64_t value, bool is_bytes) {
  if (value == kNone) return "unlimited";
  return is_bytes ? human_bytes(value) : std::to_string(value);
}

}  // namespace

Findings examine_limits() {
  Findings findings;
  for (const Limit& limit : kLimits) {
    rlimit value{};
    if (::getrlimit(static_cast<__rlimit_resource_t>(limit.resource), &value) != 0) continue;
    // RLIM_INFINITY is the largest number, so an unlimited hard limit is never below `least`.
    const bool is_low = limit.least == kNone ? value.rlim_cur != kNone : value.rlim_max < limit.least;
    const Level level = !is_low ? Level::ok : limit.least == kNone ? Level::note : Level::warning;
    const std::string hard =
        value.rlim_max == value.rlim_cur ? "" : concat(", can be raised to ", text_of(value.rlim_max, limit.is_bytes));
    findings.push_back(
        {"limits", limit.name, level, text_of(value.rlim_cur, limit.is_bytes) + hard, is_low ? limit.remedy : ""});
  }
  return findings;
}

}  // namespace tessera::host
