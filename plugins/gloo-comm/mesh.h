#pragma once

#include <gloo/transport/context.h>
#include <gloo/transport/tcp/attr.h>

#include "gloo-comm/wire.h"
#include "tessera/key_value.hpp"

namespace tessera::gloo_comm {

/// The connections of one member to all others: one TCP connection a pair, one gloo thread for all of them.
class Mesh {
 public:
  /// Meets the other members under "<prefix>/address/<rank>" of the store and connects to each. DEADLINE names all that
  /// are missing; UNAVAILABLE the one that cannot be reached. Returns a mesh without connections for a group of one.
  Mesh(const Member& member, const KeyValue& store, const std::string& prefix,
       const ::gloo::transport::tcp::attr& address);

  /// Memory to send from or receive into. The memory outlives the buffer, the mesh too.
  BufferPtr buffer(void* data, uint64_t num_bytes) const { return context_->createUnboundBuffer(data, num_bytes); }

  /// Drops all connections at once: pending operations fail here and at the peers.
  void close() const noexcept;

 private:
  std::shared_ptr<::gloo::transport::Context> context_;  // owns gloo's device with its thread
};

}  // namespace tessera::gloo_comm
