// Ranks against one another: matching, issue order, deadlocks.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "program/rank_classes.h"
#include "support/expect_diagnostic.h"
#include "support/gpt2_ddp.h"
#include "support/program_builder.h"

namespace tessera::testing {
using namespace host;
namespace {

Diagnostics verify(const Mesh& mesh, const std::vector<Program>& ranks) {
  return verify_ranks(mesh, RankClasses(mesh), [&](int rank) -> const Program& { return ranks.at(rank); });
}

/// Ranks of one axis, each with buffers x, y (8 elements, written) and half (4).
class Ranks : public ::testing::Test {
 protected:
  explicit Ranks(int num_ranks = 2) : mesh_({{"dp", num_ranks}}) {
    for (int rank = 0; rank < num_ranks; ++rank) {
      Program p = empty_program(model_, mesh_, {rank});
      x_ = persistent(p, "x", 8);
      y_ = persistent(p, "y", 8, TSR_BUFFER_PLUGIN);
      half_ = persistent(p, "half", 4, TSR_BUFFER_PLUGIN);
      ranks_.push_back(std::move(p));
    }
  }

  Action& on(int rank, uint32_t kind, const std::vector<Use>& uses, std::string_view lane = "test") {
    Program& p = ranks_[rank];
    Action& action = add_action(p, kind, p.comm_stream(0, lane), uses);
    action.group = p.group({0, {}});
    return action;
  }
  Action& sum(int rank, const Use& use, std::string_view lane = "test") {
    Action& action = on(rank, TSR_ACTION_ALL_REDUCE, {use}, lane);
    action.reduce = TSR_REDUCE_SUM;
    return action;
  }
  Action& send(int rank, int peer, const Use& use, std::string_view lane = "test") {
    Action& action = on(rank, TSR_ACTION_SEND, {use}, lane);
    action.peer = peer;
    return action;
  }
  Action& recv(int rank, int peer, const Use& use, std::string_view lane = "test") {
    Action& action = on(rank, TSR_ACTION_RECV, {use}, lane);
    action.peer = peer;
    return action;
  }

  Diagnostics verify() {
    for (Program& p : ranks_) {
      derive_dependencies(p);
      EXPECT_TRUE(is_clean(verify_rank(p)));
    }
    return testing::verify(mesh_, ranks_);
  }

  const Model model_ = toy_model();
  const Mesh mesh_;
  std::vector<Program> ranks_;
  uint64_t x_ = 0, y_ = 0, half_ = 0;
};

TEST_F(Ranks, CollectivesThatMatch) {
  for (int rank = 0; rank < 2; ++rank) {
    sum(rank, add(x_));
    on(rank, TSR_ACTION_ALL_GATHER, {read(half_), write(x_)});
    on(rank, TSR_ACTION_BARRIER, {});
    sum(rank, add(y_), "other");
  }
  EXPECT_TRUE(is_clean(verify()));
}

/// Ranks that know a part of x as a parameter: x[begin:end) is `parameter` from its element `element` on.
class Slices : public Ranks {
 protected:
  void know(int rank, int parameter, uint64_t element, uint64_t begin, uint64_t end) {
    Program& p = ranks_[rank];
    Home home{p.next_id++, "home", 0, {{parameter, 0, element, end - begin, 0}}, end - begin, {}};
    home.roles[TSR_HOME_VALUE] = {x_, begin, end - begin};
    p.homes.push_back(home);
  }
  Diagnostics gather() {
    for (int rank = 0; rank < 2; ++rank)
      on(rank, TSR_ACTION_ALL_GATHER, {add(x_)});
    return verify();
  }
};

TEST_F(Slices, EachRankKnowsItsOwn) {
  know(0, 0, 0, 0, 4);
  know(1, 0, 4, 4, 8);
  EXPECT_TRUE(is_clean(gather()));
}

TEST_F(Slices, OneRankKnowsTheWhole) {
  know(0, 0, 0, 0, 8);
  know(1, 0, 4, 4, 8);
  EXPECT_TRUE(is_clean(gather()));
}

TEST_F(Slices, OfAnotherParameter) {
  know(0, 0, 0, 0, 8);
  know(1, 1, 4, 4, 8);
  EXPECT_TRUE(
      has_diagnostic(gather(), "(wte.weight) meets rank 1 #0 comm.dp.test all_gather x (h.0.fc.weight[4:] (at 4))"));
}

TEST_F(Slices, OfAnotherPart) {
  know(0, 0, 0, 0, 8);
  know(1, 0, 0, 4, 8);
  EXPECT_TRUE(has_diagnostic(gather(), "collective 0 on comm.dp.test does not match"));
}

TEST_F(Ranks, Elements) {
  sum(0, add(x_));
  sum(1, add(half_));
  EXPECT_TRUE(has_diagnostic(verify(),
                             "collective 0 on comm.dp.test does not match: rank 0 #0 comm.dp.test all_reduce x "
                             "(8 f32 sum) meets rank 1 #0 comm.dp.test all_reduce half (4 f32 sum)"));
}

TEST_F(Ranks, Kinds) {
  sum(0, add(x_));
  on(1, TSR_ACTION_ALL_GATHER, {add(x_)});
  EXPECT_TRUE(has_diagnostic(verify(), "all_reduce x (8 f32 sum) meets rank 1 #0 comm.dp.test all_gather x (8 f32)"));
}

TEST_F(Ranks, Reductions) {
  sum(0, add(x_));
  sum(1, add(x_)).reduce = TSR_REDUCE_AVG;
  EXPECT_TRUE(has_diagnostic(verify(), "(8 f32 sum) meets rank 1 #0 comm.dp.test all_reduce x (8 f32 avg)"));
}

TEST_F(Ranks, Dtypes) {
  sum(0, add(x_));
  sum(1, add(persistent(ranks_[1], "wide", 8, TSR_BUFFER_PLUGIN, TSR_F64)));
  EXPECT_TRUE(has_diagnostic(verify(), "all_reduce wide (8 f64 sum)"));
}

TEST_F(Ranks, Roots) {
  for (int rank = 0; rank < 2; ++rank)
    on(rank, TSR_ACTION_BROADCAST, {add(x_)}).peer = rank;
  EXPECT_TRUE(has_diagnostic(verify(), "(8 f32 root=0) meets rank 1 #0 comm.dp.test broadcast x (8 f32 root=1)"));
}

TEST_F(Ranks, Counts) {
  for (int rank = 0; rank < 2; ++rank)
    on(rank, TSR_ACTION_ALL_GATHER, {read(x_).at(0, 3), write(y_)}).counts = {rank == 0 ? 3u : 5u, rank == 0 ? 5u : 3u};
  EXPECT_TRUE(has_diagnostic(verify(), "counts=3,5) meets rank 1 #0 comm.dp.test all_gather x (8 f32 counts=5,3)"));
}

TEST_F(Ranks, UnevenMessagesOfAllToAll) {
  const auto route = [&](int rank, std::vector<uint64_t> counts) {
    on(rank, TSR_ACTION_ALL_TO_ALL, {read(x_).at(0, counts[0] + counts[1]), write(y_).at(0, counts[2] + counts[3])})
        .counts = counts;
  };
  route(0, {1, 5, 1, 2});
  route(1, {2, 4, 5, 3});
  EXPECT_TRUE(
      has_diagnostic(verify(), "all_to_all x (sends 4) meets rank 1 #0 comm.dp.test all_to_all x (receives 3)"));
  ranks_[1].actions.clear();
  route(1, {2, 3, 5, 3});
  EXPECT_TRUE(is_clean(verify()));
}

TEST_F(Ranks, OneIssuesMore) {
  for (int rank = 0; rank < 2; ++rank)
    sum(rank, add(x_));
  sum(0, add(y_));
  EXPECT_TRUE(
      has_diagnostic(verify(),
                     "rank 1 issues 1 collectives on comm.dp.test, rank 0 issues 2; the first extra is rank 0 #1 "
                     "comm.dp.test all_reduce y"));
}

TEST_F(Ranks, LanesAreCommunicatorsOfTheirOwn) {
  sum(0, add(x_), "a");
  sum(1, add(x_), "b");
  EXPECT_TRUE(has_diagnostic(verify(), "rank 1 issues 0 collectives on comm.dp.a, rank 0 issues 1"));
}

TEST_F(Ranks, IssueOrderOfTwoLanes) {
  sum(0, add(x_), "a");
  sum(0, add(y_), "b");
  sum(1, add(y_), "b");
  sum(1, add(x_), "a");
  EXPECT_TRUE(has_diagnostic(verify(), "the ranks list shared collectives in different orders"));
}

TEST_F(Ranks, MessagesThatMatch) {
  send(0, 1, read(x_)).tag = 7;
  recv(1, 0, write(y_)).tag = 7;
  EXPECT_TRUE(is_clean(verify()));
}

TEST_F(Ranks, MessageSizes) {
  send(0, 1, read(x_));
  recv(1, 0, write(half_));
  EXPECT_TRUE(has_diagnostic(verify(),
                             "message 0 on comm.dp.test does not match: rank 0 #0 comm.dp.test send x (8 f32 tag=0) "
                             "meets rank 1 #0 comm.dp.test recv half (4 f32 tag=0)"));
}

TEST_F(Ranks, MessageTags) {
  send(0, 1, read(x_)).tag = 1;
  recv(1, 0, write(y_)).tag = 2;
  EXPECT_TRUE(has_diagnostic(verify(), "send x (8 f32 tag=1) meets rank 1 #0 comm.dp.test recv y (8 f32 tag=2)"));
}

TEST_F(Ranks, MessageIsNotReceived) {
  send(0, 1, read(x_));
  send(0, 1, read(y_));
  recv(1, 0, write(x_));
  EXPECT_TRUE(has_diagnostic(verify(),
                             "rank 0 sends 2 messages to rank 1 on comm.dp.test, which receives 1; the first extra is "
                             "rank 0 #1 comm.dp.test send y"));
}

TEST_F(Ranks, BothSendFirst) {
  for (int rank = 0; rank < 2; ++rank) {
    send(rank, 1 - rank, read(x_));
    recv(rank, 1 - rank, write(y_));
  }
  const Diagnostics diagnostics = verify();
  EXPECT_TRUE(has_diagnostic(diagnostics, "deadlock: "));
  EXPECT_TRUE(has_diagnostic(diagnostics,
                             "rank 1 #1 comm.dp.test recv y -> waits for rank 1 #0 comm.dp.test send x -> waits for "
                             "rank 0 #1 comm.dp.test recv y -> waits for rank 0 #0 comm.dp.test send x"));
}

TEST_F(Ranks, BothReceiveFirst) {
  for (int rank = 0; rank < 2; ++rank) {
    recv(rank, 1 - rank, write(y_));
    send(rank, 1 - rank, read(x_));
  }
  EXPECT_TRUE(has_diagnostic(verify(), "running every list from top to bottom never ends: rank"));
}

TEST_F(Ranks, ExchangeDoesNotBlockItself) {
  for (int rank = 0; rank < 2; ++rank)
    on(rank, TSR_ACTION_EXCHANGE, {read(x_), write(y_)}).peers = {1 - rank, 1 - rank};
  EXPECT_TRUE(is_clean(verify()));
}

class TwelveRanks : public Ranks {
 protected:
  TwelveRanks() : Ranks(12) {}
};

// Each waits for the one before it: the whole chain would be a line of thousands of characters.
TEST_F(TwelveRanks, ALongChainIsCutInTheMiddle) {
  for (int rank = 0; rank < 12; ++rank) {
    recv(rank, (rank + 11) % 12, write(y_));
    send(rank, (rank + 1) % 12, read(x_));
  }
  const auto diagnostics = verify();
  EXPECT_TRUE(has_diagnostic(diagnostics, " others, one after another -> waits for rank "));
  EXPECT_TRUE(has_diagnostic(diagnostics, "after the last action that writes what they take"));
}

class FourRanks : public Ranks {
 protected:
  FourRanks() : Ranks(4) {}
};

TEST_F(FourRanks, ExchangesAroundARing) {
  for (int rank = 0; rank < 4; ++rank)
    on(rank, TSR_ACTION_EXCHANGE, {read(x_), write(y_)}).peers = {(rank + 1) % 4, (rank + 3) % 4};
  EXPECT_TRUE(is_clean(verify()));
}

TEST_F(FourRanks, SendsAroundARing) {
  for (int rank = 0; rank < 4; ++rank) {
    send(rank, (rank + 1) % 4, read(x_));
    recv(rank, (rank + 3) % 4, write(y_));
  }
  EXPECT_TRUE(has_diagnostic(verify(), "deadlock: "));
}

TEST_F(FourRanks, SubsetsAndTheWhole) {
  for (int rank = 0; rank < 4; ++rank) {
    Program& p = ranks_[rank];
    if (rank % 3 == 0) sum(rank, add(x_), "tied").group = p.group({0, {0, 3}});
    sum(rank, add(y_), "all");
  }
  EXPECT_TRUE(is_clean(verify()));
  std::swap(ranks_[3].actions[0], ranks_[3].actions[1]);
  EXPECT_TRUE(has_diagnostic(verify(), "the ranks list shared collectives in different orders"));
}

/// A pipeline by hand: a stage receives, computes (here: copies) and sends, in the order of its schedule.
class PipelineStages {
 public:
  PipelineStages(int num_stages, int num_micro_batches, bool one_lane)
      : num_stages_(num_stages), one_lane_(one_lane), mesh_({{"pp", num_stages, TSR_SPLITS_LAYERS}}) {
    for (int stage = 0; stage < num_stages; ++stage) {
      ranks_.push_back(empty_program(model_, mesh_, {stage}));
      one_forward_one_backward(stage, num_micro_batches);
      derive_dependencies(ranks_.back());
      EXPECT_TRUE(is_clean(verify_rank(ranks_.back())));
    }
  }
  Diagnostics verify() const { return testing::verify(mesh_, ranks_); }

 private:
  void one_forward_one_backward(int stage, int num_micro_batches) {
    const int warm_up = std::min(num_stages_ - stage - 1, num_micro_batches);
    for (int mb = 0; mb < warm_up; ++mb)
      forward(stage, mb);
    for (int mb = 0; mb < num_micro_batches; ++mb) {
      if (warm_up + mb < num_micro_batches) forward(stage, warm_up + mb);
      backward(stage, mb);
    }
  }
  void forward(int stage, int mb) { run(stage, mb, stage - 1, stage + 1, "activation"); }
  void backward(int stage, int mb) { run(stage, mb, stage + 1, stage - 1, "gradient"); }

  void run(int stage, int mb, int from, int to, std::string_view lane) {
    Program& p = ranks_[stage];
    const uint32_t stream = p.comm_stream(0, one_lane_ ? "all" : lane);
    const auto message = [&](uint32_t kind, const Use& use, int peer) {
      if (peer < 0 || peer >= num_stages_) return;
      Action& action = add_action(p, kind, stream, {use});
      action.peer = peer;
      action.group = p.group({0, {}});
      action.tag = mb;
    };
    const uint64_t in = persistent(p, "in", 4, TSR_BUFFER_PLUGIN), out = transient(p, "out", 4);
    message(TSR_ACTION_RECV, write(in), from);
    add_action(p, TSR_ACTION_COPY, TSR_STREAM_COMPUTE, {read(in), write(out)});
    message(TSR_ACTION_SEND, read(out), to);
  }

  const Model model_ = toy_model();
  const int num_stages_;
  const bool one_lane_;
  const Mesh mesh_;
  std::vector<Program> ranks_;
};

TEST(Pipeline, OneForwardOneBackwardNeedsTwoLanes) {
  for (const int num_stages : {2, 4}) {
    EXPECT_TRUE(is_clean(PipelineStages(num_stages, 6, false).verify()));
    EXPECT_TRUE(has_diagnostic(PipelineStages(num_stages, 6, true).verify(), "deadlock: "));
  }
}

/// GPT-2 under ddp with something wrong on one rank.
class Gpt2DdpRanks : public ::testing::Test {
 protected:
  static constexpr std::string_view kStream = "comm.dp.gradient";

  Diagnostics verify_with(const std::function<void(std::vector<Action>&)>& fault) {
    std::vector<Program> ranks = job_.all_finished();
    fault(ranks[1].actions);
    for (Program& program : ranks)
      derive_dependencies(program);
    return testing::verify(job_.mesh(), ranks);
  }
  size_t sum(size_t n) const { return nth_action(job_.finished(1), TSR_ACTION_ALL_REDUCE, kStream, n); }

  const Gpt2Ddp job_{3};
};

TEST_F(Gpt2DdpRanks, Clean) {
  EXPECT_TRUE(is_clean(verify_with([](auto&) {})));
}

TEST_F(Gpt2DdpRanks, OneSumIsMissing) {
  const Diagnostics diagnostics = verify_with([&](auto& actions) { actions.erase(actions.begin() + sum(1)); });
  EXPECT_TRUE(has_diagnostic(diagnostics, "on comm.dp.gradient"));
}

TEST_F(Gpt2DdpRanks, TwoSumsAreSwapped) {
  const Diagnostics diagnostics = verify_with([&](auto& actions) { std::swap(actions[sum(0)], actions[sum(1)]); });
  EXPECT_TRUE(has_diagnostic(diagnostics, "(the gradient of h.1.mlp.c_proj.weight[128:]) meets rank 1"));
}

TEST_F(Gpt2DdpRanks, OneSumIsThereTwice) {
  const Diagnostics diagnostics = verify_with([&](auto& actions) {
    Action twice = actions[sum(0)];
    twice.id = 1u << 30;
    actions.insert(actions.begin() + sum(0), twice);
  });
  EXPECT_TRUE(has_diagnostic(diagnostics, "on comm.dp.gradient"));
}

TEST_F(Gpt2DdpRanks, OneSumIsMovedToTheEnd) {
  const Diagnostics diagnostics = verify_with([&](auto& actions) {
    const auto moved = actions.begin() + sum(0);
    std::rotate(moved, moved + 1, actions.end());
  });
  EXPECT_TRUE(has_diagnostic(diagnostics, "on comm.dp.gradient does not match"));
}

}  // namespace
}  // namespace tessera::testing
