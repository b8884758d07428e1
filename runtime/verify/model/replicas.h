// Ranks that keep the same elements must keep the same bits of them.
#pragma once

#include <map>

namespace tessera::host {

class RankWalk;
struct WalkContext;

/// Reports elements that one rank has averaged, or let a call make, and another one that keeps the same has not.
void compare_replicas(const std::map<int, RankWalk>& walks, WalkContext& context);

}  // namespace tessera::host
