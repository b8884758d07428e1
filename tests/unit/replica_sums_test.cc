// Ranks of small programs made by hand compare what they wrote: the first difference of all axes is named.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "launch/memory_store.h"
#include "support/nano_job.h"
#include "support/rank_by_hand.h"
#include "tessera/error.hpp"
#include "train/checks/replica_check.h"

namespace tessera::testing {
using namespace host;
namespace {

/// What a rank begins with.
struct Values {
  float input = 0, same = 0;
};

/// A rank that copies its input and then what is the same on all ranks, in each of two steps.
class CopyingRank {
 public:
  CopyingRank(const Job& job, const RankInfo& info) : job_(job), info_(info) {
    const Coordinates coordinates = job.mesh.coordinates(info.rank);
    for (uint32_t variant = 0; variant < 2; ++variant) {
      Program step = empty_program(model_, job.mesh, coordinates);
      step.variant = variant;
      for (const uint64_t source :
           {persistent(step, "input", 64, TSR_BUFFER_INPUT), persistent(step, "same", 64, TSR_BUFFER_SCALAR)})
        add_action(step, TSR_ACTION_COPY, TSR_STREAM_COMPUTE,
                   {read(source), write(transient(step, "copy", 64, TSR_BUFFER_PLUGIN))});
      steps_.push_back(step);
    }
  }

  /// The error of the check; empty when there is none.
  std::string run(const Values& values) {
    const auto runtime = rank_.make(steps_);
    ReplicaCheck check(job_, info_, *runtime);
    EXPECT_EQ(&runtime->step_executable(1), &runtime->step_executable(0));
    num_sums = runtime->step_executable(0).write_sums().size();
    const Program& program = runtime->programs().first();
    runtime->write_values(program.buffers.at(0), 0, std::vector(64, values.input));
    runtime->write_values(program.buffers.at(1), 0, std::vector(64, values.same));
    try {
      for (int64_t step = 0; step < 2; ++step) {
        check.before_step(step);
        runtime->step_executable(static_cast<uint64_t>(step)).run([] { return false; });
        check.after_step(step);
      }
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  size_t num_sums = 0;

 private:
  const Job& job_;
  const RankInfo& info_;
  const Model model_ = toy_model();
  std::vector<Program> steps_;
  RankByHand rank_;
};

/// The error of all ranks, which is the same, and how much each of them compares.
std::pair<std::string, size_t> compare(std::vector<Axis> axes, const std::vector<Values>& values) {
  Job job = nano_job(1);
  job.mesh = Mesh(std::move(axes));
  job.config.debug_replicas = 1;
  const auto store = std::make_shared<MemoryStore>();
  const auto num_ranks = static_cast<int>(values.size());
  std::vector<std::string> errors(values.size());
  std::vector<size_t> num_sums(values.size());
  std::vector<std::thread> ranks;
  for (size_t r = 0; r < values.size(); ++r)
    ranks.emplace_back([&, r] {
      const int number = static_cast<int>(r);
      const RankInfo info{number, number, num_ranks, true, store, [] { return false; }};
      CopyingRank rank(job, info);
      errors[r] = rank.run(values[r]);
      num_sums[r] = rank.num_sums;
    });
  for (std::thread& rank : ranks)
    rank.join();
  for (size_t r = 1; r < values.size(); ++r) {
    EXPECT_EQ(errors[r], errors[0]);
    EXPECT_EQ(num_sums[r], num_sums[0]);
  }
  return {errors[0], num_sums[0]};
}

TEST(ReplicaSums, OfVariantsThatAreEqualAreTakenOnce) {
  const auto [error, num_sums] = compare({{"dp", 2, TSR_SPLITS_BATCH}}, {{1, 7}, {2, 7}});
  EXPECT_EQ(error, "");
  EXPECT_EQ(num_sums, 1u) << "inputs are each rank's own";
}

/// Of the ranks of tp the inputs differ, which are copied first; of those of dp, which is compared first, the others.
TEST(ReplicaSums, TheFirstActionOfAllAxesIsNamed) {
  const auto [error, num_sums] =
      compare({{"dp", 2, TSR_SPLITS_BATCH}, {"tp", 2, TSR_SPLITS_TENSORS}}, {{1, 7}, {2, 7}, {3, 8}, {3, 8}});
  EXPECT_EQ(num_sums, 2u);
  EXPECT_NE(error.find("--debug-replicas: in step 1, rank 0 #0 "), std::string::npos) << error;
  EXPECT_NE(error.find("must be identical on all ranks of tp, but the bits of rank 0 differ from those of rank 1"),
            std::string::npos)
      << error;
}

}  // namespace
}  // namespace tessera::testing
