// How the members of an NCCL communicator find one another.
#pragma once

#include "nccl-comm/gpu.h"
#include "nccl-comm/library.h"
#include "tessera/collective.hpp"
#include "tessera/key_value.hpp"

namespace tessera::nccl_comm {

/// Where a member runs, as it tells the others.
struct Place {
  char host[64];
  char boot[40];    // of the machine's kernel: the same in all its containers
  char bus_id[32];  // of the GPU
};

/// The place of this process with that GPU.
Place this_place(const Gpu& gpu);

/// The members meet under `prefix` in the key-value store: each puts its place there, coordinate 0 looks at all, and
/// then gives out an id for NCCL. FAILED_PRECONDITION on all ranks when two of them have the same GPU; DEADLINE names
/// the ranks that did not come. [control-thread]
ncclUniqueId meet(const KeyValue& store, const std::string& prefix, const Member& member, const Place& own,
                  const Library& nccl, const Deadline& deadline);

}  // namespace tessera::nccl_comm
