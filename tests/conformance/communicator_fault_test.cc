// Conformance of communicators, 4: what goes wrong ends in time, with an error that names rank, collective and peer.
#include <malloc.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <future>
#include <thread>

#include "conformance/caught_error.h"
#include "conformance/communicators.h"
#include "support/plugin_loader.h"

namespace tessera::testing {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kSeveral[] = {2, 3, 4};
constexpr int64_t kSoonMs = 2'000;  // what communicator.h allows for cancelling, abort, and destroy after it
constexpr int64_t kShortMs = 600;   // ranks that come do so sooner

struct Sum {
  explicit Sum(uint64_t num_elements = 4096) : buffer(TSR_F32, num_elements, [](uint64_t) { return 1; }) {}

  tsr_collective collective() {
    auto c = make_collective(TSR_COLL_ALL_REDUCE, TSR_F32, buffer.num_elements(), buffer.data(), buffer.data());
    c.reduce = TSR_REDUCE_SUM;
    return c;
  }
  TypedBuffer buffer;
};

class Faults : public CommunicatorTest {
 protected:
  std::string prefix() const { return domain() + "dp.test "; }
  void abort_from_another_thread(int64_t soon_ms);
};

TEST_P(Faults, ACollectiveToWhichOneRankDoesNotComeTimesOut) {
  for (const int missing : {0, num_ranks() - 1})
    with_short_time(kShortMs, [this, missing](int64_t short_ms) {
      Crowd crowd;
      run_ranks(spec(), [&](CommRank& rank) {
        Sum first, second;
        rank.comm().submit(first.collective());
        rank.synchronize();
        if (rank.rank() == missing) return crowd.wait_for(rank.num_ranks() - 1);
        auto late = second.collective();
        late.timeout_ms = short_ms;
        rank.comm().submit(late);
        bool is_reached = false;
        rank.run_on_stream([&] { is_reached = true; });
        const Error error = caught([&] { rank.synchronize(); });
        crowd.leave();
        expect_parts(error, TSR_E_DEADLINE,
                     {prefix() + rank_text(rank.rank()), "all_reduce #1", "gradient h.2", "4096 elements f32",
                      std::to_string(short_ms) + " ms", rank_text(missing)});
        EXPECT_EQ(error.rank(), missing);
        EXPECT_EQ(is_reached, rank.is_native());
        expect_parts(caught([&] { rank.comm().check_async(); }), TSR_E_DEADLINE, {rank_text(missing)});
      });
    });
}

TEST_P(Faults, AMessageThatNobodyTakesTimesOutOnEitherSide) {
  for (uint32_t kind : {TSR_COLL_SEND, TSR_COLL_RECV}) {
    Crowd crowd;
    run_ranks(spec(), [&](CommRank& rank) {
      Sum data(1 << 18);
      rank.comm();
      if (rank.rank() > 0) return crowd.wait_for(1);
      auto lonely = make_collective(kind, TSR_F32, data.buffer.num_elements(), data.buffer.data(), data.buffer.data());
      lonely.peer = 1;
      lonely.timeout_ms = kShortMs;
      const auto wait = [&] {
        rank.comm().submit(lonely);
        rank.synchronize();
      };
      expect_parts(caught(wait), TSR_E_DEADLINE,
                   {"dp.test rank 0", kind == TSR_COLL_SEND ? "send #0" : "recv #0", "rank 1"});
      crowd.leave();
    });
  }
}

TEST_P(Faults, CreateNamesTheRankThatDoesNotJoin) {
  for (int missing : {0, num_ranks() - 1})
    with_short_time(kShortMs, [this, missing](int64_t short_ms) {
      run_ranks(spec(), [&](CommRank& rank) {
        if (rank.rank() == missing) return;
        expect_parts(caught([&] { rank.create("", short_ms); }), TSR_E_DEADLINE,
                     {prefix() + rank_text(rank.rank()), rank_text(missing)});
      });
    });
}

/// One sum that all ranks take part in: it makes connections for the next one.
void connect(CommRank& rank, Comm& comm, size_t stream = 0) {
  Sum sum;
  tsr_collective collective = sum.collective();
  collective.stream = rank.stream(stream);
  comm.submit(collective);
  rank.synchronize(stream);
}

// However it waits: for the store, for the others, for their last word.
TEST_P(Faults, CreateEndsSoonWhenItIsCancelled) {
  for (int missing : {0, num_ranks() - 1})
    with_short_time(kSoonMs, [this, missing](int64_t soon_ms) {
      uint32_t cancel = 0;  // of all at once: the one that was cancelled first would be lost to the others
      std::atomic<Clock::time_point> cancelled{};
      std::jthread host([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        cancelled = Clock::now();
        __atomic_store_n(&cancel, 1, __ATOMIC_RELEASE);
      });
      run_ranks(spec(), [&](CommRank& rank) {
        if (rank.rank() == missing) return;
        expect_parts(caught([&] { rank.create("", kNeverMs, &cancel); }), TSR_E_ABORTED, {"dp.test", "cancelled"});
        EXPECT_LT(Clock::now() - cancelled.load(), std::chrono::milliseconds(soon_ms));
      });
    });
  run_ranks(spec(), [&](CommRank& rank) {  // a flag that stays 0 is nothing
    const uint32_t cancel = 0;
    const auto comm = rank.create("dp.again", kPatienceMs, &cancel);
    connect(rank, *comm);
  });
}

/// Of the heap, and what it has mapped. Sanitizers have a heap of their own, in which they find leaks themselves.
size_t bytes_in_use() {
  const auto heap = ::mallinfo2();
  return heap.uordblks + heap.hblkhd;
}

size_t entries_of(const char* folder) {
  const std::filesystem::directory_iterator entries(folder);
  return static_cast<size_t>(std::distance(begin(entries), end(entries)));
}

// As a run does that goes on without a rank: all at once is aborted, and made again under another name.
TEST_P(Faults, CreateAfterAbortLeavesNothingBehind) {
  const auto run_rounds = [&](const std::string& name, int num_rounds, int64_t soon_ms) {
    run_ranks(spec(kNeverMs), [&](CommRank& rank) {
      for (int round = 0; round < num_rounds; ++round) {
        auto failed = rank.create(name + std::to_string(round));
        connect(rank, *failed);
        const auto meeting = rank.create(name + "meeting" + std::to_string(round));  // all have done the sum
        failed->abort();
        const auto next = rank.create(name + "next" + std::to_string(round));  // while the failed one is there
        if (!is_native())
          connect(rank, *next);  // where work cannot fail a stream, the wait for it reports the failed one
        const auto start = Clock::now();
        failed.reset();
        EXPECT_LT(Clock::now() - start, std::chrono::milliseconds(soon_ms));
        connect(rank, *next);
      }
    });
  };
  run_rounds("dp.first", 1, kPatienceMs);
  const size_t num_threads = entries_of("/proc/self/task"), num_files = entries_of("/proc/self/fd");
  const size_t num_bytes = bytes_in_use();
  with_short_time(kSoonMs, [&](int64_t soon_ms) { run_rounds("dp.more", 3, soon_ms); });
  // A thread that was joined may be listed for a moment.
  EXPECT_TRUE(eventually([&] { return entries_of("/proc/self/task") <= num_threads; }));
  EXPECT_EQ(entries_of("/proc/self/fd"), num_files);
  constexpr size_t kCaches = 256 << 10;  // of what lives as long as the process
  EXPECT_LT(bytes_in_use(), num_bytes + kCaches);
}

TEST_P(Faults, AbortOfNothingDoesNothing) {
  const auto& table =
      load_plugin<tsr_communicator_interface>(plugin().substr(0, plugin().find(':')), TSR_COMMUNICATOR_INTERFACE);
  table.abort(nullptr, 0);
  tsr_comm* none[2] = {};
  table.abort(none, 2);
  table.destroy(nullptr);
}

TEST_P(Faults, AbortFromAnotherThreadEndsAllWorkSoon) {
  with_short_time(kSoonMs, [this](int64_t soon_ms) { abort_from_another_thread(soon_ms); });
}

void Faults::abort_from_another_thread(int64_t soon_ms) {
  std::atomic<Clock::time_point> aborted{Clock::time_point::max()};  // by the first rank
  run_ranks(spec(kNeverMs), [&](CommRank& rank) {
    auto& first = rank.comm();
    auto second = rank.create("dp.second");
    connect(rank, first);
    connect(rank, *second, 1);
    Sum a, b, c;
    if (rank.rank() == 0) {  // waits for the others, who never come
      first.submit(a.collective());
      auto other = b.collective();
      other.stream = rank.stream(1);
      second->submit(other);
    }
    std::thread watchdog([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      tsr_comm* const comms[] = {first.handle(), second->handle()};
      for (auto none = Clock::time_point::max(); !aborted.compare_exchange_strong(none, Clock::now());)
        if (none != Clock::time_point::max()) break;
      rank.interface().abort(comms, 2);
      rank.interface().abort(comms, 2);
    });
    if (rank.rank() == 0) {
      for (size_t stream : {0u, 1u})
        expect_parts(caught([&] { rank.synchronize(stream); }), TSR_E_ABORTED, {"rank 0", "all_reduce #1", "aborted"});
      EXPECT_LT(Clock::now() - aborted.load(), std::chrono::milliseconds(soon_ms));
      expect_parts(caught([&] { second->check_async(); }), TSR_E_ABORTED, {"dp.second"});
    }
    watchdog.join();
    expect_parts(caught([&] { first.submit(c.collective()); }), TSR_E_ABORTED, {rank_text(rank.rank())});
  });
}

TEST_P(Faults, AbortCutsTheFirstBeforeTheOthers) {
  Crowd ready, done;
  run_ranks(spec(kNeverMs), [&](CommRank& rank) {
    auto& first = rank.comm();
    auto second = rank.create("dp.second");
    connect(rank, first);
    connect(rank, *second, 1);
    ready.leave();
    ready.wait_for(rank.num_ranks());
    Sum a, b;
    if (rank.rank() != 0) return done.wait_for(1);  // so that what rank 0 submits does not end
    auto collective = a.collective();
    collective.stream = rank.stream(1);
    second->submit(collective);
    std::thread watchdog([&] {
      tsr_comm* const comms[] = {first.handle(), second->handle()};
      rank.interface().abort(comms, 2);
    });
    const auto has_failed = [](Comm& comm) {
      try {
        comm.check_async();
        return false;
      } catch (const Error&) {
        return true;
      }
    };
    EXPECT_TRUE(eventually([&] { return has_failed(*second); }));
    expect_parts(caught([&] { first.submit(b.collective()); }), TSR_E_ABORTED, {"dp.test", "rank 0"});
    watchdog.join();
    done.leave();
  });
}

TEST_P(Faults, AbortWaitsForNoStream) {
  if (is_native()) GTEST_SKIP() << "a host function on a stream may block the whole device";
  Crowd ready;
  run_ranks(spec(kNeverMs), [&](CommRank& rank) {
    Sum sum;
    const auto comm = rank.create();  // destroyed before the memory it may still touch
    connect(rank, *comm);
    ready.leave();
    ready.wait_for(rank.num_ranks());
    std::promise<void> gate;
    rank.run_on_stream([opened = gate.get_future().share()] { opened.wait(); });
    comm->submit(sum.collective());  // queued after the gate
    auto aborted = std::async(std::launch::async, [&] { comm->abort(); });
    EXPECT_EQ(aborted.wait_for(kPatience), std::future_status::ready);
    gate.set_value();
    expect_parts(caught([&] { rank.synchronize(); }), TSR_E_ABORTED, {rank_text(rank.rank()), "aborted"});
  });
}

// And what has ended before without an error is whole.
TEST_P(Faults, AbortDuringWorkLeavesEveryRankAtOnce) {
  Crowd ready;
  run_ranks(spec(kNeverMs), [&](CommRank& rank) {
    Sum large(1 << 20);
    TypedBuffer sums(TSR_F32, large.buffer.num_elements());
    TypedBuffer whole(TSR_F32, sums.num_elements(), [&](uint64_t) { return rank.num_ranks(); });
    auto collective = large.collective();
    collective.recv = sums.data();
    const auto comm = rank.create();  // destroyed before the memory it may still touch
    ready.leave();
    ready.wait_for(rank.num_ranks());
    std::thread watchdog;
    if (rank.rank() == 0)
      watchdog = std::thread([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        comm->abort();
      });
    const Error error = caught([&] {
      for (;;) {
        std::memset(sums.data(), 0, sums.num_elements() * sizeof(float));
        comm->submit(collective);
        rank.synchronize();
        ASSERT_EQ(std::memcmp(sums.data(), whole.data(), whole.num_elements() * sizeof(float)), 0);
      }
    });
    if (watchdog.joinable()) watchdog.join();
    expect_parts(error, TSR_E_ABORTED, {rank_text(rank.rank()), "aborted"});
    comm->abort();
  });
}

struct Refusal {
  const char* text;
  std::function<void(tsr_collective&, TypedBuffer&)> change;
};

TEST_P(Faults, SubmitRefusesBadArgumentsAndGoesOn) {
  tsr_transfer transfer{};
  const Refusal refusals[] = {
      {"collective of this ABI", [](auto& c, auto&) { c.kind = 77; }},
      {"dtype", [](auto& c, auto&) { c.dtype = 3; }},
      {"reduction", [](auto& c, auto&) { c.reduce = 9; }},
      {"averages integers", [](auto& c, auto&) { c.dtype = TSR_I32, c.reduce = TSR_REDUCE_AVG; }},
      {"root", [](auto& c, auto&) { c.kind = TSR_COLL_REDUCE, c.peer = 50; }},
      {"peer", [](auto& c, auto&) { c.kind = TSR_COLL_SEND, c.peer = -1; }},
      {"itself", [](auto& c, auto&) { c.kind = TSR_COLL_RECV, c.peer = 0; }},
      {"send is NULL", [](auto& c, auto&) { c.send = nullptr; }},
      {"aligned", [](auto& c, auto& b) { c.recv = reinterpret_cast<char*>(b.data()) + 2; }},
      {"overlapping", [](auto& c, auto& b) { c.recv = b.at(1); }},
      {"overlapping", [](auto& c, auto& b) { c.kind = TSR_COLL_ALL_TO_ALL, c.recv = b.data(); }},
      {"overflow", [](auto& c, auto&) { c.num_elements = UINT64_MAX - 1; }},
      {"timeout_ms", [](auto& c, auto&) { c.timeout_ms = -5; }},
      {"reserved word", [](auto& c, auto&) { c.reserved = 77; }},
      {"is_receive is neither",
       [&transfer](auto& c, auto&) {
         transfer.spare[1] = 0, transfer.is_receive = 2;
         c.kind = TSR_COLL_EXCHANGE, c.transfers = &transfer, c.num_transfers = 1;
       }},
      {"transfer whose spare words are not 0",
       [&transfer](auto& c, auto&) {
         transfer.spare[1] = 1;
         c.kind = TSR_COLL_EXCHANGE, c.transfers = &transfer, c.num_transfers = 1;
       }},
  };
  run_ranks(spec(), [&](CommRank& rank) {
    TypedBuffer buffer(TSR_F32, 1000);
    if (rank.rank() == 0) {
      for (const Refusal& refusal : refusals) {
        auto collective = make_collective(TSR_COLL_ALL_REDUCE, TSR_F32, 100, buffer.data(), buffer.data());
        collective.reduce = TSR_REDUCE_SUM;
        refusal.change(collective, buffer);
        expect_parts(caught([&] { rank.comm().submit(collective); }), TSR_E_INVALID_ARGUMENT,
                     {prefix() + "rank 0", refusal.text});
      }
    }
    Sum sum;
    rank.comm().submit(sum.collective());
    rank.synchronize();
    EXPECT_EQ(get_element(TSR_F32, sum.buffer.at(0)), rank.num_ranks());
  });
}

TEST_P(Faults, AnotherStreamThanTheFirstIsRefused) {
  run_ranks(spec(), [&](CommRank& rank) {
    Sum first, refused, second;
    rank.comm().submit(first.collective());
    tsr_collective collective = refused.collective();
    collective.stream = rank.stream(1);
    expect_parts(caught([&] { rank.comm().submit(collective); }), TSR_E_INVALID_ARGUMENT,
                 {prefix() + rank_text(rank.rank()), "is on another stream than those before it"});
    rank.comm().submit(second.collective());
    rank.synchronize();
    EXPECT_EQ(get_element(TSR_F32, second.buffer.at(0)), rank.num_ranks());
  });
}

TEST_P(Faults, CapsTellWhatIsThere) {
  const tsr_comm_caps caps = this->caps();
  EXPECT_EQ((caps.flags & TSR_COMM_CANONICAL_SUM) != 0, !is_native());
  EXPECT_EQ((caps.flags & TSR_COMM_CAPTURABLE) != 0, is_native());
  for (uint32_t kind = TSR_COLL_ALL_REDUCE; kind <= TSR_COLL_BARRIER; ++kind)
    EXPECT_TRUE(caps.collectives >> kind & 1) << kind;
  for (uint32_t reduce = TSR_REDUCE_SUM; reduce <= TSR_REDUCE_MAX; ++reduce)
    EXPECT_TRUE(caps.reduces >> reduce & 1) << reduce;
  EXPECT_EQ(caps.collectives & 1, 0u);
  EXPECT_EQ(caps.num_dtypes, is_native() ? 9u : 10u);
  ASSERT_EQ(caps.num_stream_kinds, 1u);
  const auto& table = load_plugin<tsr_communicator_interface>(plugin(), TSR_COMMUNICATOR_INTERFACE);
  tsr_comm_caps other{};
  other.struct_size = sizeof other;
  expect_parts(caught([&] { call(table.caps, str("no.stream"), &other); }), TSR_E_UNSUPPORTED, {"no.stream"});
  EXPECT_EQ(table.get_extension(str("tsr.no.such/1")), nullptr);
}

TEST_P(Faults, DescribeRefusesWhatCapsDoNotClaim) {
  const auto& table = load_plugin<tsr_communicator_interface>(plugin(), TSR_COMMUNICATOR_INTERFACE);
  const auto describe = [&](uint32_t kind, uint32_t reduce, tsr_dtype dtype, int num_ranks = 2) {
    tsr_collective c = make_collective(kind, dtype, 8, nullptr, nullptr);
    c.reduce = reduce;
    uint64_t num_bytes = 0;
    call(table.describe, &c, num_ranks, &num_bytes);
  };
  describe(TSR_COLL_ALL_REDUCE, TSR_REDUCE_SUM, TSR_F32);
  describe(TSR_COLL_BARRIER, 0, 0);
  for (const auto& [kind, reduce, dtype] :
       {std::tuple(77u, 0u, TSR_F32), std::tuple(64u + TSR_COLL_SEND, 0u, TSR_F32),
        std::tuple(TSR_COLL_ALL_REDUCE, 9u, TSR_F32), std::tuple(TSR_COLL_ALL_REDUCE, 0u, TSR_F32),
        std::tuple(TSR_COLL_ALL_GATHER, 0u, tsr_dtype{3})})
    expect_parts(caught([&, kind = kind, reduce = reduce, dtype = dtype] { describe(kind, reduce, dtype); }),
                 TSR_E_UNSUPPORTED, {"is not among its caps"});
  expect_parts(caught([&] { describe(TSR_COLL_ALL_REDUCE, TSR_REDUCE_SUM, TSR_F32, 0); }), TSR_E_INVALID_ARGUMENT,
               {"num_ranks is 0"});
}

TESSERA_OVER(communicators, Faults, kSeveral);

}  // namespace
}  // namespace tessera::testing
