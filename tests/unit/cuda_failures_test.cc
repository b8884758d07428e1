// How failures reach what was ordered after them in cuda-device; none of it needs a GPU.
#include "cuda-device/error_tracker.h"

#include <gtest/gtest.h>

#include "tessera/error.hpp"

namespace tessera::cuda {
namespace {

class FailuresTest : public ::testing::Test {
 protected:
  /// The next piece of work on `stream`.
  Work next(uint32_t stream, Clock& clock) const {
    const uint64_t ticket = clock.advance(stream);
    return {stream, ticket, clock};
  }
  static tsr_status succeed(void* num_runs, tsr_error*) {
    ++*static_cast<int*>(num_runs);
    return TSR_OK;
  }
  static tsr_status fail(void*, tsr_error* err) {
    fill_error(err, TSR_E_ABORTED, "elsewhere", "rank 3 went away", 3);
    return TSR_E_ABORTED;
  }
  static tsr_status fail_silently(void*, tsr_error*) { return TSR_E_DATA_LOSS; }

  Fault fault_{};
  Failures failures_{&fault_};
  const uint32_t first_ = failures_.add_stream(), second_ = failures_.add_stream();
  Clock first_clock_, second_clock_;
  int num_runs_ = 0;
};

TEST_F(FailuresTest, WorkBeforeAndBesideAFailureIsNotTouched) {
  const Work before = next(first_, first_clock_);
  const Work failing = next(first_, first_clock_);
  const Work beside = next(second_, second_clock_);
  failures_.run(failing, fail, nullptr);
  failures_.run(before, succeed, &num_runs_);
  failures_.run(beside, succeed, &num_runs_);
  EXPECT_EQ(num_runs_, 2);
  EXPECT_FALSE(failures_.first_before(before.clock));
  EXPECT_FALSE(failures_.first_before(second_clock_));
}

TEST_F(FailuresTest, WorkAfterAFailureIsSkippedAndReportsIt) {
  failures_.run(next(first_, first_clock_), fail, nullptr);
  failures_.run(next(first_, first_clock_), succeed, &num_runs_);
  EXPECT_EQ(num_runs_, 0);
  const auto error = failures_.first_before(first_clock_);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, TSR_E_ABORTED);
  EXPECT_EQ(error->rank, 3);
  EXPECT_STREQ(error->message, "rank 3 went away");
}

TEST_F(FailuresTest, AStreamThatWaitedForTheFailureFailsToo) {
  const Clock recorded_before = first_clock_;
  const Work failing = next(first_, first_clock_);
  const Clock recorded_after = first_clock_;
  failures_.run(failing, fail, nullptr);
  second_clock_.merge(recorded_before);
  EXPECT_FALSE(failures_.first_before(second_clock_));
  second_clock_.merge(recorded_after);
  failures_.run(next(second_, second_clock_), succeed, &num_runs_);
  EXPECT_EQ(num_runs_, 0);
  EXPECT_TRUE(failures_.first_before(second_clock_));
}

TEST_F(FailuresTest, OfSeveralFailuresTheFirstInTimeIsReported) {
  const Work on_first = next(first_, first_clock_), on_second = next(second_, second_clock_);
  failures_.run(on_second, fail_silently, nullptr);
  failures_.run(on_first, fail, nullptr);
  first_clock_.merge(second_clock_);
  const auto error = failures_.first_before(first_clock_);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, TSR_E_DATA_LOSS);
  EXPECT_NE(error->message[0], '\0') << "a function that gave no message";
}

TEST_F(FailuresTest, AFaultOfAKernelFailsAllStreams) {
  EXPECT_FALSE(failures_.first_before(first_clock_));
  fault_ = {kFaultTarget, 50257, 12, 50000};
  failures_.run(next(second_, second_clock_), succeed, &num_runs_);
  EXPECT_EQ(num_runs_, 0);
  const auto error = failures_.first_before(first_clock_);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, TSR_E_INVALID_ARGUMENT);
  EXPECT_STREQ(error->message,
               "target 50257 at position 12 of the micro-batch is not in [0, 50000); the data does not fit the model's "
               "vocabulary");
}

TEST_F(FailuresTest, ALabelIsOfAClass) {
  fault_ = {kFaultLabel, 12, 3, 10};
  EXPECT_STREQ(failures_.first_before(first_clock_)->message,
               "label 12 at position 3 of the micro-batch is not in [0, 10); the data does not fit the model's classes");
}

TEST_F(FailuresTest, TheDevicesOwnFailureStays) {
  tsr_error error{};
  fill_error(&error, TSR_E_INTERNAL, "cuda-device", "an illegal memory access");
  failures_.fail_device(error);
  EXPECT_STREQ(failures_.first_before(first_clock_)->message, "an illegal memory access");
  EXPECT_STREQ(failures_.first_before(second_clock_)->message, "an illegal memory access");
}

}  // namespace
}  // namespace tessera::cuda
