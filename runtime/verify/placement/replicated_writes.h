// What a program proves to be the same on all ranks of an axis, action by action: what --debug-replicas compares.
#pragma once

#include <string>
#include <vector>

#include "program/program.h"

namespace tessera::host {

/// Elements that an action writes and that are proved to be the same, after it, on all ranks of `axes` that write
/// them: values and moments that ranks share, sums of gradients, gathered parameters.
struct ReplicatedWrite {
  size_t action = 0;
  Binding range;
  std::vector<int> axes;  ///< of the mesh, each of several ranks
  /// A key that means the same elements on every rank of the axes that has them, independent of the numbering of its
  /// actions: collectives by their order in group and stream, others by kind, segment and buffer.
  std::string key;
};

/// In the order of the actions, of a program that verify_placement accepts. Leaves out workspaces, contents of files,
/// and writes whose key is the same as that of another write of the same action and buffer.
std::vector<ReplicatedWrite> replicated_writes(const Program& program);

}  // namespace tessera::host
