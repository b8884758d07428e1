#include "passes/workspaces.h"

#include <algorithm>
#include <string>

namespace tessera::host {
namespace {

/// Where a collective's operands are: in the host's memory or the device's.
uint32_t memory_of(const Program& program, const Action& collective) {
  const bool on_host = std::ranges::any_of(
      collective.bindings, [&](const Binding& b) { return program.buffer(b.buffer).memory == TSR_MEMORY_HOST; });
  return on_host ? TSR_MEMORY_HOST : TSR_MEMORY_DEVICE;
}

}  // namespace

void bind_workspaces(Program& program, const DescribeCollective& describe) {
  for (Action& action : program.actions) {
    if (!is_collective(action.kind)) continue;
    const int num_members = program.mesh->num_members(program.groups[action.group]);
    const uint64_t num_bytes = num_members < 2 ? 0 : describe(program, action, num_members);
    if (num_bytes == 0 || action.bindings.empty()) continue;
    const std::string about =
        std::string(action_name(action.kind)) + " " + program.buffer(action.bindings[0].buffer).name;
    const uint64_t id =
        program.add_buffer({0, about, TSR_BUFFER_WORKSPACE, memory_of(program, action), TSR_U8, false, num_bytes});
    action.bindings.push_back({id, 0, num_bytes, TSR_SLOT(TSR_ROLE_WORKSPACE, 0), TSR_MODE_WRITE});
  }
}

}  // namespace tessera::host
