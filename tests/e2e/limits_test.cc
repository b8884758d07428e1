// Limits: of what is planned, of the machine's cores, and of the system. Each is met with a sentence, and at once.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "e2e/cli.h"

namespace tessera::testing {
namespace {

bool says(const CommandResult& result, const std::string& text) {
  return result.err.find(text) != std::string::npos;
}

std::string model_of_layers(const TempFolder& folder, const std::string& num_layers) {
  auto config = nlohmann::json::parse(file_bytes(golden("/config.json")));
  config["n_layer"] = nlohmann::json::parse(num_layers);
  folder.write("config.json", config.dump());
  return folder.path();
}

std::vector<std::string> plan(const std::string& model, std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"plan", "--model", model});
  return tessera(more);
}

TEST(Limits, LayersBeyondAnyModelAreRefusedBeforeMemoryIsTouched) {
  for (const char* num_layers : {"10001", "65536", "16777216"}) {
    const TempFolder folder;
    const CommandResult result = Command(plan(model_of_layers(folder, num_layers))).wait();
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_TRUE(says(result, std::string("\"n_layer\" is ") + num_layers + ", not a whole number from 1 to 10000"))
        << result.err;
  }
}

TEST(Limits, MicroBatchesBeyondWhatCanBePlannedAreRefusedWithWhatCan) {
  const CommandResult refused = Command(plan(golden(), {"--grad-accum=1048576"})).wait();
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_TRUE(says(refused, "--grad-accum 1048576 makes a step of about 75497472 actions")) << refused.err;
  EXPECT_TRUE(says(refused, "give --grad-accum 27777 or less")) << refused.err;
}

TEST(Limits, LongPlanningSaysWhatItDoes) {
  Command planning(plan(golden(), {"--grad-accum=27777"}));
  planning.wait_for(" s so far");
  EXPECT_NE(planning.err().find("planning what every rank does: writing its programs, "), std::string::npos)
      << planning.err();
}

std::vector<std::string> train_on_threads(unsigned num_threads) {
  std::vector<std::string> command = train({"--steps=1"});
  std::replace(command.begin(), command.end(), std::string("--threads=1"), "--threads=" + std::to_string(num_threads));
  return command;
}

TEST(Limits, MoreThreadsThanCoresAreWarnedOf) {
  const unsigned num_cores = std::thread::hardware_concurrency();
  const CommandResult run = run_command(train_on_threads(num_cores + 1));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(says(run, std::to_string(num_cores + 1) + " threads share " + std::to_string(num_cores))) << run.err;
  EXPECT_FALSE(says(run_command(train({"--steps=1"})), " share "));
}

std::string quote(const std::vector<std::string>& argv) {
  std::string text;
  for (const std::string& word : argv)
    text += "'" + word + "' ";
  return text;
}

CommandResult under(const std::string& limit, const std::vector<std::string>& argv) {
  return Command({"bash", "-c", "ulimit " + limit + " && exec " + quote(argv)}).wait();
}

TEST(Limits, ARunEndsWhereNoSignalCanBeQueued) {
  for (const char* nproc : {"--nproc=1", "--nproc=2"})
    EXPECT_EQ(under("-i 0", train({"--steps=1", nproc})).exit_code, 0) << nproc;
}

// Else a plugin or a folder is blamed that could not be opened.
TEST(Limits, OfOpenFilesAreSaidByEveryCommand) {
  const std::vector<std::vector<std::string>> commands = {
      {"plan", "--model=gpt2"}, {"plugins", "list"}, {"inspect", golden()}, {"bench", "device"}, {"train"}};
  for (const std::vector<std::string>& command : commands) {
    const CommandResult run = under("-n 6", tessera(command));
    EXPECT_EQ(run.exit_code, 1) << command[0];
    EXPECT_EQ(run.err,
              "tessera: this process may have 6 files open and needs at least 10; raise the limit with ulimit -n\n");
  }
  EXPECT_EQ(under("-S -n 6", plan("gpt2")).exit_code, 0);  // which the program may raise itself
}

// Else whatever needs more of it first crashes, or a plugin is blamed.
TEST(Limits, OfTheStackAreSaid) {
#ifdef TESSERA_IS_SANITIZED
  GTEST_SKIP() << "a sanitizer needs more of it before main()";
#endif
  for (const std::string nproc : {"--nproc=1", "--nproc=2"}) {
    const CommandResult run = under("-s 100", train({"--steps=1", nproc}));
    EXPECT_EQ(run.exit_code, 1);
    EXPECT_EQ(
        run.err,
        "tessera: this process may have 100 KiB of stack and needs at least 128; raise the limit with ulimit -s\n");
  }
}

TEST(Limits, PluginsThatFindNoMemorySaySo) {
  const CommandResult run = under("-v 50000", train({"--steps=1"}));
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_TRUE(says(run, "not enough memory")) << run.err;
  EXPECT_TRUE(says(run, "ulimit -v")) << run.err;
}

// Here the libraries are loaded, and their own memory runs out: oneDNN and libgomp would end the process.
TEST(Limits, MemoryThatLibrariesNeedIsMissedBeforeTheyDo) {
  for (const int kilobytes : {60'000, 80'000, 100'000, 120'000}) {
    const CommandResult run = under("-v " + std::to_string(kilobytes), train({"--steps=1"}));
    EXPECT_TRUE(run.exit_code == 1 || run.exit_code == 2) << kilobytes << ": " << run.exit_code << run.err;
    EXPECT_TRUE(says(run, "ulimit -v")) << kilobytes << ": " << run.err;
  }
}

TEST(Limits, OfThreadsAreSaidAsSuch) {
  const std::string as_nobody = "setpriv --reuid=65534 --regid=65534 --clear-groups ";
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to run as another user: the limit does not apply to root";
  if (run_command({"bash", "-c", as_nobody + "test -r " + golden("/config.json")}).exit_code != 0)
    GTEST_SKIP() << "needs a checkout that other users can read";
  std::vector<std::string> command = train_on_threads(3);
  const CommandResult run =
      Command({"bash", "-c", as_nobody + "bash -c \"ulimit -u 2; exec " + quote(command) + "\""}).wait();
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_TRUE(says(run, "cannot start 3 threads: Resource temporarily unavailable; lower --threads")) << run.err;
  EXPECT_FALSE(says(run, "libgomp")) << run.err;
  // Nor is there one to join those of the ranks that have started.
  command = train({"--steps=1", "--nproc=8", "--comm=local", "--strategy=ddp"});
  const CommandResult ranks =
      Command({"bash", "-c", as_nobody + "bash -c \"ulimit -u 2; exec " + quote(command) + "\""}).wait();
  EXPECT_EQ(ranks.exit_code, 1);
  EXPECT_TRUE(says(ranks, "cannot start a thread for each of 8 ranks")) << ranks.err;
}

}  // namespace
}  // namespace tessera::testing
