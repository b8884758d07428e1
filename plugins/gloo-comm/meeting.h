// How the members of a group come together, from nothing but a key-value store.
#pragma once

#include <atomic>
#include <deque>

#include "gloo-comm/caller.h"
#include "gloo-comm/link.h"
#include "tessera/key_value.hpp"

namespace tessera::gloo_comm {

/// How the members of a group come together: each tells under "<prefix>/card/<rank>" of the store where it listens, and
/// the first a random key with it; then they connect, greet one another (greeting.h), and wait until all have met all
/// (link.h). One thread, one poll().
class Meeting {
 public:
  /// Listens at `address`, which has no port yet; see Door. All references outlive it.
  Meeting(const Member& member, const KeyValue& store, const std::string& prefix, Address address, DirectReader& direct,
          const std::atomic<bool>& aborted, size_t max_strangers);

  /// One connection to each other member, by peer; its own place is empty. DEADLINE names all members that are missing,
  /// UNAVAILABLE one that has died; ABORTED soon after `aborted` is set; else what a peer reports. The other members
  /// are told.
  std::vector<Descriptor> connect_all(const Deadline& deadline);

 private:
  struct Card {
    Address address;
    Secret key;
  };

  void meet(const Deadline& deadline);
  void take_turn(int64_t timeout_ms);
  void fetch_cards(int64_t timeout_ms);
  bool has_all_cards() const { return cards_awaited_.empty(); }
  [[noreturn]] void time_out();
  Error timeout_error() const;

  const Member& member_;
  const KeyValue& store_;
  const std::string keys_;
  DirectReader& direct_;
  const std::atomic<bool>& aborted_;
  Circle circle_;
  Address address_;
  Door door_;
  Caller caller_;
  Links links_;
  const OnMember on_member_ = [this](int peer, Descriptor socket) { links_.add(peer, std::move(socket)); };
  std::deque<int> cards_awaited_;  // whose; the next to ask for is first
  bool knows_key_ = false;
};

}  // namespace tessera::gloo_comm
