// --comm local: ranks are threads that share one store. A rank that fails closes the store, which wakes all ranks that
// wait in it; those that wait in a collective poll `cancelled` once a second, and what creates communicators is
// cancelled. A thread whose rank is done must end: a destructor of a plugin's thread-local data may not return, and has
// kDestructorTime, after which the process ends. The errors of the others are consequences and must not mask the cause,
// so all are collected and the root cause is thrown (launch/failure.h).

#include "train/thread_ranks.h"

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "base/concat.h"
#include "guard/call_watch.h"
#include "guard/plugin_calls.h"
#include "launch/failure.h"
#include "launch/memory_store.h"
#include "tessera/error.hpp"
#include "train/rank_info.h"
#include "train/train_rank.h"

namespace tessera::host {

namespace {

constexpr std::chrono::seconds kDestructorTime(10);

/// A rank's thread, and the end of its rank, after which come only destructors of thread-local data.
struct RankThread {
  explicit RankThread(std::function<void()> run)
      : task(std::move(run)), end(task.get_future()), thread(std::ref(task)) {}
  std::packaged_task<void()> task;
  std::future<void> end;
  std::thread thread;
};

/// Without a thread to be had for the time limit (ulimit -u) it waits without one.
void join(std::vector<std::unique_ptr<RankThread>>& ranks) {
  for (const auto& rank : ranks)
    rank->end.wait();
  if (ranks.empty()) return;
  const auto join_all = [&] {
    for (const auto& rank : ranks)
      rank->thread.join();
  };
  std::future<void> joined;
  try {
    joined = std::async(std::launch::async, join_all);
  } catch (const std::system_error&) {
    return join_all();
  }
  if (joined.wait_for(kDestructorTime) == std::future_status::timeout)
    end_run(concat("the thread of a rank has not ended within ", kDestructorTime.count(),
                   " seconds of its rank's end, so the run ends: a destructor of thread-local data ",
                   "(pthread_key_create, thread_local) of a plugin or one of its libraries does not return"));
}

/// Collects failures; the first ends the other ranks. Functions are [any-thread].
class Failures {
 public:
  Failures(MemoryStore& store, int num_ranks) : store_(store), num_ranks_(num_ranks) {}
  ~Failures() { forget_run_error(); }
  Failures(const Failures&) = delete;
  Failures& operator=(const Failures&) = delete;

  /// Of a rank that has failed before, the first is kept.
  void add(int rank, const std::exception& error) {
    const std::lock_guard lock(mutex_);
    if (std::ranges::any_of(ends_, [&](const RankEnd& end) { return end.who.rank == rank; })) return;
    RankEnd& end = ends_.emplace_back();
    end.failure = make_failure(error, rank, 0);
    end.who = end.failure->who;
    end.failure_order = static_cast<int>(ends_.size());
    if (num_ranks_ > 1) note_run_error(rank, end.failure->sentence);
    is_over_ = true;
    store_.close(concat("rank ", rank, " failed: ", end.failure->sentence));
  }
  bool is_over() const { return is_over_; }
  void throw_cause() const {
    if (ends_.empty()) return;
    const Failure& cause = *ends_[static_cast<size_t>(first_cause(ends_))].failure;
    throw Error(cause.code, (num_ranks_ > 1 ? concat("rank ", cause.who.rank, ": ") : "") + cause.sentence,
                cause.about);
  }

 private:
  MemoryStore& store_;
  const int num_ranks_;
  std::atomic<bool> is_over_{false};
  std::mutex mutex_;
  std::vector<RankEnd> ends_;  // guarded by mutex_; of the ranks that failed
};

}  // namespace

void run_thread_ranks(int num_ranks, const std::function<void(const RankInfo& info)>& body) {
  const auto store = std::make_shared<MemoryStore>();
  Failures failures(*store, num_ranks);
  const auto run = [&](int rank) {
    const auto tell = [&failures, rank](const std::exception& error) { failures.add(rank, error); };
    try {
      body({rank, rank, num_ranks, true, store, [&failures] { return failures.is_over(); }, "", true, tell});
    } catch (const std::exception& error) {
      tell(error);
    }
  };
  std::optional<Error> cannot_start;
  std::vector<std::unique_ptr<RankThread>> threads;
  try {
    // Rank 0 runs on the calling thread: a run of one rank starts no thread, which is simpler to debug.
    for (int rank = 1; rank < num_ranks; ++rank)
      threads.push_back(std::make_unique<RankThread>([&run, rank] { run(rank); }));
    run(0);
  } catch (const std::system_error& error) {
    cannot_start = Error(TSR_E_RESOURCE_EXHAUSTED,
                         concat("cannot start a thread for each of ", num_ranks, " ranks: ", error.code().message(),
                                "; start fewer ranks, or raise ulimit -u"));
    failures.add(0, *cannot_start);
  }
  join(threads);
  if (cannot_start) throw *cannot_start;  // ranks that did start only failed because of it
  failures.throw_cause();
}

void train_thread_ranks(const Job& job, const RunData& data, const std::function<RankObserver(int)>& observer,
                        const std::function<Log(int)>& log) {
  run_thread_ranks(job.mesh.num_ranks(),
                   [&](const RankInfo& info) { train_rank(job, data, info, observer(info.rank), log(info.rank)); });
}

void train_thread_ranks(const Job& job, const RunData& data, const std::function<RankObserver(int)>& observer,
                        const Log& log) {
  const int num_ranks = job.mesh.num_ranks();
  train_thread_ranks(job, data, observer,
                     [&](int rank) { return rank == 0 ? log : Log(LogLevel::warning, rank, num_ranks); });
}

}  // namespace tessera::host
