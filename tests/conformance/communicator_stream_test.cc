// Conformance of communicators, 3: streams, messages, and the life of communicators.
#include <atomic>
#include <chrono>
#include <thread>

#include "conformance/communicators.h"

namespace tessera::testing {
namespace {

constexpr int kSeveral[] = {2, 3, 5};
constexpr uint64_t kLarge = 1 << 20;  // elements; far beyond any buffer of a socket

std::function<double(uint64_t)> pattern(int from, int to, uint64_t index = 0) {
  return
      [=](uint64_t i) { return static_cast<double>((i + static_cast<uint64_t>(from * 10 + to) + index * 100) % 8191); };
}

tsr_collective all_reduce_sum(TypedBuffer& buffer) {
  auto collective =
      make_collective(TSR_COLL_ALL_REDUCE, buffer.dtype(), buffer.num_elements(), buffer.data(), buffer.data());
  collective.reduce = TSR_REDUCE_SUM;
  return collective;
}

tsr_collective message(uint32_t kind, TypedBuffer& buffer, int peer) {
  auto collective = make_collective(kind, buffer.dtype(), buffer.num_elements(), buffer.data(), buffer.data());
  collective.peer = peer;
  return collective;
}

using Streams = CommunicatorTest;

TEST_P(Streams, CollectiveWaitsForWhatIsBeforeItAndLaterWorkSeesItsResult) {
  TESSERA_USES(kSum);
  run_ranks(spec(), [](CommRank& rank) {
    constexpr uint64_t kNumElements = 1000;
    TypedBuffer buffer(TSR_F32, kNumElements, [](uint64_t) { return -1; });
    TypedBuffer seen(TSR_F32, kNumElements);
    rank.run_on_stream([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20 * (rank.num_ranks() - rank.rank())));
      buffer.fill([&](uint64_t) { return rank.rank() + 1; });
    });
    rank.comm().submit(all_reduce_sum(buffer));
    rank.run_on_stream([&] { seen = buffer; });
    rank.synchronize();
    const int sum = rank.num_ranks() * (rank.num_ranks() + 1) / 2;
    EXPECT_EQ(seen.difference(TypedBuffer(TSR_F32, kNumElements, [&](uint64_t) { return sum; })), "");
  });
}

TEST_P(Streams, SubmitDoesNotBlock) {
  TESSERA_USES(kSum);
  run_ranks(spec(), [](CommRank& rank) {
    rank.comm();  // one that cannot be made would leave the stream waiting
    std::atomic<bool> all_submitted{false};
    std::vector<TypedBuffer> buffers(200, TypedBuffer(TSR_F32, 10, [](uint64_t) { return 1; }));
    rank.run_on_stream([&] {
      while (!all_submitted)
        std::this_thread::yield();
    });
    for (TypedBuffer& buffer : buffers)
      rank.comm().submit(all_reduce_sum(buffer));
    all_submitted = true;
    rank.synchronize();
    for (TypedBuffer& buffer : buffers)
      EXPECT_EQ(get_element(TSR_F32, buffer.at(9)), rank.num_ranks());
  });
}

TEST_P(Streams, TwoCommunicatorsOnTwoStreamsRunBesideOneAnother) {
  TESSERA_USES(kSum);
  run_ranks(spec(), [](CommRank& rank) {
    auto gather = rank.create("dp.gather"), reduce = rank.create("dp.reduce");
    constexpr int kRounds = 30;
    std::vector<TypedBuffer> a(kRounds, TypedBuffer(TSR_F32, 501, [&](uint64_t) { return rank.rank(); })), b = a;
    for (size_t round = 0; round < kRounds; ++round) {
      // Half of the ranks submit in the other order: only each communicator's own order is common, unless what one has
      // submitted keeps the device busy until all have come.
      const bool gather_first = rank.rank() % 2 == 0 || rank.is_native();
      for (int step = 0; step < 2; ++step) {
        const bool is_gather = (step == 0) == gather_first;
        auto collective = all_reduce_sum(is_gather ? a[round] : b[round]);
        collective.stream = rank.stream(is_gather ? 0 : 1);
        (is_gather ? *gather : *reduce).submit(collective);
      }
    }
    rank.synchronize(0);
    rank.synchronize(1);
    const int sum = rank.num_ranks() * (rank.num_ranks() - 1) / 2;
    for (size_t round = 0; round < kRounds; ++round) {
      EXPECT_EQ(get_element(TSR_F32, a[round].at(500)), sum);
      EXPECT_EQ(get_element(TSR_F32, b[round].at(0)), sum);
    }
  });
}

TEST_P(Streams, NobodyLeavesABarrierBeforeAllEntered) {
  TESSERA_USES({TSR_COLL_BARRIER});
  std::atomic<int> num_entered{0};
  run_ranks(spec(), [&](CommRank& rank) {
    for (int round = 1; round <= 10; ++round) {
      rank.run_on_stream([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(rank.rank()));
        ++num_entered;
      });
      rank.comm().submit(make_collective(TSR_COLL_BARRIER, 0, 0, nullptr, nullptr));
      rank.run_on_stream([&, round] { EXPECT_GE(num_entered, round * rank.num_ranks()); });
      rank.comm().submit(make_collective(TSR_COLL_BARRIER, 0, 0, nullptr, nullptr));
    }
    rank.synchronize();
  });
}

TESSERA_OVER(transports, Streams, kGroupSizes);

using Messages = CommunicatorTest;

TEST_P(Messages, GoAroundTheRing) {
  TESSERA_USES({TSR_COLL_SEND, 0, TSR_BF16}, {TSR_COLL_RECV, 0, TSR_BF16});
  run_ranks(spec(), [](CommRank& rank) {
    const int n = rank.num_ranks(), next = (rank.rank() + 1) % n, previous = (rank.rank() + n - 1) % n;
    for (uint64_t num_elements : {uint64_t{0}, uint64_t{1}, uint64_t{4099}}) {
      TypedBuffer token(TSR_BF16, num_elements, [](uint64_t i) { return static_cast<double>(i % 200); });
      TypedBuffer got(TSR_BF16, num_elements);
      if (rank.rank() == 0) rank.comm().submit(message(TSR_COLL_SEND, token, next));
      rank.comm().submit(message(TSR_COLL_RECV, got, previous));
      if (rank.rank() != 0) rank.comm().submit(message(TSR_COLL_SEND, got, next));
      rank.synchronize();
      EXPECT_EQ(got.difference(token), "");
    }
  });
}

TEST_P(Messages, OfOnePairArriveInOrder) {
  TESSERA_USES({TSR_COLL_SEND, 0, TSR_I32}, {TSR_COLL_RECV, 0, TSR_I32});
  run_ranks(spec(), [](CommRank& rank) {
    constexpr uint64_t kNumMessages = 20;
    std::vector<TypedBuffer> buffers;
    for (uint64_t index = 0; index < kNumMessages; ++index) {
      buffers.emplace_back(TSR_I32, 100 + index);
      if (rank.rank() == 0) buffers.back().fill(pattern(0, 1, index));
    }
    rank.comm();
    if (rank.rank() > 1) return;
    for (TypedBuffer& buffer : buffers)
      rank.comm().submit(message(rank.rank() == 0 ? TSR_COLL_SEND : TSR_COLL_RECV, buffer, 1 - rank.rank()));
    rank.synchronize();
    for (uint64_t index = 0; index < kNumMessages; ++index)
      EXPECT_EQ(buffers[index].difference(TypedBuffer(TSR_I32, 100 + index, pattern(0, 1, index))), "");
  });
}

/// Large messages from every rank to every other, all at once: `submit` gets all transfers of a rank.
void exchange_all(CommRank& rank, const std::function<void(const std::vector<tsr_transfer>&)>& submit) {
  std::vector<TypedBuffer> sent, received;
  std::vector<tsr_transfer> transfers;
  const size_t n = static_cast<size_t>(rank.num_ranks());
  for (int peer = 0; peer < rank.num_ranks(); ++peer) {
    sent.emplace_back(TSR_F32, kLarge / n, pattern(rank.rank(), peer));
    received.emplace_back(TSR_F32, kLarge / n);
  }
  for (int peer = 0; peer < rank.num_ranks(); ++peer) {
    const size_t p = static_cast<size_t>(peer);
    if (peer == rank.rank()) continue;
    transfers.push_back({sent[p].data(), sent[p].num_elements(), peer, 0});
    transfers.push_back({received[p].data(), received[p].num_elements(), peer, 1});
  }
  submit(transfers);
  rank.synchronize();
  for (int peer = 0; peer < rank.num_ranks(); ++peer) {
    if (peer == rank.rank()) continue;
    const TypedBuffer expected(TSR_F32, kLarge / n, pattern(peer, rank.rank()));
    EXPECT_EQ(received[static_cast<size_t>(peer)].difference(expected), "") << "from " << peer;
  }
}

TEST_P(Messages, ExchangedBothWaysDoNotBlockOneAnother) {
  TESSERA_USES({TSR_COLL_EXCHANGE});
  run_ranks(spec(), [](CommRank& rank) {
    exchange_all(rank, [&](const std::vector<tsr_transfer>& transfers) {
      auto collective = make_collective(TSR_COLL_EXCHANGE, TSR_F32, 0, nullptr, nullptr);
      collective.transfers = transfers.data();
      collective.num_transfers = transfers.size();
      rank.comm().submit(collective);
    });
  });
}

TEST_P(Messages, AndCollectivesOfOneCommunicatorMix) {
  TESSERA_USES(kSum, {TSR_COLL_SEND}, {TSR_COLL_RECV});
  run_ranks(spec(), [](CommRank& rank) {
    for (int round = 0; round < 20; ++round) {
      TypedBuffer buffer(TSR_F32, 333, [](uint64_t) { return 1; });
      rank.comm().submit(all_reduce_sum(buffer));
      const int last = rank.num_ranks() - 1;
      if (rank.rank() == 0) rank.comm().submit(message(TSR_COLL_SEND, buffer, last));
      if (rank.rank() == last) rank.comm().submit(message(TSR_COLL_RECV, buffer, 0));
      rank.comm().submit(all_reduce_sum(buffer));
      rank.synchronize();
      EXPECT_EQ(get_element(TSR_F32, buffer.at(332)), rank.num_ranks() * rank.num_ranks());
    }
  });
}

TESSERA_OVER(transports, Messages, kSeveral);

using Lifetime = CommunicatorTest;

TEST_P(Lifetime, HundredCommunicatorsAfterOneAnother) {
  TESSERA_USES(kSum);
  run_ranks(spec(), [](CommRank& rank) {
    for (int round = 0; round < 100; ++round) {
      auto comm = rank.create("dp.round" + std::to_string(round));
      TypedBuffer buffer(TSR_F32, 3, [&](uint64_t) { return round; });
      comm->submit(all_reduce_sum(buffer));
      rank.synchronize();
      EXPECT_EQ(get_element(TSR_F32, buffer.at(2)), round * rank.num_ranks());
    }
  });
}

constexpr int kPair[] = {2};
TESSERA_OVER(transports, Lifetime, kPair);

}  // namespace
}  // namespace tessera::testing
