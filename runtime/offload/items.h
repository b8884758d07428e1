// The buffers that may leave device memory, and the visits that use them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "program/program.h"
#include "tessera/offload.h"

namespace tessera::host {

/// A buffer that may leave; see tsr_item.
struct Item {
  const Buffer* buffer = nullptr;
  int unit = -1;              ///< of all its uses; -1: of none, or of several
  std::vector<tsr_use> uses;  ///< by ascending visit
};

/// The items of a program, by ascending id: the movable buffers (items.cc says which) that two visits use, or one if
/// they are persistent. Borrows the program's buffers. Pure.
std::vector<Item> items_of(const Program& program, std::span<const tsr_visit> visits);

}  // namespace tessera::host
