// What is in memory, in the users' words.
#include "plan/memory_report.h"

#include <gtest/gtest.h>

#include "passes/dependencies.h"
#include "plan/format.h"
#include "support/program_builder.h"

namespace tessera::testing {
using namespace host;
namespace {

constexpr uint64_t kElements = 64;  // 256 bytes: one unit of alignment
constexpr uint64_t kBytes = 256;

class Report : public ::testing::Test {
 protected:
  MemoryReport report() {
    derive_dependencies(program_);
    Program* programs[] = {&program_};
    return memory_report(program_, plan_memory(programs)[0]);
  }
  void zero(uint64_t buffer) { add_action(program_, TSR_ACTION_ZERO, TSR_STREAM_COMPUTE, {write(buffer)}); }
  Action& collective(uint32_t kind, const std::vector<Use>& uses) {
    Action& action = add_action(program_, kind, program_.comm_stream(0, "x"), uses);
    action.group = program_.group({0, {}});
    return action;
  }

  const Model model_ = toy_model();
  const Mesh mesh_{{{"dp", 2}}};
  Program program_ = empty_program(model_, mesh_, {0});
};

TEST_F(Report, StatesStandBetweenStepsAndTheRestAtThePeak) {
  persistent(program_, "home", kElements);
  persistent(program_, "m", kElements, TSR_BUFFER_OPTIMIZER);
  const uint64_t small = transient(program_, "small", kElements);
  const uint64_t large = transient(program_, "large", 3 * kElements, TSR_BUFFER_GRADIENT);
  zero(small);
  zero(large);
  zero(large);
  const MemoryReport r = report();
  EXPECT_EQ(r.states[MemoryClass::parameters], kBytes);
  EXPECT_EQ(r.states[MemoryClass::optimizer], kBytes);
  EXPECT_EQ(r.states.total(), 2 * kBytes);
  EXPECT_EQ(r.peak[MemoryClass::gradients], 3 * kBytes);
  EXPECT_EQ(r.peak[MemoryClass::activations], 0u);
  EXPECT_EQ(r.peak.total(), 5 * kBytes);
  EXPECT_EQ(r.peak_action, 1u);
  EXPECT_EQ(r.live, (std::vector<uint64_t>{3 * kBytes, 5 * kBytes, 5 * kBytes}));
  EXPECT_EQ(r.arena_bytes, 5 * kBytes);
  EXPECT_EQ(r.waste_bytes(), 0u);
  EXPECT_EQ(r.most[MemoryClass::gradients], 3 * kBytes);
  EXPECT_EQ(r.most[MemoryClass::activations], kBytes);
  EXPECT_EQ(r.most[MemoryClass::parameters], kBytes);
  ASSERT_EQ(r.largest.size(), 3u);
  EXPECT_EQ(r.largest[0].name, "large");
}

TEST_F(Report, WorkspacesOfCollectivesAreCommunicationAndOthersAreNot) {
  const uint64_t x = transient(program_, "x", kElements);
  const uint64_t theirs = transient(program_, "theirs", kElements, TSR_BUFFER_WORKSPACE);
  const uint64_t ours = transient(program_, "ours", 2 * kElements, TSR_BUFFER_WORKSPACE);
  const uint64_t staged = transient(program_, "staged", kElements, TSR_BUFFER_STAGING);
  add_action(program_, TSR_ACTION_ZERO, TSR_STREAM_COMPUTE, {write(x), write(ours), write(staged)});
  collective(TSR_ACTION_ALL_REDUCE, {add(x), write(theirs, TSR_SLOT(TSR_ROLE_WORKSPACE, 0))}).reduce = TSR_REDUCE_SUM;
  add_action(program_, TSR_ACTION_ZERO, TSR_STREAM_COMPUTE, {write(x), write(ours), write(staged)});
  const MemoryReport r = report();
  EXPECT_EQ(r.peak_action, 1u);
  EXPECT_EQ(r.peak[MemoryClass::communication], 2 * kBytes);
  EXPECT_EQ(r.peak[MemoryClass::workspace], 2 * kBytes);
}

TEST_F(Report, CopiesInTheComputeDtypeAreNotGathered) {
  const uint64_t slice = persistent(program_, "home", kElements);
  const uint64_t copy = transient(program_, "copy", kElements, TSR_BUFFER_GATHERED, TSR_BF16);
  const uint64_t gathered = transient(program_, "gathered", 2 * kElements, TSR_BUFFER_GATHERED, TSR_BF16);
  add_action(program_, TSR_ACTION_CAST, TSR_STREAM_COMPUTE, {read(slice), write(copy)});
  collective(TSR_ACTION_ALL_GATHER, {read(copy), write(gathered)});
  const MemoryReport r = report();
  EXPECT_EQ(r.peak[MemoryClass::compute_copies], kBytes);  // 128 bytes, rounded up
  EXPECT_EQ(r.peak[MemoryClass::gathered], kBytes);
}

TEST_F(Report, EachClassHasItsOwnPeak) {
  const uint64_t gradient = transient(program_, "gradient", 2 * kElements, TSR_BUFFER_GRADIENT);
  const uint64_t activation = transient(program_, "activation", 9 * kElements);
  zero(gradient);
  zero(activation);
  const MemoryReport r = report();
  EXPECT_EQ(r.peak_action, 1u);
  EXPECT_EQ(r.peak[MemoryClass::gradients], 0u);
  EXPECT_EQ(r.most[MemoryClass::gradients], 2 * kBytes);
}

TEST_F(Report, AProgramWithoutActionsHasItsStates) {
  persistent(program_, "home", kElements);
  const MemoryReport r = report();
  EXPECT_EQ(r.peak.total(), kBytes);
  EXPECT_TRUE(r.live.empty());
}

TEST(ReportNumbers, HaveNoExponent) {
  EXPECT_EQ(number_text(192734.2, 4), "192734");
  EXPECT_EQ(number_text(999.96, 3), "1000");
  EXPECT_EQ(number_text(52.04, 4), "52.04");
  EXPECT_EQ(number_text(0.5, 4), "0.5");
  EXPECT_EQ(number_text(0.00002, 3), "0.00002");
  EXPECT_EQ(number_text(0, 3), "0");
}

TEST(ReportNumbers, OfTimesHaveAUnitThatFits) {
  EXPECT_EQ(seconds_text(3.138e-05, 4), "31.38 us");
  EXPECT_EQ(seconds_text(0.0123456, 4), "12.35 ms");
  EXPECT_EQ(seconds_text(0.41, 3), "0.41 s");
  EXPECT_EQ(seconds_text(999.7, 3), "1000 s");
  EXPECT_EQ(seconds_text(1240, 3), "20 min 40 s");
}

}  // namespace
}  // namespace tessera::testing
