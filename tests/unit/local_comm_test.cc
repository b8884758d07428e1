// local-comm's rendezvous: what the ranks of a group find under their prefix, and which are refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <thread>

#include "local-comm/memory.h"
#include "local-comm/shared_state.h"
#include "support/expect_error.h"
#include "support/memory_kv.h"

namespace tessera::local {
namespace {

using testing::expect_error;
using testing::MemoryKv;

Member member(int rank, int num_ranks, int64_t timeout_ms = 10000) {
  Member result{"local-comm", "dp", rank, num_ranks, {}, timeout_ms};
  for (int i = 0; i < num_ranks; ++i)
    result.world_ranks.push_back(10 + i);
  return result;
}

TEST(LocalRendezvous, AllRanksGetOneSharedState) {
  MemoryKv store;
  const tsr_host host = store.host();
  std::vector<SharedStateRef> states(3);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank)
    threads.emplace_back(
        [&, rank] { states[static_cast<size_t>(rank)] = join_shared_state(KeyValue(&host), "p", member(rank, 3)); });
  for (auto& thread : threads)
    thread.join();
  EXPECT_NE(states[0], nullptr);
  EXPECT_EQ(states[0], states[1]);
  EXPECT_EQ(states[0], states[2]);
}

// By its number, or by where its code is: numbers may be equal in two containers.
TEST(LocalRendezvous, RefusesAnotherProcess) {
  for (const size_t word : {0u, 1u}) {
    MemoryKv store;
    const tsr_host host = store.host();
    expect_error([&] { join_shared_state(KeyValue(&host), "p", member(0, 2, 10)); },
                 {"rank 10", "timed out", "rank 11"});
    std::string address;
    ASSERT_TRUE(store.get("p/shared_state/0", 0, address));
    int64_t words[2];
    std::memcpy(words, address.data(), sizeof words);
    ++words[word];
    std::memcpy(address.data(), words, sizeof words);
    store.set("p/shared_state/0", address);
    expect_error([&] { join_shared_state(KeyValue(&host), "p", member(1, 2)); },
                 {"[local-comm] dp rank 11", "process " + std::to_string(words[0]), "another communicator"});
  }
}

TEST(LocalRendezvous, ARankAfterTheTimeOutOfCoordinateZeroIsRefused) {
  MemoryKv store;
  const tsr_host host = store.host();
  expect_error([&] { join_shared_state(KeyValue(&host), "p", member(0, 2, 10)); }, {"timed out"});
  expect_error([&] { join_shared_state(KeyValue(&host), "p", member(1, 2)); }, {"rank 11", "rank 10 had timed out"});
}

TEST(LocalRendezvous, RanksMustAgreeOnTheGroup) {
  MemoryKv store;
  const tsr_host host = store.host();
  std::thread first([&] {
    expect_error([&] { join_shared_state(KeyValue(&host), "p", member(0, 3, 300)); }, {"timed out", "rank 11"});
  });
  expect_error([&] { join_shared_state(KeyValue(&host), "p", member(1, 2)); }, {"2 ranks", "group of 3"});
  first.join();
}

class FailedGroup : public ::testing::Test {
 protected:
  FailedGroup() {
    const auto lock = monitor_.lock();
    monitor_.fail(lock, std::make_shared<Failure>(Failure{TSR_E_DEADLINE, 1, "first"}));
    monitor_.fail(lock, std::make_shared<Failure>(Failure{TSR_E_ABORTED, 0, "second"}));
  }
  Monitor monitor_{1};
  const std::vector<std::byte> from_ = std::vector<std::byte>(1 << 13, std::byte{1});
  std::vector<std::byte> to_ = std::vector<std::byte>(from_.size());
};

TEST_F(FailedGroup, KeepsItsFirstFailure) {
  EXPECT_EQ(monitor_.failure(monitor_.lock())->text, "first");
}

TEST_F(FailedGroup, IsNotWaitedFor) {
  const Deadline deadline(10'000);
  auto lock = monitor_.lock();
  EXPECT_FALSE(monitor_.wait(lock, deadline, [] { return false; }));
  EXPECT_FALSE(deadline.passed());
}

TEST_F(FailedGroup, NamesTheRankWhoseFailureItIsToTheOthers) {
  const auto text_of = [](int reporter) {
    Monitor monitor(1);
    const auto lock = monitor.lock();
    monitor.fail(lock, std::make_shared<Failure>(Failure{TSR_E_DEADLINE, 1, "timed out", reporter}));
    return std::string(monitor.failure_error(member(0, 2), Collective()).what());
  };
  EXPECT_EQ(text_of(-1).find("failed: "), std::string::npos);
  EXPECT_EQ(text_of(0), text_of(-1));
  EXPECT_NE(text_of(1).find("failed: rank 11 timed out"), std::string::npos) << text_of(1);
}

// A copy of gigabytes takes longer than an abort may.
TEST_F(FailedGroup, CopiesAndSumsNoMore) {
  copy(monitor_, to_.data(), from_.data(), from_.size());
  Collective sum;
  sum.reduce = TSR_REDUCE_SUM;
  sum.dtype = TSR_U8;
  sum.send = from_.data();
  PendingCollective pending;
  pending.posts = {&sum};
  pending.operands.resize(1);
  reduce(monitor_, pending, 0, 0, to_.size(), std::array{to_.data()});
  EXPECT_EQ(std::ranges::count(to_, std::byte{0}), static_cast<ptrdiff_t>(to_.size()));
}

/// SEND or RECV of all of `data` between two ranks.
Collective message(std::vector<std::byte>& data, bool receives, int64_t timeout_ms) {
  Collective result;
  result.kind = receives ? TSR_COLL_RECV : TSR_COLL_SEND;
  result.dtype = TSR_U8;
  result.timeout_ms = timeout_ms;
  result.transfers = {{data.data(), data.size(), TSR_U8, receives ? 0 : 1, receives, 0}};
  return result;
}

TEST(LocalMessages, ATimeOutIsAboutTheFirstOfThoseThatAreMissing) {
  Monitor monitor(3);
  PointToPoint messages(monitor);
  std::vector<std::byte> data(8);
  Collective exchange = message(data, true, 10);
  exchange.kind = TSR_COLL_EXCHANGE;
  exchange.transfers[0].peer = 2;
  exchange.transfers.push_back(message(data, false, 10).transfers[0]);
  try {
    messages.exchange(member(0, 3), exchange);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), TSR_E_DEADLINE);
    EXPECT_EQ(error.rank(), 11);
  }
}

// What a sender gets back it may overwrite at once. A time-out that comes before the copy has begun is tried again with
// a longer one.
TEST(LocalMessages, ACopyThatIsUnderWayOutlastsTheTimeOutOfItsSender) {
  constexpr std::byte kBefore{1}, kSent{2}, kAfter{3};
  for (int64_t timeout_ms = 1;; timeout_ms *= 4) {
    Monitor monitor(2);
    PointToPoint messages(monitor);
    std::vector<std::byte> sent(32 << 20, kSent), received(sent.size(), kBefore);
    std::thread receiver([&] {
      try {
        messages.exchange(member(1, 2), message(received, true, 60'000));
      } catch (const Error&) {  // as the sender's
      }
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // until it waits
    bool has_come = true;
    try {
      messages.exchange(member(0, 2), message(sent, false, timeout_ms));
    } catch (const Error&) {
      has_come = false;
    }
    sent.back() = kAfter;
    receiver.join();
    EXPECT_EQ(std::ranges::count(received, has_come ? kSent : kBefore), static_cast<ptrdiff_t>(received.size()));
    if (has_come) break;
  }
}

}  // namespace
}  // namespace tessera::local
