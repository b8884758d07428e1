#include "gloo-comm/gloo_comm.h"

#include <csignal>
#include <ctime>

#include "gloo-comm/collectives/exchange.h"
#include "gloo-comm/collectives/reduce.h"

namespace tessera::gloo_comm {
namespace {

constexpr std::chrono::milliseconds kFailureCheckPeriod(50);
// How long this rank waits until its peers have read its error notice. gloo's threads read it at once, so only a
// stopped process needs the whole time. After an abort all communicators of the job close at once, and any peer may be
// stopped.
constexpr int64_t kStopTimeoutMs = 500, kAbortTimeoutMs = 100;
constexpr int64_t kLeaveTimeoutMs = 1000;

// While it lives, SIGPIPE does not reach this thread, nor a thread started by it: gloo writes to sockets without
// MSG_NOSIGNAL, and a write to a peer that died would end the process. A plugin may not change the signal's handler.
class SigpipeGuard {
 public:
  SigpipeGuard() {
    sigemptyset(&sigpipe_);
    sigaddset(&sigpipe_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &sigpipe_, &before_);
  }
  ~SigpipeGuard() {
    const timespec no_wait{};
    if (!was_pending_)
      while (sigtimedwait(&sigpipe_, nullptr, &no_wait) > 0) {
      }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  SigpipeGuard(const SigpipeGuard&) = delete;
  SigpipeGuard& operator=(const SigpipeGuard&) = delete;

 private:
  sigset_t sigpipe_;
  sigset_t before_;
  bool was_pending_ = false;
};

void execute(Operation& operation) {
  const uint32_t kind = operation.collective().kind;
  if (operation.collective().is_messages())
    exchange_messages(operation);
  else if (is_reduction(kind))
    reduce_slices(operation);
  else
    exchange_slices(operation);
}

}  // namespace

GlooCommunicator::GlooCommunicator(const tsr_comm_create_args& args, std::string interface, bool uses_cma)
    : QueuedCommunicator("gloo-comm", args) {
  const SigpipeGuard guard;  // the threads made here inherit it
  const Deadline deadline(member().timeout_ms);
  const CancelFlag cancel(args.cancel);
  const ConnectionSetup setup{{args.is_local != 0, std::move(interface), store_host()}, uses_cma, cancel};
  endpoint_ = std::make_unique<Endpoint>(member(), KeyValue(args.host), rendezvous(), setup);
  if (member().num_ranks == 1) return;
  failure_check_ = std::make_unique<PeriodicTask>(kFailureCheckPeriod, [this] { check_for_failures(); });
  create_barrier(deadline, cancel);
}

GlooCommunicator::~GlooCommunicator() {
  const SigpipeGuard guard;
  failure_check_.reset();
  if (is_aborted()) close_aborted();
  endpoint_->failure_detector.drain(kLeaveTimeoutMs);  // does nothing after an abort or an error
  endpoint_->connections.close();
}

// create() ends with a barrier: a member that destroyed its communicator before the others are ready would look dead to
// them. The members are linked, so only one that stops right now keeps the others waiting; a thread of its own looks at
// the flag meanwhile, since that of the failure check outlives it.
void GlooCommunicator::create_barrier(const Deadline& deadline, CancelFlag cancel) {
  std::optional<PeriodicTask> watch;
  if (cancel.is_there())
    watch.emplace(kFailureCheckPeriod, [&] {
      if (cancel.is_set()) endpoint_->wait.cancel(Outcome::kAborted);
    });
  Collective barrier;
  barrier.kind = TSR_COLL_BARRIER;
  barrier.timeout_ms = std::max<int64_t>(deadline.left_ms(), 1);
  barrier.ticket = kCreateTicket;
  barrier.label = "create";
  run(barrier);
}

// The failure check closes the connections, so several communicators that are aborted together do so in parallel.
void GlooCommunicator::interrupt() noexcept {
  endpoint_->wait.cancel(Outcome::kAborted);
  if (failure_check_) failure_check_->run_now();
}

void GlooCommunicator::check_for_failures() {
  CancellableWait& wait = endpoint_->wait;
  wait.cancel_if_late();
  if (wait.is_aborted())
    close_aborted();
  else if (endpoint_->failure_detector.poll())
    wait.cancel(Outcome::kBroken);
}

void GlooCommunicator::run(const Collective& collective) {
  const std::lock_guard lock(mutex_);
  if (error_) throw *error_;
  const SigpipeGuard guard;
  endpoint_->wait.begin(Deadline(collective.timeout_ms));
  run_locked(collective);
  endpoint_->wait.end();
}

void GlooCommunicator::run_locked(const Collective& collective) {
  Operation operation(*endpoint_, collective);
  try {
    execute(operation);
  } catch (const Error& error) {
    stop(error);
    throw;
  } catch (const std::exception& error) {
    stop(collective_error(TSR_E_INTERNAL, member(), collective, error.what()));
    throw *error_;
  }
}

void GlooCommunicator::stop(const Error& error) {
  error_ = error;
  close_with_notice({error.code(), error.rank(), error.what()},
                    error.code() == TSR_E_ABORTED ? kAbortTimeoutMs : kStopTimeoutMs);
}

void GlooCommunicator::close_aborted() {
  close_with_notice({TSR_E_ABORTED, member().world_rank(), member().where() + " was aborted"}, kAbortTimeoutMs);
}

void GlooCommunicator::close_with_notice(const Fault& fault, int64_t timeout_ms) {
  endpoint_->failure_detector.announce(fault);
  endpoint_->failure_detector.drain(timeout_ms, fault.code == TSR_E_DEADLINE ? fault.world_rank : -1);
  endpoint_->connections.close();
}

}  // namespace tessera::gloo_comm
