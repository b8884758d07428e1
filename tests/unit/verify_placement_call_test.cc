// What calls and the codes that they make of addends mean, in small programs made by hand: every way to carry a code,
// and what must not be taken for a number of the sum.
#include <algorithm>

#include <gtest/gtest.h>

#include "support/expect_diagnostic.h"
#include "support/program_builder.h"
#include "verify/verify.h"

namespace tessera::testing {
namespace {

/// A gradient of 256 elements, which is an addend on every axis; strategies `coder` and `other` on the first axis,
/// `cross` on the second.
class Calls : public ::testing::Test {
 protected:
  explicit Calls(std::vector<Axis> axes = {{"dp", 4}}) : mesh_(std::move(axes)) {
    p_.strategies = {{"coder", 0}, {"other", 0}, {"cross", 1}};
    Action& backward =
        add_action(p_, TSR_ACTION_BACKWARD, TSR_STREAM_COMPUTE, {write(gradient_, TSR_SLOT(TSR_ROLE_GRADIENT, 0))});
    backward.segment = 1;
    backward.micro_batch = 0;
  }

  uint64_t buffer(const char* name, uint64_t num_elements = 256) {
    return transient(p_, name, num_elements, TSR_BUFFER_PLUGIN);
  }
  Action& call(const std::vector<Use>& uses, uint32_t code = 0, int strategy = 0) {
    Action& action = add_action(p_, TSR_ACTION_CALL, TSR_STREAM_COMPUTE, uses);
    action.strategy = strategy;
    action.code = code;
    return action;
  }
  void decode(const std::vector<Use>& uses, uint32_t code = 0, int strategy = 0) {
    Action& action = call(uses, code, strategy);
    action.reduce = TSR_REDUCE_SUM;
    action.group = p_.group({0, {}});
  }
  void collective(uint32_t kind, const std::vector<Use>& uses, uint32_t reduce = 0, int axis = 0) {
    Action& action = add_action(p_, kind, p_.comm_stream(axis, "test"), uses);
    action.group = p_.group({axis, {}});
    action.reduce = reduce;
  }
  void encode() { call({read(gradient_), write(codes_)}, 1); }
  void gather() { collective(TSR_ACTION_ALL_GATHER, {read(codes_), write(gathered_)}); }

  /// What a sum over the first axis says of a buffer: nothing of addends, of others what they are.
  Diagnostics probe(uint64_t id) const {
    Program probed = p_;
    EXPECT_TRUE(is_clean(verify_placement(probed)));
    Action& sum = add_action(probed, TSR_ACTION_ALL_REDUCE, probed.comm_stream(0, "probe"), {add(id)});
    sum.group = probed.group({0, {}});
    sum.reduce = TSR_REDUCE_SUM;
    return verify_placement(probed);
  }

  const Model model_ = toy_model(1);
  const Mesh mesh_;
  Program p_ = empty_program(model_, mesh_);
  const uint64_t gradient_ = transient(p_, "g", 256, TSR_BUFFER_GRADIENT);
  const uint64_t codes_ = buffer("codes"), gathered_ = buffer("gathered", 1024);
};

const char* const kOnlyACall = ": only a call of coder with reduce and group makes the sum of it";

// ---- right ----

TEST_F(Calls, MakeCodesOfAddendsAndTheSumOfCodes) {
  encode();
  gather();
  decode({read(gathered_), write(gradient_)}, 1);
  EXPECT_TRUE(has_diagnostic(probe(gradient_), "g, which is the same on all ranks of dp"));
  EXPECT_TRUE(has_diagnostic(probe(codes_), "which is an encoded addend of the sum over dp"));
  EXPECT_TRUE(has_diagnostic(probe(gathered_), "which is the encoded addends of all ranks of dp"));
}

TEST_F(Calls, MakeAPartOfTheSumOfTheCodesOfAPart) {
  const uint64_t exchanged = buffer("exchanged"), slice = buffer("slice", 64);
  encode();
  collective(TSR_ACTION_ALL_TO_ALL, {read(codes_), write(exchanged)});
  decode({read(exchanged), write(slice)}, 1);
  EXPECT_TRUE(has_diagnostic(probe(exchanged), "the encoded addends that all ranks of dp have of a part of the sum"));
  EXPECT_TRUE(has_diagnostic(probe(slice), "which is split over dp"));
  collective(TSR_ACTION_ALL_GATHER, {read(slice), write(gradient_)});
  EXPECT_TRUE(has_diagnostic(probe(gradient_), "which is the same on all ranks of dp"));
}

TEST_F(Calls, GatherInPlaceAndCopyCodes) {
  const uint64_t copy = transient(p_, "copy", 1024, TSR_BUFFER_STAGING, TSR_F32, TSR_MEMORY_HOST);
  call({read(gradient_), write(gathered_).at(0, 256)}, 1);
  collective(TSR_ACTION_ALL_GATHER, {add(gathered_)});
  add_action(p_, TSR_ACTION_COPY, TSR_STREAM_COPY_OUT, {read(gathered_), write(copy)});
  decode({read(copy), write(gradient_)}, 1);
  EXPECT_TRUE(has_diagnostic(probe(gradient_), "which is the same on all ranks of dp"));
}

TEST_F(Calls, AgreeOnABound) {
  const uint64_t bounds = buffer("bounds", 4), inverse = buffer("inverse", 4);
  call({read(gradient_), write(bounds)}, 7);
  collective(TSR_ACTION_ALL_REDUCE, {add(bounds)}, TSR_REDUCE_MAX);
  EXPECT_TRUE(has_diagnostic(probe(bounds), "which is a minimum or maximum of encoded addends over dp"));
  call({read(bounds), write(inverse)});
  call({read(gradient_), read(inverse, TSR_SLOT(TSR_ROLE_SOURCE, 1)), write(codes_)}, 1);
  gather();
  decode({read(gathered_), read(bounds, TSR_SLOT(TSR_ROLE_SOURCE, 1)), write(gradient_)}, 1);
  EXPECT_TRUE(has_diagnostic(probe(gradient_), "which is the same on all ranks of dp"));
}

/// PowerSGD (Vogels et al. 2019): two factors, each linear in the gradient, are summed; their product is the sum.
TEST_F(Calls, MakeAddendsThatACollectiveSums) {
  const uint64_t p = buffer("p", 16), q = persistent(p_, "q", 16, TSR_BUFFER_PLUGIN);
  const auto second = [](uint64_t id) { return read(id, TSR_SLOT(TSR_ROLE_SOURCE, 1)); };
  call({read(gradient_), second(q), write(p)}).reduce = TSR_REDUCE_SUM;
  collective(TSR_ACTION_ALL_REDUCE, {add(p)}, TSR_REDUCE_SUM);
  call({add(p)});  // to an orthogonal base
  call({read(gradient_), second(p), write(q)}).reduce = TSR_REDUCE_SUM;
  collective(TSR_ACTION_ALL_REDUCE, {add(q)}, TSR_REDUCE_SUM);
  call({read(p), second(q), write(gradient_)});
  EXPECT_TRUE(has_diagnostic(probe(gradient_), "which is the same on all ranks of dp"));
}

TEST_F(Calls, MayBeSentAsCodes) {
  encode();
  collective(TSR_ACTION_SEND, {read(codes_)});
  p_.actions.back().peer = 1;
  EXPECT_TRUE(is_clean(verify_placement(p_)));
}

// ---- wrong ----

TEST_F(Calls, NothingElseTakesCodes) {
  encode();
  const std::string is = " = plugin codes, which is an encoded addend of the sum over dp";
  const uint64_t other = buffer("other");
  const auto refuses = [&](const std::string& takes, const auto& insert) {
    const Program before = p_;
    insert();
    EXPECT_TRUE(has_diagnostic(verify_placement(p_), takes + is + kOnlyACall)) << takes;
    p_ = before;
  };
  for (const uint32_t reduce : {TSR_REDUCE_SUM, TSR_REDUCE_AVG})
    refuses("all_reduce codes takes dst0", [&] { collective(TSR_ACTION_ALL_REDUCE, {add(codes_)}, reduce); });
  refuses("reduce_scatter codes takes src0", [&] {
    collective(TSR_ACTION_REDUCE_SCATTER, {read(codes_), write(other).at(0, 64)}, TSR_REDUCE_MAX);
  });
  refuses("broadcast codes takes dst0", [&] {
    collective(TSR_ACTION_BROADCAST, {add(codes_)});
    p_.actions.back().peer = 0;
  });
  refuses("cast codes takes src0", [&] { add_action(p_, TSR_ACTION_CAST, 0, {read(codes_), write(other)}); });
  refuses("scale codes takes dst0", [&] { add_action(p_, TSR_ACTION_SCALE, 0, {add(codes_)}); });
  refuses("add codes takes src0", [&] { add_action(p_, TSR_ACTION_ADD_INTO, 0, {read(codes_), add(gradient_)}); });
  refuses("call codes takes src0", [&] { call({read(codes_), write(other)}, 1, 1); });
}

TEST_F(Calls, AddendsAreNotAddedToCodes) {
  encode();
  Action& backward =
      add_action(p_, TSR_ACTION_BACKWARD, TSR_STREAM_COMPUTE, {add(codes_, TSR_SLOT(TSR_ROLE_GRADIENT, 0))});
  backward.segment = 1;
  backward.micro_batch = 0;
  EXPECT_TRUE(has_diagnostic(verify_placement(p_), "adds what is an unreduced partial sum over dp to "));
}

TEST_F(Calls, TheSumIsNotMadeOfOwnCodes) {
  encode();
  decode({read(codes_), write(gradient_)}, 1);
  EXPECT_TRUE(has_diagnostic(verify_placement(p_),
                             "takes src0 = plugin codes, which is an encoded addend of the sum over "
                             "dp: it was not gathered from the other ranks"));
}

TEST_F(Calls, TheSumIsNotMadeOfAddends) {
  encode();
  gather();
  decode({read(gathered_), add(gradient_)}, 1);
  EXPECT_TRUE(has_diagnostic(verify_placement(p_),
                             "takes dst0 = gradient g, which is an unreduced partial sum over dp: a "
                             "call that makes the sum takes codes of all ranks, and what is the "
                             "same on them"));
}

TEST_F(Calls, TheSumIsNotMadeOfAnotherCode) {
  encode();
  gather();
  decode({read(gathered_), write(gradient_)}, 2);
  EXPECT_TRUE(has_diagnostic(verify_placement(p_), ": they are code 1, and the call takes code 2"));
}

TEST_F(Calls, TheSumIsNotMadeOfCodesOfAnotherStrategy) {
  encode();
  gather();
  decode({read(gathered_), write(gradient_)}, 1, 1);
  EXPECT_TRUE(has_diagnostic(verify_placement(p_), ": they are codes of coder"));
}

TEST_F(Calls, TheSumIsNotMadeOverOtherRanks) {
  encode();
  gather();
  decode({read(gathered_), write(gradient_)}, 1);
  p_.actions.back().group = p_.group({0, {0, 1}});
  EXPECT_TRUE(has_diagnostic(verify_placement(p_), ": it came from dp, and the call is for dp {0,1}"));
}

TEST_F(Calls, CodesAreNotGatheredFromSomeRanks) {
  encode();
  gather();
  p_.actions.back().group = p_.group({0, {0, 1}});
  EXPECT_TRUE(has_diagnostic(verify_placement(p_), "all_gather codes is for dp {0,1} only"));
}

TEST_F(Calls, TheSumIsNotMadeOfABoundAlone) {
  encode();
  collective(TSR_ACTION_ALL_REDUCE, {add(codes_)}, TSR_REDUCE_MIN);
  decode({read(codes_), write(gradient_)}, 1);
  EXPECT_TRUE(
      has_diagnostic(verify_placement(p_), "has reduce and group, and takes no code that was gathered from dp"));
}

TEST_F(Calls, TheSumIsNotMadeOfTheWholeAndOfAPart) {
  const uint64_t exchanged = buffer("exchanged");
  encode();
  gather();
  collective(TSR_ACTION_ALL_TO_ALL, {read(codes_), write(exchanged)});
  decode({read(gathered_), read(exchanged, TSR_SLOT(TSR_ROLE_SOURCE, 1)), write(gradient_)}, 1);
  EXPECT_TRUE(has_diagnostic(verify_placement(p_), ": other operands are codes of the whole"));
}

TEST_F(Calls, TwoCodesAreNotGatheredAsOne) {
  call({read(gradient_), write(codes_).at(0, 128)}, 1);
  call({read(gradient_), write(codes_).at(128, 128)}, 2);
  gather();
  EXPECT_TRUE(has_diagnostic(verify_placement(p_), "takes plugin codes, of which parts are different codes"));
}

TEST_F(Calls, TheSumIsMadeOfTheCodesOfAll) {
  const uint64_t scales = buffer("scales", 4), all_scales = buffer("all_scales", 16);
  const auto second = [](Use use) { return use.slot = TSR_SLOT(TSR_ROLE_SOURCE, 1), use; };
  call({read(gradient_), write(codes_), write(scales, TSR_SLOT(TSR_ROLE_DESTINATION, 1))}, 1);
  gather();
  collective(TSR_ACTION_ALL_GATHER, {read(scales), write(all_scales)});
  decode({read(gathered_), second(read(all_scales)), write(gradient_)}, 1);
  EXPECT_TRUE(is_clean(verify_placement(p_)));
  p_.actions.pop_back();
  decode({read(gathered_).at(0, 768), second(read(all_scales)), write(gradient_)}, 1);
  EXPECT_TRUE(has_diagnostic(verify_placement(p_), "takes the codes of 3 of 4 ranks in plugin gathered"));
}

TEST_F(Calls, WhatOneRankHasReceivedIsNotTheSameOnAll) {
  const uint64_t received = buffer("received");
  collective(TSR_ACTION_ALL_REDUCE, {add(gradient_)}, TSR_REDUCE_SUM);
  collective(TSR_ACTION_RECV, {write(received)});
  p_.actions.back().peer = 1;
  call({read(received), add(gradient_)});
  EXPECT_TRUE(has_diagnostic(probe(gradient_), "g, which is different on each rank of dp"));
  encode();
  gather();
  decode({read(gathered_), read(received, TSR_SLOT(TSR_ROLE_SOURCE, 1)), write(gradient_)}, 1);
  EXPECT_TRUE(has_diagnostic(verify_placement(p_), "which is sent by other ranks: a call that makes the sum takes"));
}

/// The second step begins with what the first has left in the strategy's own buffer.
TEST_F(Calls, WhatOneRankHasKeptIsNotTheSameOnAll) {
  const uint64_t kept = persistent(p_, "kept", 256, TSR_BUFFER_PLUGIN), sum = buffer("sum");
  const uint64_t value = persistent(p_, "wte", 256);
  Home& home = p_.homes.emplace_back();
  home.name = "wte";
  home.unit = 0;
  home.num_elements = 256;
  home.pieces.emplace_back().num_elements = 256;
  home.roles[TSR_HOME_VALUE] = {value, 0, 256};
  collective(TSR_ACTION_ALL_REDUCE, {read(gradient_), write(sum)}, TSR_REDUCE_SUM);
  call({read(kept), add(sum)});
  add_action(p_, TSR_ACTION_COPY, TSR_STREAM_COMPUTE, {read(sum), write(value)});
  const auto verify_keeping = [&](uint64_t what) {
    Program keeping = p_;
    Action& keep = add_action(keeping, TSR_ACTION_CALL, TSR_STREAM_COMPUTE, {read(what), write(kept)});
    keep.strategy = 0;
    return verify_placement(keeping);
  };
  EXPECT_TRUE(is_clean(verify_keeping(sum)));
  EXPECT_TRUE(has_diagnostic(verify_keeping(gradient_),
                             "is the same on all ranks of dp before the program, and after "
                             "it different on each rank of dp"));
}

TEST_F(Calls, WhatIsMadeOfNothingKnownDiffersByRank) {
  const uint64_t state = persistent(p_, "state", 256, TSR_BUFFER_PLUGIN);
  call({read(state), write(gradient_)});
  EXPECT_TRUE(has_diagnostic(probe(gradient_), "which is different on each rank of dp"));
}

// ---- beside another axis ----

class CallsOfTwoAxes : public Calls {
 protected:
  CallsOfTwoAxes() : Calls({{"dp", 2}, {"x", 2}}) {}
  void sum_over_x() { collective(TSR_ACTION_ALL_REDUCE, {add(gradient_)}, TSR_REDUCE_SUM, 1); }
};

TEST_F(CallsOfTwoAxes, NeedTheSumOverTheOther) {
  encode();
  const Diagnostics found = verify_placement(p_);
  EXPECT_EQ(found.size(), 1u);
  EXPECT_TRUE(has_diagnostic(found, "which is an unreduced partial sum over x: a call on another axis needs the sum"));
}

TEST_F(CallsOfTwoAxes, DoNotTakeCodesOfTheOther) {
  sum_over_x();
  encode();
  call({read(codes_), write(gradient_)}, 0, 2);
  EXPECT_TRUE(
      has_diagnostic(verify_placement(p_), std::string("which is an encoded addend of the sum over dp") + kOnlyACall));
}

TEST_F(CallsOfTwoAxes, CodesPassThroughCollectivesOfTheOther) {
  const uint64_t all = buffer("all", 512);
  sum_over_x();
  encode();
  collective(TSR_ACTION_ALL_REDUCE, {add(codes_)}, TSR_REDUCE_MAX, 1);
  collective(TSR_ACTION_BROADCAST, {add(codes_)}, 0, 1);
  p_.actions.back().peer = 0;
  collective(TSR_ACTION_ALL_GATHER, {read(codes_), write(all)});
  decode({read(all), write(gradient_)}, 1);
  EXPECT_TRUE(has_diagnostic(probe(gradient_), "which is the same on all ranks of dp"));
}

TEST_F(CallsOfTwoAxes, CodesAreNotSummedOverTheOther) {
  sum_over_x();
  encode();
  collective(TSR_ACTION_ALL_REDUCE, {add(codes_)}, TSR_REDUCE_SUM, 1);
  EXPECT_TRUE(
      has_diagnostic(verify_placement(p_), std::string("which is an encoded addend of the sum over dp") + kOnlyACall));
}

}  // namespace
}  // namespace tessera::testing
