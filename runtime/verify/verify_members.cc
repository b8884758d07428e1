// Every member of a group takes part in its communicator. For example, where rank 0 sends to rank 1 over the whole
// axis:
//
//     rank 2 has no action on comm.dp.halo for group dp, where rank 0 has one; ...
//
// Messages match by pair, so nothing else finds it; the run would wait in the creation of the communicator until the
// start times out. Cost: the ranks of each group, once for each stream; actions of one rank of each class.

#include <map>
#include <set>
#include <string>
#include <tuple>

#include "base/concat.h"
#include "program/collective.h"
#include "program/rank_classes.h"
#include "verify/diagnostics.h"
#include "verify/verify.h"

namespace tessera::host {
namespace {

/// What a communicator is made for: stream, axis, coordinates.
using Channel = std::tuple<std::string, int, std::vector<int>>;

std::set<Channel> channels_of(const std::vector<const Program*>& programs) {
  std::set<Channel> channels;
  for (const Program* program : programs) {
    std::set<std::pair<uint32_t, int>> seen;
    for (const Action& action : program->actions) {
      if (!is_collective(action.kind) || !seen.emplace(action.stream, action.group).second) continue;
      const Group& group = program->groups[static_cast<size_t>(action.group)];
      channels.emplace(program->streams[action.stream].name, group.axis, group.coordinates);
    }
  }
  return channels;
}

}  // namespace

Diagnostics verify_members(const Mesh& mesh, const RankClasses& classes, const ProgramsOf& programs) {
  DiagnosticList diagnostics;
  std::map<int, std::set<Channel>> channels;
  for (const auto& [rank, members] : classes.members())
    channels.emplace(rank, channels_of(programs(rank)));
  std::set<std::pair<Channel, int>> checked;  // with the first member
  for (const auto& [rank, own] : channels)
    for (const Channel& channel : own) {
      const auto& [stream, axis, coordinates] = channel;
      const Group group{axis, coordinates};
      const std::vector<int> members = mesh.members(group, mesh.coordinates(rank));
      if (members.empty() || !checked.emplace(channel, members.front()).second) continue;
      for (const int member : members)
        if (!channels.at(classes.representative(member)).contains(channel)) {
          diagnostics.add(
              concat("rank ", member, " has no action on ", stream, " for group ",
                     group_text(*programs(rank).front(), group), ", where rank ", rank,
                     " has one; all members of a group make its communicator, so leave it out of the group, "
                     "or give it an action there"));
          break;
        }
    }
  return diagnostics.take();
}

}  // namespace tessera::host
