#include "train/local_ranks.h"

#include <atomic>
#include <exception>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include "launch/memory_store.h"
#include "tessera/error.hpp"

namespace tessera {

namespace {

/// What a rank says when another one failed; it must not hide why that one did.
bool is_echo(tsr_status code) {
  return code == TSR_E_ABORTED || code == TSR_E_CANCELLED || code == TSR_E_UNAVAILABLE;
}

}  // namespace

void train_local_ranks(const Job& job, const TokenSource& data, const std::function<RankObserver(int)>& observer,
                       const Log& log) {
  const int num_ranks = job.mesh.num_ranks();
  const auto store = std::make_shared<MemoryStore>();
  std::atomic<bool> stopped{false};
  std::mutex mutex;
  std::optional<Error> first_error;
  const auto run = [&](int rank) {
    try {
      const RankPlace place{rank, rank, num_ranks, true, store, [&stopped] { return stopped.load(); }};
      train_rank(job, data, place, observer(rank), rank == 0 ? log : Log(LogLevel::warning, rank, num_ranks));
    } catch (const std::exception& e) {
      const std::lock_guard lock(mutex);
      const auto* error = dynamic_cast<const Error*>(&e);
      const std::string text = num_ranks > 1 ? "rank " + std::to_string(rank) + ": " + e.what() : e.what();
      if (!first_error || (is_echo(first_error->code()) && error && !is_echo(error->code())))
        first_error = Error(error ? error->code() : TSR_E_INTERNAL, text, error ? error->rank() : -1);
      stopped = true;
      store->close("another rank failed: " + text);
    }
  };
  std::vector<std::thread> threads;
  try {
    for (int rank = 1; rank < num_ranks; ++rank)
      threads.emplace_back(run, rank);
    run(0);
  } catch (const std::system_error& error) {
    const std::lock_guard lock(mutex);
    first_error = Error(TSR_E_RESOURCE_EXHAUSTED, "cannot start a thread for each of " + std::to_string(num_ranks) +
                                                      " ranks: " + error.code().message() +
                                                      "; start fewer ranks, or raise ulimit -u");
    stopped = true;
    store->close(first_error->what());
  }
  for (std::thread& thread : threads)
    thread.join();
  if (first_error) throw *first_error;
}

}  // namespace tessera
