// Hardware threads of one core share its arithmetic, so they belong to one rank where they can: cores are ordered by
// package and core as Linux describes them in /sys/devices/system/cpu/cpuN/topology, and cut into equal shares:
//
//     cpu      0  4  1  5  2  6  3  7        threads 0 and 4 are of one core
//     rank     0  0  0  0  1  1  1  1
//
// Why ranks are bound at all: decision 0052.

#include "machine/core_binding.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <climits>
#include <fstream>
#include <thread>

#include "base/concat.h"
#include "machine/cgroup.h"

namespace tessera::host {
namespace {

int topology(int cpu, const char* what) {
  int number = 0;
  std::ifstream(concat("/sys/devices/system/cpu/cpu", cpu, "/topology/", what)) >> number;
  return number;
}

std::vector<int> allowed_cores() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return {};
  std::vector<std::array<int, 3>> places;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) places.push_back({topology(cpu, "physical_package_id"), topology(cpu, "core_id"), cpu});
  std::ranges::sort(places);
  std::vector<int> cores;
  for (const auto& place : places)
    cores.push_back(place.back());
  return cores;
}

bool bind_this_thread(std::span<const int> cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores)
    CPU_SET(core, &set);
  return ::sched_setaffinity(0, sizeof set, &set) == 0;
}

}  // namespace

const std::vector<int>& cores_of_process() {
  static const std::vector<int> cores = allowed_cores();
  return cores;
}

int num_cores() {
  static const int quota = static_cast<int>(std::clamp(cgroup_limits().cores.value_or(INT_MAX), 1.0, double{INT_MAX}));
  const size_t known = cores_of_process().size();
  return std::min(quota, static_cast<int>(known > 0 ? known : std::max(1u, std::thread::hardware_concurrency())));
}

std::span<const int> share_of_cores(std::span<const int> cores, int index, int num_shares) {
  const auto begin = [&](int i) { return cores.size() * static_cast<size_t>(i) / static_cast<size_t>(num_shares); };
  return cores.subspan(begin(index), begin(index + 1) - begin(index));
}

CoreBinding::CoreBinding(std::span<const int> cores) : is_bound_(!cores.empty() && bind_this_thread(cores)) {}

CoreBinding::~CoreBinding() {
  if (is_bound_) bind_this_thread(cores_of_process());
}

}  // namespace tessera::host
