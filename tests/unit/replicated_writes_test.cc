// What --debug-replicas compares, in small programs made by hand.
#include "verify/placement/replicated_writes.h"

#include <gtest/gtest.h>

#include "support/program_builder.h"
#include "tessera/device.h"

namespace tessera::testing {
using namespace host;
namespace {

class ReplicatedWrites : public ::testing::Test {
 protected:
  uint64_t buffer(const char* name, uint32_t kind = TSR_BUFFER_PLUGIN, uint32_t memory = TSR_MEMORY_DEVICE) {
    return transient(p_, name, 64, kind, TSR_F32, memory);
  }
  size_t copy(const Use& from, const Use& to) {
    add_action(p_, TSR_ACTION_COPY, TSR_STREAM_COMPUTE, {from, to});
    return p_.actions.size() - 1;
  }
  std::vector<size_t> compared_actions() const {
    std::vector<size_t> actions;
    for (const ReplicatedWrite& write : replicated_writes(p_))
      actions.push_back(write.action);
    return actions;
  }

  const Model model_ = toy_model();
  const Mesh mesh_{{{"dp", 2, TSR_SPLITS_BATCH}}};
  Program p_ = empty_program(model_, mesh_);
  const uint64_t same_ = persistent(p_, "same", 64, TSR_BUFFER_SCALAR),
                 input_ = persistent(p_, "x", 64, TSR_BUFFER_INPUT);
};

TEST_F(ReplicatedWrites, AreThoseOfWhatIsTheSameOnAllRanks) {
  const uint64_t a = buffer("a"), b = buffer("b");
  const size_t of_same = copy(read(same_), write(a));
  copy(read(input_), write(b));
  const std::vector<ReplicatedWrite> writes = replicated_writes(p_);
  ASSERT_EQ(writes.size(), 1u);
  EXPECT_EQ(writes[0].action, of_same);
  EXPECT_EQ(writes[0].range.buffer, a);
  EXPECT_EQ(writes[0].axes, std::vector{0});
}

/// Which of two equal ones is meant would depend on the order of actions, which may differ by rank.
TEST_F(ReplicatedWrites, HaveKeysOfTheirOwn) {
  const uint64_t a = buffer("a"), b = buffer("b");
  copy(read(same_), write(a));
  const size_t other = copy(read(same_), write(b));
  copy(read(same_), write(a));
  EXPECT_EQ(compared_actions(), std::vector{other});
}

TEST_F(ReplicatedWrites, LeaveOutWhatOffloadMoves) {
  const uint64_t away = buffer("away", TSR_BUFFER_PLUGIN, TSR_MEMORY_HOST), back = buffer("back", TSR_BUFFER_FETCHED);
  copy(read(same_), write(away));
  copy(read(away), write(back));
  const size_t near = copy(read(same_), write(buffer("near")));
  EXPECT_EQ(compared_actions(), std::vector{near});
}

/// Squares of parameters that diverge differ by rank, the count of values that are not finite does not: all ranks count
/// the same steps.
TEST_F(ReplicatedWrites, HaveTheCountOfStepsOfParametersThatDiverge) {
  const uint64_t squares = persistent(p_, std::string(kSquaresAccumulator), TSR_SQUARES_WORDS, TSR_BUFFER_ACCUMULATOR,
                                      TSR_I64),
                 clip = persistent(p_, "clip", 3, TSR_BUFFER_SCALAR),
                 step = persistent(p_, "step", 1, TSR_BUFFER_SCALAR);
  const auto slot = [](uint32_t scalar) { return TSR_SLOT(TSR_ROLE_SCALAR, scalar); };
  Action& sum = add_action(p_, TSR_ACTION_ALL_REDUCE, p_.comm_stream(0, "test"),
                           {add(squares).at(TSR_ACCUMULATOR_LIMBS, TSR_SQUARES_WORDS - TSR_ACCUMULATOR_LIMBS)});
  sum.group = p_.group({0, {}});
  sum.reduce = TSR_REDUCE_SUM;
  constexpr uint64_t kSums = TSR_ACCUMULATOR_LIMBS - 1;
  copy(read(input_).at(0, kSums), write(squares).at(1, kSums));
  add_action(p_, TSR_ACTION_CLIP, TSR_STREAM_COMPUTE,
             {read(squares, slot(TSR_SCALAR_ACCUMULATOR)), write(clip, slot(TSR_SCALAR_CLIP)),
              add(step, slot(TSR_SCALAR_STEP))});
  const size_t clips = p_.actions.size() - 1;
  std::vector<uint64_t> buffers;
  for (const ReplicatedWrite& write : replicated_writes(p_))
    if (write.action == clips) buffers.push_back(write.range.buffer);
  EXPECT_EQ(buffers, std::vector{step});
}

}  // namespace
}  // namespace tessera::testing
