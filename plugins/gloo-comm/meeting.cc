// One loop of turns (store, sockets, store, ...) in one thread, until all links are done or somebody gives up:
//
//     1. put the own card {address; of rank 0: the key} into the store
//     2. fetch the others' cards, one wait at a time                 fetch_cards
//     3. connect, listen, greet; all sockets in one poll()           take_turn: Caller, Door, Links
//     4. "all are here", "so say all"                                Links, link.h
//
// Nothing here waits for one member alone, so at the deadline all who are missing are known, and everybody names the
// same: a member that gives up says why, and waits kGraceMs for others to say that they wait too.
#include "gloo-comm/meeting.h"

#include <numeric>

namespace tessera::gloo_comm {
namespace {

// How soon what is due is done; and how soon while a member's card is awaited, in which connections are not looked at.
constexpr int64_t kTurnMs = 50, kCardMs = 200;
// How long a member whose time is up listens to those who wait as it does.
constexpr int64_t kGraceMs = 200;

}  // namespace

Meeting::Meeting(const Member& member, const KeyValue& store, const std::string& prefix, Address address,
                 DirectReader& direct, const std::atomic<bool>& aborted, size_t max_strangers)
    : member_(member),
      store_(store),
      keys_(prefix + "/card/"),
      direct_(direct),
      aborted_(aborted),
      circle_{{}, prefix, member.num_ranks},
      address_(address),
      door_(member.where(), max_strangers, address_),
      caller_(member),
      links_(member, direct),
      cards_awaited_(static_cast<size_t>(member.num_ranks)) {
  std::iota(cards_awaited_.begin(), cards_awaited_.end(), 0);
}

// Waits for one member's card at a time, another one in each turn, so that those who have come are known although
// others have not.
void Meeting::fetch_cards(int64_t timeout_ms) {
  while (!has_all_cards()) {
    const int peer = cards_awaited_.front();
    try {
      const auto card = from_bytes<Card>(store_.get(keys_ + std::to_string(peer), timeout_ms));
      if (peer == 0) circle_.key = card.key;
      knows_key_ = knows_key_ || peer == 0;
      if (peer != member_.rank) caller_.set_address(peer, card.address);
      cards_awaited_.pop_front();
    } catch (const Error& error) {
      if (error.code() != TSR_E_DEADLINE) throw;
      cards_awaited_.push_back(peer);
      cards_awaited_.pop_front();
      return;
    }
  }
}

void Meeting::take_turn(int64_t timeout_ms) {
  Poller poller;
  links_.watch(poller);
  for (int peer = 0; knows_key_ && peer < member_.num_ranks; ++peer)
    if (peer != member_.rank && !links_.has(peer)) caller_.watch(poller, circle_, peer, on_member_);
  if (knows_key_) door_.watch(poller, circle_, member_.rank, on_member_);
  poller.wait(timeout_ms);
  links_.advance();
}

// Those who wait for the same member say so at nearly the same time; who says nothing is the one that is missing.
void Meeting::time_out() {
  links_.announce(timeout_error());
  for (const Deadline grace(kGraceMs); !grace.passed();)
    take_turn(grace.left_ms());
  throw timeout_error();
}

Error Meeting::timeout_error() const {
  const std::vector<int> missing = links_.awaited();
  if (missing.empty()) return links_.timeout();
  std::string names;
  for (const int peer : missing)
    names += (names.empty() ? "" : ", ") + std::to_string(member_.world_rank(peer)) + caller_.obstacle(peer);
  return Error(TSR_E_DEADLINE,
               member_.where() + ": create timed out after " + std::to_string(member_.timeout_ms) +
                   " ms waiting for rank " + names,
               member_.world_rank(missing.front()));
}

void Meeting::meet(const Deadline& deadline) {
  Card card{address_, {}};
  if (member_.rank == 0) card.key = random_secret();
  store_.set(keys_ + std::to_string(member_.rank), to_bytes(card));
  while (!links_.is_done()) {
    if (aborted_.load(std::memory_order_acquire))
      throw Error(TSR_E_ABORTED, member_.where() + ": create was aborted", member_.world_rank());
    if (deadline.passed() || links_.is_time_up()) time_out();
    fetch_cards(std::min(deadline.left_ms(), kCardMs));
    take_turn(has_all_cards() ? std::min(deadline.left_ms(), kTurnMs) : 0);
  }
}

std::vector<Descriptor> Meeting::connect_all(const Deadline& deadline) {
  try {
    meet(deadline);
  } catch (const Error& error) {
    links_.announce(error);
    throw;
  }
  return links_.take();
}

}  // namespace tessera::gloo_comm
