// Checkpoints that are damaged, of another run, or from anybody; and what other programs read of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/index_text.h"
#include "checkpoint/save_folder.h"
#include "e2e/cli.h"
#include "e2e/wide_model.h"
#include "storage/block_sums.h"
#include "weights/safetensors.h"

namespace tessera::testing {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

/// Two ranks under fsdp save after 2, 4 and 6 steps.
class CheckpointFiles : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    saved_ = std::make_unique<TempFolder>();
    const CommandResult run = run_command(train({"--steps=6", "--save-every=2", "--nproc=2", "--strategy=fsdp",
                                                 "--comm=local", "--save=" + saved_->path("run")}));
    ASSERT_EQ(run.exit_code, 0) << run.err;
  }
  static void TearDownTestSuite() { saved_.reset(); }

  void SetUp() override { fs::copy(saved_->path("run"), folder(), fs::copy_options::recursive); }

  std::string folder() const { return own_.path("run"); }
  std::string file(const std::string& name, int step = 6) const {
    return folder() + "/step-0000000" + std::to_string(step) + "/" + name;
  }

  /// Goes on from `from` for one step, under ddp.
  CommandResult resume(const std::string& from, Words more = {}) const {
    more.insert(more.end(), {"--steps=7", "--nproc=2", "--comm=local", "--resume=" + from});
    return run_command(train(more));
  }

  /// The checkpoint of step 6 is refused with these words, whichever way it is given; its folder's `latest` falls back
  /// to step 4.
  void expect_damaged(const Words& parts) const {
    const CommandResult itself = resume(folder() + "/step-00000006");
    EXPECT_EQ(itself.exit_code, 1) << itself.err;
    const CommandResult latest = resume(folder());
    EXPECT_EQ(latest.exit_code, 0) << latest.err;
    for (const std::string& part : parts) {
      EXPECT_NE(itself.err.find(part), std::string::npos) << part << " is missing in\n" << itself.err;
      EXPECT_NE(latest.err.find(part), std::string::npos) << part << " is missing in\n" << latest.err;
    }
    EXPECT_NE(latest.err.find("cannot resume from " + folder() + "/step-00000006"), std::string::npos) << latest.err;
    EXPECT_NE(latest.err.find("resumed from " + folder() + "/step-00000004"), std::string::npos) << latest.err;
    EXPECT_NE(latest.err.find("step    5/7"), std::string::npos) << latest.err;
  }

  void write_file(const std::string& path, const std::string& bytes) const {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  }
  /// An index as somebody may have made it, with the checksum that belongs to it.
  void write_index(const host::CheckpointIndex& index) const {
    write_file(file("index.json"), host::print_index(index));
  }
  /// The checkpoint of step 6 has a NaN where the first part of the embedding begins, and all checksums match.
  void poison() const {
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    host::CheckpointIndex index = host::Checkpoint(folder() + "/step-00000006").index();
    host::TensorPart& part = index.tensors.at("wte.weight").parts.front();
    const std::string path = file(index.files[part.file].name);
    const host::SafetensorsFile opened(path);
    const host::SafetensorsTensor& tensor = opened.tensor("wte.weight");
    std::string bytes = file_bytes(path);
    const std::span values = std::span(bytes).subspan(opened.data_begin() + tensor.data_offset, tensor.num_bytes);
    std::memcpy(values.data(), &kNan, sizeof kNan);
    part.crc32c.at(0) = host::crc32c(std::as_bytes(values));
    ASSERT_EQ(part.crc32c.size(), 1u);
    write_file(path, bytes);
    write_index(index);
  }
  void flip(const std::string& path, size_t at) const {
    std::fstream opened(path, std::ios::binary | std::ios::in | std::ios::out);
    opened.seekg(static_cast<std::streamoff>(at));
    const int byte = opened.get();
    ASSERT_NE(byte, EOF) << path;
    opened.seekp(static_cast<std::streamoff>(at));
    opened.put(static_cast<char>(byte ^ 4));
  }

 private:
  static inline std::unique_ptr<TempFolder> saved_;
  TempFolder own_;
};

const std::string kAdvice = "restore the file, or take another checkpoint";

TEST_F(CheckpointFiles, AFlippedBitOfATensor) {
  const host::Checkpoint checkpoint(folder() + "/step-00000006");
  flip(file("rank-00001.safetensors"), checkpoint.index().files[1].header_bytes + 5000);
  expect_damaged({"rank-00001.safetensors: tensor ", " are not what was written: their crc32c differs", kAdvice});
}

TEST_F(CheckpointFiles, AFlippedBitOfALaterBlockOfATensor) {
  const TempFolder own;
  const std::string model = write_wide_model(own), from = own.path("run/step-00000001");
  ASSERT_EQ(run_command(train_wide_model(model, {"--steps=1", "--save=" + own.path("run")})).exit_code, 0);
  const auto go_on = [&] { return run_command(train_wide_model(model, {"--steps=2", "--resume=" + from})); };
  const std::string path = from + "/rank-00000.safetensors";
  const host::SafetensorsFile opened(path);
  const host::SafetensorsTensor& tensor = opened.tensor("wte.weight");
  for (const uint64_t at : {host::kChecksumBytes, tensor.num_bytes - 1}) {
    flip(path, opened.data_begin() + tensor.data_offset + at);
    expect_message(go_on(), 1, {"rank-00000.safetensors: tensor wte.weight", "their crc32c differs", kAdvice});
    EXPECT_EQ(run_command(tessera({"inspect", from})).exit_code, 1);
    flip(path, opened.data_begin() + tensor.data_offset + at);
  }
  expect_message(go_on(), 0, {"resumed from "});
}

TEST_F(CheckpointFiles, AFlippedBitOfAHeader) {
  flip(file("rank-00000.safetensors"), 100);
  expect_damaged({"rank-00000.safetensors: the header is not what was written: its crc32c differs", kAdvice});
}

TEST_F(CheckpointFiles, AFlippedBitOfTheIndex) {
  flip(file("index.json"), 300);
  expect_damaged({"step-00000006/index.json is not what was written: its crc32c differs", kAdvice});
}

/// No older checkpoint would be of use: a newer tessera has written them all.
TEST_F(CheckpointFiles, AVersionOfTheFuture) {
  std::string text = file_bytes(file("index.json"));
  text.replace(text.find("\"version\":1"), 11, "\"version\":2");
  const std::string rest = text.substr(text.find('\n') + 1);
  char sum[9];
  std::snprintf(sum, sizeof sum, "%08x", host::crc32c(std::as_bytes(std::span(rest))));
  write_file(file("index.json"), text.replace(text.find(": \"") + 3, 8, sum));
  for (const std::string& from : {folder(), folder() + "/step-00000006"}) {
    const CommandResult run = resume(from);
    EXPECT_EQ(run.exit_code, 2);
    EXPECT_NE(
        run.err.find("index.json has version 2 of the format, and this tessera reads up to 1; use the tessera that "
                     "wrote it, or a newer one"),
        std::string::npos)
        << run.err;
  }
}

TEST_F(CheckpointFiles, AFileThatWasCut) {
  fs::resize_file(file("rank-00001.safetensors"), 10000);
  expect_damaged({"rank-00001.safetensors has 10000 bytes, and ", " were written: it was cut", kAdvice});
}

TEST_F(CheckpointFiles, AnIndexThatWasCut) {
  fs::resize_file(file("index.json"), 10000);
  expect_damaged({"index.json is not what was written: its crc32c differs", kAdvice});
}

TEST_F(CheckpointFiles, AFileThatIsMissing) {
  fs::remove(file("rank-00000.safetensors"));
  expect_damaged({"rank-00000.safetensors is missing, which index.json names", kAdvice});
}

/// By a run that keeps its newest checkpoint alone.
TEST_F(CheckpointFiles, OneThatIsRemovedWhileItIsRead) {
  const std::string path = folder() + "/step-00000006";
  const host::Checkpoint opened(path), late(path);
  opened.open_files();
  std::vector<float> before(96), after(96);
  host::Checkpoint(path).read("wte.weight", 0, before);
  fs::remove_all(path);
  opened.read("wte.weight", 0, after);
  EXPECT_EQ(before, after);
  try {
    late.read("wte.weight", 0, after);
    ADD_FAILURE() << "there is nothing to read";
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find(path + " was removed while it was read; a run"), std::string::npos)
        << error.what();
  }
}

TEST_F(CheckpointFiles, AFileOfAnotherStep) {
  fs::copy_file(file("rank-00000.safetensors", 4), file("rank-00000.safetensors"),
                fs::copy_options::overwrite_existing);
  expect_damaged({"rank-00000.safetensors: tensor ", "their crc32c differs"});
}

TEST_F(CheckpointFiles, NoneIsLeft) {
  for (const int step : {2, 4, 6})
    fs::remove(file("rank-00001.safetensors", step));
  const CommandResult run = resume(folder());
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_NE(run.err.find("step-00000002/rank-00001.safetensors is missing"), std::string::npos) << run.err;
  EXPECT_NE(run.err.find("no older checkpoint is left: "), std::string::npos) << run.err;
}

TEST_F(CheckpointFiles, OnlyOneWasThere) {
  for (const int step : {2, 4})
    fs::remove_all(fs::path(file("rank-00001.safetensors", step)).parent_path());
  fs::remove(file("rank-00001.safetensors"));
  const CommandResult run = resume(folder());
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_NE(run.err.find("step-00000006/rank-00001.safetensors is missing"), std::string::npos) << run.err;
  EXPECT_EQ(run.err.find("no older checkpoint"), std::string::npos) << run.err;
}

TEST_F(CheckpointFiles, AnIndexWithoutSettings) {
  host::CheckpointIndex index = host::Checkpoint(folder() + "/step-00000006").index();
  index.run.settings.clear();
  write_index(index);
  expect_message(resume(folder()), 2,
                 {"step-00000006/index.json does not name the run's optimizer; start from its parameters alone with "
                  "--init-from"});
}

/// No run saves such weights.
TEST_F(CheckpointFiles, WeightsThatAreNotFinite) {
  poison();
  const std::string from = folder() + "/step-00000006";
  expect_message(resume(from), 1,
                 {"a parameter is not finite, in step 7: element ", " of wte.weight is nan",
                  "check the weights in --resume " + from + ", then lower --lr"});
  expect_message(run_command(train({"--steps=1", "--init-from=" + from})), 1,
                 {"check the weights in --init-from " + from + ", then lower --lr"});
  expect_message(run_command(tessera({"convert", from, folder() + "-converted"})), 1,
                 {" of wte.weight is nan, and nothing loads such weights; convert an intact model"});
}

/// Two runs would remove one another's checkpoints while they are made. One that was killed is in no one's way.
TEST_F(CheckpointFiles, AFolderIsOneRuns) {
  for (const char* nproc : {"--nproc=1", "--nproc=2"}) {
    const std::string to = folder() + nproc;
    Command first(train({"--steps=1000000", "--save-every=1", nproc, "--save=" + to}));
    ASSERT_TRUE(first.wait_for("saved " + to)) << first.err();
    expect_message(
        run_command(train({"--steps=2", nproc, "--save=" + to, "--overwrite"})), 1,
        {"--save " + to + " is being written by another run (process ", "; give another folder, or wait for it"});
    EXPECT_EQ(run_command(tessera({"inspect", to, "--quick"})).exit_code, 0);
    ::kill(first.pid(), SIGKILL);
    first.wait();
    std::string newest;  // "step-00000041"
    for (const auto& entry : fs::directory_iterator(to))
      if (const std::string name = entry.path().filename();
          name.starts_with("step-") && entry.path().extension().empty())
        newest = std::max(newest, name);
    const std::string steps = "--steps=" + std::to_string(std::stoi(newest.substr(5)) + 1);
    expect_message(run_command(train({steps, nproc, "--save=" + to, "--resume=" + to})), 0, {"resumed from "});
    EXPECT_FALSE(fs::exists(to + "/save.lock"));
  }
}

/// A user removes the folder of a run that saves into it, and starts another one there.
TEST_F(CheckpointFiles, AFolderThatAnotherRunHasByNowIsLeftAlone) {
  for (const Words& more : {Words{"--save-async"}, Words{"--nproc=2", "--strategy=fsdp", "--comm=local"}}) {
    const std::string to = folder() + more.front();
    Words flags = {"--steps=1000000", "--save-every=1", "--save=" + to};
    flags.insert(flags.end(), more.begin(), more.end());
    Command first(train(flags));
    ASSERT_TRUE(first.wait_for("saved " + to)) << first.err();
    ::kill(-first.pid(), SIGSTOP);
    fs::remove_all(to);
    Command second(train(flags));
    // Past the step in which the first was stopped.
    ASSERT_TRUE(second.wait_for("saved " + to + "/step-00000016")) << second.err();
    ::kill(-first.pid(), SIGCONT);
    const std::string holder = "another run (process " + std::to_string(second.pid());
    EXPECT_TRUE(first.wait_for("--save " + to + " is being written by " + holder)) << first.err();
    ::kill(second.pid(), SIGTERM);
    const CommandResult ended = second.wait();
    expect_message(ended, 0, {"stopped after step"});
    EXPECT_EQ(ended.err.find("was not saved"), std::string::npos) << ended.err;
    const std::vector<int64_t> steps = host::saved_steps(to);
    EXPECT_TRUE(first.wait_for("and another run has saved " + host::step_folder_name(steps.at(0)))) << first.err();
    ::kill(first.pid(), SIGTERM);
    expect_message(first.wait(), 1, {" was not written: ", "--save " + to + " holds no checkpoint of this run"});
    EXPECT_EQ(host::saved_steps(to), steps);
    EXPECT_EQ(run_command(tessera({"inspect", to})).exit_code, 0);
  }
}

// A user who prepares the next run changes the model's folder while this one trains.
TEST_F(CheckpointFiles, AModelFolderThatChangesMeanwhile) {
  const TempFolder work;
  fs::copy(golden(), work.path("model"));
  const std::string config = work.path("model") + "/config.json", text = file_bytes(config);
  Words words = train({"--steps=200", "--save=" + work.path("run")});
  *(std::ranges::find(words, "--model") + 1) = work.path("model");
  Command training(words);
  training.wait_for("step ");
  const size_t gelu = text.find("gelu_new");
  ASSERT_NE(gelu, std::string::npos);
  std::ofstream(config, std::ios::binary) << std::string(text).replace(gelu, 8, "relu");
  const CommandResult run = training.wait();
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(file_bytes(work.path("run") + "/step-00000200/config.json"), text);
}

TEST_F(CheckpointFiles, ANewRunHasNoBestOfTheOneBefore) {
  const std::string to = folder() + "-best";
  const CommandResult before =
      run_command(train({"--steps=2", "--save=" + to, "--save-best", "--eval-data=" + golden("/tokens.bin"),
                         "--eval-every=1", "--eval-batches=1"}));
  ASSERT_EQ(before.exit_code, 0) << before.err;
  ASSERT_TRUE(fs::exists(to + "/best"));
  expect_message(run_command(train({"--steps=3", "--save=" + to, "--resume=" + to})), 0, {});
  EXPECT_TRUE(fs::exists(to + "/best"));
  expect_message(run_command(train({"--steps=2", "--save=" + to, "--overwrite"})), 0, {});
  EXPECT_FALSE(fs::exists(to + "/best"));
  expect_message(run_command(tessera({"inspect", to + "/best"})), 2, {"holds no checkpoint"});
}

TEST_F(CheckpointFiles, FoldersOfSomebodyWithItsNamesStay) {
  for (const std::string name : {"/step-00000001", "/step-00000009.partial"}) {
    const std::string to = folder() + "-with-" + name.substr(1), thesis = to + name + "/thesis.txt";
    fs::create_directories(to + name);
    write_file(thesis, "mine");
    for (const Words& more : {Words{}, Words{"--overwrite"}}) {
      Words flags = {"--steps=1", "--save=" + to};
      flags.insert(flags.end(), more.begin(), more.end());
      expect_message(run_command(train(flags)), 2,
                     {"--save " + to + ": " + to + name +
                      " has the name of a checkpoint, and holds thesis.txt, which "
                      "no checkpoint has; move it away, or give another folder"});
      EXPECT_EQ(file_bytes(thesis), "mine");
    }
  }
}

TEST_F(CheckpointFiles, WithoutLatestTheNewestIsTaken) {
  fs::remove(folder() + "/latest");
  const CommandResult run = resume(folder());
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_NE(run.err.find("latest is missing or does not name a step; the newest step is taken"), std::string::npos);
  EXPECT_NE(run.err.find("resumed from " + folder() + "/step-00000006"), std::string::npos) << run.err;
}

/// A crash between the rename and `latest`.
TEST_F(CheckpointFiles, LatestDecides) {
  write_file(folder() + "/latest", "step-00000004\n");
  EXPECT_NE(resume(folder()).err.find("resumed from " + folder() + "/step-00000004"), std::string::npos);
}

TEST_F(CheckpointFiles, AnotherOptimizerNeedsItsOwnState) {
  const CommandResult run = resume(folder(), {"--optimizer=sgd"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_NE(run.err.find("has the state of --optimizer adamw, and this run has sgd; give --optimizer adamw, or start "
                         "from its parameters alone with --init-from"),
            std::string::npos)
      << run.err;
}

TEST_F(CheckpointFiles, WhatWasFrozenHasNoMoments) {
  const std::string from = folder() + "-frozen";
  ASSERT_EQ(run_command(train({"--steps=1", "--freeze=wte*", "--save=" + from})).exit_code, 0);
  const CommandResult run = run_command(train({"--steps=2", "--resume=" + from}));
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_NE(run.err.find("has no optim.wte.weight.m: it was saved with another --optimizer or --freeze"),
            std::string::npos)
      << run.err;
}

TEST_F(CheckpointFiles, SettingsThatChangeTheRunAreListed) {
  const CommandResult run = resume(folder(), {"--grad-accum=2", "--seed=1"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_NE(run.err.find("the run continues with other settings: sequences per step 4 (was 2), --grad-accum 2 (was 1), "
                         "--seed 1 (was 1337), --steps 7 (was 6)"),
            std::string::npos)
      << run.err;
}

/// The batch is of a rank.
TEST_F(CheckpointFiles, AmongThemAreTheSequencesOfAStepOnOtherRanks) {
  const auto settings = [&](const Words& flags) {
    Words more = {"--steps=7", "--resume=" + folder()};
    more.insert(more.end(), flags.begin(), flags.end());
    const CommandResult run = run_command(train(more));
    EXPECT_EQ(run.exit_code, 0) << run.err;
    const size_t begin = run.err.find("other settings: ");
    return run.err.substr(begin, run.err.find('\n', begin) - begin);
  };
  EXPECT_EQ(settings({}), "other settings: sequences per step 1 (was 2), --steps 7 (was 6)");
  EXPECT_EQ(settings({"--grad-accum=2"}), "other settings: --steps 7 (was 6)");
}

TEST_F(CheckpointFiles, OtherDataOfTheSameSizeIsAmongThem) {
  std::string bytes = file_bytes(golden("/tokens.bin"));
  bytes.at(bytes.size() - 2) ^= 1;
  const std::string other = folder() + "-other.bin", copy = folder() + "-copy.bin";
  write_file(other, bytes);
  fs::copy_file(golden("/tokens.bin"), copy);
  for (const std::string& data : {other, copy}) {
    Words words = train({"--steps=7", "--resume=" + folder()});
    std::ranges::replace(words, golden("/tokens.bin"), data);
    const CommandResult run = run_command(words);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    const bool is_said = run.err.find("data of the same size with other contents, ") != std::string::npos;
    EXPECT_EQ(is_said, data == other) << run.err;
  }
}

TEST_F(CheckpointFiles, InspectShowsTheNewest) {
  const CommandResult text = run_command(tessera({"inspect", folder()}));
  EXPECT_EQ(text.exit_code, 0) << text.err;
  for (const char* part : {"step-00000006", "step        6, with 6 updates; 384 tokens seen", "layout      dp=2 fsdp",
                           "52 parameters of 120864 elements, 104 moments", "all match"})
    EXPECT_NE(text.out.find(part), std::string::npos) << part << " is missing in\n" << text.out;
  const auto json = nlohmann::json::parse(run_command(tessera({"inspect", folder(), "--json"})).out);
  EXPECT_EQ(json["state"]["step"], 6);
  EXPECT_EQ(json["checked"], true);
  EXPECT_TRUE(json["damage"].empty());
  EXPECT_EQ(json["tensors"]["wte.weight"]["shape"], nlohmann::json({96, 48}));
}

TEST_F(CheckpointFiles, InspectFindsDamage) {
  flip(file("rank-00001.safetensors"), 300000);
  flip(file("config.json"), 20);
  const CommandResult run = run_command(tessera({"inspect", folder(), "--json"}));
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_EQ(nlohmann::json::parse(run.out)["damage"].size(), 2u);
  EXPECT_EQ(run_command(tessera({"inspect", folder(), "--quick"})).exit_code, 0);
}

/// Every byte of every file is covered by a checksum: each of 60 flipped bits is found.
TEST_F(CheckpointFiles, VerifyFindsEveryFlippedBit) {
  for (const char* name : {"rank-00000.safetensors", "rank-00001.safetensors"}) {
    const std::string bytes = file_bytes(file(name));
    for (size_t i = 0; i < 30; ++i) {
      flip(file(name), i < 10 ? i * 7 : (i * 7919 * 7919) % bytes.size());
      EXPECT_EQ(host::Checkpoint(folder() + "/step-00000006").verify().size(), 1u) << name << " " << i;
      write_file(file(name), bytes);
    }
  }
  EXPECT_TRUE(host::Checkpoint(folder() + "/step-00000006").verify().empty());
}

/// The function of docs/checkpoint-format.md.
std::string documented_reader() {
  const std::string text = file_bytes(source_dir("docs/checkpoint-format.md"));
  const size_t begin = text.find("```python\n") + 10;
  return text.substr(begin, text.find("```", begin) - begin);
}

/// By `python`, all tensors have the values that Checkpoint reads.
void expect_python_reads(const std::string& python, const std::string& from) {
  const std::string to = from + "-values";
  const std::string script = documented_reader() +
                             "import sys\nwith open(sys.argv[2], 'wb') as out:\n"
                             "    for name in sorted(json.load(open(f'{sys.argv[1]}/index.json'))['tensors']):\n"
                             "        out.write(load(sys.argv[1], name).tobytes())\n";
  const CommandResult run = run_command({"/usr/bin/env", python, "-c", script, from, to});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const host::Checkpoint checkpoint(from);
  std::string expected;
  for (const auto& [name, tensor] : checkpoint.index().tensors) {
    std::vector<float> values(tensor.num_elements());
    checkpoint.read(name, 0, values);
    expected += raw_bytes(values);
  }
  EXPECT_TRUE(file_bytes(to) == expected) << from;
}

TEST_F(CheckpointFiles, PythonReadsThem) {
  const auto has_numpy = [](const std::string& python) {
    return run_command({"/usr/bin/env", python, "-c", "import numpy"}).exit_code == 0;
  };
  const char* given = std::getenv("TESSERA_PYTHON");
  std::string python = given ? given : "python3";
  if (!given && !has_numpy(python)) python = "/usr/bin/python3";  // that of Debian, where another one comes first
  ASSERT_TRUE(has_numpy(python)) << python
                                 << " lacks numpy: install python3-numpy, as ./dev test does, or name another "
                                 << "Python in TESSERA_PYTHON";
  expect_python_reads(python, folder() + "/step-00000006");
  for (const char* dtype : {"bf16", "fp16"}) {
    const std::string saved = folder() + "-" + dtype;
    const CommandResult run = run_command(
        train({"--steps=1", "--freeze=wte*", "--nproc=2", std::string("--dtype=") + dtype, "--save=" + saved}));
    ASSERT_EQ(run.exit_code, 0) << run.err;
    expect_python_reads(python, saved + "/step-00000001");
  }
}

}  // namespace
}  // namespace tessera::testing
