// A rank's own homes, for checks of ranks whose programs are equal and whose homes are not.
#pragma once

#include <functional>
#include <memory>

#include "program/program.h"

namespace tessera::host {

/// Its init program, which has them, and the model that this borrows.
struct RankHomes {
  std::shared_ptr<const Model> model;
  Program init;
};
using HomesOf = std::function<RankHomes(int rank)>;

}  // namespace tessera::host
