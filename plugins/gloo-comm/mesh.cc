// The order in which create can fail: descriptors (before anything is begun), the own address, the members (all named
// by Meeting), gloo. What gloo throws names its own source lines, so it is replaced by what a user can do about it.
#include "gloo-comm/mesh.h"

#include <system_error>

#include "gloo-comm/limits.h"

namespace tessera::gloo_comm {
namespace {

// Beside a connection to each peer: where they connect to, and one that is not known yet; later gloo's loop, its
// wake-up, and the port of its pair.
constexpr int kMoreDescriptors = 3;
constexpr int kMaxStrangers = 128;

std::vector<Descriptor> meet(const Member& member, const KeyValue& store, const std::string& prefix,
                             const MeshSetup& setup, const Deadline& deadline, DirectReader& direct) {
  const int spare = require_descriptors(member.where(), member.num_ranks - 1 + kMoreDescriptors, kMaxStrangers);
  const Address address = choose_address(setup.place, member, store, prefix, deadline, setup.aborted);
  Meeting meeting(member, store, prefix, address, direct, setup.aborted, static_cast<size_t>(spare) + 1);
  auto sockets = meeting.connect_all(deadline);
  direct.settle();
  return sockets;
}

/// gloo over these connections; what it throws speaks of its own sources.
std::shared_ptr<Pairs> start_gloo(const Member& member, std::vector<Descriptor> sockets) {
  try {
    auto pairs = std::make_shared<Pairs>(member.rank, member.num_ranks);
    pairs->adopt(std::move(sockets));
    return pairs;
  } catch (const std::system_error& error) {
    throw Error(TSR_E_RESOURCE_EXHAUSTED, member.where() + ": no thread can be started (" + error.code().message() +
                                              "); raise the limit of processes with ulimit -u");
  } catch (const std::exception&) {
    require_descriptors(member.where(), kMoreDescriptors, 0);
    throw Error(TSR_E_UNAVAILABLE, member.where() +
                                       ": create cannot hand its connections to gloo: a member has just ended, or "
                                       "this machine has no loopback interface (ip link set lo up)");
  }
}

}  // namespace

Mesh::Mesh(const Member& member, const KeyValue& store, const std::string& prefix, const MeshSetup& setup,
           DirectReader& direct) {
  const Deadline deadline(member.timeout_ms);
  if (member.num_ranks == 1)
    choose_address(setup.place, member, store, prefix, deadline, setup.aborted);
  else
    pairs_ = start_gloo(member, meet(member, store, prefix, setup, deadline, direct));
}

void Mesh::close() const noexcept {
  if (!pairs_) return;
  for (int peer = 0; peer < pairs_->size; ++peer)
    if (peer != pairs_->rank) pairs_->getPair(peer)->close();
}

}  // namespace tessera::gloo_comm
