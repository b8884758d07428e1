#include "train/loss_scaler.h"

#include <gtest/gtest.h>

namespace tessera::host {
namespace {

void update(LossScaler& scaler, int64_t num_steps) {
  for (int64_t step = 0; step < num_steps; ++step)
    scaler.update(true);
}

TEST(LossScaler, GrowsAfterAnIntervalWithoutASkippedStep) {
  LossScaler scaler(true);
  EXPECT_EQ(scaler.scale(), 65536);
  update(scaler, 1999);
  EXPECT_EQ(scaler.scale(), 65536);
  update(scaler, 1);
  EXPECT_EQ(scaler.scale(), 131072);
  update(scaler, 1999);
  EXPECT_EQ(scaler.scale(), 131072);
  update(scaler, 1);
  EXPECT_EQ(scaler.scale(), 262144);
}

TEST(LossScaler, ASkippedStepHalvesTheScaleAndStartsTheIntervalAgain) {
  LossScaler scaler(true);
  update(scaler, 1999);
  scaler.update(false);
  EXPECT_EQ(scaler.scale(), 32768);
  update(scaler, 1999);
  EXPECT_EQ(scaler.scale(), 32768);
  update(scaler, 1);
  EXPECT_EQ(scaler.scale(), 65536);
}

TEST(LossScaler, StaysAtOneOrMore) {
  LossScaler scaler(true);
  for (int step = 0; step < 40; ++step)
    scaler.update(false);
  EXPECT_EQ(scaler.scale(), 1);
}

TEST(LossScaler, IsOneWhenNotDynamic) {
  LossScaler scaler(false);
  update(scaler, 4001);
  scaler.update(false);
  EXPECT_EQ(scaler.scale(), 1);
}

}  // namespace
}  // namespace tessera::host
