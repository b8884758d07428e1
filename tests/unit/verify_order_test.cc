// What a rank reads and writes when: unwritten ranges, second writes, races, reuse of addresses.
#include <gtest/gtest.h>

#include "support/expect_diagnostic.h"
#include "support/gpt2_ddp.h"
#include "support/program_builder.h"

namespace tessera::testing {
namespace {

class Written : public ::testing::Test {
 protected:
  Diagnostics verify() {
    derive_dependencies(program_);
    return verify_rank(program_);
  }
  Action& zero(const Use& use) { return add_action(program_, TSR_ACTION_ZERO, 0, {use}); }
  Action& copy(const Use& from, const Use& to) { return add_action(program_, TSR_ACTION_COPY, 0, {from, to}); }

  const Model model_ = toy_model();
  const Mesh mesh_{};
  Program program_ = empty_program(model_, mesh_);
  const uint64_t x_ = transient(program_, "x", 8), y_ = transient(program_, "y", 8);
};

TEST_F(Written, ReadOfUnwrittenRange) {
  zero(write(x_).at(0, 5));
  copy(read(x_), write(y_));
  EXPECT_TRUE(has_diagnostic(
      verify(), "rank 0 #1 compute copy x reads activation x[5:8] through src0, which nothing has written"));
}

TEST_F(Written, AddToUnwrittenRange) {
  zero(write(x_));
  add_action(program_, TSR_ACTION_ADD_INTO, 0, {read(x_), add(y_)});
  EXPECT_TRUE(has_diagnostic(verify(), "adds to activation y through dst0, which nothing has written"));
}

TEST_F(Written, SecondWrite) {
  zero(write(x_));
  zero(write(y_));
  copy(read(y_).at(0, 2), write(x_).at(6, 2));
  EXPECT_TRUE(has_diagnostic(verify(), "#2 compute copy y writes activation x[6:8] through dst0 a second time"));
}

TEST_F(Written, WriteInPartsIsOneWrite) {
  zero(write(x_).at(0, 3));
  zero(write(x_).at(3, 5));
  copy(read(x_), write(y_));
  add_action(program_, TSR_ACTION_ADD_INTO, 0, {read(x_), add(y_)});
  EXPECT_TRUE(is_clean(verify()));
}

TEST_F(Written, WorkspacesAndPersistentBuffersMayBeRewritten) {
  const uint64_t w = transient(program_, "w", 4, TSR_BUFFER_WORKSPACE);
  const uint64_t home = persistent(program_, "home", 4);
  for (int i = 0; i < 2; ++i) {
    zero(write(w));
    zero(write(home));
  }
  EXPECT_TRUE(is_clean(verify()));
}

// What a skipped action would have written is missing in that step.
TEST_F(Written, OnlyTheOptimizerMayBeSkipped) {
  const uint64_t clip = persistent(program_, "clip", 3, TSR_BUFFER_SCALAR, TSR_F64);
  const Use ok = read(clip, TSR_SLOT(TSR_ROLE_SCALAR, TSR_SCALAR_CLIP));
  add_action(program_, TSR_ACTION_ZERO, 0, {write(x_), ok}).flags = TSR_ACTION_PREDICATED;
  EXPECT_TRUE(has_diagnostic(verify(), "#0 compute zero x has a predicate; so far only the optimizer may be skipped"));
}

/// Actions on two streams, ordered only by the dependencies that a test gives them.
class Order : public Written {
 protected:
  void on_copy_stream() { program_.actions.back().stream = TSR_STREAM_COPY_OUT; }
  const uint64_t host_ = transient(program_, "host", 8, TSR_BUFFER_STAGING, TSR_F32, TSR_MEMORY_HOST);
};

TEST_F(Order, ReadAfterWrite) {
  zero(write(x_));
  copy(read(x_), write(host_));
  on_copy_stream();
  EXPECT_TRUE(has_diagnostic(
      verify_rank(program_),
      "rank 0 #1 copy_out copy x does not wait for rank 0 #0 compute zero x, and both touch activation x"));
  program_.actions[1].dependencies = {0};
  EXPECT_TRUE(is_clean(verify_rank(program_)));
}

TEST_F(Order, WriteAfterRead) {
  zero(write(x_));
  copy(read(x_), write(host_));
  on_copy_stream();
  program_.actions[1].dependencies = {0};
  add_action(program_, TSR_ACTION_SCALE, 0, {add(x_)}).scale = 2;
  EXPECT_TRUE(has_diagnostic(verify_rank(program_), "#2 compute scale x does not wait for rank 0 #1 copy_out copy x"));
  program_.actions[2].dependencies = {1};
  EXPECT_TRUE(is_clean(verify_rank(program_)));
}

TEST_F(Order, WriteAfterWrite) {
  const uint64_t home = persistent(program_, "home", 8);
  zero(write(home));
  zero(write(home).at(7, 1));
  on_copy_stream();
  EXPECT_TRUE(has_diagnostic(verify_rank(program_), "both touch home home"));
  program_.actions[1].bindings[0] = {home, 0, 0, program_.actions[1].bindings[0].slot, TSR_MODE_WRITE};
  EXPECT_TRUE(is_clean(verify_rank(program_)));
}

TEST_F(Order, DisjointRangesNeedNoOrder) {
  zero(write(x_).at(0, 4));
  zero(write(x_).at(4, 4));
  on_copy_stream();
  EXPECT_TRUE(is_clean(verify_rank(program_)));
}

TEST_F(Order, ReadersOfSeveralStreamsAreAllWaitedFor) {
  zero(write(x_));
  copy(read(x_), write(host_));
  on_copy_stream();
  program_.actions[1].dependencies = {0};
  const uint64_t other = transient(program_, "other", 8);
  copy(read(x_), write(other));
  program_.actions[2].stream = TSR_STREAM_COPY_IN;
  program_.actions[2].dependencies = {0};
  Action& scale = add_action(program_, TSR_ACTION_SCALE, 0, {add(x_)});
  scale.scale = 2;
  scale.dependencies = {2};
  EXPECT_TRUE(has_diagnostic(verify_rank(program_), "#3 compute scale x does not wait for rank 0 #1 copy_out copy x"));
}

TEST_F(Order, OfTheReadersOfAStreamTheLastIsWaitedFor) {
  zero(write(x_));
  for (const uint64_t to : {host_, transient(program_, "later", 8, TSR_BUFFER_STAGING, TSR_F32, TSR_MEMORY_HOST)}) {
    copy(read(x_), write(to));
    on_copy_stream();
    program_.actions.back().dependencies = {0};
  }
  Action& scale = add_action(program_, TSR_ACTION_SCALE, 0, {add(x_)});
  scale.scale = 2;
  scale.dependencies = {1};
  EXPECT_TRUE(has_diagnostic(verify_rank(program_), "#3 compute scale x does not wait for rank 0 #2 copy_out copy x"));
}

/// x_ is made and copied out; then y_ is made. They may share an address if y_ waits.
class Reuse : public Order {
 protected:
  Reuse() {
    zero(write(x_));
    copy(read(x_), write(host_));
    on_copy_stream();
    program_.actions[1].dependencies = {0};
    zero(write(y_));
    copy(read(y_), write(z_));
    memory_.address = {{x_, 0}, {y_, 0}, {z_, 256}, {host_, 0}, {home_, 512}};
  }
  Diagnostics verify_with_memory() { return verify_rank(program_, &memory_); }

  const uint64_t z_ = transient(program_, "z", 8);
  const uint64_t home_ = persistent(program_, "home", 8);
  MemoryPlan memory_;
};

TEST_F(Reuse, OrderedIsFine) {
  program_.actions[2].dependencies = {1};
  EXPECT_TRUE(is_clean(verify_with_memory()));
}

TEST_F(Reuse, Unordered) {
  EXPECT_TRUE(has_diagnostic(verify_with_memory(),
                             "#2 compute zero y does not wait for rank 0 #1 copy_out copy x, and "
                             "activation y reuses the address of activation x"));
}

TEST_F(Reuse, OrderedButOverwritten) {
  program_.actions[2].dependencies = {1};
  const uint64_t late = transient(program_, "late", 8);
  memory_.address[late] = 1024;
  copy(read(x_), write(late));
  EXPECT_TRUE(has_diagnostic(verify_with_memory(),
                             "#4 compute copy x reads activation x, but rank 0 #2 compute zero y has put "
                             "activation y at its address"));
}

TEST_F(Reuse, WhatNothingHasWrittenIsAtTheAddress) {
  program_.actions[2].dependencies = {1};
  memory_.address[home_] = 256;
  const uint64_t late = transient(program_, "late", 8);
  memory_.address[late] = 1024;
  program_.actions.pop_back();
  copy(read(z_), write(late));
  EXPECT_TRUE(has_diagnostic(verify_with_memory(), "reads activation z, but home home is at its address"));
}

TEST_F(Reuse, OperandsOfOneActionShareAnAddress) {
  program_.actions[2].dependencies = {1};
  memory_.address[z_] = 16;
  EXPECT_TRUE(has_diagnostic(
      verify_with_memory(), "#3 compute copy y uses activation y and activation z at once, and they share an address"));
}

TEST_F(Reuse, PersistentBufferIsOverwritten) {
  program_.actions[2].dependencies = {1};
  memory_.address[home_] = 256 + 28;
  EXPECT_TRUE(
      has_diagnostic(verify_with_memory(),
                     "#3 compute copy y puts activation z at the address of home home, which must outlive the step"));
}

TEST_F(Reuse, ABufferOfAPluginThatPersistsIsOverwritten) {
  program_.actions[2].dependencies = {1};
  memory_.address[persistent(program_, "mine", 8, TSR_BUFFER_PLUGIN)] = 256 + 28;
  EXPECT_TRUE(has_diagnostic(verify_with_memory(), " puts activation z at the address of plugin mine, which must "));
}

TEST_F(Reuse, PersistentBuffersShareAnAddress) {
  program_.actions[2].dependencies = {1};
  const uint64_t second = persistent(program_, "second", 8);
  memory_.address[second] = 512;
  EXPECT_TRUE(has_diagnostic(verify_with_memory(), "home second and home home at one address; both live across steps"));
}

TEST_F(Reuse, NoAddress) {
  memory_.address.erase(z_);
  EXPECT_EQ(verify_with_memory(), Diagnostics{"rank 0 has no address for activation z"});
}

TEST_F(Reuse, NoAddressOfWhatOutlivesTheStep) {
  memory_.address.erase(home_);
  EXPECT_EQ(verify_with_memory(), Diagnostics{"rank 0 has no address for home home"});
}

/// GPT-2 under ddp, with several buckets in flight: every dependency that the host derived or planned is needed.
TEST(Gpt2DdpOrder, EveryDroppedDependencyIsReported) {
  size_t num_dropped = 0;
  for (const uint32_t num_micro_batches : {2u, 3u, 4u}) {
    const Gpt2Ddp job(3, num_micro_batches == 2 ? TSR_EVERY_STEP : TSR_EVERY_MICRO_BATCH, num_micro_batches);
    Program program = job.finished(0);
    const MemoryPlan memory = plan(program);
    ASSERT_TRUE(is_clean(verify_rank(program, &memory)));
    for (size_t i = 0; i < program.actions.size(); ++i)
      for (const uint32_t dropped : std::vector<uint32_t>(program.actions[i].dependencies)) {
        Program broken = program;
        std::erase(broken.actions[i].dependencies, dropped);
        EXPECT_TRUE(has_diagnostic(verify_rank(broken, &memory), "nothing orders them"))
            << "#" << i << " on #" << dropped;
        ++num_dropped;
      }
  }
  EXPECT_GE(num_dropped, 60u);
}

TEST(Gpt2DdpOrder, DerivedDependenciesAloneOrderDisjointBuffers) {
  const Gpt2Ddp job(4);
  for (const uint32_t purpose : {TSR_PURPOSE_INIT, TSR_PURPOSE_STEP, TSR_PURPOSE_EVAL}) {
    Program program = job.finished(2, purpose);
    derive_dependencies(program);
    EXPECT_TRUE(is_clean(verify_rank(program)));
  }
}

}  // namespace
}  // namespace tessera::testing
