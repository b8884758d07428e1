// The order in which create can fail: descriptors (before anything else), the own address, missing members (Bootstrap
// names them all), gloo. gloo's exceptions name its own source lines, so they are replaced by a sentence that says what
// a user can do.
#include "gloo-comm/connections/connections.h"

#include <system_error>

#include "gloo-comm/connections/descriptor_limits.h"

namespace tessera::gloo_comm {
namespace {

// In addition to one connection per peer: the listening socket and one unfinished handshake; later gloo's epoll, its
// wake-up, and the port of a pair.
constexpr int kMoreDescriptors = 3;
constexpr int kMaxStrangers = 128;

std::vector<Descriptor> connect(const Member& member, const KeyValue& store, const std::string& prefix,
                                const ConnectionSetup& setup, const Deadline& deadline, CmaReader& cma) {
  const int spare = require_descriptors(member.where(), member.num_ranks - 1 + kMoreDescriptors, kMaxStrangers);
  const Address address = choose_address(setup.listen, member, store, prefix, deadline, setup.cancel);
  Bootstrap bootstrap(member, store, prefix, address, cma, setup.cancel, static_cast<size_t>(spare) + 1);
  auto sockets = bootstrap.connect_all(deadline);
  cma.finish_probing();
  return sockets;
}

/// Hands the connections to gloo.
std::shared_ptr<Pairs> start_gloo(const Member& member, std::vector<Descriptor> sockets) {
  try {
    auto pairs = std::make_shared<Pairs>(member.rank, member.num_ranks);
    pairs->adopt(std::move(sockets));
    return pairs;
  } catch (const std::system_error& error) {
    throw Error(TSR_E_RESOURCE_EXHAUSTED, member.where() + ": cannot start a thread (" + error.code().message() +
                                              "); raise the limit on processes with ulimit -u");
  } catch (const std::exception&) {
    require_descriptors(member.where(), kMoreDescriptors, 0);
    throw Error(TSR_E_UNAVAILABLE, member.where() +
                                       ": create cannot hand its connections to gloo: either a member has just ended, "
                                       "or this machine's loopback interface is down (ip link set lo up)");
  }
}

}  // namespace

Connections::Connections(const Member& member, const KeyValue& store, const std::string& prefix,
                         const ConnectionSetup& setup, CmaReader& cma) {
  const Deadline deadline(member.timeout_ms);
  if (member.num_ranks == 1)
    choose_address(setup.listen, member, store, prefix, deadline, setup.cancel);
  else
    pairs_ = start_gloo(member, connect(member, store, prefix, setup, deadline, cma));
}

void Connections::close() const noexcept {
  if (!pairs_) return;
  for (int peer = 0; peer < pairs_->size; ++peer)
    if (peer != pairs_->rank) pairs_->getPair(peer)->close();
}

}  // namespace tessera::gloo_comm
