// Conformance of communicators, 4: what goes wrong ends in time, with an error that names rank, collective and peer.
#include <malloc.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <future>
#include <thread>

#include "conformance/communicators.h"

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

constexpr uint64_t kAllCollectives = (uint64_t{2} << TSR_COLL_BARRIER) - (uint64_t{1} << TSR_COLL_ALL_REDUCE);
constexpr uint64_t kAllReduces = (uint64_t{2} << TSR_REDUCE_MAX) - (uint64_t{1} << TSR_REDUCE_SUM);

class Faults : public CommunicatorTest {
 protected:
  /// Of each kind, reduction and dtype of the ABI one collective, if the caps leave it out.
  std::vector<Use> unclaimed() const;
  void abort_from_another_thread(int64_t soon_ms);
};

std::vector<Use> Faults::unclaimed() const {
  const tsr_comm_caps caps = this->caps();
  std::vector<Use> uses;
  const auto take = [&](const Use& use) {
    if (!claims(caps, use)) uses.push_back(use);
  };
  for (uint32_t kind = TSR_COLL_ALL_REDUCE; kind <= TSR_COLL_BARRIER; ++kind)
    take({kind, is_reduction(kind) ? TSR_REDUCE_SUM : 0});
  for (uint32_t reduce = TSR_REDUCE_AVG; reduce <= TSR_REDUCE_MAX; ++reduce)
    take({TSR_COLL_ALL_REDUCE, reduce});
  for (const tsr_dtype dtype : kAllDtypes)
    if (dtype != TSR_F32) take({TSR_COLL_ALL_REDUCE, TSR_REDUCE_SUM, dtype});
  return uses;
}

TEST_P(Faults, ACollectiveToWhichOneRankDoesNotComeTimesOut) {
  TESSERA_USES(kSum);
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
        expect_refusal(error, TSR_E_DEADLINE, {"dp.test", "gradient h.2"},
                       {prefix() + rank_text(rank.rank()), "all_reduce #1", "4096 elements f32",
                        std::to_string(short_ms) + " ms", rank_text(missing)});
        EXPECT_TRUE(has_number(error, 1)) << "the sequence number is missing in: " << error.what();
        EXPECT_TRUE(names_rank(error, missing)) << "rank " << missing << " is missing in: " << error.what();
        if (is_shipped()) {
          EXPECT_EQ(error.rank(), missing);
        }
        EXPECT_EQ(is_reached, rank.is_native());
        expect_refusal(caught([&] { rank.comm().check_async(); }), TSR_E_DEADLINE, {}, {rank_text(missing)});
      });
    });
}

// A SEND need not wait; those of the repository do, for one as long as this.
TEST_P(Faults, AMessageThatNobodyTakesTimesOutOnEitherSide) {
  TESSERA_USES({TSR_COLL_SEND}, {TSR_COLL_RECV});
  for (uint32_t kind : {TSR_COLL_RECV, TSR_COLL_SEND}) {
    if (kind == TSR_COLL_SEND && !is_shipped()) break;
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
      const Error error = caught(wait);
      expect_refusal(error, TSR_E_DEADLINE, {"dp.test", "gradient h.2"},
                     {"dp.test rank 0", kind == TSR_COLL_SEND ? "send #0" : "recv #0", "rank 1"});
      EXPECT_TRUE(names_rank(error, 1)) << "rank 1 is missing in: " << error.what();
      crowd.leave();
    });
  }
}

TEST_P(Faults, CreateNamesTheRankThatDoesNotJoin) {
  for (int missing : {0, num_ranks() - 1})
    with_short_time(kShortMs, [this, missing](int64_t short_ms) {
      run_ranks(spec(), [&](CommRank& rank) {
        if (rank.rank() == missing) return;
        const Error error = caught([&] { rank.create("", short_ms); });
        expect_refusal(error, TSR_E_DEADLINE, {}, {prefix() + rank_text(rank.rank()), rank_text(missing)});
        EXPECT_TRUE(names_rank(error, missing)) << "rank " << missing << " is missing in: " << error.what();
      });
    });
}

/// One sum that all ranks take part in: it makes connections for the next one. Nothing where sums are not claimed.
void connect(CommRank& rank, Comm& comm, size_t stream = 0) {
  if (!claims(rank.caps(), kSum)) return;
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
        expect_refusal(caught([&] { rank.create("", kNeverMs, &cancel); }), TSR_E_ABORTED, {},
                       {"dp.test", "cancelled"});
        EXPECT_LT(Clock::now() - cancelled.load(), std::chrono::milliseconds(soon_ms));
      });
    });
  run_ranks(spec(), [&](CommRank& rank) {  // a flag that stays 0 is nothing
    const uint32_t cancel = 0;
    const auto comm = rank.create("dp.again", kPatienceMs, &cancel);
    connect(rank, *comm);
  });
}

/// As after a refusal, which changes nothing.
void connect_and_check(CommRank& rank) {
  if (!claims(rank.caps(), kSum)) return;
  Sum sum;
  rank.comm().submit(sum.collective());
  rank.synchronize();
  EXPECT_EQ(get_element(TSR_F32, sum.buffer.at(0)), rank.num_ranks());
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
  table().abort(nullptr, 0);
  tsr_comm* none[2] = {};
  table().abort(none, 2);
  table().destroy(nullptr);
}

TEST_P(Faults, AbortFromAnotherThreadEndsAllWorkSoon) {
  TESSERA_USES(kSum);
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
        expect_refusal(caught([&] { rank.synchronize(stream); }), TSR_E_ABORTED, {},
                       {"rank 0", "all_reduce #1", "aborted"});
      EXPECT_LT(Clock::now() - aborted.load(), std::chrono::milliseconds(soon_ms));
      expect_refusal(caught([&] { second->check_async(); }), TSR_E_ABORTED, {}, {"dp.second"});
    }
    watchdog.join();
    expect_refusal(caught([&] { first.submit(c.collective()); }), TSR_E_ABORTED, {}, {rank_text(rank.rank())});
  });
}

TEST_P(Faults, AbortCutsTheFirstBeforeTheOthers) {
  TESSERA_USES(kSum);
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
    expect_refusal(caught([&] { first.submit(b.collective()); }), TSR_E_ABORTED, {}, {"dp.test", "rank 0"});
    watchdog.join();
    done.leave();
  });
}

TEST_P(Faults, AbortWaitsForNoStream) {
  if (is_native()) GTEST_SKIP() << "a host function on a stream may block the whole device";
  TESSERA_USES(kSum);
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
    expect_refusal(caught([&] { rank.synchronize(); }), TSR_E_ABORTED, {}, {rank_text(rank.rank()), "aborted"});
  });
}

// And what has ended before without an error is whole.
TEST_P(Faults, AbortDuringWorkLeavesEveryRankAtOnce) {
  TESSERA_USES(kSum);
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
    expect_refusal(error, TSR_E_ABORTED, {}, {rank_text(rank.rank()), "aborted"});
    comm->abort();
  });
}

struct Refusal {
  const char* text;  // of the C++ layer
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
        if (is_known(collective) && !is_claimed(rank.caps(), collective)) continue;
        SCOPED_TRACE(refusal.text);
        expect_refusal(caught([&] { rank.comm().submit(collective, false); }), TSR_E_INVALID_ARGUMENT, {},
                       {prefix() + "rank 0", refusal.text});
      }
    }
    connect_and_check(rank);
  });
}

TEST_P(Faults, SubmitRefusesWhatCapsDoNotClaim) {
  const std::vector<Use> unclaimed = this->unclaimed();
  if (unclaimed.empty()) GTEST_SKIP() << stem() << " claims all that the ABI has";
  run_ranks(spec(), [&](CommRank& rank) {
    const uint64_t num_elements = 8;
    TypedBuffer send(TSR_F64, num_elements * static_cast<uint64_t>(rank.num_ranks())), recv = send;
    for (const Use& use : unclaimed) {
      tsr_collective collective =
          make_collective(use.kind, use.dtype, num_elements, send.data(), recv.data(), use.reduce);
      collective.peer =
          use.kind == TSR_COLL_SEND || use.kind == TSR_COLL_RECV ? (rank.rank() + 1) % rank.num_ranks() : 0;
      SCOPED_TRACE(text_of(use));
      expect_refusal(caught([&] { rank.comm().submit(collective, false); }), TSR_E_UNSUPPORTED, {},
                     {prefix() + rank_text(rank.rank()), collective_name(use.kind), "is not among its caps"});
    }
    connect_and_check(rank);
  });
}

TEST_P(Faults, AnotherStreamThanTheFirstIsRefused) {
  TESSERA_USES(kSum);
  run_ranks(spec(), [&](CommRank& rank) {
    Sum first, refused, second;
    rank.comm().submit(first.collective());
    tsr_collective collective = refused.collective();
    collective.stream = rank.stream(1);
    expect_refusal(caught([&] { rank.comm().submit(collective); }), TSR_E_INVALID_ARGUMENT, {},
                   {prefix() + rank_text(rank.rank()), "is on another stream than those before it"});
    rank.comm().submit(second.collective());
    rank.synchronize();
    EXPECT_EQ(get_element(TSR_F32, second.buffer.at(0)), rank.num_ranks());
  });
}

TEST_P(Faults, CapsTellWhatIsThere) {
  const tsr_comm_caps caps = this->caps();
  EXPECT_EQ(caps.flags & ~(TSR_COMM_CANONICAL_SUM | TSR_COMM_ONE_PROCESS | TSR_COMM_CAPTURABLE), 0u);
  EXPECT_EQ(caps.collectives & ~kAllCollectives, 0u);
  EXPECT_EQ(caps.reduces & ~kAllReduces, 0u);
  for (const tsr_dtype dtype : std::span(caps.dtypes, caps.num_dtypes))
    EXPECT_EQ(std::ranges::count(kAllDtypes, dtype), 1) << dtype;
  const std::span kinds(caps.stream_kinds, caps.num_stream_kinds);
  EXPECT_TRUE(std::ranges::any_of(kinds, [](tsr_str kind) { return view(kind) == view(stream_kind()); }))
      << "its kinds of streams lack " << view(stream_kind());
  tsr_comm_caps other{};
  other.struct_size = sizeof other;
  const Error error = caught([&] { call(table().caps, str("no.stream"), &other); });
  expect_refusal(error, TSR_E_UNSUPPORTED, {to_string(stream_kind())}, {"no.stream"});
  if (TSR_HAS_FN(&table(), tsr_communicator_interface, get_extension)) {
    EXPECT_EQ(table().get_extension(str("tsr.no.such/1")), nullptr);
  }
  if (!is_shipped()) return;
  EXPECT_EQ((caps.flags & TSR_COMM_CANONICAL_SUM) != 0, !is_native());
  EXPECT_EQ((caps.flags & TSR_COMM_CAPTURABLE) != 0, is_native());
  EXPECT_EQ(kinds.size(), 1u);
}

// Of a communicator that the repository does not have: a list of what no test here has tried.
TEST_P(Faults, CapsClaimAllThatTheAbiHas) {
  std::string text;
  for (const Use& use : unclaimed())
    text += (text.empty() ? "" : ", ") + text_of(use);
  if (is_shipped())
    EXPECT_EQ(unclaimed().size(), is_native() ? 1u : 0u) << text;
  else if (!text.empty())
    GTEST_SKIP() << stem() << " does not claim " << text << "; what needs these was not tried";
}

TEST_P(Faults, DescribeRefusesWhatCapsDoNotClaim) {
  const auto describe = [&](const Use& use, int num_ranks = 2) {
    const tsr_collective c = make_collective(use.kind, use.dtype, 8, nullptr, nullptr, use.reduce);
    uint64_t num_bytes = 0;
    call(table().describe, &c, num_ranks, &num_bytes);
  };
  const tsr_comm_caps caps = this->caps();
  for (const Use& use : {kSum, Use{TSR_COLL_BARRIER, 0, 0}})
    if (claims(caps, use)) describe(use);
  std::vector<Use> refused = {
      {77}, {64 + TSR_COLL_SEND}, {TSR_COLL_ALL_REDUCE, 9}, {TSR_COLL_ALL_REDUCE, 0}, {TSR_COLL_ALL_GATHER, 0, 3}};
  if (caps.num_stream_kinds == 1) std::ranges::copy(unclaimed(), std::back_inserter(refused));  // on no other streams
  for (const Use& use : refused) {
    SCOPED_TRACE(std::to_string(use.kind) + " " + std::to_string(use.reduce) + " " + std::to_string(use.dtype));
    expect_refusal(caught([&] { describe(use); }), TSR_E_UNSUPPORTED, {}, {"is not among its caps"});
  }
  expect_refusal(caught([&] { describe(kSum, 0); }), TSR_E_INVALID_ARGUMENT, {}, {"num_ranks is 0"});
}

TESSERA_OVER(communicators, Faults, kSeveral);

}  // namespace
}  // namespace tessera::testing
