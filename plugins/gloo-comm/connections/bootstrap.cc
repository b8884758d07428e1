// One loop in one thread (store, sockets, store, ...) until all links are ready or a member gives up:
//
//     1. put the own contact {address; rank 0: and the key} into the store
//     2. fetch the others' contacts, one wait at a time              fetch_contacts
//     3. connect, listen, handshake; all sockets in one poll()       poll_once: Connector, Listener, Links
//     4. the two-phase barrier: ready, go                            Links, link.h
//
// Nothing here waits for one member alone, so at the deadline all missing members are known, and all ranks name the
// same: a member that gives up sends the reason, and listens kGraceMs for others that wait too.
#include "gloo-comm/connections/bootstrap.h"

#include <numeric>

namespace tessera::gloo_comm {
namespace {

// Longest wait in poll(), and for one contact in the store, during which sockets are not polled.
constexpr int64_t kPollMs = 50, kContactMs = 200;
// How long a member that has timed out listens for others that are waiting too.
constexpr int64_t kGraceMs = 200;

}  // namespace

Bootstrap::Bootstrap(const Member& member, const KeyValue& store, const std::string& prefix, Address address,
                     CmaReader& cma, CancelFlag cancel, size_t max_strangers)
    : member_(member),
      store_(store),
      keys_(prefix + "/contact/"),
      cancel_(cancel),
      group_{{}, prefix, member.num_ranks},
      address_(address),
      listener_(member.where(), max_strangers, address_),
      connector_(member),
      links_(member, cma),
      contacts_awaited_(static_cast<size_t>(member.num_ranks)) {
  std::iota(contacts_awaited_.begin(), contacts_awaited_.end(), 0);
}

// Waits for one contact at a time, another one in each round, so that a missing member does not hide those that are
// there.
void Bootstrap::fetch_contacts(int64_t timeout_ms) {
  while (!has_all_contacts()) {
    const int peer = contacts_awaited_.front();
    try {
      const auto contact = from_bytes<Contact>(store_.get(keys_ + std::to_string(peer), timeout_ms));
      if (peer == 0) group_.key = contact.key;
      knows_key_ = knows_key_ || peer == 0;
      if (peer != member_.rank) connector_.set_address(peer, contact.address);
      contacts_awaited_.pop_front();
    } catch (const Error& error) {
      if (error.code() != TSR_E_DEADLINE) throw;
      contacts_awaited_.push_back(peer);
      contacts_awaited_.pop_front();
      return;
    }
  }
}

void Bootstrap::poll_once(int64_t timeout_ms) {
  Poller poller;
  links_.watch(poller);
  for (int peer = 0; knows_key_ && peer < member_.num_ranks; ++peer)
    if (peer != member_.rank && !links_.has(peer)) connector_.watch(poller, group_, peer, on_member_);
  if (knows_key_) listener_.watch(poller, group_, member_.rank, on_member_);
  poller.wait(timeout_ms);
  links_.advance();
}

// Members that wait for the same one time out at nearly the same time and say so; the silent one is missing.
void Bootstrap::time_out() {
  links_.announce(timeout_error());
  for (const Deadline grace(kGraceMs); !grace.passed();)
    poll_once(grace.left_ms());
  throw timeout_error();
}

Error Bootstrap::timeout_error() const {
  const std::vector<int> missing = links_.awaited();
  if (missing.empty()) return links_.timeout();
  std::string names;
  for (const int peer : missing)
    names += (names.empty() ? "" : ", ") + std::to_string(member_.world_rank(peer)) + connector_.obstacle(peer);
  return Error(TSR_E_DEADLINE,
               member_.where() + ": create timed out after " + std::to_string(member_.timeout_ms) +
                   " ms waiting for rank " + names,
               member_.world_rank(missing.front()));
}

void Bootstrap::connect(const Deadline& deadline) {
  Contact contact{address_, {}};
  if (member_.rank == 0) contact.key = random_secret();
  store_.set(keys_ + std::to_string(member_.rank), to_bytes(contact));
  while (!links_.is_done()) {
    cancel_.check(member_);
    if (deadline.passed() || links_.is_time_up()) time_out();
    fetch_contacts(std::min(deadline.left_ms(), kContactMs));
    poll_once(has_all_contacts() ? std::min(deadline.left_ms(), kPollMs) : 0);
  }
}

std::vector<Descriptor> Bootstrap::connect_all(const Deadline& deadline) {
  try {
    connect(deadline);
  } catch (const Error& error) {
    links_.announce(error);
    throw;
  }
  return links_.take();
}

}  // namespace tessera::gloo_comm
