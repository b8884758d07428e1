// From what signals ask of one rank to what all ranks do after a step: run words, and which rank serves which request.
#include "train/run_requests.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <array>

#include "support/expect_error.h"

namespace tessera::testing {
using namespace host;
namespace {

RunWordValues sum(const std::vector<StepRequests>& requests) {
  RunWordValues words{};
  for (const StepRequests& of_rank : requests)
    for (size_t k = 0; k < words.size(); ++k)
      words[k] += run_words(of_rank)[k];
  return words;
}

TEST(RunWords, CountTheRanksAndTheirWishes) {
  const StepRequests requested = summed_requests(sum({{0, 1}, {1, 0}, {1, 0}}), 3, 7);
  EXPECT_EQ(requested.stop, 2);
  EXPECT_EQ(requested.save, 1);
  const StepRequests alone = summed_requests(run_words({}), 1, 1);
  EXPECT_EQ(alone.stop, 0);
  EXPECT_EQ(alone.save, 0);
}

TEST(RunWords, OfAnotherNumberOfRanksAreAnError) {
  for (const auto& [ranks, counted] : {std::pair{4, "3 ranks instead of 4"}, {2, "3 ranks instead of 2"}})
    expect_error(
        [&, ranks = ranks] {
          summed_requests(sum({{}, {}, {}}), ranks, 7);
        },
        {"step 7: the sum of squares counts ", counted, "no parameter was updated; a collective of a plugin was cut "});
}

TEST(RunWords, ThatNoCommunicatorCanHaveLeftAreTheDevices) {
  const auto expect_device = [](int64_t counted, int ranks) {
    RunWordValues words{};
    words[TSR_WORD_ARRIVALS - TSR_ACCUMULATOR_LIMBS] = counted;
    expect_error([&] { summed_requests(words, ranks, 1); },
                 {"step 1: the sum of squares counts " + std::to_string(counted) + " ranks instead of ",
                  "which no communicator explains", "use another --device"});
  };
  expect_device(0, 1);
  expect_device(-5153598353493094240, 2);
  expect_device(5, 2);
}

/// Ranks in step, as the collective keeps them.
class InStep : public ::testing::Test {
 protected:
  void begin() {
    std::vector<StepRequests> requests;
    for (AgreedRequests& rank : ranks_)
      requests.push_back(rank.before_step());
    requested_ = summed_requests(sum(requests), static_cast<int>(ranks_.size()), 1);
  }
  void end() {
    for (AgreedRequests& rank : ranks_)
      rank.after_step(requested_);
  }
  void step() {
    begin();
    end();
  }
  void expect_all(bool stops, bool saves) const {
    for (const AgreedRequests& rank : ranks_) {
      EXPECT_EQ(rank.stops(), stops);
      EXPECT_EQ(rank.saves(), saves);
    }
  }

  std::array<SignalRequests, 3> asked_;
  std::array<AgreedRequests, 3> ranks_{AgreedRequests([this] { return asked_[0]; }),
                                       AgreedRequests([this] { return asked_[1]; }),
                                       AgreedRequests([this] { return asked_[2]; })};
  StepRequests requested_;
};

TEST_F(InStep, OneRankStopsAll) {
  step();
  expect_all(false, false);
  begin();
  asked_[1].stop_signal = SIGTERM;  // during a step: it is in the sum of the next
  end();
  expect_all(false, false);
  step();
  expect_all(true, false);
  EXPECT_EQ(ranks_[1].why_it_stops(), "as SIGTERM asked");
  EXPECT_EQ(ranks_[0].why_it_stops(), "as a signal to another rank asked");
}

TEST_F(InStep, AWishToSaveIsServedOnceWhoeverWasAsked) {
  asked_[0].num_saves = 1;
  begin();
  asked_[2].num_saves = 1;  // the same signal, later
  end();
  expect_all(false, true);
  step();
  expect_all(false, false);
  asked_[2].num_saves = 2;
  step();
  expect_all(false, true);
  step();
  expect_all(false, false);
}

}  // namespace
}  // namespace tessera::testing
