// What a container or a job's scheduler leaves a process of the machine: limits of Linux's control groups.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tessera::host {

/// The lowest limits of the process's group and the groups that hold it, in version 1 and 2; nothing: there is none.
struct CgroupLimits {
  std::optional<uint64_t> memory_bytes;  ///< the kernel kills a process of the group when they use more
  std::optional<double> cores;           ///< processor time in each period; beyond it all threads of the group wait
};

/// `membership` is the file that lists the process's groups, `root` where their files are. Files that are missing or of
/// another form set no limit. [any-thread]
CgroupLimits cgroup_limits(const std::string& membership = "/proc/self/cgroup",
                           const std::string& root = "/sys/fs/cgroup");

/// Bytes that the processes of this container or job may use: the machine's memory, or a lower limit of the group.
/// 0: unknown. [any-thread]
uint64_t usable_memory();

}  // namespace tessera::host
