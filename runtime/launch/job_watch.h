// Couples a rank to its job: it reports to the others why it fails, and ends when any of them has failed.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "launch/failure.h"

namespace tessera::host {

/// A thread waits until the job's store is closed or lost. Then is_over() is true, and the process has `grace_ms` to
/// end by itself; after that it is ended with exit code 1, since the rank may wait in a library that nothing can
/// interrupt. Functions are [any-thread].
class JobWatch {
 public:
  /// `speaks`: this process must print why it ends, since no launcher does.
  JobWatch(std::shared_ptr<KeyValueStore> store, int rank, int64_t grace_ms, bool speaks);
  /// end().
  ~JobWatch();
  JobWatch(const JobWatch&) = delete;
  JobWatch& operator=(const JobWatch&) = delete;

  bool is_over() const { return is_over_; }
  /// The last step that was finished, for reports.
  void note_step(int64_t step) { step_ = step; }
  /// The failure that this rank reports for an error.
  Failure failure_of(const std::exception& error) const { return make_failure(error, rank_, step_); }
  /// The rank is done, and records that in the store.
  void end();
  /// Reports the failure to the job, which makes all other ranks end; this rank then ends by itself. False when the
  /// store is lost or does not answer soon.
  bool tell(const Failure& failure);
  /// The store did not answer: further calls of it, and this object's destructor, would block for long.
  bool is_cut_off() const { return is_cut_off_; }

 private:
  void leave();
  void listen();
  void end_process(const std::exception& reason);

  const std::shared_ptr<KeyValueStore> store_;
  const int rank_;
  const std::string own_end_;  // a key of this rank alone, which it sets to end the wait
  const int64_t grace_ms_;
  const bool speaks_;
  std::atomic<bool> is_over_{false}, is_cut_off_{false};
  std::atomic<int64_t> step_{0};
  std::mutex mutex_;
  std::condition_variable left_;
  bool has_left_ = false;   // guarded by mutex_
  bool has_ended_ = false;  // of the rank's own thread
  std::thread thread_;      // last: it uses the members above
};

/// For a rank without a JobWatch: records that it has left.
void leave_job(KeyValueStore& store);

/// For the rank that serves the store: waits until `num_ranks` ranks have left, by leave_job or JobWatch::end, or until
/// `timeout_ms` have passed.
void wait_until_left(KeyValueStore& store, int num_ranks, int64_t timeout_ms);

}  // namespace tessera::host
