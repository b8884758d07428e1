// Ranks that ask one another.
#include "train/consistency.h"

#include <gtest/gtest.h>

#include <thread>
#include <utility>

#include "launch/memory_store.h"
#include "plan/verification.h"
#include "plugins/host_services.h"
#include "program/program_text.h"
#include "support/expect_error.h"
#include "support/nano_job.h"
#include "support/paths.h"
#include "support/temp_folder.h"
#include "tessera/strategy.hpp"

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

Job job_of(std::vector<std::string> more) {
  return nano_job(2, std::move(more));
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
    const Job job = job_of({std::string("--strategy=") + strategy});
    const Agreed agreed = agree(job);

    const HostServices host{Log(LogLevel::off)};
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
    EXPECT_FALSE(fault_of(input, programs));
    expected[0] += expected.back();  // and checks the programs, for which it asks about each op again
    expected.pop_back();
    EXPECT_EQ(agreed.num_descriptions, expected) << strategy;
  }
}

const tsr_strategy_interface* inner = nullptr;

/// As `inner`, with a buffer more in init.
tsr_status lower_init_differently(tsr_strategy* strategy, const tsr_program_view* view, const tsr_edit* edit,
                                  tsr_error* err) noexcept {
  if (view->purpose == TSR_PURPOSE_INIT) Edit(*edit).add_buffer("more", TSR_BUFFER_PLUGIN, TSR_F32, 16);
  return inner->lower(strategy, view, edit, err);
}

/// As `inner`, with the moments of each home exchanged in steps.
tsr_status lower_roles_differently(tsr_strategy* strategy, const tsr_program_view* view, const tsr_edit* edit,
                                   tsr_error* err) noexcept {
  for (const tsr_home& home : ProgramView(*view).homes()) {
    if (view->purpose != TSR_PURPOSE_STEP) continue;
    tsr_home_role m = role_of(home, TSR_HOME_M), v = role_of(home, TSR_HOME_V);
    std::swap(m.number, v.number);
    Edit(*edit).set_role(home.id, m);
    Edit(*edit).set_role(home.id, v);
  }
  return inner->lower(strategy, view, edit, err);
}

/// As `inner`, with the first home one element shorter in steps.
tsr_status lower_pieces_differently(tsr_strategy* strategy, const tsr_program_view* view, const tsr_edit* edit,
                                    tsr_error* err) noexcept {
  if (view->purpose == TSR_PURPOSE_STEP) {
    tsr_home home = ProgramView(*view).homes()[0];
    tsr_piece piece = home.pieces[0];
    --piece.num_elements;
    home.pieces = &piece;
    const uint64_t id = home.id;
    Edit(*edit).replace_homes({&id, 1}, &home);
  }
  return inner->lower(strategy, view, edit, err);
}

/// Two ranks under ddp, of which rank 1 may have another pass than rank 0.
class OtherPass {
 public:
  OtherPass() { check(0, strategies_.all()); }
  /// Throws what rank 1 does.
  void check_rank_1(decltype(tsr_strategy_interface::lower) lower = nullptr) {
    StrategyOnAxis own = strategies_.all()[0];
    inner = own.interface;
    tsr_strategy_interface table = *inner;
    if (lower) table.lower = lower;
    own.interface = &table;
    check(1, {&own, 1});
  }

 private:
  void check(int rank, std::span<const StrategyOnAxis> own) {
    check_program_consistency(job_, compile_input(job_, own, {}), {rank, rank, 2, true, store_});
  }

  const Job job_ = job_of({"--strategy=ddp"});
  const HostServices host_{Log(LogLevel::off)};
  const JobStrategies strategies_{job_, host_};
  const std::shared_ptr<MemoryStore> store_ = std::make_shared<MemoryStore>();
};

TEST(AgreeOnPrograms, NotIfOneRanksInitDiffers) {
  OtherPass job;
  EXPECT_NO_THROW(job.check_rank_1());
  expect_error([&] { job.check_rank_1(lower_init_differently); },
               {"rank 1 plans a different program than rank 0 planned for it: a strategy (ddp) is not pure", "more"});
}

TEST(AgreeOnPrograms, NotIfTheHomesOfOneRanksStepDiffer) {
  OtherPass job;
  expect_error([&] { job.check_rank_1(lower_roles_differently); },
               {"rank 1 has other homes (their pieces, roles or buffers) than rank 0 planned for it"});
  try {
    job.check_rank_1(lower_pieces_differently);
    FAIL() << "its programs were taken";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("rank 1: its step program has other homes than the init program"),
              std::string::npos)
        << error.what();
  }
}

TEST(AgreeOnPrograms, NotIfOneRanksWorkspacesDiffer) {
  const Job job = job_of({"--strategy=ddp"});
  const HostServices host{Log(LogLevel::off)};
  const JobStrategies strategies(job, host);
  const auto store = std::make_shared<MemoryStore>();
  CompileInput input = compile_input(job, strategies.all(), {});
  check_program_consistency(job, input, {0, 0, 2, true, store});
  input.describe_collective = [](const Program&, const Action&, int) { return uint64_t{64}; };
  expect_error(
      [&] {
        check_program_consistency(job, input, {1, 1, 2, true, store});
      },
      {"the plugin local (", "in its function describe or the plugin cpu (",
       "in its function describe is not pure, a strategy (ddp) is not pure", "= workspace "});
}

/// Both ranks' files, and a policy.
Job with_data(Job job) {
  job.config.data = job.config.eval_data = source_dir("tests/golden/gpt2-nano/tokens.bin");
  job.comm_claims.flags &= ~TSR_COMM_ONE_PROCESS;  // processes may read different files
  LoadedPlugin& policy = job.plugins.offload.emplace_back();
  policy.name = "policy";
  policy.options.emplace_back().name = "ahead";
  job.options.offload.emplace_back(policy, "", std::vector<PluginFlag>());
  return job;
}

/// What both ranks end with when rank 1 has changed its job.
std::string difference(const std::function<void(Job&)>& change) {
  const auto store = std::make_shared<MemoryStore>();
  std::vector<std::string> errors(2);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank)
    ranks.emplace_back([&, rank] {
      Job job = with_data(job_of({"--strategy=ddp"}));
      if (rank == 1) change(job);
      try {
        check_job_consistency(job, open_data(job), {rank, rank, 2, true, store}, 1, Log(LogLevel::off));
      } catch (const Error& error) {
        errors[static_cast<size_t>(rank)] = error.what();
      }
    });
  for (std::thread& rank : ranks)
    rank.join();
  EXPECT_EQ(errors[0], errors[1]);
  return errors[0];
}

TEST(AgreeOnTheJob, NotIfOneRanksDiffers) {
  const TempFolder folder;
  std::string tokens = file_bytes(source_dir("tests/golden/gpt2-nano/tokens.bin"));
  tokens.at(tokens.size() - 2) ^= 1;
  const std::string other = folder.write("other.bin", tokens);
  const std::pair<std::string, std::function<void(Job&)>> cases[] = {
      {"the data", [&](Job& job) { job.config.data = other; }},
      {"the evaluation data", [&](Job& job) { job.config.eval_data = other; }},
      {"--eval-data", [&](Job& job) { job.config.eval_data.clear(); }},
      {"--strategy", [&](Job& job) { job = with_data(job_of({"--strategy=fsdp"})); }},
      {"--save", [&](Job& job) { job.config.save = folder.path(); }},
      {"--resume", [&](Job& job) { job.config.resume = folder.path(); }},
      {"--init-from", [&](Job& job) { job.config.init_from = folder.path(); }},
      {"plugin policy", [&](Job& job) { job.plugins.offload.back().sha256 = "other"; }},
      {"--policy.ahead",
       [&](Job& job) {
         job.plugins.offload.back().options[0].default_value = "2";
         job.options.offload.back() = PluginOptions(job.plugins.offload.back(), "", {});
       }},
  };
  EXPECT_EQ(difference([](Job&) {}), "");
  EXPECT_EQ(difference([](Job& job) {
              LoadedPlugin& communicator = *job.plugins.communicator;
              communicator.options.emplace_back().is_per_rank = true;
              job.options.communicator = PluginOptions(communicator, "", {});
            }),
            "");
  for (const auto& [what, change] : cases)
    EXPECT_TRUE(difference(change).starts_with("the ranks differ in " + what + ": "))
        << what << ": " << difference(change);
}

}  // namespace
}  // namespace tessera::testing
