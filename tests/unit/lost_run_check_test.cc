// Which steps are bad, and after how many of them a run is lost: on a rank that holds what the test gives it, after
// steps that did not run.
#include "train/checks/lost_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "launch/memory_store.h"
#include "support/expect_error.h"
#include "support/memory_kv.h"
#include "support/nano_job.h"
#include "train/loss_scaler.h"

namespace tessera::testing {
using namespace host;
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

/// The first element of each parameter has this value, the others are zero.
class FirstElements final : public ParameterSource {
 public:
  explicit FirstElements(float value) : value_(value) {}
  void read(std::string_view, uint64_t offset, std::span<float> out) const override {
    std::ranges::fill(out, 0.0f);
    if (offset == 0) out[0] = value_;
  }

 private:
  float value_;
};

StepResult result_of(double loss_sum, double grad_norm) {
  StepResult result;
  result.loss_sum = loss_sum;
  result.grad_norm = grad_norm;
  result.updated = std::isfinite(grad_norm);
  return result;
}

const StepResult kGood = result_of(1, 1), kSkipped = result_of(1, kInf);

class LostRunCheckTest : public ::testing::Test {
 protected:
  /// A rank of its own, that of `job` of one rank.
  std::unique_ptr<RankRuntime> make_rank(const Job& job, float value) {
    RankSetup setup;
    setup.device.api = job.plugins.device.device();
    setup.device.host = &host_;
    auto runtime =
        std::make_unique<RankRuntime>(setup, compile_rank(compile_input(job, {}, {}), job.mesh.coordinates(0)));
    runtime->initialize(FirstElements(value));
    return runtime;
  }
  static RankInfo info(int rank = 0, int num_ranks = 1,
                       std::shared_ptr<MemoryStore> store = std::make_shared<MemoryStore>()) {
    return {rank, rank, num_ranks, true, std::move(store), [] { return false; }};
  }

 private:
  MemoryKv services_;
  tsr_host host_ = services_.host();
};

TEST_F(LostRunCheckTest, AnUpdateWithoutAFiniteLossIsBad) {
  for (const double loss : {-kInf, kInf, std::nan("")}) {
    Job job = nano_job(1);
    job.config.max_skipped_steps = 2;
    const auto rank = make_rank(job, 1);
    const RankInfo of_rank = info();
    LostRunCheck check(job, of_rank, *rank);
    check.after_step(1, result_of(loss, 1));
    expect_error([&] { check.after_step(2, result_of(loss, 1)); },
                 {"in steps 1 to 2 (--max-skipped-steps 2) the loss or a gradient is not finite",
                  "no step updated with a finite loss"});
  }
}

TEST_F(LostRunCheckTest, BadStepsCountInARow) {
  Job job = nano_job(1);
  job.config.max_skipped_steps = 2;
  const auto rank = make_rank(job, 1);
  const RankInfo of_rank = info();
  LostRunCheck check(job, of_rank, *rank);
  check.after_step(1, kSkipped);
  check.after_step(2, kGood);
  check.after_step(3, kSkipped);
  expect_error([&] { check.after_step(4, kSkipped); },
               {"in steps 3 to 4 (--max-skipped-steps 2)", "step 2 was the last that updated"});
}

/// As many as the loss scale may need on its way down; without a scale, one.
TEST_F(LostRunCheckTest, ARunMayEndAfterSomeSkippedSteps) {
  for (const bool scales : {false, true}) {
    const Job job = nano_job(1, scales ? std::vector<std::string>{"--dtype=fp16"} : std::vector<std::string>());
    const auto rank = make_rank(job, 1);
    ASSERT_EQ(rank->scales_loss(), scales);
    const RankInfo of_rank = info();
    LostRunCheck check(job, of_rank, *rank);
    check.after_step(1, kGood);
    const int64_t most = scales ? LossScaler::kMaxBackoffs : 1;
    int64_t step = 1;
    while (step <= most)
      check.after_step(++step, kSkipped);
    check.after_last_step();
    check.after_step(++step, kSkipped);
    expect_error([&] { check.after_last_step(); },
                 {"the last " + std::to_string(most + 1) + " steps were skipped because a gradient was not finite",
                  "step 1 was the last that updated"});
  }
}

/// Its sign does not count.
TEST_F(LostRunCheckTest, TheLargestElementOfAllRanksIsNamed) {
  Job job = nano_job(2);
  job.config.max_skipped_steps = 1;
  const Job alone = nano_job(1);
  const auto store = std::make_shared<MemoryStore>();
  std::vector<std::string> errors(2);
  std::vector<std::thread> ranks;
  const std::vector<float> values = {-5.5f, 7.5f};
  for (int r = 0; r < 2; ++r)
    ranks.emplace_back([&, r] {
      const auto rank = make_rank(alone, values[static_cast<size_t>(r)]);
      const RankInfo of_rank = info(r, 2, store);
      LostRunCheck check(job, of_rank, *rank);
      errors[static_cast<size_t>(r)] = expect_error([&] { check.after_step(1, kSkipped); }, {" is 7.5; "});
    });
  for (std::thread& rank : ranks)
    rank.join();
  EXPECT_EQ(errors[0], errors[1]);
}

}  // namespace
}  // namespace tessera::testing
