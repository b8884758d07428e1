// Turns what offload policies ask for into copies.
#pragma once

#include <cstddef>
#include <span>

#include "program/program.h"
#include "tessera/offload.h"

namespace tessera::host {

/// Moves the items of `leaves` out of device memory and back: inserts copies, and binds what uses an item after it was
/// away to the fetched copy. The contents that every action reads stay the same. `visits` are visits_of(program);
/// `leaves` name items and visits that use them, each pair once. A persistent item leaves after its last use too, and
/// rests in that memory between programs; all its leaves name the same memory. Runs after finalize_program, since the
/// first write into a range tells that nothing needs to be fetched, and before what follows the memory of operands.
///
/// `on_host` are the indices of actions that run on the host from then on (host_runs.h): what they use is where it has
/// left for, in the host's memory, when they run.
///
/// Items that leave for files are read and written in device memory directly if it is the host's, else through a bounce
/// buffer in the host's memory.
void move_items(Program& program, std::span<const tsr_visit> visits, std::span<const tsr_leave> leaves,
                bool device_memory_is_host = true, std::span<const size_t> on_host = {});

}  // namespace tessera::host
