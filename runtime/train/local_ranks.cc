#include "train/local_ranks.h"

#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

#include "launch/memory_store.h"
#include "tessera/error.hpp"

namespace tessera {

void train_local_ranks(const Job& job, const TokenSource& data, const std::function<RankObserver(int)>& observer,
                       const Log& log) {
  const int num_ranks = job.mesh.num_ranks();
  const auto store = std::make_shared<MemoryStore>();
  std::atomic<bool> stopped{false};
  std::mutex mutex;
  std::exception_ptr first_error;
  const auto run = [&](int rank) {
    try {
      const RankPlace place{rank, rank, num_ranks, true, store, [&stopped] { return stopped.load(); }};
      train_rank(job, data, place, observer(rank), rank == 0 ? log : Log(LogLevel::warning, rank, num_ranks));
    } catch (const Error& e) {
      const std::lock_guard lock(mutex);
      const std::string text = num_ranks > 1 ? "rank " + std::to_string(rank) + ": " + e.what() : e.what();
      if (!first_error) first_error = std::make_exception_ptr(Error(e.code(), text, e.rank()));
      stopped = true;
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!first_error) first_error = std::current_exception();
      stopped = true;
    }
  };
  std::vector<std::thread> threads;
  for (int rank = 1; rank < num_ranks; ++rank) threads.emplace_back(run, rank);
  run(0);
  for (std::thread& thread : threads) thread.join();
  if (first_error) std::rethrow_exception(first_error);
}

}  // namespace tessera
