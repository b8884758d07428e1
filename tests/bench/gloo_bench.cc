// all_reduce of gloo-comm between ranks that are threads, each with its own connections, against gloo's own all_reduce
// over the same transport. Parameters: ranks, bytes. One iteration is one all_reduce of all ranks.
#include <benchmark/benchmark.h>
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/hash_store.h>
#include <gloo/transport/tcp/device.h>

#include <barrier>
#include <thread>

#include "support/comm_harness.h"

namespace {

using namespace tessera::testing;

/// Rank 0 drives the benchmark's loop and takes the others along.
class Rounds {
 public:
  Rounds(benchmark::State& state, int num_ranks) : state_(state), start_(num_ranks) {}

  template <class Once>
  void run(int rank, Once&& once) {
    once();  // connections and buffers are warm
    for (;;) {
      if (rank == 0) goes_on_ = state_.KeepRunning();
      start_.arrive_and_wait();
      if (!goes_on_) return;
      once();
    }
  }

 private:
  benchmark::State& state_;
  std::barrier<> start_;
  bool goes_on_ = true;
};

void all_reduce_ours(benchmark::State& state) {
  const int num_ranks = static_cast<int>(state.range(0));
  const size_t num_elements = static_cast<size_t>(state.range(1)) / sizeof(float);
  Rounds rounds(state, num_ranks);
  run_ranks({"gloo-comm", num_ranks}, [&](CommRank& rank) {
    std::vector<float> data(num_elements, 1.0f);
    rounds.run(rank.rank(), [&] {
      auto collective = make_collective(TSR_COLL_ALL_REDUCE, TSR_F32, num_elements, data.data(), data.data());
      collective.reduce = TSR_REDUCE_MAX;  // the values stay finite, the work is that of a sum
      rank.comm().submit(collective);
      rank.synchronize();
    });
  });
  state.SetBytesProcessed(state.iterations() * state.range(1));
}

void all_reduce_of_gloo(benchmark::State& state) {
  const int num_ranks = static_cast<int>(state.range(0));
  const size_t num_elements = static_cast<size_t>(state.range(1)) / sizeof(float);
  Rounds rounds(state, num_ranks);
  gloo::rendezvous::HashStore store;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < num_ranks; ++rank) {
    threads.emplace_back([&, rank] {
      auto device = gloo::transport::tcp::CreateDevice("127.0.0.1");
      auto context = std::make_shared<gloo::rendezvous::Context>(rank, num_ranks);
      context->connectFullMesh(store, device);
      std::vector<float> data(num_elements, 1.0f);
      rounds.run(rank, [&] {
        gloo::AllreduceOptions options(context);
        options.setOutput(data.data(), data.size());
        void (*max)(void*, const void*, const void*, size_t) = &gloo::max<float>;
        options.setReduceFunction(max);
        gloo::allreduce(options);
      });
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  state.SetBytesProcessed(state.iterations() * state.range(1));
}

void sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"ranks", "bytes"})->ArgsProduct({{2, 4}, {160, 16 << 10, 1 << 20, 64 << 20}});
  bench->UseRealTime()->MeasureProcessCPUTime()->Unit(benchmark::kMicrosecond);
}
BENCHMARK(all_reduce_ours)->Apply(sizes);
BENCHMARK(all_reduce_of_gloo)->Apply(sizes);

}  // namespace

BENCHMARK_MAIN();
