// A communicator without native streams: every collective becomes a host function on the stream it was submitted to.
//
// The base checks and copies the collective, gathers groups of messages into one, numbers collectives and messages,
// keeps the first error, and splits through the key-value service. A communicator adds run(), join() and interrupt().
//
//     submit (issuing thread)        the stream's worker
//     check, copy, number
//     host_function(stream, job) --> run(collective)      blocks for the peers, up to timeout_ms
//                                    an error fails the stream, and is kept for async_error
//
// The stream's worker blocks while its peers are late, which costs a thread and no time: other streams have workers of
// their own. So a device whose streams share one thread (CUDA) cannot be used with this, and the host stages copies.
// Collectives of one communicator may run at the same time only if they were submitted to two streams; that no cycle of
// waits arises is the verifier's business before the run. Jobs are reused: a step that was queued once allocates
// nothing.
#pragma once

#include <atomic>
#include <deque>
#include <mutex>

#include "tessera/communicator.hpp"
#include "tessera/message_group.hpp"
#include "tessera/rendezvous.hpp"

namespace tessera {

class QueuedCommunicator : public Communicator {
 public:
  void submit(const tsr_collective& collective) final;
  void group_begin() final;
  void group_end() final;
  std::unique_ptr<Communicator> split(int color, int key, std::string_view name) final;
  void check_async() final;
  void abort() noexcept final;

 protected:
  QueuedCommunicator(std::string_view plugin, const tsr_comm_create_args& args)
      : member_(make_member(plugin, args)),
        is_local_(args.is_local),
        rendezvous_(to_string(args.rendezvous)),
        host_(args.host),
        device_interface_(args.device_interface),
        device_(args.device),
        store_host_(TSR_HAS(&args, tsr_comm_create_args, store_host) ? to_string(args.store_host) : ""),
        messages_(2 * static_cast<size_t>(args.size)) {}

  /// Does the collective; called on the stream's worker, in the order of each stream. May block until the collective's
  /// deadline (`timeout_ms` from the call); throws Error. Two calls run at the same time only for two streams.
  virtual void run(const Collective& collective) = 0;
  /// Wakes every run() that waits; it and later ones throw aborted_error(). Must not block. [any-thread]
  virtual void interrupt() noexcept = 0;
  /// Another communicator of this kind, as create; for split. [control-thread]
  virtual std::unique_ptr<Communicator> join(const tsr_comm_create_args& args) = 0;

  const Member& member() const { return member_; }
  const tsr_host* host() const { return host_; }
  const std::string& rendezvous() const { return rendezvous_; }
  /// Of the job's store, or empty.
  const std::string& store_host() const { return store_host_; }
  /// Set by abort(); for what waits in join().
  const std::atomic<bool>& abort_flag() const { return aborted_; }
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
  const uint32_t is_local_;
  const std::string rendezvous_;
  const tsr_host* const host_;
  const tsr_device_interface* const device_interface_;
  tsr_device* const device_;
  const std::string store_host_;

  // Touched by the issue thread only.
  uint64_t num_collectives_ = 0;
  std::vector<uint64_t> messages_;  // [2 * num_ranks] submitted so far: to each rank, then from each rank
  MessageGroup group_{member_};
  uint64_t num_splits_ = 0;  // control thread

  std::atomic<bool> aborted_{false};
  std::mutex mutex_;
  std::deque<Job> jobs_;     // guarded by mutex_; addresses are stable
  std::vector<Job*> idle_;   // guarded by mutex_
  tsr_error first_error_{};  // guarded by mutex_
};

}  // namespace tessera

#include "tessera/queued_communicator_impl.hpp"
