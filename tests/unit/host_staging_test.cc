// Where staging puts its copies, and what the checkers make of them.
#include "passes/host_staging.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "passes/dependencies.h"
#include "passes/workspaces.h"
#include "support/expect_diagnostic.h"
#include "support/program_builder.h"
#include "verify/verify_rank.h"

namespace tessera::testing {
using namespace host;
namespace {

using Lines = std::vector<std::string>;

/// Rank 1 of 4 with a whole of 12 elements and a slice of 3, both home buffers, which start written.
class Staging : public ::testing::Test {
 protected:
  Action& on_comm(uint32_t kind, const std::vector<Use>& uses, const Group& group = {0, {}}) {
    Action& action = add_action(program_, kind, program_.comm_stream(0, "x"), uses);
    action.group = program_.group(group);
    return action;
  }

  std::string text(const Binding& b) const {
    const Buffer& buffer = program_.buffer(b.buffer);
    const char* memory = buffer.memory == TSR_MEMORY_HOST ? "host " : "";
    return memory + buffer.name + "[" + std::to_string(b.offset) + ":" + std::to_string(b.offset + b.num_elements) +
           "]";
  }
  /// "copy_out copy whole[3:6] host whole[3:6]": stream, kind, ranges.
  Lines lines() const {
    Lines lines;
    for (const Action& action : program_.actions) {
      std::string line = program_.streams[action.stream].name + " " + std::string(action_name(action.kind));
      for (const Binding& binding : action.bindings)
        line += " " + text(binding);
      lines.push_back(line);
    }
    return lines;
  }
  Lines staged(const StagedKinds& kinds = {.collectives = true}) {
    stage_through_host(program_, kinds);
    return lines();
  }
  Diagnostics diagnostics() {
    DiagnosticList list;
    verify_tables(program_, list);
    verify_actions(program_, list);
    verify_slots(program_, list);
    verify_collectives(program_, list);
    if (!list.empty()) return list.take();
    derive_dependencies(program_);
    verify_written(program_, list);
    verify_addresses(program_, nullptr, list);
    return list.take();
  }

  const Model model_ = toy_model();
  const Mesh mesh_{{{"dp", 4}}};
  Program program_ = empty_program(model_, mesh_, {1});
  const uint64_t whole_ = persistent(program_, "whole", 12);
  const uint64_t slice_ = persistent(program_, "slice", 3);
};

TEST_F(Staging, InPlaceIsCopiedBothWays) {
  on_comm(TSR_ACTION_ALL_REDUCE, {add(whole_).at(2, 5)}).reduce = TSR_REDUCE_SUM;
  EXPECT_EQ(staged(), (Lines{"copy_out copy whole[2:7] host whole[0:5]", "comm.dp.x all_reduce host whole[0:5]",
                             "copy_in copy host whole[0:5] whole[2:7]"}));
  EXPECT_TRUE(is_clean(diagnostics()));
}

TEST_F(Staging, OfAGatherInPlaceTheOwnSliceIsSent) {
  on_comm(TSR_ACTION_ALL_GATHER, {add(whole_)});
  EXPECT_EQ(staged(), (Lines{"copy_out copy whole[3:6] host whole[3:6]", "comm.dp.x all_gather host whole[0:12]",
                             "copy_in copy host whole[0:12] whole[0:12]"}));
  EXPECT_TRUE(is_clean(diagnostics()));
}

TEST_F(Staging, AnEmptySliceOfAGatherInPlaceIsNotSent) {
  on_comm(TSR_ACTION_ALL_GATHER, {add(whole_)}).counts = {6, 0, 6, 0};
  EXPECT_EQ(staged(), (Lines{"comm.dp.x all_gather host whole[0:12]", "copy_in copy host whole[0:12] whole[0:12]"}));
  EXPECT_TRUE(is_clean(diagnostics()));
}

TEST_F(Staging, OfAScatterInPlaceTheOwnSliceComesBack) {
  on_comm(TSR_ACTION_REDUCE_SCATTER, {add(whole_)}).reduce = TSR_REDUCE_SUM;
  EXPECT_EQ(staged(), (Lines{"copy_out copy whole[0:12] host whole[0:12]", "comm.dp.x reduce_scatter host whole[0:12]",
                             "copy_in copy host whole[3:6] whole[3:6]"}));
  EXPECT_TRUE(is_clean(diagnostics()));
}

TEST_F(Staging, SourcesGoOutAndDestinationsComeIn) {
  on_comm(TSR_ACTION_ALL_GATHER, {read(slice_), write(whole_)});
  EXPECT_EQ(staged(),
            (Lines{"copy_out copy slice[0:3] host slice[0:3]", "comm.dp.x all_gather host slice[0:3] host whole[0:12]",
                   "copy_in copy host whole[0:12] whole[0:12]"}));
  EXPECT_TRUE(is_clean(diagnostics()));
}

TEST_F(Staging, EveryMessageOfAnExchangeIsStaged) {
  Action& exchange =
      on_comm(TSR_ACTION_EXCHANGE, {read(whole_).at(0, 3), read(whole_, TSR_SLOT(TSR_ROLE_SOURCE, 1)).at(3, 3),
                                    write(whole_).at(6, 3), write(slice_, TSR_SLOT(TSR_ROLE_DESTINATION, 1))});
  exchange.peers = {0, 2, 0, 2};
  EXPECT_EQ(staged(), (Lines{"copy_out copy whole[0:3] host whole[0:3]", "copy_out copy whole[3:6] host whole[0:3]",
                             "comm.dp.x exchange host whole[0:3] host whole[0:3] host whole[0:3] host slice[0:3]",
                             "copy_in copy host whole[0:3] whole[6:9]", "copy_in copy host slice[0:3] slice[0:3]"}));
  EXPECT_TRUE(is_clean(diagnostics()));
}

// On copy_in all that follows such a copy would wait for a message that is not needed yet.
TEST_F(Staging, WhatAMessageBringsIsCopiedWhereItIsFirstTouched) {
  const uint64_t a = transient(program_, "a", 4), b = transient(program_, "b", 4), c = transient(program_, "c", 4);
  on_comm(TSR_ACTION_RECV, {write(a)}).peer = 0;
  on_comm(TSR_ACTION_RECV, {write(b)}).peer = 0;
  add_action(program_, TSR_ACTION_COPY, TSR_STREAM_COMPUTE, {read(slice_).at(0, 2), write(whole_).at(0, 2)});
  add_action(program_, TSR_ACTION_COPY, TSR_STREAM_COMPUTE, {read(b), write(c)});
  EXPECT_EQ(staged(), (Lines{"comm.dp.x recv host a[0:4]", "comm.dp.x recv host b[0:4]",
                             "compute copy slice[0:2] whole[0:2]", "copy_in copy host b[0:4] b[0:4]",
                             "compute copy b[0:4] c[0:4]", "copy_in copy host a[0:4] a[0:4]"}));
  EXPECT_TRUE(is_clean(diagnostics()));
}

TEST_F(Staging, WhatIsBesideAMessageDoesNotTouchIt) {
  const uint64_t a = transient(program_, "a", 6), b = transient(program_, "b", 2);
  on_comm(TSR_ACTION_RECV, {write(a).at(2, 2)}).peer = 0;
  add_action(program_, TSR_ACTION_ZERO, TSR_STREAM_COMPUTE, {write(a).at(0, 2)});
  add_action(program_, TSR_ACTION_ZERO, TSR_STREAM_COMPUTE, {write(a).at(4, 2)});
  add_action(program_, TSR_ACTION_COPY, TSR_STREAM_COMPUTE, {read(a).at(2, 2), write(b)});
  EXPECT_EQ(staged(), (Lines{"comm.dp.x recv host a[0:2]", "compute zero a[0:2]", "compute zero a[4:6]",
                             "copy_in copy host a[0:2] a[2:4]", "compute copy a[2:4] b[0:2]"}));
  EXPECT_TRUE(is_clean(diagnostics()));
}

TEST_F(Staging, AGroupOfOneCopiesOnTheDevice) {
  on_comm(TSR_ACTION_ALL_GATHER, {read(slice_), write(whole_).at(0, 3)}, {0, {1}});
  on_comm(TSR_ACTION_ALL_REDUCE, {add(whole_)}, {0, {1}}).reduce = TSR_REDUCE_SUM;
  on_comm(TSR_ACTION_REDUCE, {read(whole_), write(whole_)}, {0, {1}}).reduce = TSR_REDUCE_SUM;
  program_.actions.back().peer = 0;
  on_comm(TSR_ACTION_ALL_REDUCE, {read(slice_), write(whole_).at(3, 3)}, {0, {1}}).reduce = TSR_REDUCE_SUM;
  EXPECT_EQ(staged(), (Lines{"copy_in copy slice[0:3] whole[0:3]", "comm.dp.x all_reduce whole[0:12]",
                             "comm.dp.x reduce whole[0:12] whole[0:12]", "copy_in copy slice[0:3] whole[3:6]"}));
  EXPECT_TRUE(is_clean(diagnostics()));
}

TEST_F(Staging, WhatIsOnTheHostOrEmptyIsLeftAlone) {
  const uint64_t here = persistent(program_, "here", 12, TSR_BUFFER_PLUGIN, TSR_F32, TSR_MEMORY_HOST);
  on_comm(TSR_ACTION_ALL_REDUCE, {add(here)}).reduce = TSR_REDUCE_SUM;
  on_comm(TSR_ACTION_BROADCAST, {write(slice_).at(3, 0)}).peer = 0;
  on_comm(TSR_ACTION_BARRIER, {});
  EXPECT_EQ(staged(),
            (Lines{"comm.dp.x all_reduce host here[0:12]", "comm.dp.x broadcast slice[3:3]", "comm.dp.x barrier"}));
}

TEST_F(Staging, CallsAreStagedForThemselves) {
  program_.strategies.push_back({"caller", 0});
  add_action(program_, TSR_ACTION_CALL, TSR_STREAM_COMPUTE, {read(slice_), add(whole_)}).strategy = 0;
  on_comm(TSR_ACTION_ALL_REDUCE, {add(whole_)}).reduce = TSR_REDUCE_SUM;
  EXPECT_EQ(staged({.calls = true}),
            (Lines{"copy_out copy slice[0:3] host slice[0:3]", "copy_out copy whole[0:12] host whole[0:12]",
                   "compute call host slice[0:3] host whole[0:12]", "copy_in copy host whole[0:12] whole[0:12]",
                   "comm.dp.x all_reduce whole[0:12]"}));
  EXPECT_TRUE(is_clean(diagnostics()));
}

TEST_F(Staging, WorkspacesStandWhereTheOperandsDo) {
  on_comm(TSR_ACTION_ALL_REDUCE, {add(whole_)}).reduce = TSR_REDUCE_SUM;
  const auto workspace_memory = [&] {
    bind_workspaces(program_, [](const Program&, const Action&, int) { return uint64_t{64}; });
    return program_.buffers.back().memory;
  };
  Program unstaged = program_;
  staged();
  EXPECT_EQ(workspace_memory(), TSR_MEMORY_HOST);
  program_ = std::move(unstaged);
  EXPECT_EQ(workspace_memory(), TSR_MEMORY_DEVICE);
}

TEST_F(Staging, ARangeOfAStagingBufferStandsForOneOnTheDevice) {
  on_comm(TSR_ACTION_ALL_REDUCE, {add(whole_).at(2, 5)}).reduce = TSR_REDUCE_SUM;
  staged();
  const StagedRanges ranges(program_);
  Binding range = program_.actions[1].bindings[0];
  range.offset = 3;
  EXPECT_EQ(ranges.of(range).buffer, whole_);
  EXPECT_EQ(ranges.of(range).offset, 5u);
  EXPECT_EQ(ranges.of({slice_, 1, 1, 0, 0}).buffer, slice_);
}

// A transient range is written once; what the host makes of it comes back all the same.
TEST_F(Staging, OnlyWhatComesBackMayBeWrittenTwice) {
  const uint64_t x = transient(program_, "x", 12);
  add_action(program_, TSR_ACTION_ZERO, TSR_STREAM_COMPUTE, {write(x)});
  on_comm(TSR_ACTION_ALL_REDUCE, {add(x)}).reduce = TSR_REDUCE_SUM;
  staged();
  EXPECT_TRUE(is_clean(diagnostics()));
  add_action(program_, TSR_ACTION_COPY, TSR_STREAM_COMPUTE, {read(whole_), write(x)});
  EXPECT_TRUE(has_diagnostic(diagnostics(), "compute copy whole writes activation x through dst0 a second time"));
}

TEST_F(Staging, AGatherInPlaceReadsItsOwnSliceOnly) {
  const uint64_t x = transient(program_, "x", 12);
  add_action(program_, TSR_ACTION_COPY, TSR_STREAM_COMPUTE, {read(slice_), write(x).at(3, 3)});
  on_comm(TSR_ACTION_ALL_GATHER, {add(x)});
  EXPECT_TRUE(is_clean(diagnostics()));
  program_.coordinates = {2};
  EXPECT_TRUE(has_diagnostic(diagnostics(), "adds to activation x[6:9]"));
}

}  // namespace
}  // namespace tessera::testing
