// How the members of a group find and connect to one another, given only a key-value store.
#pragma once

#include <deque>

#include "gloo-comm/connections/connector.h"
#include "gloo-comm/connections/link.h"
#include "tessera/rendezvous.hpp"

namespace tessera::gloo_comm {

/// Each member puts the address where it listens into the store under "<prefix>/contact/<rank>", coordinate 0 a random
/// key with it. Then the members connect, authenticate one another (handshake.h), and wait until every pair is linked
/// (link.h). One thread, one poll().
class Bootstrap {
 public:
  /// Listens at `address`, which has no port yet; see Listener. All references outlive it.
  Bootstrap(const Member& member, const KeyValue& store, const std::string& prefix, Address address, CmaReader& cma,
            CancelFlag cancel, size_t max_strangers);

  /// Returns one connection to each other member, by peer; the own entry is empty. DEADLINE names all members that are
  /// missing, UNAVAILABLE one that has died; ABORTED soon after `cancel` is set; else the error that a peer reports.
  /// The other members are notified of it.
  std::vector<Descriptor> connect_all(const Deadline& deadline);

 private:
  struct Contact {
    Address address;
    Secret key;
  };

  void connect(const Deadline& deadline);
  void poll_once(int64_t timeout_ms);
  void fetch_contacts(int64_t timeout_ms);
  bool has_all_contacts() const { return contacts_awaited_.empty(); }
  [[noreturn]] void time_out();
  Error timeout_error() const;

  const Member& member_;
  const KeyValue& store_;
  const std::string keys_;
  const CancelFlag cancel_;
  GroupKey group_;
  Address address_;
  Listener listener_;
  Connector connector_;
  Links links_;
  const OnMember on_member_ = [this](int peer, Descriptor socket) { links_.add(peer, std::move(socket)); };
  std::deque<int> contacts_awaited_;  // coordinates; the next one to ask for first
  bool knows_key_ = false;
};

}  // namespace tessera::gloo_comm
