#include "train/learning_rate.h"

#include <gtest/gtest.h>

namespace tessera::testing {
using namespace host;
namespace {

TrainConfig config(LrSchedule schedule) {
  TrainConfig c;
  c.lr = 1.0;
  c.min_lr = 0.1;
  c.steps = 14;
  c.warmup_steps = 4;
  c.lr_schedule = schedule;
  return c;
}

TEST(LearningRate, WarmsUpLinearly) {
  for (LrSchedule schedule : {LrSchedule::constant, LrSchedule::linear, LrSchedule::cosine})
    for (int step = 0; step < 4; ++step)
      EXPECT_DOUBLE_EQ(learning_rate(config(schedule), step), (step + 1) / 4.0);
}

TEST(LearningRate, EndsAtTheMinimum) {
  EXPECT_DOUBLE_EQ(learning_rate(config(LrSchedule::constant), 13), 1.0);
  for (LrSchedule schedule : {LrSchedule::linear, LrSchedule::cosine}) {
    EXPECT_DOUBLE_EQ(learning_rate(config(schedule), 4), 1.0);
    EXPECT_NEAR(learning_rate(config(schedule), 13), 0.1, 1e-15);
    EXPECT_NEAR(learning_rate(config(schedule), 99), 0.1, 1e-15);
    for (int step = 5; step < 14; ++step)
      EXPECT_LT(learning_rate(config(schedule), step), learning_rate(config(schedule), step - 1));
  }
  EXPECT_NEAR(learning_rate(config(LrSchedule::linear), 7), 1 - 0.9 / 3, 1e-15);  // a third of nine steps
}

// Nine steps from 1 to 0.1, held against the cosines of 0, 20, 40, ... 180 degrees.
TEST(LearningRate, FollowsTheCosine) {
  const double cosines[] = {
      1,    0.939692620785908384,  0.766044443118978035,  0.5, 0.173648177666930349, -0.173648177666930349,
      -0.5, -0.766044443118978035, -0.939692620785908384, -1};
  for (int i = 0; i < 10; ++i)
    EXPECT_NEAR(learning_rate(config(LrSchedule::cosine), 4 + i), 0.55 + 0.45 * cosines[i], 1e-15) << "step " << 4 + i;
}

}  // namespace
}  // namespace tessera::testing
