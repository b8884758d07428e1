#include "gloo-comm/mesh.h"

#include <gloo/transport/tcp/device.h>

#include <atomic>

#include "tessera/rendezvous.hpp"

namespace tessera::gloo_comm {
namespace {

using Context = ::gloo::transport::Context;

/// The addresses at which this rank expects each other one, one after another; its own place is left empty.
std::string listen(Context& context) {
  std::vector<std::vector<char>> addresses(static_cast<size_t>(context.size));
  size_t num_bytes = 0;
  for (int peer = 0; peer < context.size; ++peer) {
    if (peer == context.rank) continue;
    auto& address = addresses[static_cast<size_t>(peer)];
    address = context.createPair(peer)->address().bytes();
    num_bytes = address.size();
  }
  std::string all;
  for (auto& address : addresses) {
    address.resize(num_bytes);
    all.append(address.begin(), address.end());
  }
  return all;
}

std::vector<std::string> collect_addresses(const Member& member, const KeyValue& store, const std::string& prefix,
                                           const Deadline& deadline) {
  const std::atomic<bool> never_aborted{false};
  std::vector<std::string> addresses(static_cast<size_t>(member.num_ranks));
  std::string missing;
  int first_missing = -1;
  for (int rank = 0; rank < member.num_ranks; ++rank) {
    try {
      addresses[static_cast<size_t>(rank)] =
          wait_for_rank(store, prefix, member, rank, deadline, never_aborted, "create");
    } catch (const Error& error) {
      if (error.code() != TSR_E_DEADLINE) throw;
      if (first_missing < 0) first_missing = member.world_rank(rank);
      missing += (missing.empty() ? "" : ", ") + std::to_string(member.world_rank(rank));
    }
  }
  if (!missing.empty())
    throw Error(TSR_E_DEADLINE,
                member.where() + ": create timed out after " + std::to_string(member.timeout_ms) +
                    " ms waiting for rank " + missing,
                first_missing);
  return addresses;
}

void connect(Context& context, const Member& member, int peer, const std::string& addresses) {
  const size_t num_bytes = addresses.size() / static_cast<size_t>(member.num_ranks);
  const auto begin = addresses.begin() + static_cast<ptrdiff_t>(num_bytes * static_cast<size_t>(member.rank));
  try {
    context.getPair(peer)->connect(std::vector<char>(begin, begin + static_cast<ptrdiff_t>(num_bytes)));
  } catch (const std::exception& error) {
    throw Error(TSR_E_UNAVAILABLE,
                member.where() + ": create cannot connect to rank " + std::to_string(member.world_rank(peer)) + ": " +
                    error.what(),
                member.world_rank(peer));
  }
}

}  // namespace

Mesh::Mesh(const Member& member, const KeyValue& store, const std::string& prefix,
           const ::gloo::transport::tcp::attr& address) {
  if (member.num_ranks == 1) return;
  const Deadline deadline(member.timeout_ms);
  const auto device = std::make_shared<::gloo::transport::tcp::Device>(address);
  context_ = device->createContext(member.rank, member.num_ranks);
  // gloo waits five times as long as this for a connection.
  context_->setTimeout(std::chrono::milliseconds(std::max<int64_t>(member.timeout_ms / 5, 1)));
  const std::string keys = prefix + "/address";
  store.set(keys + "/" + std::to_string(member.rank), listen(*context_));
  const auto addresses = collect_addresses(member, store, keys, deadline);
  for (int peer = 0; peer < member.num_ranks; ++peer)
    if (peer != member.rank) connect(*context_, member, peer, addresses[static_cast<size_t>(peer)]);
}

void Mesh::close() const noexcept {
  if (!context_) return;
  for (int peer = 0; peer < context_->size; ++peer)
    if (peer != context_->rank) context_->getPair(peer)->close();
}

}  // namespace tessera::gloo_comm
