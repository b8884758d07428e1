// Included by queued_communicator.hpp: the life of a job. take_job -> submit fills and numbers it -> the device has it
// -> run_job -> give_back. It is given back exactly once, on every path: by run_job, by submit when it refuses or puts
// the message into a group, or by enqueue when the device does not take it.
#pragma once

#include "tessera/queued_communicator.hpp"

namespace tessera {

inline QueuedCommunicator::Job& QueuedCommunicator::take_job() {
  const std::lock_guard lock(mutex_);
  if (idle_.empty()) {
    jobs_.push_back({this, {}});
    idle_.reserve(jobs_.size());  // so that give_back never allocates
    return jobs_.back();
  }
  Job& job = *idle_.back();
  idle_.pop_back();
  return job;
}

inline void QueuedCommunicator::give_back(Job& job) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(&job);
}

// On the stream's worker. The first error is kept under the lock; all errors are returned, so that each stream fails
// with its own. A stream that fails skips its later jobs: they are not run and not given back, but jobs_ owns them.
inline tsr_status QueuedCommunicator::run_job(void* user, tsr_error* err) noexcept {
  Job& job = *static_cast<Job*>(user);
  QueuedCommunicator& owner = *job.owner;
  tsr_error error{};
  const tsr_status status = guard(&error, owner.member_.plugin, [&] {
    if (owner.is_aborted()) throw owner.aborted_error(job.collective);
    owner.run(job.collective);
  });
  if (status != TSR_OK) {
    const std::lock_guard lock(owner.mutex_);
    if (owner.first_error_.code == TSR_OK) owner.first_error_ = error;
    if (err) *err = error;
  }
  owner.give_back(job);  // the last touch of the communicator: it may be destroyed once the stream is idle
  return status;
}

// Numbers are given when the device is about to take the job, and not before: a refused submit must not use one up, or
// this rank's numbers would no longer match the others'.
inline void QueuedCommunicator::number(Collective& collective) {
  const size_t n = static_cast<size_t>(member_.num_ranks);
  if (!collective.is_messages()) collective.ticket = num_collectives_++;
  for (Transfer& transfer : collective.transfers)
    transfer.index = messages_[static_cast<size_t>(transfer.peer) + (transfer.is_receive ? n : 0)]++;
}

inline void QueuedCommunicator::enqueue(Job& job) {
  number(job.collective);
  tsr_error err{};
  const tsr_status status = device_interface_->host_function(job.collective.stream, &run_job, &job, &err);
  if (status == TSR_OK) return;
  give_back(job);
  check(status, err);
}

inline void QueuedCommunicator::submit(const tsr_collective& source) {
  Job& job = take_job();
  try {
    read_collective(source, member_, job.collective);
    if (is_aborted()) throw aborted_error(job.collective);
    if (group_.take(job.collective)) return give_back(job);
  } catch (...) {
    give_back(job);
    throw;
  }
  enqueue(job);
}

inline void QueuedCommunicator::group_begin() {
  group_.begin();
}

inline void QueuedCommunicator::group_end() {
  const Collective& messages = group_.end();
  if (messages.transfers.empty()) return;
  Job& job = take_job();
  job.collective = messages;
  enqueue(job);
}

inline void QueuedCommunicator::check_async() {
  const std::lock_guard lock(mutex_);
  check(first_error_.code, first_error_);
}

// The flag first: what starts to wait after interrupt() must see it.
inline void QueuedCommunicator::abort() noexcept {
  aborted_.store(true, std::memory_order_release);
  interrupt();
}

// All members count their splits alike, so the n-th split of each meets under one prefix; the color then separates the
// new groups, each of which joins as create would.
inline std::unique_ptr<Communicator> QueuedCommunicator::split(int color, int key, std::string_view name) {
  const std::string prefix = rendezvous_ + "/split/" + std::to_string(num_splits_++);
  const auto group = agree_on_split(KeyValue(host_), prefix, member_, color, key, aborted_);
  if (!group) return nullptr;
  const std::string rendezvous = prefix + "/color/" + std::to_string(color);
  tsr_comm_create_args args{};
  args.struct_size = sizeof args;
  args.rank = group->rank;
  args.size = static_cast<int32_t>(group->world_ranks.size());
  args.is_local = is_local_;
  args.name = str(name);
  args.rendezvous = str(rendezvous);
  args.world_ranks = group->world_ranks.data();
  args.host = host_;
  args.device_interface = device_interface_;
  args.device = device_;
  args.timeout_ms = member_.timeout_ms;
  args.store_host = str(store_host_);
  return join(args);
}

}  // namespace tessera
