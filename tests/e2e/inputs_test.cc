// Weights and data are what the user meant, and the same on all ranks, or the run does not start.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <memory>

#include "e2e/cli.h"

namespace tessera::testing {
namespace {

namespace fs = std::filesystem;
using Flags = std::vector<std::string>;

void expect_part(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is missing in:\n" << text;
}

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

/// The golden model in a folder of its own.
std::string copy_of_model(const TempFolder& folder, const std::string& name) {
  fs::create_directory(folder.path(name));
  for (const char* file : {"/config.json", "/model.safetensors"})
    fs::copy_file(golden(file), folder.path(name) + file);
  return folder.path(name);
}

/// The last four bytes, which belong to a parameter, become those of `value`.
void change_end(const std::string& path, float value) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-4, std::ios::end);
  file.write(raw_bytes(std::array{value}).data(), 4);
}

Flags small_run(const std::string& model, const std::string& data, Flags more = {}, int steps = 1) {
  Flags flags = {"train",          "--model=" + model,
                 "--data=" + data, "--batch-size=1",
                 "--seq-len=16",   "--steps=" + std::to_string(steps),
                 "--threads=1",    "--start-timeout-ms=100000"};
  flags.insert(flags.end(), more.begin(), more.end());
  return tessera(flags);
}

// A port that has no listener now.
int free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  const bool is_known = ::bind(fd, reinterpret_cast<sockaddr*>(&address), length) == 0 &&
                        ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0;
  ::close(fd);
  if (!is_known) throw std::runtime_error("no port");
  return ntohs(address.sin_port);
}

struct Inputs {
  std::string model = golden();
  std::string data = golden("/tokens.bin");
};

/// Two ranks without a launcher, each with its own files, as on two machines.
std::vector<CommandResult> run_by_hand(const Inputs& zero, const Inputs& one, const Flags& more) {
  const std::string address = "127.0.0.1:" + std::to_string(free_port());
  std::vector<std::unique_ptr<Command>> ranks;
  for (const Inputs* inputs : {&zero, &one}) {
    const std::string rank = std::to_string(ranks.size());
    ranks.push_back(std::make_unique<Command>(small_run(inputs->model, inputs->data, more),
                                              std::map<std::string, std::string>{{"TESSERA_RANK", rank},
                                                                                 {"TESSERA_WORLD_SIZE", "2"},
                                                                                 {"TESSERA_LOCAL_RANK", rank},
                                                                                 {"TESSERA_LOCAL_SIZE", "2"},
                                                                                 {"TESSERA_STORE_ADDR", address}}));
  }
  std::vector<CommandResult> results;
  for (const auto& rank : ranks)
    results.push_back(rank->wait());
  return results;
}

void expect_refused(const Inputs& zero, const Inputs& one, const Flags& more, const std::vector<std::string>& parts) {
  for (const CommandResult& result : run_by_hand(zero, one, more)) {
    EXPECT_EQ(result.exit_code, 1) << result.err;
    for (const std::string& part : parts)
      expect_part(result.err, part);
    EXPECT_EQ(count(result.err, " | loss"), 0u) << result.err;
  }
}

class Strategies : public ::testing::TestWithParam<const char*> {
 protected:
  Flags strategy() const { return {"--strategy=" + std::string(GetParam())}; }
};

TEST_P(Strategies, RunWithEqualFilesInOtherFolders) {
  const TempFolder folder;
  for (const CommandResult& result :
       run_by_hand({copy_of_model(folder, "zero")}, {copy_of_model(folder, "one")}, strategy()))
    EXPECT_EQ(result.exit_code, 0) << result.err;
}

TEST_P(Strategies, RefuseOtherWeightsOnAnotherRank) {
  const TempFolder folder;
  const std::string zero = copy_of_model(folder, "zero"), one = copy_of_model(folder, "one");
  change_end(one + "/model.safetensors", 0.25f);
  expect_refused({zero}, {one}, strategy(), {"the ranks differ in the weights: rank 0 has 'model.safetensors, "});
}

TEST_P(Strategies, RefuseWeightsThatARankDoesNotHave) {
  const TempFolder folder;
  const std::string zero = copy_of_model(folder, "zero"), one = copy_of_model(folder, "one");
  fs::remove(one + "/model.safetensors");
  expect_refused({zero}, {one}, strategy(),
                 {"the ranks differ in the weights: rank 0 has '1 file' and rank 1 has 'none'; make them equal"});
}

TEST_P(Strategies, RefuseOtherDataOfTheSameSize) {
  const TempFolder folder;
  const Inputs zero = {golden(), folder.write("0.txt", std::string(500, '!') + "!")};
  const Inputs one = {golden(), folder.write("1.txt", std::string(500, '!') + "?")};
  expect_refused(zero, one, strategy(), {"the ranks differ in the data: rank 0 has '501 tokens, sha256 "});
}

INSTANTIATE_TEST_SUITE_P(Inputs, Strategies, ::testing::Values("ddp", "fsdp", "zero3"),
                         [](const auto& test) { return std::string(test.param); });

TEST(Weights, ALinkThatLeadsNowhereIsRefusedOnceBeforeAnyRankStarts) {
  const TempFolder folder;
  const std::string model = copy_of_model(folder, "m");
  fs::remove(model + "/model.safetensors");
  fs::create_symlink("/nonexistent/blob", model + "/model.safetensors");
  for (const Flags& more : {Flags{}, Flags{"--nproc=2"}, Flags{"--nproc=2", "--comm=local"}}) {
    const CommandResult result = run_command(small_run(model, golden("/tokens.bin"), more));
    EXPECT_EQ(result.exit_code, 1) << result.err;
    EXPECT_EQ(count(result.err, "model.safetensors, a link to /nonexistent/blob: No such file"), 1u) << result.err;
  }
}

TEST(Weights, AConfigThatLeadsNowhereIsRefused) {
  const TempFolder folder;
  fs::create_symlink("/nonexistent/blob", folder.path("config.json"));
  const CommandResult result = run_command(small_run(folder.path(), golden("/tokens.bin")));
  EXPECT_EQ(result.exit_code, 1);
  expect_part(result.err, "config.json, a link to /nonexistent/blob: No such file");
}

TEST(Weights, WithNanAreRefusedByNameBeforeStepOne) {
  const TempFolder folder;
  const std::string model = copy_of_model(folder, "m");
  change_end(model + "/model.safetensors", std::numeric_limits<float>::quiet_NaN());
  for (const Flags& more : {Flags{}, Flags{"--nproc=2", "--strategy=fsdp"}, Flags{"--nproc=2", "--comm=local"}}) {
    const CommandResult result = run_command(small_run(model, golden("/tokens.bin"), more));
    EXPECT_EQ(result.exit_code, 1) << result.err;
    expect_part(result.err, model + "/model.safetensors: element ");
    expect_part(result.err, "wte.weight [96, 48] is nan");
    EXPECT_EQ(count(result.err, " | loss"), 0u) << result.err;
  }
}

// Rank 0 reads the others' halves never, and its own may be whole.
TEST(Weights, WithNanOnALaterRankLeaveNoMetrics) {
  const TempFolder folder;
  const std::string model = copy_of_model(folder, "m"), metrics = folder.path("m.jsonl");
  change_end(model + "/model.safetensors", std::numeric_limits<float>::quiet_NaN());
  for (const char* comm : {"--comm=gloo", "--comm=local"}) {
    const CommandResult result = run_command(
        small_run(model, golden("/tokens.bin"), {"--nproc=2", "--strategy=fsdp", comm, "--metrics=" + metrics}));
    EXPECT_EQ(result.exit_code, 1) << result.err;
    EXPECT_FALSE(fs::exists(metrics)) << comm << ": " << file_bytes(metrics);
  }
}

TEST(Weights, AreRandomWithAWarningOnce) {
  const TempFolder folder;
  const std::string model = copy_of_model(folder, "m");
  fs::remove(model + "/model.safetensors");
  for (const Flags& more : {Flags{}, Flags{"--nproc=2"}, Flags{"--nproc=2", "--comm=local"}}) {
    const CommandResult result = run_command(small_run(model, golden("/tokens.bin"), more));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(count(result.err, "warning: training from random values"), 1u) << result.err;
    expect_part(result.err, model + " has no model.safetensors");
  }
}

TEST(Data, WarningsAreSaidOnce) {
  const TempFolder folder;
  const std::string data = folder.write("a.txt", std::string(17, '!'));
  for (const Flags& more : {Flags{}, Flags{"--mesh=pp=2", "--strategy=pipeline"},
                            Flags{"--mesh=pp=2", "--strategy=pipeline", "--comm=local"}}) {
    const CommandResult result = run_command(small_run(golden(), data, more, 3));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(count(result.err, "warning: the data is short"), 1u) << result.err;
  }
}

TEST(Data, OfShardsTrainsAsOneFileDoes) {
  const TempFolder folder;
  const std::string tokens = file_bytes(golden("/tokens.bin")).substr(1024);
  fs::create_directory(folder.path("shards"));
  for (size_t i = 0; i < 5; ++i)  // 77 tokens each: windows of 16 cross from one to the next
    folder.write("shards/" + std::to_string(i) + ".bin", tokens.substr(154 * i, 154));
  const std::string whole = folder.write("whole.bin", tokens.substr(0, 154 * 5));
  const auto losses = [&](const std::string& data) {
    const std::string metrics = folder.path("metrics");
    fs::remove(metrics);
    const CommandResult result = run_command(small_run(golden(), data, {"--metrics=" + metrics}, 30));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    std::vector<double> values;
    for (const auto& line : read_metrics(metrics))
      values.push_back(line["loss"]);
    return values;
  };
  EXPECT_EQ(losses(whole).size(), 30u);
  EXPECT_EQ(losses(whole), losses(folder.path("shards")));
  EXPECT_EQ(losses(whole), losses(folder.path("shards/*.bin")));
}

// 64 GiB of zeros that take no room on the disk: what reads them all takes a minute.
TEST(Data, OfAnySizeStartsAtOnce) {
  const TempFolder folder;
  const std::string data = folder.write("large.bin", "");
  fs::resize_file(data, uint64_t{64} << 30);
  Command run(small_run(golden(), data, {"--nproc=2"}));
  const CommandResult result = run.wait();
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

TEST(Data, ATokenBeyondTheVocabularyIsNamedWhenItIsMet) {
  const TempFolder folder;
  std::vector<uint16_t> start(200, 5);
  start[100] = 96;
  const std::string data = folder.write("large.bin", raw_bytes(start));
  fs::resize_file(data, uint64_t{1} << 30);
  const CommandResult result = run_command(small_run(golden(), data, {}, 20));
  EXPECT_EQ(result.exit_code, 1);
  expect_part(result.err, "step    6/20");
  expect_part(result.err, "large.bin: raw uint16 tokens without a header: token 96 at position 100");
}

}  // namespace
}  // namespace tessera::testing
