// The connections of a member, made and then handed to gloo.
#pragma once

#include "gloo-comm/connections/bootstrap.h"
#include "gloo-comm/connections/listen_address.h"
#include "gloo-comm/connections/pairs.h"
#include "gloo-comm/connections/wire.h"

namespace tessera::gloo_comm {

/// How a member's connections are made.
struct ConnectionSetup {
  ListenOptions listen;
  bool uses_cma = true;
  CancelFlag cancel = CancelFlag();
};

/// The connections of one member to all others: one TCP connection a pair, one gloo thread for all of them.
class Connections {
 public:
  /// Connects to each other member; afterwards `cma` knows the peers whose memory it can read. Throws as
  /// choose_address() and Bootstrap; RESOURCE_EXHAUSTED when this process cannot open enough files or start a thread. A
  /// group of one has no connections, but its listen options are checked.
  Connections(const Member& member, const KeyValue& store, const std::string& prefix, const ConnectionSetup& setup,
              CmaReader& cma);
  ~Connections() { close(); }
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;

  /// Memory to send from or receive into. Memory and connections outlive the buffer.
  BufferPtr buffer(void* data, uint64_t num_bytes) const { return pairs_->createUnboundBuffer(data, num_bytes); }

  /// Drops all connections at once: pending operations fail here and at the peers.
  void close() const noexcept;

 private:
  std::shared_ptr<Pairs> pairs_;  // owns gloo's device with its thread
};

}  // namespace tessera::gloo_comm
