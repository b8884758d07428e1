// Both versions of cgroups: memory.max in the second, memory.limit_in_bytes in the first. The group is a child of this
// process's, so that limits above it stay.

#include "bench/paging.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "support/command.h"

namespace tessera::testing {
namespace {

constexpr const char* kRoot = "/sys/fs/cgroup";

bool exists(const std::string& path) {
  return ::access(path.c_str(), F_OK) == 0;
}

bool write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text << std::flush;
  return file.good();
}

/// The folder of this process's memory cgroup, of either version; empty if there is none.
std::string own_group() {
  std::ifstream groups("/proc/self/cgroup");
  std::string unified;
  for (std::string line; std::getline(groups, line);) {
    if (const size_t at = line.find(":memory:"); at != line.npos)
      return std::string(kRoot) + "/memory" + line.substr(at + 8);
    if (line.starts_with("0::")) unified = std::string(kRoot) + line.substr(3);
  }
  return exists(std::string(kRoot) + "/cgroup.controllers") ? unified : "";
}

}  // namespace

Paging::Paging(const std::string& folder, uint64_t swap_bytes) {
  make_group();
  if (obstacle_.empty()) make_swap(folder, swap_bytes);
}

Paging::~Paging() {
  if (is_swapping_) ::swapoff(swap_file_.c_str());
  if (!swap_file_.empty()) ::unlink(swap_file_.c_str());
  if (!group_.empty()) ::rmdir(group_.c_str());
}

void Paging::make_group() {
  const std::string parent = own_group();
  if (parent.empty()) {
    obstacle_ = "there is no memory cgroup";
    return;
  }
  const std::string group = parent + "/tessera-bench-" + std::to_string(::getpid());
  if (::mkdir(group.c_str(), 0755) != 0) {
    obstacle_ = "cannot make " + group + ": " + std::strerror(errno);
    return;
  }
  group_ = group;
  for (const char* name : {"/memory.max", "/memory.limit_in_bytes"})
    if (exists(group + name)) limit_file_ = group + name;
  if (limit_file_.empty()) obstacle_ = group + " has no limit of memory";
}

void Paging::make_swap(const std::string& folder, uint64_t num_bytes) {
  swap_file_ = folder + "/tessera-bench-swap-" + std::to_string(::getpid());
  const int file = ::open(swap_file_.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600);
  const bool is_made = file >= 0 && ::posix_fallocate(file, 0, static_cast<off_t>(num_bytes)) == 0;
  if (file >= 0) ::close(file);
  if (!is_made) {
    obstacle_ = "cannot make a swap file in " + folder;
    return;
  }
  if (run_command({"mkswap", swap_file_}).exit_code != 0) {
    obstacle_ = "mkswap failed in " + folder;
    return;
  }
  is_swapping_ = ::swapon(swap_file_.c_str(), 0) == 0;
  if (!is_swapping_) obstacle_ = std::string("swapon is refused: ") + std::strerror(errno);
}

std::vector<std::string> Paging::limited(const std::vector<std::string>& command, uint64_t num_bytes) {
  if (!write_file(limit_file_, std::to_string(num_bytes))) obstacle_ = "cannot set " + limit_file_;
  std::vector<std::string> all = {"sh", "-c", "echo $$ >\"$0\" && exec \"$@\"", group_ + "/cgroup.procs"};
  all.insert(all.end(), command.begin(), command.end());
  return all;
}

}  // namespace tessera::testing
