// Ranks that ask one another.
#include "train/consistency.h"

#include <gtest/gtest.h>

#include <thread>
#include <utility>

#include "launch/memory_store.h"
#include "plugins/host_services.h"
#include "program/program_text.h"
#include "support/expect_error.h"
#include "support/paths.h"

namespace tessera::testing {
using namespace host;
namespace {

std::vector<int> ask(const std::vector<bool>& answers) {
  const auto store = std::make_shared<MemoryStore>();
  const int num_ranks = static_cast<int>(answers.size());
  std::vector<int> verdicts(answers.size(), -1);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < num_ranks; ++rank)
    ranks.emplace_back([&, rank] {
      const auto r = static_cast<size_t>(rank);
      const RankInfo info{rank, rank, num_ranks, true, store, [] { return false; }};
      verdicts[r] = all_ranks_agree(info, num_ranks, "captured/0", answers[r], 10'000);
    });
  for (std::thread& rank : ranks)
    rank.join();
  return verdicts;
}

TEST(AllSayYes, WhenAllDo) {
  EXPECT_EQ(ask({true}), (std::vector<int>{1}));
  EXPECT_EQ(ask({true, true, true}), (std::vector<int>{1, 1, 1}));
}

TEST(AllSayYes, NotWhenOneDoesNot) {
  EXPECT_EQ(ask({false}), (std::vector<int>{0}));
  EXPECT_EQ(ask({true, false, true}), (std::vector<int>{0, 0, 0}));
  EXPECT_EQ(ask({false, false, false}), (std::vector<int>{0, 0, 0}));
}

TEST(AllSayYes, ARankThatDoesNotAnswerIsMissed) {
  const RankInfo info{0, 0, 2, true, std::make_shared<MemoryStore>(), [] { return false; }};
  expect_error([&] { all_ranks_agree(info, 2, "captured/0", true, 50); }, {"captured/0"});
}

/// What ranks that agree on their programs get, and how often each asked the device about an op meanwhile.
struct Agreed {
  std::vector<RankPrograms> programs;
  std::vector<int> num_descriptions;
};

Agreed agree(const Job& job) {
  const int num_ranks = job.mesh.num_ranks();
  const auto store = std::make_shared<MemoryStore>();
  Agreed agreed{std::vector<RankPrograms>(static_cast<size_t>(num_ranks)),
                std::vector<int>(static_cast<size_t>(num_ranks))};
  const HostServices host{Log(LogLevel::off)};
  const JobStrategies strategies(job, host);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < num_ranks; ++rank)
    ranks.emplace_back([&, rank] {
      CompileInput input = compile_input(job, strategies.all(), {});
      int& num_descriptions = agreed.num_descriptions[static_cast<size_t>(rank)];
      input.describe_op = [&, describe = input.describe_op](const tsr_op& op) {
        ++num_descriptions;
        return describe(op);
      };
      const RankInfo info{rank, rank, num_ranks, true, store, [] { return false; }};
      agreed.programs[static_cast<size_t>(rank)] = check_program_consistency(job, input, info);
    });
  for (std::thread& rank : ranks)
    rank.join();
  return agreed;
}

/// With one class of ranks, and with one for each rank.
TEST(AgreeOnPrograms, NoRankCompilesItsProgramsTwice) {
  for (const char* strategy : {"ddp", "pipeline"}) {
    const Log log(LogLevel::off);
    const std::vector<std::string> flags = {"--model=" + source_dir("tests/golden/gpt2-nano"),
                                            "--batch-size=1",
                                            "--seq-len=8",
                                            "--comm=local",
                                            "--plugin-dir=" + plugin_dir(),
                                            std::string("--strategy=") + strategy};
    const Job job = make_job(parse_flags(FlagSet::plan, flags), 2, log);
    const Agreed agreed = agree(job);

    const HostServices host(log);
    const JobStrategies strategies(job, host);
    CompileInput input = compile_input(job, strategies.all(), {});
    std::vector<int> expected;
    input.describe_op = [&, describe = input.describe_op](const tsr_op& op) {
      ++expected.back();
      return describe(op);
    };
    for (int rank = 0; rank < 2; ++rank) {
      expected.push_back(0);
      const RankPrograms own = compile_rank(input, job.mesh.coordinates(rank));
      EXPECT_EQ(print_program(agreed.programs[static_cast<size_t>(rank)].steps[0]), print_program(own.steps[0]));
    }
    expected.push_back(0);
    const JobPrograms programs = compile_job(input);
    EXPECT_LE(expected[0], expected.back());
    expected[0] = std::exchange(expected.back(), 0);  // rank 0 plans the other class too
    EXPECT_EQ(verify_job(input, programs), Diagnostics());
    expected[0] += expected.back();  // and checks the programs, for which it asks about each op again
    expected.pop_back();
    EXPECT_EQ(agreed.num_descriptions, expected) << strategy;
  }
}

}  // namespace
}  // namespace tessera::testing
