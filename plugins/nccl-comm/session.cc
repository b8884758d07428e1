// Two rules. An error is recorded in shutdown_ before anything acts on it, because kernels that NCCL aborts end like
// any others: check_async must have the error before the stream continues with undefined data. And only the watchdog's
// thread ends the communicator, once no other thread is inside NCCL (handle_.release()).
#include "nccl-comm/session.h"

#include <algorithm>
#include <thread>

namespace tessera::nccl_comm {
namespace {

using std::chrono::milliseconds;

// How often a waiting rank queries whether a member has stopped: often at first, then seldom, since thousands may wait.
constexpr milliseconds kQueryOften(500), kQuerySeldom(5000);
constexpr milliseconds kFirstLimit(1000);
// Limit of ncclCommFinalize.
constexpr int64_t kFinalizeMs = 10'000;

// NCCL's thread puts a collective on the stream within some 30 us; making connections takes seconds.
void pause(int round) {
  if (round < 200)
    std::this_thread::yield();
  else
    std::this_thread::sleep_for(std::chrono::microseconds(round < 400 ? 50 : 1000));
}

std::vector<int> peers_of(const Collective& collective) {
  std::vector<int> peers;
  for (const Transfer& transfer : collective.transfers)
    peers.push_back(transfer.peer);
  std::sort(peers.begin(), peers.end());
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  return peers;
}

}  // namespace

Session::Session(std::shared_ptr<const Library> nccl, Member member, const Settings& settings, int gpu,
                 const tsr_host* host, const std::string& prefix)
    : nccl_(std::move(nccl)),
      member_(std::move(member)),
      settings_(settings),
      gpu_(gpu),
      status_board_(host, prefix, member_),
      handle_(*nccl_) {}

ncclConfig_t Session::config() const {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.commName = member_.name.c_str();
  if (settings_.max_channels > 0) config.maxCTAs = settings_.max_channels;
  return config;
}

void Session::join(ncclUniqueId id, const Deadline& deadline, const CancelFlag& cancel) {
  ncclConfig_t options = config();
  ncclResult_t result = ncclSuccess;
  make_current(gpu_);
  handle_.use([&](ncclComm_t& comm) {
    result = nccl_->comm_init_rank_config(&comm, member_.num_ranks, id, member_.rank, &options);
  });
  if (result != ncclSuccess && result != ncclInProgress)
    throw shutdown_.fail(nccl_->error(result, member_.where() + ": ncclCommInitRankConfig"));
  const auto text = [&] { return member_.where() + ": create"; };
  wait_until_ready(text, [&] {
    cancel.check(member_);
    if (deadline.passed())
      throw Error(TSR_E_DEADLINE,
                  text() + " timed out after " + std::to_string(member_.timeout_ms) +
                      " ms: all ranks have joined, but NCCL did not connect them; run with NCCL_DEBUG=INFO to see why");
  });
}

// Earlier errors are thrown first: nothing is submitted after an error. A captured collective has no events, which
// cannot be queried in a graph, and so no time-out of its own: the host bounds the step.
void Session::run(const Collective& collective, cudaStream_t stream,
                  const std::function<ncclResult_t(ncclComm_t)>& enqueue) {
  if (is_aborted_) throw collective_error(TSR_E_ABORTED, member_, collective, "was aborted", member_.world_rank());
  check();
  make_current(gpu_);
  if (is_captured(stream)) return issue(collective, enqueue);  // events of a graph cannot be queried
  Operation& operation = operations_.take(collective);
  try {
    operation.before.record(stream);
    issue(collective, enqueue);
    operation.after.record(stream);
    operations_.push(operation);
  } catch (...) {
    operations_.give_back(operation);
    throw;
  }
}

// Returns only when NCCL has put the kernel on the stream: the host's next work must come after it.
void Session::issue(const Collective& collective, const std::function<ncclResult_t(ncclComm_t)>& enqueue) {
  operations_.issue(&collective);
  const std::unique_ptr<Operations, void (*)(Operations*)> end(&operations_, [](Operations* o) { o->issue(nullptr); });
  const auto what = [&] { return member_.where() + ": " + collective.text(); };
  ncclResult_t result = ncclSuccess;
  if (!handle_.use([&](ncclComm_t comm) { result = enqueue(comm); })) throw ended_error();
  if (result != ncclSuccess) throw shutdown_.fail(nccl_->error(result, what()));
  WaitTimer timer;
  wait_until_ready(what, [&] { check_progress(collective, timer); });
}

void Session::wait_until_ready(const std::function<std::string()>& what, const std::function<void()>& check_wait) {
  for (int round = 0;; ++round) {
    const std::optional<ncclResult_t> state = handle_.state();
    if (state == ncclSuccess) return;
    if (!state) throw ended_error();
    if (state != ncclInProgress) throw shutdown_.fail(nccl_->error(*state, what()));
    try {
      check_wait();
    } catch (const Error& error) {
      throw shutdown_.fail(error);
    }
    pause(round);
  }
}

void Session::check() const {
  if (const auto error = shutdown_.error()) throw *error;
}

Error Session::ended_error() const {
  return shutdown_.error().value_or(Error(TSR_E_ABORTED, member_.where() + " has ended", member_.world_rank()));
}

void Session::abort() noexcept {
  try {
    is_aborted_ = true;
    const std::string oldest = operations_.oldest_text();
    shutdown_.fail(Error(TSR_E_ABORTED, member_.where() + (oldest.empty() ? "" : ": " + oldest) + " was aborted",
                         member_.world_rank()));
  } catch (const std::exception&) {  // no memory for the text
    shutdown_.request();
  }
}

void Session::abort_after(std::shared_ptr<Session> first) noexcept {
  {
    const std::lock_guard lock(first_mutex_);
    if (!is_aborted_ && first.get() != this) first_ = std::move(first);
  }
  abort();
}

// A limit, since the first may hang in NCCL and an abort has two seconds.
void Session::wait_for_first() noexcept {
  std::shared_ptr<Session> first;
  {
    const std::lock_guard lock(first_mutex_);
    first = std::move(first_);
  }
  if (first) first->shutdown().wait_until_done(kFirstLimit);
}

void Session::poll() noexcept {
  try {
    poll_operations();
    poll_nccl();
  } catch (const Error& error) {
    shutdown_.fail(error);
  } catch (const std::exception& error) {
    shutdown_.fail(Error(TSR_E_INTERNAL, member_.where() + ": " + error.what()));
  }
}

void Session::poll_operations() {
  while (Operation* operation = operations_.oldest()) {
    if (operation->after.is_done()) {
      operations_.pop();
      continue;
    }
    if (!operation->running && !operation->before.is_done()) return;
    if (!operation->running) operation->running.emplace();
    return check_progress(operation->collective, *operation->running);
  }
}

void Session::poll_nccl() {
  const std::optional<ncclResult_t> state = handle_.state();
  if (!state || state == ncclSuccess || state == ncclInProgress) return;
  const std::string oldest = operations_.oldest_text();
  throw nccl_->error(*state, member_.where() + ": " + (oldest.empty() ? "NCCL" : oldest));
}

/// Called while the collective runs: publishes that this rank is in it, queries whether another one has stopped, and
/// throws once it has timed out.
void Session::check_progress(const Collective& collective, WaitTimer& timer) {
  const auto now = WaitTimer::Clock::now();
  const milliseconds timeout(collective.timeout_ms);
  if (now - timer.start >= timeout) throw timed_out_error(collective);
  if (now - timer.start >= timeout / 10 && !collective.is_messages()) status_board_.post_waiting(collective.ticket);
  const auto period = std::clamp<WaitTimer::Clock::duration>((now - timer.start) / 2, kQueryOften, kQuerySeldom);
  if (now - timer.last_query < period) return;
  timer.last_query = now;
  if (const auto by = status_board_.first_stopped(); by && !is_aborted_)
    throw collective_error(TSR_E_ABORTED, member_, collective,
                           "was aborted by rank " + std::to_string(member_.world_rank(*by)), member_.world_rank(*by));
}

// Messages have no common ticket, so the error names the peers of all transfers.
Error Session::timed_out_error(const Collective& collective) {
  if (!collective.is_messages()) status_board_.post_waiting(collective.ticket);
  const auto missing = collective.is_messages() ? peers_of(collective) : status_board_.missing(collective.ticket);
  if (!missing.empty()) return timeout_error(member_, collective, missing);
  return collective_error(TSR_E_DEADLINE, member_, collective,
                          "timed out after " + std::to_string(collective.timeout_ms) +
                              " ms, though all ranks are in it; run with NCCL_DEBUG=INFO to see why");
}

// After an error the others are notified first (post_stopped): otherwise they would wait for this rank until their own
// time-out. ncclCommFinalize waits for outstanding work, so it has a limit, and is skipped after an error.
void Session::end() noexcept {
  const bool has_failed = shutdown_.error().has_value();
  if (has_failed) status_board_.post_stopped();
  wait_for_first();
  if (const ncclComm_t comm = handle_.release()) {
    if (!has_failed && finalize(comm))
      nccl_->comm_destroy(comm);
    else
      nccl_->comm_abort(comm);
  }
  shutdown_.mark_done();
}

bool Session::finalize(ncclComm_t comm) {
  ncclResult_t state = nccl_->comm_finalize(comm);
  const Deadline deadline(kFinalizeMs);
  for (int round = 0; state == ncclInProgress && !deadline.passed() && !shutdown_.error(); ++round) {
    pause(round);
    if (nccl_->comm_get_async_error(comm, &state) != ncclSuccess) return false;
  }
  return state == ncclSuccess;
}

}  // namespace tessera::nccl_comm
