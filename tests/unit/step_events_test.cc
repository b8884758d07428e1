// The actions of a program as a trace names them.
#include "plan/step_events.h"

#include <gtest/gtest.h>

#include "support/program_builder.h"

namespace tessera::testing {
using namespace host;
namespace {

class StepEventsTest : public ::testing::Test {
 protected:
  std::vector<TracedAction> traced() const {
    Trace trace;
    StepEvents(p_, 0).add_to(trace, 1, [](size_t) { return ActionTime{0, 1}; });
    return trace.actions;
  }

  const Model model_ = toy_model();
  const Mesh mesh_{{{"dp", 2}}};
  Program p_ = empty_program(model_, mesh_);
};

TEST_F(StepEventsTest, NameTheMicroBatchWhereThereAreSeveral) {
  Action& forward = add_action(p_, TSR_ACTION_FORWARD, TSR_STREAM_COMPUTE, {});
  forward.segment = 0;
  forward.micro_batch = 0;
  p_.step_config.num_micro_batches = 1;
  EXPECT_EQ(traced().at(0).name, "forward wte");
  p_.step_config.num_micro_batches = 2;
  EXPECT_EQ(traced().at(0).name, "forward wte mb=0");
}

TEST_F(StepEventsTest, AreCommunicationsWhereRanksWaitForOneAnother) {
  const uint64_t x = transient(p_, "x", 64);
  for (const std::vector<int>& members : {std::vector<int>(), std::vector{0}, std::vector<int>()})
    add_action(p_, TSR_ACTION_ALL_REDUCE, p_.comm_stream(0, "test"), {add(x)}).group = p_.group({0, members});
  const std::vector<TracedAction> actions = traced();
  using Names = std::vector<std::string>;
  EXPECT_EQ(actions.at(0).communications, Names{"comm.dp.test dp of 0 #0"});
  EXPECT_EQ(actions.at(1).communications, Names{}) << "alone";
  EXPECT_EQ(actions.at(2).communications, Names{"comm.dp.test dp of 0 #1"});
}

}  // namespace
}  // namespace tessera::testing
