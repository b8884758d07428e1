// A strategy and its axis.
#pragma once

#include <string>

#include "tessera/strategy.h"

namespace tessera::host {

/// Borrows: the owner keeps instance and table alive.
struct StrategyOnAxis {
  std::string name;
  int axis = -1;
  const tsr_strategy_interface* interface = nullptr;
  tsr_strategy* instance = nullptr;
};

}  // namespace tessera::host
