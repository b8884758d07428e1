// The connections of a member, made and then handed to gloo.
#pragma once

#include "gloo-comm/meeting.h"
#include "gloo-comm/pairs.h"
#include "gloo-comm/place.h"
#include "gloo-comm/wire.h"

namespace tessera::gloo_comm {

/// How a member's connections are made.
struct MeshSetup {
  Place place;
  bool reads_directly = true;
  const std::atomic<bool>& aborted;
};

/// The connections of one member to all others: one TCP connection a pair, one gloo thread for all of them.
class Mesh {
 public:
  /// Connects to each other member; `direct` then knows whom it can read. Throws as choose_address() and Meeting;
  /// RESOURCE_EXHAUSTED when this process cannot open enough files or start a thread. A mesh without connections for a
  /// group of one, after a look at its place.
  Mesh(const Member& member, const KeyValue& store, const std::string& prefix, const MeshSetup& setup,
       DirectReader& direct);
  ~Mesh() { close(); }
  Mesh(const Mesh&) = delete;
  Mesh& operator=(const Mesh&) = delete;

  /// Memory to send from or receive into. The memory outlives the buffer, the mesh too.
  BufferPtr buffer(void* data, uint64_t num_bytes) const { return pairs_->createUnboundBuffer(data, num_bytes); }

  /// Drops all connections at once: pending operations fail here and at the peers.
  void close() const noexcept;

 private:
  std::shared_ptr<Pairs> pairs_;  // owns gloo's device with its thread
};

}  // namespace tessera::gloo_comm
