// gloo's TCP transport over connections that exist already.
#pragma once

#include <gloo/transport/tcp/context.h>
#include <gloo/transport/tcp/device.h>

#include <vector>

#include "gloo-comm/connections/descriptor.h"

namespace tessera::gloo_comm {

/// gloo's transport over connections that were made and authenticated before gloo sees them.
class Pairs final : public ::gloo::transport::tcp::Context {
 public:
  /// Starts gloo's thread. Throws what gloo throws.
  Pairs(int own_rank, int num_ranks);

  /// Hands gloo the connection to each peer; the entry of `rank` is empty. To be called once. Throws what gloo throws;
  /// connections that it did not take are closed.
  void adopt(std::vector<Descriptor> sockets);
};

}  // namespace tessera::gloo_comm
