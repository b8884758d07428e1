// Two rules hold everywhere. An error is recorded in fate_ before anything acts on it, because the kernels that NCCL
// aborts end like any others: check_async must have the error before the stream goes on with what the memory holds. And
// only the watchdog's thread ends the communicator, once no other thread is inside NCCL (handle_.release()).
#include "nccl-comm/session.h"

#include <algorithm>
#include <thread>

namespace tessera::nccl_comm {
namespace {

using std::chrono::milliseconds;

// How often those that wait ask whether a member has stopped: soon at first, then seldom, since thousands may.
constexpr milliseconds kAskOften(500), kAskSeldom(5000);
// How long the end in good order may take.
constexpr int64_t kFinalizeMs = 10'000;

// NCCL's thread has a collective on the stream within some 30 us; connections take seconds.
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

Session::Session(std::shared_ptr<const Library> nccl, Member member, int gpu, const tsr_host* host,
                 const std::string& prefix)
    : nccl_(std::move(nccl)),
      member_(std::move(member)),
      gpu_(gpu),
      bulletin_(host, prefix, member_),
      handle_(*nccl_) {}

// Resources are not shared with the communicators that are split off: those could not be used beside this one, nor
// aborted without it.
ncclConfig_t Session::config() const {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.commName = member_.name.c_str();
  return config;
}

void Session::join(ncclUniqueId id, const Deadline& deadline) {
  ncclConfig_t options = config();
  ncclResult_t result = ncclSuccess;
  make_current(gpu_);
  handle_.use([&](ncclComm_t& comm) {
    result = nccl_->comm_init_rank_config(&comm, member_.num_ranks, id, member_.rank, &options);
  });
  if (result != ncclSuccess && result != ncclInProgress)
    throw fate_.fail(nccl_->error(result, member_.where() + ": ncclCommInitRankConfig"));
  wait_until_ready("create", deadline);
}

// NCCL writes the new communicator into split_off_ some time after ncclCommSplit returned, so it must outlive a failure
// of this call: it is a member, and end() aborts it when nobody has taken it over.
void Session::split(int color, int key, const std::shared_ptr<Session>& child, const Deadline& deadline) {
  child_ = child;
  ncclConfig_t options = child ? child->config() : config();
  ncclResult_t result = ncclSuccess;
  make_current(gpu_);
  const bool is_there = handle_.use([&](ncclComm_t comm) {
    result = nccl_->comm_split(comm, child ? color : NCCL_SPLIT_NOCOLOR, key, &split_off_, &options);
  });
  if (!is_there) throw ended_error();
  if (result != ncclSuccess && result != ncclInProgress)
    throw fate_.fail(nccl_->error(result, member_.where() + ": ncclCommSplit"));
  wait_until_ready("split", deadline);
  ncclComm_t made = nullptr;  // not the end's any more
  if (!handle_.use([&](ncclComm_t) { made = std::exchange(split_off_, nullptr); })) throw ended_error();
  if (child) child->handle_.use([&](ncclComm_t& comm) { comm = made; });
  child_.reset();
}

// Before NCCL is given anything the errors there were are thrown: what follows an error is not submitted. In a capture
// there are no events, since they cannot be queried there, and so no time-out per collective: the host bounds the
// step.
void Session::run(const Collective& collective, cudaStream_t stream,
                  const std::function<ncclResult_t(ncclComm_t)>& enqueue) {
  if (is_aborted_) throw collective_error(TSR_E_ABORTED, member_, collective, "was aborted", member_.world_rank());
  check();
  make_current(gpu_);
  if (is_captured(stream)) return issue(collective, enqueue);  // events of a graph cannot be asked
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

// Returns when NCCL has the kernel on the stream, and not before: what the host submits next must come after it.
void Session::issue(const Collective& collective, const std::function<ncclResult_t(ncclComm_t)>& enqueue) {
  operations_.issue(&collective);
  const std::unique_ptr<Operations, void (*)(Operations*)> end(&operations_, [](Operations* o) { o->issue(nullptr); });
  const auto what = [&] { return member_.where() + ": " + collective.text(); };
  ncclResult_t result = ncclSuccess;
  if (!handle_.use([&](ncclComm_t comm) { result = enqueue(comm); })) throw ended_error();
  if (result != ncclSuccess) throw fate_.fail(nccl_->error(result, what()));
  Patience patience;
  wait_until_ready(what, [&] { bear_with(collective, patience); });
}

void Session::wait_until_ready(const std::function<std::string()>& what, const std::function<void()>& bear) {
  for (int round = 0;; ++round) {
    const std::optional<ncclResult_t> state = handle_.state();
    if (state == ncclSuccess) return;
    if (!state) throw ended_error();
    if (state != ncclInProgress) throw fate_.fail(nccl_->error(*state, what()));
    try {
      bear();
    } catch (const Error& error) {
      throw fate_.fail(error);
    }
    pause(round);
  }
}

void Session::wait_until_ready(const char* what, const Deadline& deadline) {
  const auto text = [&] { return member_.where() + ": " + what; };
  wait_until_ready(text, [&] {
    if (deadline.passed())
      throw Error(TSR_E_DEADLINE, text() + " timed out after " + std::to_string(member_.timeout_ms) +
                                      " ms: all ranks came, but NCCL did not connect them; NCCL_DEBUG=INFO tells more");
  });
}

void Session::check() const {
  if (const auto error = fate_.error()) throw *error;
}

Error Session::ended_error() const {
  return fate_.error().value_or(Error(TSR_E_ABORTED, member_.where() + " has ended", member_.world_rank()));
}

void Session::abort() noexcept {
  try {
    is_aborted_ = true;
    const std::string oldest = operations_.oldest_text();
    fate_.fail(Error(TSR_E_ABORTED, member_.where() + (oldest.empty() ? "" : ": " + oldest) + " was aborted",
                     member_.world_rank()));
  } catch (const std::exception&) {  // no memory for the text
    fate_.wish_end();
  }
}

void Session::look() noexcept {
  try {
    look_at_operations();
    look_at_nccl();
  } catch (const Error& error) {
    fate_.fail(error);
  } catch (const std::exception& error) {
    fate_.fail(Error(TSR_E_INTERNAL, member_.where() + ": " + error.what()));
  }
}

void Session::look_at_operations() {
  while (Operation* operation = operations_.oldest()) {
    if (operation->after.is_done()) {
      operations_.pop();
      continue;
    }
    if (!operation->running && !operation->before.is_done()) return;
    if (!operation->running) operation->running.emplace();
    return bear_with(operation->collective, *operation->running);
  }
}

void Session::look_at_nccl() {
  const std::optional<ncclResult_t> state = handle_.state();
  if (!state || state == ncclSuccess || state == ncclInProgress) return;
  const std::string oldest = operations_.oldest_text();
  throw nccl_->error(*state, member_.where() + ": " + (oldest.empty() ? "NCCL" : oldest));
}

/// The collective does not end yet: tells the others that this rank is in it, asks whether one has stopped, and throws
/// when it has been long enough.
void Session::bear_with(const Collective& collective, Patience& patience) {
  const auto now = Patience::Clock::now();
  const milliseconds timeout(collective.timeout_ms);
  if (now - patience.since >= timeout) throw late_error(collective);
  if (now - patience.since >= timeout / 10 && !collective.is_messages()) bulletin_.waits_in(collective.ticket);
  const auto period = std::clamp<Patience::Clock::duration>((now - patience.since) / 2, kAskOften, kAskSeldom);
  if (now - patience.asked < period) return;
  patience.asked = now;
  if (const auto by = bulletin_.stopped(); by && !is_aborted_)
    throw collective_error(TSR_E_ABORTED, member_, collective,
                           "was aborted by rank " + std::to_string(member_.world_rank(*by)), member_.world_rank(*by));
}

// Messages have no common ticket, so those waited for are simply the peers of the transfers.
Error Session::late_error(const Collective& collective) {
  if (!collective.is_messages()) bulletin_.waits_in(collective.ticket);
  const auto missing = collective.is_messages() ? peers_of(collective) : bulletin_.missing(collective.ticket);
  if (!missing.empty()) return timeout_error(member_, collective, missing);
  return collective_error(TSR_E_DEADLINE, member_, collective,
                          "timed out after " + std::to_string(collective.timeout_ms) +
                              " ms, though all ranks are in it; NCCL_DEBUG=INFO tells more");
}

// After an error the others are told first (stops): they wait for this rank and would do so until their own time-out.
// ncclCommFinalize waits for what is outstanding, so it has a limit, and is left out after an error.
void Session::end() noexcept {
  const bool has_failed = fate_.error().has_value();
  if (has_failed) bulletin_.stops();
  if (const ncclComm_t comm = handle_.release()) {
    if (!has_failed && finalize(comm))
      nccl_->comm_destroy(comm);
    else
      nccl_->comm_abort(comm);
  }
  if (split_off_) nccl_->comm_abort(split_off_);
  fate_.note_end();
}

bool Session::finalize(ncclComm_t comm) {
  ncclResult_t state = nccl_->comm_finalize(comm);
  const Deadline deadline(kFinalizeMs);
  for (int round = 0; state == ncclInProgress && !deadline.passed() && !fate_.error(); ++round) {
    pause(round);
    if (nccl_->comm_get_async_error(comm, &state) != ncclSuccess) return false;
  }
  return state == ncclSuccess;
}

}  // namespace tessera::nccl_comm
