// Conformance of communicators, 5: what ranks submit must go together; if not, all of them fail, and nothing is
// written. A SEND may have ended before its RECV is there, so of messages the receiver fails, and the sender if it
// waits.
#include <cstring>
#include <functional>

#include "conformance/communicators.h"

namespace tessera::testing {
namespace {

class Mismatch : public CommunicatorTest {
 protected:
  /// Ends a SEND or RECV of rank 0 to rank 1 that do not match.
  void expect_refused_message(CommRank& rank, const std::vector<std::string>& words) const {
    const auto end = [&] { rank.synchronize(); };
    if (rank.rank() == 1 || is_shipped()) return expect_refusal(caught(end), TSR_E_INVALID_ARGUMENT, {}, words);
    try {
      end();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), TSR_E_INVALID_ARGUMENT) << error.what();
    }
  }
};

struct Difference {
  const char* name;
  std::function<void(tsr_collective&)> change;  // what the last rank does otherwise
  uint32_t kind;
};

TEST_P(Mismatch, CollectivesThatDoNotMatchAreAnErrorOnAllRanks) {
  const Difference differences[] = {
      {"kind", [](tsr_collective& c) { c.kind = TSR_COLL_BROADCAST, c.reduce = 0; }, TSR_COLL_ALL_REDUCE},
      {"dtype", [](tsr_collective& c) { c.dtype = TSR_I32; }, TSR_COLL_ALL_REDUCE},
      {"elements", [](tsr_collective& c) { c.num_elements -= 1; }, TSR_COLL_ALL_REDUCE},
      {"reduction", [](tsr_collective& c) { c.reduce = TSR_REDUCE_MAX; }, TSR_COLL_REDUCE_SCATTER},
      {"reduction", [](tsr_collective& c) { c.reduce = TSR_REDUCE_MAX; }, TSR_COLL_ALL_REDUCE},
      {"reduction", [](tsr_collective& c) { c.reduce = TSR_REDUCE_MAX; }, TSR_COLL_REDUCE},
      {"root", [](tsr_collective& c) { c.peer = 1; }, TSR_COLL_BROADCAST},
      {"root", [](tsr_collective& c) { c.peer = 1; }, TSR_COLL_REDUCE},
  };
  const tsr_comm_caps caps = this->caps();
  for (const Difference& difference : differences) {
    const uint32_t reduce = is_reduction(difference.kind) ? TSR_REDUCE_SUM : 0;
    tsr_collective changed = make_collective(difference.kind, TSR_F32, 100, nullptr, nullptr, reduce);
    difference.change(changed);
    if (!claims(caps, {difference.kind, reduce}) || !is_claimed(caps, changed)) continue;
    run_ranks(spec(kNeverMs), [&](CommRank& rank) {
      const uint64_t n = static_cast<uint64_t>(rank.num_ranks());
      TypedBuffer send(TSR_F32, 100 * n, [](uint64_t) { return 1; }), recv(TSR_F32, 100);
      auto collective = make_collective(difference.kind, TSR_F32, 100, send.data(), recv.data(), reduce);
      const int odd_one = rank.num_ranks() - 1;
      if (rank.rank() == odd_one) difference.change(collective);
      rank.comm().submit(collective);
      const Error error = caught([&] { rank.synchronize(); });
      expect_refusal(error, TSR_E_INVALID_ARGUMENT, {},
                     {"dp.test " + rank_text(rank.rank()), difference.name, rank_text(odd_one), "#0", "gradient h.2"});
      EXPECT_EQ(recv.difference(TypedBuffer(TSR_F32, 100)), "") << difference.name << " wrote something";
    });
  }
}

// The last rank cuts the same number of elements otherwise.
TEST_P(Mismatch, CountsThatDoNotMatchAreAnErrorOnAllRanks) {
  for (const uint32_t kind : {TSR_COLL_REDUCE_SCATTER, TSR_COLL_ALL_GATHER}) {
    const uint32_t reduce = kind == TSR_COLL_REDUCE_SCATTER ? TSR_REDUCE_SUM : 0;
    if (!claims(caps(), {kind, reduce})) continue;
    run_ranks(spec(kNeverMs), [&](CommRank& rank) {
      const uint64_t n = static_cast<uint64_t>(rank.num_ranks());
      std::vector<uint64_t> counts(n, 100);
      if (rank.rank() == rank.num_ranks() - 1) counts.front() += 1, counts.back() -= 1;
      TypedBuffer send(TSR_F32, 100 * n, [](uint64_t) { return 1; }), recv(TSR_F32, 101 * n);
      auto collective = make_collective(kind, TSR_F32, 0, send.data(), recv.data(), reduce);
      collective.counts = counts.data();
      rank.comm().submit(collective);
      expect_refusal(caught([&] { rank.synchronize(); }), TSR_E_INVALID_ARGUMENT, {},
                     {"does not match between ranks in counts", rank_text(rank.num_ranks() - 1)});
      EXPECT_EQ(recv.difference(TypedBuffer(TSR_F32, 101 * n)), "") << "wrote something";
    });
  }
}

// The last two ranks differ, so with three or more it is a pair without rank 0. The others may have ended by then.
TEST_P(Mismatch, APairThatDoesNotMatchInAllToAllIsAnErrorOnBoth) {
  TESSERA_USES({TSR_COLL_ALL_TO_ALL});
  run_ranks(spec(kNeverMs), [&](CommRank& rank) {
    const int last = rank.num_ranks() - 1;
    const uint64_t n = static_cast<uint64_t>(rank.num_ranks());
    std::vector<uint64_t> sent(n, 10), received(n, 10);
    if (rank.rank() == last) sent[n - 2] = 9;
    TypedBuffer send(TSR_F32, 10 * n, [](uint64_t) { return 1; }), recv(TSR_F32, 10 * n);
    auto collective = make_collective(TSR_COLL_ALL_TO_ALL, TSR_F32, 0, send.data(), recv.data());
    collective.counts = sent.data();
    collective.recv_counts = received.data();
    rank.comm().submit(collective);
    const auto end = [&] { rank.synchronize(); };
    if (rank.rank() >= last - 1)
      expect_refusal(caught(end), TSR_E_INVALID_ARGUMENT, {},
                     {"does not match between ranks in ", "elements", rank_text(last), rank_text(last - 1)});
    else
      try {
        end();
      } catch (const Error&) {
      }
  });
}

struct DifferentMessage {
  tsr_dtype dtype;
  uint64_t num_elements;
  const char* text;
};

TEST_P(Mismatch, MessagesThatDoNotMatchAreAnErrorOnBothSides) {
  TESSERA_USES({TSR_COLL_SEND}, {TSR_COLL_RECV}, {TSR_COLL_RECV, 0, TSR_I32});
  for (const auto& received : {DifferentMessage{TSR_F32, 99, "99 elements f32"}, {TSR_I32, 100, "100 elements i32"}})
    run_ranks(spec(kNeverMs), [&](CommRank& rank) {
      TypedBuffer data(TSR_F32, 100);
      rank.comm();
      if (rank.rank() > 1) return;
      auto collective = rank.rank() == 0 ? make_collective(TSR_COLL_SEND, TSR_F32, 100, data.data(), data.data())
                                         : make_collective(TSR_COLL_RECV, received.dtype, received.num_elements,
                                                           data.data(), data.data());
      collective.peer = 1 - rank.rank();
      rank.comm().submit(collective);
      expect_refused_message(rank, {"100 elements f32", received.text, "rank 0", "rank 1"});
      EXPECT_EQ(data.difference(TypedBuffer(TSR_F32, 100)), "");
    });
}

// Long data may be on its way before either side knows.
TEST_P(Mismatch, LongMessagesThatDoNotMatchAreAnErrorOnBothSides) {
  TESSERA_USES({TSR_COLL_SEND}, {TSR_COLL_RECV});
  constexpr uint64_t kSent = 100'000;
  for (const uint64_t num_received : {kSent / 2, 2 * kSent})
    run_ranks(spec(kNeverMs), [&](CommRank& rank) {
      TypedBuffer data(TSR_F32, 2 * kSent);
      if (rank.rank() == 0) std::memset(data.data(), 1, 2 * kSent * sizeof(float));
      rank.comm();
      if (rank.rank() > 1) return;
      auto collective = make_collective(rank.rank() == 0 ? TSR_COLL_SEND : TSR_COLL_RECV, TSR_F32,
                                        rank.rank() == 0 ? kSent : num_received, data.data(), data.data());
      collective.peer = 1 - rank.rank();
      rank.comm().submit(collective);
      expect_refused_message(
          rank, {"100000 elements f32", std::to_string(num_received) + " elements f32", "rank 0", "rank 1"});
      if (rank.rank() == 0) return;
      EXPECT_EQ(data.difference(TypedBuffer(TSR_F32, 2 * kSent)), "");
    });
}

constexpr int kSeveral[] = {2, 3, 4};
TESSERA_OVER(comparing_communicators, Mismatch, kSeveral);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Mismatch);  // over NCCL alone

}  // namespace
}  // namespace tessera::testing
