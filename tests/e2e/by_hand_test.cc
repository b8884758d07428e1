// Ranks that a user or a foreign launcher starts: a failure of one is reported to all, and they end at once.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <memory>
#include <utility>

#include "e2e/cli.h"
#include "support/free_port.h"

namespace tessera::testing {
namespace {

using Flags = std::vector<std::string>;

/// torchrun's variables for ranks of one machine.
class ByHand {
 public:
  explicit ByHand(int num_ranks) : num_ranks_(num_ranks), port_(free_port() - 1) {}

  /// With time-outs that nothing waits for.
  Command& start(int rank, Flags flags, std::map<std::string, std::string> more = {}) {
    const std::string never = std::to_string(kNeverMs);
    flags.insert(flags.end(), {"--start-timeout-ms=" + never, "--timeout-ms=" + never});
    return run(rank, train(flags), std::move(more));
  }
  /// The same with a whole command.
  Command& run(int rank, const std::vector<std::string>& command, std::map<std::string, std::string> more = {}) {
    more.merge(torchrun_variables(rank, num_ranks_, port_));
    return *ranks_.emplace_back(std::make_unique<Command>(command, more));
  }
  std::vector<CommandResult> wait() {
    std::vector<CommandResult> results;
    for (const auto& rank : ranks_)
      results.push_back(rank->wait());
    return results;
  }

 private:
  const int num_ranks_, port_;
  std::vector<std::unique_ptr<Command>> ranks_;
};

void expect_part(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is missing in\n" << text;
}

class WrongFlagOn : public ::testing::TestWithParam<int> {};

TEST_P(WrongFlagOn, OneRankEndsAllAtOnce) {
  ByHand job(3);
  for (int rank = 0; rank < 3; ++rank)
    job.start(rank, rank == GetParam() ? Flags{"--steps=5", "--nonsense=1"} : Flags{"--steps=5"});
  const auto results = job.wait();
  for (int rank = 0; rank < 3; ++rank) {
    const CommandResult& result = results[static_cast<size_t>(rank)];
    EXPECT_EQ(result.exit_code, rank == GetParam() ? 2 : 1) << result.err;
    expect_part(result.err, "unknown flag --nonsense");
  }
}
INSTANTIATE_TEST_SUITE_P(Ranks, WrongFlagOn, ::testing::Values(0, 1));

TEST(ByHand, DataThatOneRankCannotOpenEndsAllAtOnce) {
  ByHand job(2);
  job.start(0, {"--steps=5"});
  job.run(1, tessera({"train", "--model", golden(), "--data=/nope", "--batch-size=1", "--seq-len=32", "--lr=0.003",
                      "--threads=1", "--steps=5"}));
  const auto results = job.wait();
  EXPECT_NE(results[0].exit_code, 0);
  EXPECT_NE(results[1].exit_code, 0);
  expect_part(results[0].err, "rank 1 (process ");
}

TEST(ByHand, ARankSaysWhyItWaitsForRankZero) {
  ByHand job(2);
  Command& second = job.start(1, {"--steps=1"});
  EXPECT_TRUE(second.wait_for("waiting for rank 0: no server answers at ")) << second.err();
  job.start(0, {"--steps=1"});
  for (const CommandResult& result : job.wait())
    EXPECT_EQ(result.exit_code, 0) << result.err;
}

/// Two checkpoints of one run, and one of another.
struct Saved {
  Saved() {
    for (const auto& [name, decay] : {std::pair("a", "0"), {"b", "0.5"}})
      EXPECT_EQ(run_command(train({"--steps=2", "--save-every=1", "--save=" + folder.path(name),
                                   std::string("--weight-decay=") + decay}))
                    .exit_code,
                0);
  }
  TempFolder folder;
};

// Ranks may have folders of their own under one name.
TEST(ByHand, RanksThatReadDifferentCheckpointsAreRefused) {
  const Saved saved;
  const std::string a = saved.folder.path("a"), b = saved.folder.path("b");
  const std::pair<Flags, Flags> cases[] = {{{"--resume=" + a}, {"--resume=" + b}},
                                           {{"--resume=" + a + "/step-00000001"}, {"--resume=" + a + "/step-00000002"}},
                                           {{"--init-from=" + a}, {"--init-from=" + b}}};
  for (const auto& [first, second] : cases)
    for (const char* strategy : {"--strategy=ddp", "--strategy=fsdp"}) {
      ByHand job(2);
      job.start(0, {"--steps=4", strategy, first[0]});
      job.start(1, {"--steps=4", strategy, second[0]});
      for (const CommandResult& result : job.wait()) {
        EXPECT_EQ(result.exit_code, 1) << result.err;
        expect_part(result.err, ", is not the checkpoint that rank 0 reads: their index.json differ");
      }
    }
  ByHand copies(2);
  std::filesystem::copy(a, saved.folder.path("copy"), std::filesystem::copy_options::recursive);
  copies.start(0, {"--steps=4", "--resume=" + a});
  copies.start(1, {"--steps=4", "--resume=" + saved.folder.path("copy")});
  for (const CommandResult& result : copies.wait())
    EXPECT_EQ(result.exit_code, 0) << result.err;
}

TEST(ByHand, AFolderThatOneRankLacksEndsAllAtOnce) {
  const Saved saved;
  for (const char* flag : {"--resume", "--init-from", "--save"})
    for (const int with : {0, 1}) {
      ByHand job(2);
      for (const int rank : {0, 1})
        job.start(rank, rank == with ? Flags{"--steps=4", flag + ("=" + saved.folder.path("a")), "--overwrite"}
                                     : Flags{"--steps=4", "--overwrite"});
      for (const CommandResult& result : job.wait()) {
        EXPECT_NE(result.exit_code, 0) << result.err;
        expect_part(result.err, std::string("the ranks differ in ") + flag + ": ");
      }
    }
}

/// The job looks at the folder when its first rank starts, another run writes there, and then the job's last rank
/// comes.
std::vector<CommandResult> run_around_another(const Flags& own, const Flags& other) {
  ByHand job(2);
  job.start(0, own).wait_for("waiting for rank 1");
  const CommandResult between = run_command(train(other));
  EXPECT_EQ(between.exit_code, 0) << between.err;
  job.start(1, own);
  return job.wait();
}

TEST(ByHand, AFolderThatGotAnotherRunsCheckpointsMeanwhileIsRefused) {
  const TempFolder work;
  const std::string save = "--save=" + work.path("run");
  const auto results = run_around_another({"--steps=2", "--weight-decay=0.5", save}, {"--steps=2", save});
  for (const CommandResult& result : results) {
    EXPECT_NE(result.exit_code, 0);
    expect_part(result.err, "holds checkpoints of another run, up to step 2");
  }
}

TEST(ByHand, AFolderThatGotAnotherRunsRecordMeanwhileIsRefused) {
  const TempFolder work;
  const std::string out = "--out=" + work.path("run");
  const auto results = run_around_another({"--steps=2", out}, {"--steps=1", out});
  for (const CommandResult& result : results)
    EXPECT_NE(result.exit_code, 0);
  expect_part(results[0].err, "has the record of another run by now");
}

TEST(ByHand, AKilledRankEndsTheOthersAndIsNamedInOneBlock) {
  ByHand job(3);
  std::vector<Command*> ranks;
  for (int rank = 0; rank < 3; ++rank)
    ranks.push_back(&job.start(rank, {"--steps=100000"}));
  ASSERT_TRUE(ranks[0]->wait_for("step   10/")) << ranks[0]->err();
  kill(ranks[2]->pid(), SIGKILL);
  const auto results = job.wait();
  EXPECT_EQ(results[0].exit_code, 1);
  EXPECT_EQ(results[1].exit_code, 1);
  expect_part(results[0].err, "cause:        rank 2 (process " + std::to_string(ranks[2]->pid()));
  expect_part(results[0].err, "ended without an error");
}

// The store ends with it. A rank sees the end of either connection first, and both sentences name rank 0.
TEST(ByHand, AKilledRankZeroEndsTheOthersAtOnce) {
  ByHand job(2);
  Command& first = job.start(0, {"--steps=100000"});
  Command& second = job.start(1, {"--steps=100000"});
  ASSERT_TRUE(first.wait_for("step   10/")) << first.err();
  kill(first.pid(), SIGKILL);
  const CommandResult result = second.wait();
  EXPECT_EQ(result.exit_code, 1);
  const bool is_of_link = result.err.find("lost the connection to rank 0") != std::string::npos;
  expect_part(result.err, is_of_link ? "lost the connection to rank 0" : "the launcher or rank 0 has ended");
}

// It has joined, and the others have not come to connect to it.
TEST(ByHand, ARankThatDiesAtTheStartEndsTheOthersAtOnce) {
  ByHand job(3);
  Command& first = job.start(0, {"--steps=5"});
  Command& second = job.start(1, {"--steps=5"});
  ASSERT_TRUE(first.wait_for("waiting for rank")) << first.err();
  kill(second.pid(), SIGKILL);
  const CommandResult result = first.wait();
  EXPECT_EQ(result.exit_code, 1);
  expect_part(result.err, "cause:        rank 1 (process ");
}

TEST(ByHand, TorchrunIsToldTheCauseBeforeTheReports) {
  const TempFolder folder;
  ByHand job(2);
  std::vector<Command*> ranks;
  for (int rank = 0; rank < 2; ++rank)
    ranks.push_back(&job.start(rank, {"--steps=100000", rank == 0 ? "--metrics=/dev/full" : "--log-level=info"},
                               {{"TORCHELASTIC_ERROR_FILE", folder.path("error" + std::to_string(rank))}}));
  job.wait();
  const auto error = [&](const char* name) {
    return nlohmann::json::parse(std::ifstream(folder.path(name)))["message"];
  };
  const auto cause = error("error0"), report = error("error1");
  expect_part(cause["message"], "No space left on device");
  const auto time = [](const nlohmann::json& e) { return std::stoll(e["extraInfo"]["timestamp"].get<std::string>()); };
  EXPECT_LT(time(cause), time(report));
}

TEST(ByHand, ASignalIsSaid) {
  for (const auto& [signal, name] : {std::pair{SIGHUP, "SIGHUP"}, {SIGUSR2, "SIGUSR2"}, {SIGXCPU, "SIGXCPU"}}) {
    Command run(train({"--steps=100000"}));
    ASSERT_TRUE(run.wait_for("step    2/")) << run.err();
    kill(run.pid(), signal);
    const CommandResult result = run.wait();
    EXPECT_EQ(result.exit_code, 128 + signal);
    expect_part(result.err, std::string("tessera: ended by signal ") + name);
  }
}

}  // namespace
}  // namespace tessera::testing
