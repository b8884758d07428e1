// What small programs made by hand mean: storage that is split, local SGD, calls and messages, right and with one thing
// wrong on all ranks alike.
#include <algorithm>

#include <gtest/gtest.h>

#include "support/expect_diagnostic.h"
#include "support/gpt2_ddp.h"
#include "unit/split_storage.h"

namespace tessera::testing {
namespace {

/// The last action before another one.
void move_last_to(Program& p, size_t index) {
  std::rotate(p.actions.begin() + static_cast<ptrdiff_t>(index), p.actions.end() - 1, p.actions.end());
}

TEST_F(Storage, Fsdp) {
  layout(0, TSR_LAYOUT_SPLIT);
  fsdp_step(0);
  EXPECT_TRUE(is_clean(verify_placement(p_)));
}

TEST_F(Storage, FsdpThatDeclaresNoLayout) {
  fsdp_step(0);
  EXPECT_TRUE(has_diagnostic(verify_placement(p_),
                             "all_gather shard takes src0 = home shard, which is the same on all ranks of dp: the "
                             "ranks' slices do not make up the buffer"));
}

TEST_F(Storage, FsdpComputesWithItsShard) {
  layout(0, TSR_LAYOUT_SPLIT);
  fsdp_step(0);
  for (Action& action : p_.actions)
    for (Binding& b : action.bindings)
      if (b.slot == TSR_SLOT(TSR_ROLE_PARAMETER, 0))
        b = {p_.homes[0].roles[TSR_HOME_VALUE].buffer, 0, 128, b.slot, b.mode};
  EXPECT_TRUE(has_diagnostic(verify_placement(p_),
                             "takes p0 (h.0.fc.weight) = home shard, which is split over dp: the action needs the "
                             "whole parameter; is a collective missing?"));
}

TEST_F(Storage, FsdpTakesItsSliceWithoutTheSum) {
  layout(0, TSR_LAYOUT_SPLIT);
  fsdp_step(0);
  Action& scatter = nth(p_, TSR_ACTION_REDUCE_SCATTER);
  scatter.kind = TSR_ACTION_COPY;
  scatter.bindings[0].num_elements = 128;
  EXPECT_TRUE(
      has_diagnostic(verify_placement(p_), "takes src0 = gradient own, which is an unreduced partial sum over dp"));
}

TEST_F(Storage, GatherOfAddends) {
  const uint64_t value = persistent(p_, "value", 256), gradient = transient(p_, "gradient", 256, TSR_BUFFER_GRADIENT);
  forward_and_backward(value, gradient);
  on(0, TSR_ACTION_ALL_GATHER, {read(gradient).at(0, 128), write(transient(p_, "all", 256))});
  EXPECT_TRUE(has_diagnostic(verify_placement(p_),
                             "which is an unreduced partial sum over dp: the ranks' slices do not make up the buffer"));
}

TEST_F(Storage, Zero3) {
  layout(0, TSR_LAYOUT_SPLIT);
  const uint64_t value = persistent(p_, "value", 256), m = persistent(p_, "m", 256, TSR_BUFFER_OPTIMIZER);
  const uint64_t whole = transient(p_, "whole", 256, TSR_BUFFER_GRADIENT),
                 sum = transient(p_, "sum", 256, TSR_BUFFER_GRADIENT);
  const uint64_t copy = transient(p_, "copy", 256, TSR_BUFFER_GATHERED);
  make_home(value, sum, m, 256);
  on(0, TSR_ACTION_BROADCAST, {read(value), write(copy)}).peer = 0;
  forward_and_backward(copy, whole);
  on(0, TSR_ACTION_REDUCE, {read(whole), write(sum)}, TSR_REDUCE_SUM).peer = 0;
  step(add(value), read(sum), state(m));
  EXPECT_TRUE(is_clean(verify_placement(p_)));
  Program other = p_;  // the rank that owns nothing
  other.coordinates = {1};
  other.homes.clear();
  std::erase_if(other.actions, [](const Action& a) { return a.home != 0; });
  for (Action& action : other.actions)
    if (is_collective(action.kind) && action.bindings.size() == 2)
      action.bindings.erase(action.bindings.begin() + (action.kind == TSR_ACTION_REDUCE));
  EXPECT_TRUE(is_clean(verify_placement(other)));
}

TEST_F(Storage, OfEachRanksOwnTokens) {
  const uint64_t value = persistent(p_, "value", 64), m = persistent(p_, "m", 64, TSR_BUFFER_OPTIMIZER);
  make_home(value, transient(p_, "gradient", 64, TSR_BUFFER_GRADIENT), m, 64);
  add_action(p_, TSR_ACTION_COPY, 0, {read(x_).at(64, 64), write(value)});
  EXPECT_TRUE(has_diagnostic(verify_placement(p_), "home weight: its value"));
}

TEST_F(Storage, BroadcastOfAddends) {
  const uint64_t whole = transient(p_, "whole", 256, TSR_BUFFER_GRADIENT), value = persistent(p_, "value", 256);
  forward_and_backward(value, whole);
  on(0, TSR_ACTION_BROADCAST, {add(whole)}).peer = 0;
  EXPECT_TRUE(has_diagnostic(verify_placement(p_), "it must be reduced before it is broadcast"));
}

/// Optimizer state split, parameters replicated: each rank updates its slice and all gather it.
class Zero1 : public Storage {
 protected:
  Zero1() {
    layout(0, TSR_LAYOUT_SPLIT, 1u << TSR_HOME_M | 1u << TSR_HOME_V);
    value_ = persistent(p_, "value", 256);
    const uint64_t m = persistent(p_, "m", 128, TSR_BUFFER_OPTIMIZER);
    const uint64_t whole = transient(p_, "whole", 256, TSR_BUFFER_GRADIENT),
                   own = transient(p_, "own", 128, TSR_BUFFER_GRADIENT);
    make_home(value_, own, m, 128);
    forward_and_backward(value_, whole);
    on(0, TSR_ACTION_REDUCE_SCATTER, {read(whole), write(own)}, TSR_REDUCE_SUM);
    step(add(value_).at(0, 128), read(own), state(m));
    on(0, TSR_ACTION_ALL_GATHER, {add(value_)});
  }
  uint64_t value_ = 0;
};

TEST_F(Zero1, Clean) {
  EXPECT_TRUE(is_clean(verify_placement(p_)));
}

TEST_F(Zero1, UpdatesAreNotGathered) {
  remove(p_, TSR_ACTION_ALL_GATHER);
  EXPECT_TRUE(has_diagnostic(verify_placement(p_),
                             "home weight: its value, home value[0:128], is the same on all ranks of dp before the "
                             "program, and after it split over dp; gather it after its update"));
}

/// Optimizer state split, gradients summed on every rank: each updates its part of the values.
class Zero1OfSums : public Storage {
 protected:
  explicit Zero1OfSums(bool sums = true) {
    layout(0, TSR_LAYOUT_SPLIT, 1u << TSR_HOME_M | 1u << TSR_HOME_V);
    const uint64_t value = persistent(p_, "value", 256), m = persistent(p_, "m", 128, TSR_BUFFER_OPTIMIZER);
    const uint64_t whole = transient(p_, "whole", 256, TSR_BUFFER_GRADIENT);
    make_home(value, whole, m, 128);
    forward_and_backward(value, whole);
    if (sums) on(0, TSR_ACTION_ALL_REDUCE, {add(whole)}, TSR_REDUCE_SUM);
    step(add(value).at(0, 128), read(whole).at(0, 128), state(m));
    on(0, TSR_ACTION_ALL_GATHER, {add(value)});
  }
};

TEST_F(Zero1OfSums, Clean) {
  EXPECT_TRUE(is_clean(verify_placement(p_)));
}

TEST_F(Zero1OfSums, UpdatesAreNotGathered) {
  p_.actions.pop_back();
  EXPECT_TRUE(has_diagnostic(verify_placement(p_), "and after it split over dp"));
}

class Zero1OfAddends : public Zero1OfSums {
 protected:
  Zero1OfAddends() : Zero1OfSums(false) {}
};

TEST_F(Zero1OfAddends, GradientsAreNotSummed) {
  EXPECT_TRUE(has_diagnostic(verify_placement(p_), "gradient whole[0:128], which is an unreduced partial sum over dp"));
}

/// What each rank computes alone is not a gradient for its part of values that all ranks share.
TEST_F(Zero1OfSums, GradientsOfOneRankAlone) {
  const uint64_t own = transient(p_, "own", 256, TSR_BUFFER_GRADIENT);
  compute(TSR_ACTION_FORWARD, {read(x_, TSR_SLOT(TSR_ROLE_INPUT, 0)), write(own, TSR_SLOT(TSR_ROLE_OUTPUT, 0))});
  std::rotate(p_.actions.begin(), p_.actions.end() - 1, p_.actions.end());
  for (Action& action : p_.actions)
    if (action.kind == TSR_ACTION_OPTIMIZER)
      for (Binding& b : action.bindings)
        if (b.slot == TSR_SLOT(TSR_ROLE_SOURCE, 0)) b.buffer = own;
  EXPECT_TRUE(has_diagnostic(verify_placement(p_),
                             "updates dst0 = home value[0:128], which is the same on all ranks of dp, "
                             "with a gradient that is different on each rank of dp"));
}

/// In place: what every rank computes whole and alike is whole again, addends and foreign slices are not.
TEST_F(Storage, GatherInPlaceOfWhatIsAlikeEverywhere) {
  const uint64_t value = persistent(p_, "value", 256);
  on(0, TSR_ACTION_ALL_GATHER, {add(value)});
  EXPECT_TRUE(is_clean(verify_placement(p_)));
}

TEST_F(Storage, GatherInPlaceOfAddends) {
  const uint64_t value = persistent(p_, "value", 256), gradient = transient(p_, "gradient", 256, TSR_BUFFER_GRADIENT);
  forward_and_backward(value, gradient);
  on(0, TSR_ACTION_ALL_GATHER, {add(gradient)});
  EXPECT_TRUE(has_diagnostic(verify_placement(p_), "the ranks' slices do not make up the buffer"));
}

TEST_F(Storage, ScatterAndGatherInPlaceAreASum) {
  const uint64_t value = persistent(p_, "value", 256), gradient = transient(p_, "gradient", 256, TSR_BUFFER_GRADIENT);
  const uint64_t m = persistent(p_, "m", 256, TSR_BUFFER_OPTIMIZER);
  make_home(value, gradient, m, 256);
  forward_and_backward(value, gradient);
  on(0, TSR_ACTION_REDUCE_SCATTER, {add(gradient)}, TSR_REDUCE_SUM);
  on(0, TSR_ACTION_ALL_GATHER, {add(gradient)});
  step(add(value), read(gradient), state(m));
  EXPECT_TRUE(is_clean(verify_placement(p_)));
  remove(p_, TSR_ACTION_ALL_GATHER);
  EXPECT_TRUE(has_diagnostic(verify_placement(p_), "with a gradient that is split over dp"));
}

TEST_F(Storage, AverageOfSlices) {
  layout(0, TSR_LAYOUT_SPLIT);
  fsdp_step(0);
  on(0, TSR_ACTION_ALL_REDUCE, {add(p_.homes[0].roles[TSR_HOME_VALUE].buffer)}, TSR_REDUCE_AVG);
  EXPECT_TRUE(has_diagnostic(verify_placement(p_), "which is split over dp: its average over the axis has no meaning"));
}

TEST_F(Storage, MicroBatchesScaledDifferently) {
  const uint64_t value = persistent(p_, "value", 256), gradient = transient(p_, "gradient", 256, TSR_BUFFER_GRADIENT);
  forward_and_backward(value, gradient);
  add_action(p_, TSR_ACTION_SCALE, TSR_STREAM_COMPUTE, {add(gradient)}).scale = 0.5;
  forward_and_backward(value, gradient);
  p_.actions.back().bindings.back().mode = TSR_MODE_ADD;
  EXPECT_TRUE(has_diagnostic(verify_placement(p_), "scaled by 0.500000: such a sum has no meaning"));
}

TEST_F(Storage, SlicesScaledDifferently) {
  layout(0, TSR_LAYOUT_SPLIT);
  fsdp_step(0);
  const size_t scatter = nth_action(p_, TSR_ACTION_REDUCE_SCATTER);
  const uint64_t whole = p_.actions[scatter].bindings[0].buffer;
  add_action(p_, TSR_ACTION_SCALE, TSR_STREAM_COMPUTE, {add(whole).at(128, 128)}).scale = 0.5;
  move_last_to(p_, scatter);
  EXPECT_TRUE(has_diagnostic(verify_placement(p_),
                             "takes gradient whole, of which parts are scaled by 1.000000 and by 0.500000"));
}

TEST_F(Storage, GathersASliceInPartsScaledDifferently) {
  layout(0, TSR_LAYOUT_SPLIT);
  fsdp_step(0);
  const uint64_t shard = p_.homes[0].roles[TSR_HOME_VALUE].buffer;
  add_action(p_, TSR_ACTION_SCALE, TSR_STREAM_COMPUTE, {add(shard).at(64, 64)}).scale = 0.5;
  move_last_to(p_, 0);
  EXPECT_TRUE(
      has_diagnostic(verify_placement(p_), "takes home shard, of which parts are scaled by 1.000000 and by 0.500000"));
}

TEST_F(Storage, GradientIsScaledAfterTheNorm) {
  layout(0, TSR_LAYOUT_SPLIT);
  fsdp_step(0);
  const size_t update = nth_action(p_, TSR_ACTION_OPTIMIZER);
  const uint64_t own = p_.homes[0].roles[TSR_HOME_GRADIENT].buffer;
  add_action(p_, TSR_ACTION_SCALE, TSR_STREAM_COMPUTE, {add(own)}).scale = 0.5;
  move_last_to(p_, update);
  EXPECT_TRUE(has_diagnostic(verify_placement(p_),
                             "optimizer weight takes src0 = gradient own, which is split over dp, "
                             "scaled by 0.500000: only the loss is scaled, strategies must sum"));
}

TEST_F(Storage, BroadcastOverAddends) {
  const uint64_t value = persistent(p_, "value", 256), gradient = transient(p_, "gradient", 256, TSR_BUFFER_GRADIENT);
  forward_and_backward(value, gradient);
  p_.coordinates = {1};
  on(0, TSR_ACTION_BROADCAST, {add(gradient)}).peer = 0;
  EXPECT_TRUE(has_diagnostic(verify_placement(p_), "the broadcast overwrites a partial sum that was never reduced"));
}

class Hybrid : public Storage {
 protected:
  Hybrid() : Storage({{"replicate", 2}, {"shard", 2}}) {
    layout(1, TSR_LAYOUT_SPLIT);
    fsdp_step(1);
  }
};

TEST_F(Hybrid, Clean) {
  EXPECT_TRUE(is_clean(verify_placement(p_)));
}

TEST_F(Hybrid, ReplicasAreNotSummed) {
  remove(p_, TSR_ACTION_ALL_REDUCE, "comm.replicate.test");
  EXPECT_TRUE(has_diagnostic(verify_placement(p_), "which is an unreduced partial sum over replicate"));
}

TEST_F(Hybrid, MinimumOrMaximumOnTheOtherAxis) {
  for (const uint32_t reduce : {TSR_REDUCE_MIN, TSR_REDUCE_MAX}) {
    nth(p_, TSR_ACTION_REDUCE_SCATTER).reduce = reduce;
    EXPECT_TRUE(has_diagnostic(verify_placement(p_),
                               "which is an unreduced partial sum over replicate: the minimum or maximum of "
                               "partial sums is not that of the sum"));
  }
}

/// Local SGD: every rank its own parameters, averaged now and then.
class LocalSgd : public Storage {
 protected:
  explicit LocalSgd(bool diverges = true) {
    if (diverges) layout(0, TSR_LAYOUT_DIVERGENT);
    value_ = persistent(p_, "value", 256);
    gradient_ = transient(p_, "gradient", 256, TSR_BUFFER_GRADIENT);
    m_ = persistent(p_, "m", 256, TSR_BUFFER_OPTIMIZER);
    make_home(value_, gradient_, m_, 256);
    forward_and_backward(value_, gradient_);
  }
  uint64_t value_ = 0, gradient_ = 0, m_ = 0;
};

TEST_F(LocalSgd, OwnStep) {
  step(add(value_), read(gradient_), state(m_), Sums::not_finite_and_run_words);
  EXPECT_TRUE(is_clean(verify_placement(p_)));
}

TEST_F(LocalSgd, Average) {
  step(add(value_), read(gradient_), state(m_), Sums::not_finite_and_run_words);
  on(0, TSR_ACTION_ALL_REDUCE, {add(value_)}, TSR_REDUCE_AVG);
  EXPECT_TRUE(is_clean(verify_placement(p_)));
}

TEST_F(LocalSgd, WeightedAverage) {
  step(add(value_), read(gradient_), state(m_), Sums::not_finite_and_run_words);
  add_action(p_, TSR_ACTION_SCALE, TSR_STREAM_COMPUTE, {add(value_)}).scale = 0.5;
  EXPECT_TRUE(has_diagnostic(verify_placement(p_),
                             "is different on each rank of dp before the program, and after it different on each rank "
                             "of dp, scaled by 0.500000"));
  on(0, TSR_ACTION_ALL_REDUCE, {add(value_)}, TSR_REDUCE_AVG);
  EXPECT_TRUE(is_clean(verify_placement(p_)));
}

TEST_F(LocalSgd, ScaledALittleBeforeItsUpdate) {
  add_action(p_, TSR_ACTION_SCALE, TSR_STREAM_COMPUTE, {add(value_)}).scale = 1.0005;
  step(add(value_), read(gradient_), state(m_), Sums::not_finite_and_run_words);
  EXPECT_TRUE(has_diagnostic(verify_placement(p_), "and after it different on each rank of dp, scaled by 1.000500"));
}

TEST_F(LocalSgd, SumOfParameters) {
  on(0, TSR_ACTION_ALL_REDUCE, {add(value_)}, TSR_REDUCE_SUM);
  EXPECT_TRUE(has_diagnostic(
      verify_placement(p_), "home value, which is different on each rank of dp: its sum over the axis has no meaning"));
}

TEST_F(LocalSgd, NormOverDivergentGradients) {
  step(add(value_), read(gradient_), state(m_));
  EXPECT_TRUE(has_diagnostic(verify_placement(p_), "accumulator squares, which is different on each rank of dp"));
}

TEST_F(LocalSgd, StepsAreNotSkippedTogether) {
  step(add(value_), read(gradient_), state(m_), Sums::none);
  EXPECT_TRUE(has_diagnostic(verify_placement(p_), "accumulator squares, which is an unreduced partial sum over dp"));
}

TEST_F(Storage, RunWordsAreNotSummed) {
  layout(0, TSR_LAYOUT_SPLIT);
  fsdp_step(0, Sums::limbs);
  EXPECT_TRUE(
      has_diagnostic(verify_placement(p_),
                     "clip squares takes x0 = accumulator squares[20:24], which is an unreduced partial sum over "
                     "dp: the run words would be those of one rank; is the sum over the world missing?"));
}

class EqualParameters : public LocalSgd {
 protected:
  EqualParameters() : LocalSgd(false) {}
};

TEST_F(EqualParameters, AreClippedByTheNormOfOneRank) {
  on(0, TSR_ACTION_ALL_REDUCE, {add(gradient_)}, TSR_REDUCE_SUM);
  const uint64_t own = transient(p_, "own", 256, TSR_BUFFER_GRADIENT);
  compute(TSR_ACTION_FORWARD, {read(x_, TSR_SLOT(TSR_ROLE_INPUT, 0)), write(own, TSR_SLOT(TSR_ROLE_OUTPUT, 0))});
  step(add(value_), read(gradient_), state(m_), Sums::not_finite_and_run_words);
  nth(p_, TSR_ACTION_SUM_SQUARES).bindings[0].buffer = own;
  EXPECT_TRUE(has_diagnostic(verify_placement(p_),
                             "updates dst0 = home value, which is the same on all ranks of dp, but clips by a norm "
                             "that is different on each rank"));
}

TEST_F(EqualParameters, MomentsOfOneRankDrift) {
  on(0, TSR_ACTION_ALL_REDUCE, {add(gradient_)}, TSR_REDUCE_SUM);
  const uint64_t own = transient(p_, "own", 256, TSR_BUFFER_GRADIENT);
  add_action(p_, TSR_ACTION_ZERO, 0, {write(own)});
  compute(TSR_ACTION_FORWARD, {read(x_, TSR_SLOT(TSR_ROLE_INPUT, 0)), write(own, TSR_SLOT(TSR_ROLE_OUTPUT, 0))});
  step(add(value_), read(own), state(m_), Sums::not_finite_and_run_words);
  EXPECT_TRUE(has_diagnostic(verify_placement(p_), "updates dst0 = home value, which is the same on all ranks of dp"));
}

// ---- calls and messages ----

Action& call(Program& p, int axis, const std::vector<Use>& uses) {
  Action& action = add_action(p, TSR_ACTION_CALL, 0, uses);
  action.strategy = static_cast<int>(p.strategies.size());
  p.strategies.push_back({"caller", axis});
  return action;
}

TEST_F(Hybrid, CallOnItsOwnAxisMayMakeAddendsOfAddends) {
  const size_t scatter = nth_action(p_, TSR_ACTION_REDUCE_SCATTER);
  const Binding whole = p_.actions[scatter].bindings[0];
  call(p_, 1, {{whole.buffer, TSR_MODE_ADD, TSR_SLOT(TSR_ROLE_DESTINATION, 0)}}).reduce = TSR_REDUCE_SUM;
  move_last_to(p_, scatter);
  const Diagnostics diagnostics = verify_placement(p_);
  ASSERT_EQ(diagnostics.size(), 1u);  // on axis replicate, which it is not for
  EXPECT_TRUE(has_diagnostic(diagnostics,
                             "which is an unreduced partial sum over replicate: a call on another axis needs the sum"));
}

TEST_F(EqualParameters, ResultsOfACallAreAsItsOperands) {
  call(p_, 0, {read(gradient_), add(value_)});
  EXPECT_TRUE(has_diagnostic(verify_placement(p_),
                             "home weight: its value, home value, is the same on all ranks of dp before the program, "
                             "and after it an encoded addend of the sum over dp"));
}

TEST_F(EqualParameters, AddendsAreNotSent) {
  on(0, TSR_ACTION_SEND, {read(gradient_)}).peer = 1;
  EXPECT_TRUE(has_diagnostic(verify_placement(p_),
                             "send gradient takes src0 = gradient gradient, which is an unreduced partial sum over "
                             "dp: the others would take what is of a part for the whole"));
}

TEST_F(EqualParameters, WhatIsReceivedIsNotSummed) {
  const uint64_t received = transient(p_, "received", 256, TSR_BUFFER_STAGING);
  on(0, TSR_ACTION_RECV, {write(received)}).peer = 1;
  on(0, TSR_ACTION_ALL_REDUCE, {add(received)}, TSR_REDUCE_SUM);
  EXPECT_TRUE(has_diagnostic(verify_placement(p_), "each rank would add it, and addends are not sent"));
}

TEST_F(EqualParameters, AreSlicesAfterATranspose) {
  const uint64_t slices = transient(p_, "slices", 256, TSR_BUFFER_STAGING);
  on(0, TSR_ACTION_ALL_TO_ALL, {read(value_), write(slices)});
  add_action(p_, TSR_ACTION_COPY, TSR_STREAM_COPY_IN, {read(slices), write(value_)});
  EXPECT_TRUE(has_diagnostic(verify_placement(p_),
                             "its value, home value, is the same on all ranks of dp before the program, and after it "
                             "split over dp"));
}

TEST_F(EqualParameters, OffloadCarriesMeaning) {
  const uint64_t host = transient(p_, "host", 256, TSR_BUFFER_STAGING, TSR_F32, TSR_MEMORY_HOST);
  const uint64_t back = transient(p_, "back", 256, TSR_BUFFER_STAGING);
  add_action(p_, TSR_ACTION_COPY, TSR_STREAM_COPY_OUT, {read(gradient_), write(host)});
  add_action(p_, TSR_ACTION_COPY, TSR_STREAM_COPY_IN, {read(host), write(back)});
  step(add(value_), read(back), state(m_));
  EXPECT_TRUE(has_diagnostic(verify_placement(p_), "src0 = staging back, which is an unreduced partial sum over dp"));
}

}  // namespace
}  // namespace tessera::testing
