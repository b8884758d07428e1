// How the members of an NCCL communicator agree on its unique id.
#pragma once

#include "nccl-comm/gpu.h"
#include "nccl-comm/library.h"
#include "tessera/collective.hpp"
#include "tessera/rendezvous.hpp"

namespace tessera::nccl_comm {

/// Where a member runs, as published in the store.
struct RankLocation {
  char host[64];
  char boot[40];    // of the machine's kernel: the same in all its containers
  char bus_id[32];  // of the GPU
};

/// The location of this process and its GPU.
RankLocation this_location(const Gpu& gpu);

/// Each member publishes its location under `prefix` in the key-value store; coordinate 0 checks them all and publishes
/// an id for NCCL, which is returned. FAILED_PRECONDITION on all ranks when two of them have the same GPU; DEADLINE
/// names the missing ranks; ABORTED soon after `cancel` is set. [control-thread]
ncclUniqueId agree_on_unique_id(const KeyValue& store, const std::string& prefix, const Member& member,
                                const RankLocation& own, const Library& nccl, const Deadline& deadline,
                                const CancelFlag& cancel);

}  // namespace tessera::nccl_comm
