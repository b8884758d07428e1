// How failures reach what was ordered after them in cuda-device; none of it needs a GPU.
#include "cuda-device/error_tracker.h"

#include <gtest/gtest.h>

#include "tessera/error.hpp"

namespace tessera::cuda {
namespace {

class ErrorTrackerTest : public ::testing::Test {
 protected:
  /// The next piece of work on `stream`.
  Work next(uint32_t stream, Clock& clock) const {
    const uint64_t ticket = clock.advance(stream);
    return {stream, ticket, clock};
  }
  static tsr_status succeed(void* num_runs, tsr_error*) noexcept {
    ++*static_cast<int*>(num_runs);
    return TSR_OK;
  }
  static tsr_status fail(void*, tsr_error* err) noexcept {
    fill_error(err, TSR_E_ABORTED, "elsewhere", "rank 3 went away", 3);
    return TSR_E_ABORTED;
  }
  static tsr_status fail_silently(void*, tsr_error*) noexcept { return TSR_E_DATA_LOSS; }

  Fault fault_{};
  ErrorTracker errors_{&fault_};
  Clock first_clock_, second_clock_;
  const uint32_t first_ = errors_.add_stream(first_clock_), second_ = errors_.add_stream(second_clock_);
  int num_runs_ = 0;
};

TEST_F(ErrorTrackerTest, WorkBeforeAndBesideAFailureIsNotTouched) {
  const Work before = next(first_, first_clock_);
  const Work failing = next(first_, first_clock_);
  const Work beside = next(second_, second_clock_);
  errors_.run(failing, fail, nullptr);
  errors_.run(before, succeed, &num_runs_);
  errors_.run(beside, succeed, &num_runs_);
  EXPECT_EQ(num_runs_, 2);
  EXPECT_FALSE(errors_.first_before(before.clock));
  EXPECT_FALSE(errors_.first_before(second_clock_));
}

TEST_F(ErrorTrackerTest, WorkAfterAFailureIsSkippedAndReportsIt) {
  errors_.run(next(first_, first_clock_), fail, nullptr);
  errors_.run(next(first_, first_clock_), succeed, &num_runs_);
  EXPECT_EQ(num_runs_, 0);
  const auto error = errors_.first_before(first_clock_);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, TSR_E_ABORTED);
  EXPECT_EQ(error->rank, 3);
  EXPECT_STREQ(error->message, "rank 3 went away");
}

TEST_F(ErrorTrackerTest, AStreamThatWaitedForTheFailureFailsToo) {
  const Clock recorded_before = first_clock_;
  const Work failing = next(first_, first_clock_);
  const Clock recorded_after = first_clock_;
  errors_.run(failing, fail, nullptr);
  second_clock_.merge(recorded_before);
  EXPECT_FALSE(errors_.first_before(second_clock_));
  second_clock_.merge(recorded_after);
  errors_.run(next(second_, second_clock_), succeed, &num_runs_);
  EXPECT_EQ(num_runs_, 0);
  EXPECT_TRUE(errors_.first_before(second_clock_));
}

TEST_F(ErrorTrackerTest, OfSeveralFailuresTheFirstInTimeIsReported) {
  const Work on_first = next(first_, first_clock_), on_second = next(second_, second_clock_);
  errors_.run(on_second, fail_silently, nullptr);
  errors_.run(on_first, fail, nullptr);
  first_clock_.merge(second_clock_);
  const auto error = errors_.first_before(first_clock_);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, TSR_E_DATA_LOSS);
  EXPECT_NE(error->message[0], '\0') << "a function that gave no message";
}

TEST_F(ErrorTrackerTest, AFaultOfAKernelFailsAllStreams) {
  EXPECT_FALSE(errors_.first_before(first_clock_));
  fault_ = {kFaultTarget, 50257, 12, 50000};
  errors_.run(next(second_, second_clock_), succeed, &num_runs_);
  EXPECT_EQ(num_runs_, 0);
  const auto error = errors_.first_before(first_clock_);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, TSR_E_INVALID_ARGUMENT);
  EXPECT_STREQ(error->message,
               "target 50257 at position 12 of the micro-batch is not in [0, 50000); the data does not fit the model's "
               "vocabulary");
}

TEST_F(ErrorTrackerTest, AStreamMadeAfterAFaultIsFreeOfItUnlessItWaitedForAnOldOne) {
  fault_ = {kFaultTarget, 50257, 12, 50000};
  fault_.num_found = 3;
  EXPECT_TRUE(errors_.first_before(first_clock_));
  Clock third_clock;
  const uint32_t third = errors_.add_stream(third_clock);
  EXPECT_EQ(fault_.code, 0) << "kernels may report the next fault";
  EXPECT_EQ(fault_.num_found, 0u);
  EXPECT_FALSE(errors_.first_before(third_clock));
  errors_.run(next(third, third_clock), succeed, &num_runs_);
  EXPECT_EQ(num_runs_, 1);
  EXPECT_TRUE(errors_.first_before(first_clock_)) << "the old streams stay failed";

  Clock waited = third_clock;
  waited.merge(second_clock_);
  EXPECT_TRUE(errors_.first_before(waited));

  fault_ = {kFaultLabel, 12, 3, 10};
  const auto error = errors_.first_before(third_clock);
  ASSERT_TRUE(error) << "a second fault fails the new stream too";
  EXPECT_NE(std::string_view(error->message).find("label 12"), std::string_view::npos) << error->message;
}

TEST_F(ErrorTrackerTest, ALabelIsOfAClass) {
  fault_ = {kFaultLabel, 12, 3, 10};
  EXPECT_STREQ(
      errors_.first_before(first_clock_)->message,
      "label 12 at position 3 of the micro-batch is not in [0, 10); the data does not fit the model's classes");
}

TEST_F(ErrorTrackerTest, TheDevicesOwnFailureStays) {
  tsr_error error{};
  fill_error(&error, TSR_E_INTERNAL, "cuda-device", "an illegal memory access");
  errors_.fail_device(error);
  EXPECT_STREQ(errors_.first_before(first_clock_)->message, "an illegal memory access");
  EXPECT_STREQ(errors_.first_before(second_clock_)->message, "an illegal memory access");
}

}  // namespace
}  // namespace tessera::cuda
