// Lines of /proc/self/cgroup name a folder for each hierarchy:
//
//     0::/user.slice/job                 version 2      /sys/fs/cgroup/user.slice/job/memory.max, cpu.max
//     4:memory:/docker/0a1b              version 1      /sys/fs/cgroup/memory/docker/0a1b/memory.limit_in_bytes
//     3:cpu,cpuacct:/docker/0a1b                        /sys/fs/cgroup/cpu,cpuacct/docker/0a1b/cpu.cfs_quota_us
//
// A limit holds for all that is below it, so every folder from there up to the root is read. In a container the path is
// often that of the host, which is not there; then the root's own files are the container's.
#include "machine/cgroup.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <vector>

#include "base/concat.h"

namespace tessera::host {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

bool is_listed(const std::string& controllers, const std::string& controller) {
  std::istringstream list(controllers);
  for (std::string one; std::getline(list, one, ',');)
    if (one == controller) return true;
  return false;
}

/// `mount` and the folders below it on the way to `path`.
void add_way(const std::string& mount, std::string path, std::vector<std::string>& folders) {
  for (; path.size() > 1; path.erase(path.find_last_of('/')))
    folders.push_back(mount + path);
  folders.push_back(mount);
}

/// Where a file may be; its name begins with that of its controller.
std::vector<std::string> folders_of(const std::string& file_name, const std::string& membership,
                                    const std::string& root) {
  const std::string controller = file_name.substr(0, file_name.find('.'));
  std::vector<std::string> folders;
  std::ifstream file(membership);
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (controllers.empty()) add_way(root, path, folders);
    if (!is_listed(controllers, controller)) continue;
    add_way(concat(root, "/", controllers), path, folders);
    add_way(concat(root, "/", controller), path, folders);
  }
  return folders;
}

/// "200000 100000": microseconds of processor time in each period; "max 100000" has no limit, and -1 in version 1.
std::optional<double> quota_in(const std::string& folder) {
  double quota = 0, period = 0;
  std::istringstream max(first_line(folder + "/cpu.max"));
  if (!(max >> quota >> period)) {
    std::istringstream(first_line(folder + "/cpu.cfs_quota_us")) >> quota;
    std::istringstream(first_line(folder + "/cpu.cfs_period_us")) >> period;
  }
  if (!(quota > 0 && period > 0)) return std::nullopt;
  return quota / period;
}

/// "max" has no limit, and a number beyond every memory in version 1.
std::optional<uint64_t> memory_in(const std::string& file) {
  constexpr uint64_t kNoLimit = uint64_t{1} << 60;
  uint64_t bytes = 0;
  std::istringstream(first_line(file)) >> bytes;
  if (bytes == 0 || bytes >= kNoLimit) return std::nullopt;
  return bytes;
}

template <class T>
void lower(std::optional<T>& limit, const std::optional<T>& other) {
  if (other) limit = std::min(limit.value_or(*other), *other);
}

}  // namespace

CgroupLimits cgroup_limits(const std::string& membership, const std::string& root) {
  CgroupLimits limits;
  for (const std::string& folder : folders_of("memory.max", membership, root))
    for (const char* name : {"/memory.max", "/memory.limit_in_bytes"})
      lower(limits.memory_bytes, memory_in(folder + name));
  for (const std::string& folder : folders_of("cpu.max", membership, root))
    lower(limits.cores, quota_in(folder));
  return limits;
}

uint64_t usable_memory() {
  const int64_t num_pages = ::sysconf(_SC_PHYS_PAGES), page_bytes = ::sysconf(_SC_PAGESIZE);
  if (num_pages <= 0 || page_bytes <= 0) return 0;
  const uint64_t all = static_cast<uint64_t>(num_pages) * static_cast<uint64_t>(page_bytes);
  return std::min(all, cgroup_limits().memory_bytes.value_or(all));
}

}  // namespace tessera::host
