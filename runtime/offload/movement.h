// Turns what offload policies ask for into copies.
#pragma once

#include <span>

#include "program/program.h"
#include "tessera/offload.h"

namespace tessera::host {

/// Streams of the device on which items come and go, made on first use.
inline constexpr char kFetchStream[] = "fetch";
inline constexpr char kEvictStream[] = "evict";

/// Moves the items of `leaves` out of device memory and back: inserts copies, and binds what uses an item after it was
/// away to the fetched copy. The contents that every action reads stay the same. `visits` are visits_of(program);
/// `leaves` name items and visits that use them, each pair once. A persistent item leaves after its last use too, and
/// rests in that memory between programs; all its leaves name the same memory. Runs after finalize_program, since the
/// first write into a range tells that nothing needs to be fetched, and before what follows the memory of operands.
void move_items(Program& program, std::span<const tsr_visit> visits, std::span<const tsr_leave> leaves);

}  // namespace tessera::host
