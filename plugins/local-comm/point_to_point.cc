// A sender posts {operand, peer, index} and waits; the receiver finds the post, copies from the sender's memory without
// the lock, and removes the post, which ends the sender's wait. So a message costs one copy, and no allocation once the
// list has grown. Messages between two ranks match by their index, which both sides count, not by their tag: the host's
// verifier has compared those.
//
// Invariant: while a post is marked is_taken, a receiver reads the sender's memory without the lock. A sender that
// gives up withdraws what is not taken and waits for what is: a time-out must not interrupt a copy, or the caller would
// free memory that is still read. That wait ends, since a copy waits for no other rank.
#include "local-comm/point_to_point.h"

#include <algorithm>

#include "local-comm/memory.h"

namespace tessera::local {
namespace {

/// The failure of a message whose two sides differ in dtype or length, or NULL.
std::shared_ptr<const Failure> find_mismatch(const Collective& sender, const Transfer& send, const Collective& receiver,
                                             const Transfer& receive, const Member& member) {
  if (send.dtype == receive.dtype && send.num_elements == receive.num_elements) return nullptr;
  const auto side = [](const Transfer& transfer, const Collective& collective) {
    return std::to_string(transfer.num_elements) + " elements " + dtype_name(transfer.dtype) + " in " +
           collective.text();
  };
  const int source = member.world_rank(receive.peer);
  return std::make_shared<Failure>(Failure{TSR_E_INVALID_ARGUMENT, source,
                                           "does not match: rank " + std::to_string(source) + " sends " +
                                               side(send, sender) + ", rank " + std::to_string(member.world_rank()) +
                                               " receives " + side(receive, receiver)});
}

}  // namespace

PointToPoint::Message* PointToPoint::find(const Transfer& receive, int destination) {
  for (Message& message : messages_)
    if (message.source == receive.peer && message.transfer->peer == destination &&
        message.transfer->index == receive.index)
      return &message;
  return nullptr;
}

bool PointToPoint::has_messages_of(const Collective& collective) const {
  return std::any_of(messages_.begin(), messages_.end(), [&](const Message& m) { return m.owner == &collective; });
}

void PointToPoint::exchange(const Member& member, const Collective& collective) {
  const Deadline deadline(collective.timeout_ms);
  std::vector<const Transfer*> receives;
  auto lock = monitor_.lock();
  monitor_.throw_failure(member, collective);
  for (const Transfer& transfer : collective.transfers) {
    if (transfer.is_receive)
      receives.push_back(&transfer);
    else
      messages_.push_back({&collective, &transfer, member.rank, false});
  }
  monitor_.notify();
  const auto is_posted = [&](const Transfer* receive) { return find(*receive, member.rank) != nullptr; };
  const auto is_done = [&] { return receives.empty() && !has_messages_of(collective); };
  while (!is_done()) {
    const auto next = std::find_if(receives.begin(), receives.end(), is_posted);
    if (next != receives.end() && !monitor_.has_failed()) {
      const Transfer& transfer = **next;
      receives.erase(next);
      receive(lock, transfer, member, collective);
    } else if (!monitor_.wait(lock, deadline,
                              [&] { return is_done() || std::any_of(receives.begin(), receives.end(), is_posted); }) ||
               monitor_.has_failed()) {
      give_up(lock, member, collective, receives);
    }
  }
  monitor_.throw_failure(member, collective);
}

void PointToPoint::receive(Monitor::Lock& lock, const Transfer& receive, const Member& member,
                           const Collective& collective) {
  Message& message = *find(receive, member.rank);
  const Transfer& send = *message.transfer;
  if (auto mismatch = find_mismatch(*message.owner, send, collective, receive, member)) {
    monitor_.fail(lock, std::move(mismatch));
    return;
  }
  message.is_taken = true;
  lock.unlock();
  copy(monitor_, receive.data, send.data, receive.num_bytes());
  lock.lock();
  std::erase_if(messages_, [&](const Message& m) { return m.transfer == &send; });
  monitor_.notify();
}

void PointToPoint::withdraw(Monitor::Lock& lock, const Collective& collective) {
  std::erase_if(messages_, [&](const Message& m) { return m.owner == &collective && !m.is_taken; });
  monitor_.wait_for_busy(lock, [&] { return !has_messages_of(collective); });
}

void PointToPoint::give_up(Monitor::Lock& lock, const Member& member, const Collective& collective,
                           const std::vector<const Transfer*>& receives) {
  std::vector<int> missing;
  for (const Transfer* receive : receives)
    if (!find(*receive, member.rank)) missing.push_back(receive->peer);
  for (const Message& message : messages_)
    if (message.owner == &collective && !message.is_taken) missing.push_back(message.transfer->peer);
  std::sort(missing.begin(), missing.end());
  missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
  // If only the other rank's copy is still running, nothing is missing: it will end, and withdraw() waits for it.
  if (!monitor_.failure(lock) && !missing.empty()) monitor_.fail(lock, timeout_failure(member, collective, missing));
  withdraw(lock, collective);
  monitor_.throw_failure(member, collective);
}

}  // namespace tessera::local
