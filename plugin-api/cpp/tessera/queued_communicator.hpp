// SPDX-License-Identifier: Apache-2.0
// A communicator without native streams: every collective becomes a host function on the stream it was submitted to.
//
// The base class checks and copies the collective, numbers collectives and messages, and keeps the first error. A
// communicator adds run() and interrupt().
//
//     submit (issuing thread)        the stream's worker
//     check, copy, number
//     host_function(stream, job) --> run(collective)      blocks for the peers, up to timeout_ms
//                                    an error fails the stream, and is kept for async_error
//
// The stream's worker blocks while its peers are late, which costs a thread and no time: other streams have workers of
// their own. So it does not support a device whose streams share one thread (CUDA); there the host stages copies.
// A communicator is for one stream, so its collectives run one after another; that the waits of several communicators
// have no cycle, the host's verifier proves before the run. Jobs are reused: a step that was queued once allocates
// nothing.
#pragma once

#include <atomic>
#include <deque>
#include <mutex>

#include "tessera/collective_check.hpp"
#include "tessera/communicator.hpp"
#include "tessera/rendezvous.hpp"

namespace tessera {

class QueuedCommunicator : public Communicator {
 public:
  void submit(const tsr_collective& collective) final;
  void check_async() final;
  void abort() noexcept final;

 protected:
  QueuedCommunicator(std::string_view plugin, const tsr_comm_create_args& args)
      : member_(make_member(plugin, args)),
        rendezvous_(to_string(args.rendezvous)),
        host_(args.host),
        device_interface_(args.device_interface),
        store_host_(to_string(args.store_host)),
        messages_(2 * static_cast<size_t>(args.size)) {}

  /// Does the collective; called on the stream's worker, one after another. May block until the collective's deadline
  /// (`timeout_ms` from the call); throws Error.
  virtual void run(const Collective& collective) = 0;
  /// Wakes every waiting run(); these and later ones throw aborted_error(). Must not block. [any-thread]
  virtual void interrupt() noexcept = 0;

  const Member& member() const { return member_; }
  const tsr_host* host() const { return host_; }
  const std::string& rendezvous() const { return rendezvous_; }
  /// The host of the job's store, or empty.
  const std::string& store_host() const { return store_host_; }
  bool is_aborted() const { return aborted_.load(std::memory_order_acquire); }
  Error aborted_error(const Collective& collective) const {
    return collective_error(TSR_E_ABORTED, member_, collective, "was aborted", member_.world_rank());
  }

 private:
  struct Job {
    QueuedCommunicator* owner;
    Collective collective;
  };

  static tsr_status run_job(void* user, tsr_error* err) noexcept;
  Job& take_job();
  void give_back(Job& job);
  void number(Collective& collective);
  void enqueue(Job& job);

  const Member member_;
  const std::string rendezvous_;
  const tsr_host* const host_;
  const tsr_device_interface* const device_interface_;
  const std::string store_host_;

  // Touched by the issue thread only.
  OneStream stream_;
  uint64_t num_collectives_ = 0;
  std::vector<uint64_t> messages_;  // [2 * num_ranks] submitted so far: to each rank, then from each rank

  std::atomic<bool> aborted_{false};
  std::mutex mutex_;
  std::deque<Job> jobs_;     // guarded by mutex_; addresses are stable
  std::vector<Job*> idle_;   // guarded by mutex_
  tsr_error first_error_{};  // guarded by mutex_
};

// The life of a job: take_job -> submit fills and numbers it -> the device has it -> run_job -> give_back. It is given
// back exactly once, on every path: by run_job, by submit when it refuses, or by enqueue when the device does not take
// it.

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
  owner.give_back(job);  // last, since the communicator may be destroyed once the stream is idle
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
    stream_.require(member_, job.collective);
    if (is_aborted()) throw aborted_error(job.collective);
  } catch (...) {
    give_back(job);
    throw;
  }
  enqueue(job);
}

inline void QueuedCommunicator::check_async() {
  const std::lock_guard lock(mutex_);
  check(first_error_.code, first_error_);
}

// The flag first: a wait that starts after interrupt() must see it.
inline void QueuedCommunicator::abort() noexcept {
  aborted_.store(true, std::memory_order_release);
  interrupt();
}

}  // namespace tessera
