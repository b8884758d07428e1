// One rank as a process, from joining to its exit code. The order at the end matters: a rank that fails first reports
// to the store, which passes the cause on to all others, then leaves, and prints last. The rank that serves the store
// stays until the others have left or a timeout; if it ended first, their errors would be about a lost store.
//
//     run() -> join -> body -> failure? -> report to the store -> wait until the others have left -> print -> exit code
//
// The failure of a job is printed once (decision 0026): by our launcher, else by the rank that serves the store.

#include "train/rank_process.h"

#include <unistd.h>

#include "base/concat.h"
#include "base/ending.h"
#include "base/log.h"
#include "base/progress.h"
#include "guard/call_watch.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

// After another rank failed, one that cannot be interrupted is ended after this time.
constexpr int64_t kGraceMs = 300;
// How long the rank that serves the store waits for the others: after the job, after a failure, and when it failed
// before they joined.
constexpr int64_t kLeaveMs = 10'000, kFailedMs = 400, kTellMs = 10'000;

bool try_to_report(KeyValueStore& store, const Failure& failure) {
  try {
    report_failure(store, failure);
    leave_job(store);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

RankProcess::RankProcess(const RankEnvironment& environment)
    : environment_(environment), is_launched_(is_started_by_launcher()) {}

void RankProcess::note_lost(const Participant& who) {
  const std::lock_guard lock(mutex_);
  lost_.push_back(who);
}

JobStore RankProcess::join(int64_t timeout_ms, int64_t reply_ms, const Log& log) {
  const auto on_lost = [this](MemoryStore& store, const Participant& who) {
    note_lost(who);
    RankEnd end;
    end.how = RankEnd::How::lost;
    // All ranks that wait in the store get an error with the lost rank's name.
    store.close(rank_name(who) + " " + cause_text(end));
  };
  const auto on_other_secret = [log, was_said = false](const Participant& who) mutable {
    if (std::exchange(was_said, true)) return;
    log.warning("refused a process with another secret, which claims to be ", rank_name(who), "; unless it belongs to ",
                "another job, set the same TESSERA_JOB_SECRET, MASTER_ADDR and MASTER_PORT on all ranks");
  };
  return join_job(environment_, timeout_ms, log, StoreEvents{on_lost, on_other_secret}, reply_ms);
}

RankInfo RankProcess::info(const JobStore& job, const JobWatch& watch) const {
  return {environment_.rank,
          environment_.local_rank,
          environment_.local_size,
          environment_.is_local(),
          job.store,
          [&watch] { return watch.is_over(); },
          environment_.store_host,
          is_launched_};
}

int RankProcess::run(int64_t start_timeout_ms, int64_t reply_ms, const Log& log,
                     const std::function<void(const RankInfo&, JobWatch&)>& body) {
  std::optional<Failure> failure;
  bool was_told = false;
  JobStore job;
  try {
    job = join(start_timeout_ms, reply_ms, log);
    JobWatch watch(job.store, environment_.rank, kGraceMs, !is_launched_);
    const LastWordsScope last_words([&](const std::string& sentence) {
      const bool has_reported = watch.tell(watch.failure_of(Error(TSR_E_INTERNAL, sentence)));
      if (!is_launched_ || !has_reported) print_error(concat("rank ", environment_.rank, ": ", sentence));
    });
    RankInfo rank = info(job, watch);
    rank.tell_failure = [&](const std::exception& error) {
      if (failure) return;
      failure = watch.failure_of(error);
      was_told = watch.tell(*failure);
    };
    try {
      body(rank, watch);
      watch.end();
    } catch (const std::exception& error) {
      rank.tell_failure(error);
    }
    // The store is unreachable: destructors would wait for it, so the process exits without them.
    if (watch.is_cut_off()) end_process(leave(job, failure, false));
  } catch (const std::exception& error) {  // joining failed, or the watch thread could not be started
    failure = make_failure(error, environment_.rank, 0);
    was_told = job.store && try_to_report(*job.store, *failure);
  }
  return leave(job, failure, was_told);
}

int RankProcess::leave(const JobStore& job, const std::optional<Failure>& failure, bool was_told) {
  // This rank's own server can be used without a connection.
  if (failure && !was_told && job.server) was_told = try_to_report(job.server->store(), *failure);
  // All ranks, including this one. After steps have run, the failed rank may be unreachable: it is not waited for.
  const int num_leaving = environment_.world_size - (failure && failure->step > 0 ? 1 : 0);
  if (job.server) wait_until_left(job.server->store(), num_leaving, failure ? kFailedMs : kLeaveMs);
  return failure ? conclude(job, *failure, was_told) : 0;
}

int RankProcess::fail_before_joining(const std::exception& error, bool may_meet) {
  const Failure failure = make_failure(error, environment_.rank, 0);
  if (!is_launched_) print_error(failure.sentence);
  write_torchelastic_error(failure);
  const bool was_told = may_meet && join_and_tell(failure);
  if (is_launched_ && !was_told) print_error(failure.sentence);
  return failure.exit_code;
}

bool RankProcess::join_and_tell(const Failure& failure) {
  try {
    const Progress progress(Log(LogLevel::info, environment_.rank, environment_.world_size),
                            concat("reporting the failure to the other ranks, for at most ", kTellMs / 1000, " s"));
    const JobStore job = join(kTellMs, kTellMs, Log(LogLevel::off));
    const bool was_told = try_to_report(*job.store, failure);
    if (job.server) wait_until_left(job.server->store(), environment_.world_size, kTellMs);
    return was_told;
  } catch (const std::exception&) {  // no other rank was reached
    return false;
  }
}

int RankProcess::conclude(const JobStore& job, const Failure& failure, bool was_told) {
  write_torchelastic_error(failure);
  // The launcher prints it.
  if (is_launched_ && was_told) return failure.exit_code;
  if (job.server)
    print_error(failure_block(collect(job.server->store(), failure)));
  else
    print_error(concat("rank ", failure.who.rank, was_told && failure.is_echo() ? " ends: " : ": ", failure.sentence));
  return failure.exit_code;
}

std::vector<RankEnd> RankProcess::collect(KeyValueStore& store, const Failure& own) {
  std::vector<RankEnd> ends(static_cast<size_t>(environment_.world_size));
  for (size_t rank = 0; rank < ends.size(); ++rank)
    ends[rank].who.rank = static_cast<int>(rank);
  const std::lock_guard lock(mutex_);
  for (const Participant& who : lost_) {
    if (who.rank >= environment_.world_size) continue;  // from a larger world; the store was closed with its name
    RankEnd& end = ends[static_cast<size_t>(who.rank)];
    end.who = who;
    end.how = RankEnd::How::lost;
    end.order = static_cast<int>(&who - lost_.data());
  }
  read_failures(store, ends);
  RankEnd& here = ends[static_cast<size_t>(environment_.rank)];
  if (!here.failure) here.failure = own;
  return ends;
}

}  // namespace tessera::host
