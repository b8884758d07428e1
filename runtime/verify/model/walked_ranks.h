// What the rules between ranks share in one walk.
#pragma once

#include <functional>
#include <map>

#include "program/rank_classes.h"
#include "verify/model/rank_walk.h"

namespace tessera::host {

/// The ranks that are walked, one of each class, and the classes.
struct WalkedRanks {
  const Mesh& mesh;
  const RankClasses& classes;
  std::map<int, RankWalk>& walks;                          ///< by representative
  const std::function<const HomeTable&(int rank)>& homes;  ///< of any rank
  AddendSets& sets;
};

}  // namespace tessera::host
