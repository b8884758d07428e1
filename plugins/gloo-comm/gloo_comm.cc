#include "gloo-comm/gloo_comm.h"

#include "gloo-comm/reduce.h"
#include "gloo-comm/sigpipe_guard.h"
#include "gloo-comm/swap.h"

namespace tessera::gloo_comm {
namespace {

constexpr std::chrono::milliseconds kTick(50);
// How long this rank waits until its peers have read its last words. They are read by threads that do nothing else, so
// it is the time of those that are stopped. After an abort, of all communicators of the job at once, any may be.
constexpr int64_t kStopTimeoutMs = 500, kAbortTimeoutMs = 100;
constexpr int64_t kLeaveTimeoutMs = 1000;

void execute(Operation& operation) {
  const uint32_t kind = operation.collective().kind;
  if (operation.collective().is_messages())
    swap_messages(operation);
  else if (collective_check::is_reducing(kind))
    reduce_slices(operation);
  else
    swap_slices(operation);
}

}  // namespace

GlooCommunicator::GlooCommunicator(const tsr_comm_create_args& args, std::string interface, bool reads_directly,
                                   const std::atomic<bool>& aborted)
    : QueuedCommunicator("gloo-comm", args), interface_(std::move(interface)), reads_directly_(reads_directly) {
  const SigpipeGuard guard;  // the threads made here inherit it
  const Deadline deadline(member().timeout_ms);
  const MeshSetup setup{{args.is_local != 0, interface_, store_host()}, reads_directly, aborted};
  endpoint_ = std::make_unique<Endpoint>(member(), KeyValue(args.host), rendezvous(), setup);
  if (member().num_ranks == 1) return;
  ticker_ = std::make_unique<Ticker>(kTick, [this] { tick(); });
  meet_all(deadline);
}

GlooCommunicator::~GlooCommunicator() {
  const SigpipeGuard guard;
  ticker_.reset();
  if (is_aborted()) hang_up_aborted();
  endpoint_->watch.settle(kLeaveTimeoutMs);  // nothing left to do after an abort or an error
  endpoint_->mesh.close();
}

std::unique_ptr<Communicator> GlooCommunicator::join(const tsr_comm_create_args& args) {
  return std::make_unique<GlooCommunicator>(args, interface_, reads_directly_, abort_flag());
}

// Until all are at work nobody may leave: who destroys its communicator at once would be taken for dead by the others.
void GlooCommunicator::meet_all(const Deadline& deadline) {
  Collective barrier;
  barrier.kind = TSR_COLL_BARRIER;
  barrier.timeout_ms = std::max<int64_t>(deadline.left_ms(), 1);
  barrier.ticket = kCreateTicket;
  barrier.label = "create";
  run(barrier);
}

// The ticker hangs up, so several communicators that are aborted at once do so side by side.
void GlooCommunicator::interrupt() noexcept {
  endpoint_->waiter.wake(Outcome::kAborted);
  if (ticker_) ticker_->hurry();
}

void GlooCommunicator::tick() {
  Waiter& waiter = endpoint_->waiter;
  waiter.wake_if_late();
  if (waiter.is_aborted())
    hang_up_aborted();
  else if (endpoint_->watch.look())
    waiter.wake(Outcome::kBroken);
}

void GlooCommunicator::run(const Collective& collective) {
  const std::lock_guard lock(mutex_);
  if (error_) throw *error_;
  const SigpipeGuard guard;
  endpoint_->waiter.begin(Deadline(collective.timeout_ms));
  run_locked(collective);
  endpoint_->waiter.end();
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
  hang_up({error.code(), error.rank(), error.what()}, error.code() == TSR_E_ABORTED ? kAbortTimeoutMs : kStopTimeoutMs);
}

void GlooCommunicator::hang_up_aborted() {
  hang_up({TSR_E_ABORTED, member().world_rank(), member().where() + " was aborted"}, kAbortTimeoutMs);
}

void GlooCommunicator::hang_up(const Fault& fault, int64_t timeout_ms) {
  endpoint_->watch.announce(fault);
  endpoint_->watch.settle(timeout_ms, fault.code == TSR_E_DEADLINE ? fault.world_rank : -1);
  endpoint_->mesh.close();
}

}  // namespace tessera::gloo_comm
