// What is Slurm's own, for rank_environment.h: its compressed lists, hosts as "gnode[10,20-25],other" and tasks per
// node as "4(x2),1"; and the batch script, which runs once, outside of the steps that srun makes.

#include <algorithm>
#include <cstdlib>

#include "base/concat.h"
#include "config/text_values.h"
#include "config/usage_error.h"
#include "launch/rank_environment.h"

namespace tessera::host {

std::string first_slurm_host(const std::string& node_list) {
  const size_t bracket = node_list.find_first_of("[,");
  if (bracket == std::string::npos || node_list[bracket] == ',') return node_list.substr(0, bracket);
  // The first number in the brackets, with its zeros ("node[007-012]" is node007), and what follows them: "a[1-2]-ib"
  // is a1-ib.
  const size_t end = node_list.find_first_of(",-]", bracket);
  const size_t close = node_list.find(']', bracket);
  if (end == std::string::npos || close == std::string::npos)
    throw UsageError(
        concat("SLURM_STEP_NODELIST is '", node_list, "', which has no closing bracket; give TESSERA_STORE_ADDR"));
  const size_t next = std::min(node_list.find(',', close), node_list.size());
  return node_list.substr(0, bracket) + node_list.substr(bracket + 1, end - bracket - 1) +
         node_list.substr(close + 1, next - close - 1);
}

int slurm_tasks_on_node(const std::string& tasks_per_node, int node) {
  constexpr const char* kName = "SLURM_STEP_TASKS_PER_NODE";
  // "4(x2),1": nodes 0 and 1 have 4 tasks, node 2 has 1.
  int64_t nodes_so_far = 0;
  for (const std::string_view part : split(tasks_per_node, ',')) {
    const size_t times = part.find("(x");
    const int64_t tasks = parse_environment_integer(kName, part.substr(0, times));
    int64_t num_nodes = 1;
    if (times != std::string_view::npos) {
      if (part.back() != ')') break;
      num_nodes = parse_environment_integer(kName, part.substr(times + 2, part.size() - times - 3));
    }
    nodes_so_far += num_nodes;
    if (node < nodes_so_far) return static_cast<int>(tasks);
  }
  throw UsageError(concat(kName, " is '", tasks_per_node, "', which has no entry for node ", node));
}

std::string missing_srun(const Environment& environment) {
  const auto tasks = environment("SLURM_NTASKS");
  const long num_tasks = tasks && !environment("SLURM_STEP_ID") ? std::strtol(tasks->c_str(), nullptr, 10) : 0;
  if (num_tasks < 2) return "";
  return concat("this Slurm job has ", num_tasks, " tasks, and this run is one rank; start it with srun, or give ",
                "--nproc (1 if one rank is meant)");
}

}  // namespace tessera::host
