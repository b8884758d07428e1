// tessera train --out, --config and --print-config: what the folder of a run holds, and how it is read back.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "e2e/cli.h"
#include "support/event_reader.h"
#include "support/patience.h"

namespace tessera::testing {
namespace {

using Words = std::vector<std::string>;
using nlohmann::json;

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

Words event_files(const std::string& folder) {
  Words files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().filename().string().starts_with("events.out.tfevents.")) files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

json config_of(const std::string& folder) {
  return json::parse(file_bytes(folder + "/config.json"));
}

/// The golden model's own data, judged too: losses at steps 2 and 4.
Words evaluated(Words more) {
  more.insert(more.begin(), {"--eval-data=" + golden("/tokens.bin"), "--eval-every=2", "--eval-batches=1"});
  return train(std::move(more));
}

/// Events and metrics of a folder have the same numbers.
void expect_equal_events(const std::string& folder) {
  std::map<int64_t, std::map<std::string, float>> expected, found;
  for (const json& line : read_json_lines(folder + "/metrics.jsonl")) {
    if (line.contains("step")) {
      auto& step = expected[line["step"]];
      step["train/loss"] = line["loss"];
      step["train/norm"] = line["grad_norm"];
      step["train/lr"] = line["lr"];
      step["train/tokens_per_second"] = line["tokens_per_second"];
      step["memory/bytes"] = line["memory_bytes"];
      step["memory/peak_bytes"] = line["peak_memory_bytes"];
    }
    if (line.value("kind", "") == "eval") {
      expected[line["after_step"]]["eval/loss"] = line["loss"];
      expected[line["after_step"]]["eval/perplexity"] = line["perplexity"];
    }
  }
  for (const std::string& file : event_files(folder)) {
    const auto events = EventReader::read(file_bytes(file));
    ASSERT_GE(events.size(), 3u);
    EXPECT_EQ(events[0].version, "brain.Event:2");
    EXPECT_TRUE(events[1].is_start);
    std::erase_if(found, [&](const auto& step) { return step.first >= events[1].step; });  // as TensorBoard does
    for (const ReadEvent& event : events)
      for (const auto& [tag, value] : event.scalars)
        found[event.step][tag] = value;
  }
  EXPECT_EQ(found, expected);
}

TEST(Record, HoldsTheRun) {
  const TempFolder folder;
  const std::string out = folder.path("runs/a");
  const CommandResult result = run_command(evaluated({"--steps=4", "--nproc=2", "--strategy=fsdp", "--out", out}));
  expect_message(result, 0, {"done: 4 steps"});
  const auto lines = read_json_lines(out + "/metrics.jsonl");
  ASSERT_EQ(lines.size(), 1u + 4 + 2);
  for (const char* name : {"host", "system", "cores", "memory", "compiler"})
    EXPECT_FALSE(lines[0]["environment"].value(name, "").empty()) << name;
  expect_equal_events(out);
  const json config = config_of(out);
  EXPECT_EQ(config["mesh"], "dp=2");
  EXPECT_EQ(config["strategy"], "dp=fsdp");
  EXPECT_EQ(config["seq-len"], 32);
  EXPECT_EQ(config["data-order"], "sequential");
  EXPECT_EQ(config["out"], out);
  EXPECT_TRUE(std::ranges::any_of(config.items(), [](const auto& item) { return item.key().starts_with("fsdp."); }));
  EXPECT_EQ(json::parse(file_bytes(out + "/plan.json"))["ranks"], 2);
  EXPECT_NE(file_bytes(out + "/plan.txt").find("parameters"), std::string::npos);
  EXPECT_EQ(file_bytes(out + "/plan.txt").find("not estimated"), std::string::npos);  // none was asked for
  EXPECT_NE(file_bytes(out + "/step.svg").find("</svg>"), std::string::npos);
  const std::string log = file_bytes(out + "/log.rank0.txt"), other = file_bytes(out + "/log.rank1.txt");
  for (const std::string part : {"rank 0 of 2 begins", "done: 4 steps"})
    EXPECT_NE(log.find(part), std::string::npos) << part << " is missing in\n" << log;
  for (const std::string part : {"rank 1 of 2 begins", "note: step 1, ", "ends after step 4"})
    EXPECT_NE(other.find(part), std::string::npos) << part << " is missing in\n" << other;
}

TEST(Record, OfThreadsHasTheLogOfEveryRank) {
  const TempFolder folder;
  const std::string out = folder.path("a");
  expect_message(run_command(train({"--steps=2", "--nproc=3", "--comm=local", "--out", out})), 0, {});
  for (const int rank : {0, 1, 2})
    EXPECT_NE(file_bytes(out + "/log.rank" + std::to_string(rank) + ".txt")
                  .find("rank " + std::to_string(rank) + " of 3 begins"),
              std::string::npos);
  expect_equal_events(out);
}

TEST(Record, IsOneRuns) {
  const TempFolder folder;
  const std::string out = folder.path("a"), save = folder.path("save");
  expect_message(run_command(evaluated({"--steps=2", "--out", out, "--save", save})), 0, {});
  for (const char* nproc : {"--nproc=1", "--nproc=2"})
    expect_message(
        run_command(evaluated({"--steps=2", nproc, "--out", out})), 2,
        {"--out " + out + " has the record of a run; give another folder, or continue that run with --resume"});
  const std::string before = file_bytes(out + "/config.json");
  expect_message(run_command(evaluated({"--steps=6", "--out", out, "--save", save, "--resume=latest"})), 0, {});
  EXPECT_EQ(event_files(out).size(), 2u);
  EXPECT_EQ(count(file_bytes(out + "/log.rank0.txt"), "rank 0 of 1 begins"), 2u);
  EXPECT_EQ(file_bytes(out + "/config.1.json"), before);
  EXPECT_EQ(config_of(out)["steps"], 6);
  EXPECT_EQ(read_metrics(out + "/metrics.jsonl").size(), 6u);
  expect_equal_events(out);
}

TEST(Record, OfTwoRunsIsDoubted) {
  const TempFolder folder;
  const std::string a = folder.path("a"), b = folder.path("b"), doubt = "if that is another run's";
  for (const std::string& run : {a, b})
    expect_message(run_command(train({"--steps=1", "--out", run, "--save", run + "/save"})), 0, {});
  const auto resume = [&](const std::string& from, const std::string& out, Words more) {
    more.insert(more.end(), {"--steps=2", "--resume", from, "--out", out});
    return run_command(train(more));
  };
  expect_message(resume(b + "/save", a, {}), 0,
                 {"--out " + a + " has the record of a run with --save " + a + "/save, and this run continues " + b,
                  doubt, "give each run a folder of its own"});
  for (const char* from : {"/save", "/save/step-00000001", "/save/latest"})
    EXPECT_EQ(resume(b + from, b, {"--overwrite"}).err.find(doubt), std::string::npos) << from;
}

TEST(Record, BeginsAnewInAnotherFolder) {
  const TempFolder folder;
  const std::string a = folder.path("a"), b = folder.path("b"), config = a + "/config.json";
  std::filesystem::create_directory(a);
  expect_message(run_command(train({"--steps=1", "--out", a, "--save", a + "/save", "--metrics", a + "/m.jsonl"})), 0,
                 {});
  const CommandResult longer = run_command(tessera({"train", "--config", config, "--resume=latest", "--steps=2"}));
  expect_message(longer, 0, {"resumed from " + a, "--steps 2 (was 1)"});
  EXPECT_EQ(longer.err.find("--data-order"), std::string::npos) << longer.err;  // its default, which config.json has
  expect_message(run_command(tessera({"train", "--config", config, "--out", b, "--save", b + "/save"})), 0,
                 {"\"resume\", " + a + "/save, is ignored, since the command line has --save",
                  "\"metrics\", " + a + "/m.jsonl, is ignored, since the command line has --out"});
  EXPECT_EQ(read_metrics(b + "/metrics.jsonl").size(), 2u);
}

// A resumed run repeats the steps after its checkpoint: TensorBoard drops what the killed one had of these.
TEST(Record, OfARunThatWentBackHasEachStepOnce) {
  const TempFolder folder;
  const std::string out = folder.path("a"), save = folder.path("save");
  expect_message(run_command(train({"--steps=5", "--out", out, "--save", save, "--save-every=3", "--keep=0"})), 0, {});
  std::filesystem::remove_all(save + "/step-00000005");
  expect_message(run_command(train({"--steps=5", "--out", out, "--save", save, "--resume", save + "/step-00000003"})),
                 0, {});
  const auto second = EventReader::read(file_bytes(event_files(out).at(1)));
  EXPECT_EQ(second[1].step, 4);
  EXPECT_EQ(second[2].step, 4);
  expect_equal_events(out);
}

TEST(Record, NeverReplacesWhatIsNotOurs) {
  const TempFolder folder;
  std::filesystem::copy(golden(), folder.path("model"));
  const std::string config = file_bytes(folder.path("model/config.json"));
  const Words job = {"train",     "--model",        folder.path("model"), "--data",     golden("/tokens.bin"),
                     "--steps=1", "--batch-size=1", "--seq-len=32",       "--threads=1"};
  const auto with = [&](Words more) {
    Words all = job;
    all.insert(all.end(), more.begin(), more.end());
    return run_command(tessera(all));
  };
  expect_message(with({"--overwrite", "--out", folder.path("model")}), 2,
                 {"/config.json is a file that the job reads"});
  EXPECT_EQ(file_bytes(folder.path("model/config.json")), config);
  folder.write("notes/plan.txt", "mine");
  expect_message(with({"--out", folder.path("notes")}), 2, {"notes/plan.txt exists and was not written by tessera"});
  EXPECT_EQ(file_bytes(folder.path("notes/plan.txt")), "mine");
  folder.write("data/a.txt", std::string(100, 'a'));
  expect_message(run_command(tessera({"train", "--model", golden(), "--data", folder.path("data"), "--steps=1", "--out",
                                      folder.path("data/out")})),
                 2, {"is in the folder that the job reads for --data"});
  folder.write("file", "x");
  expect_message(with({"--out", folder.path("file")}), 2, {"is not a folder"});
  // A run that is refused leaves nothing.
  expect_message(with({"--out", folder.path("new"), "--device-memory=1KiB"}), 1, {});
  EXPECT_FALSE(std::filesystem::exists(folder.path("new")));
}

TEST(Record, AFullDiskDoesNotEndTheRun) {
  const TempFolder folder;
  for (const char* nproc : {"--nproc=1", "--nproc=2"}) {
    const std::string out = folder.path(nproc);
    std::filesystem::create_directories(out);
    std::filesystem::create_symlink("/dev/full", out + "/metrics.jsonl");
    const CommandResult result = run_command(train({"--steps=3", nproc, "--out", out}));
    expect_message(result, 0,
                   {"done: 3 steps", "metrics.jsonl cannot be written: No space left on device; the run continues",
                    "4 lines and records are missing"});
    EXPECT_EQ(count(result.err, "cannot be written: "), 1u) << result.err;
    EXPECT_EQ(EventReader::read(file_bytes(event_files(out).at(0))).size(), 2u + 3);
  }
}

/// Root may write anywhere, so it runs as another user.
TEST(Record, AFolderThatCannotBeWrittenIsRefused) {
  const TempFolder folder;
  const std::string out = folder.path("out");
  std::filesystem::create_directories(out);
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0755));
  std::filesystem::permissions(out, std::filesystem::perms(0555));
  std::vector<std::string> as_other;
  if (geteuid() == 0) as_other = {"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"};
  const auto by_other = [&](std::vector<std::string> command) {
    command.insert(command.begin(), as_other.begin(), as_other.end());
    return run_command(command);
  };
  if (by_other({"test", "-r", golden("/config.json"), "-a", "-x", out}).exit_code != 0)
    GTEST_SKIP() << "needs setpriv, and a checkout and a folder for temporary files that other users can read";
  expect_message(by_other(train({"--steps=3", "--out", out})), 2,
                 {"--out " + out + " cannot be written: Permission denied; give a folder in which"});
}

/// What cannot be written when the run begins is missing, and the rest is there.
TEST(Record, ADiskThatRefusesItsBeginningDoesNotEndTheRun) {
  const TempFolder folder;
  for (const std::string name : {"config.json", "plan.txt"}) {
    const std::string out = folder.path(name), taken = out + "/" + name + ".partial";
    std::filesystem::create_directories(taken);
    expect_message(
        run_command(train({"--steps=3", "--out", out})), 0,
        {"done: 3 steps", "--out " + out + ": cannot create " + taken + ": Is a directory; the run continues"});
    EXPECT_FALSE(std::filesystem::exists(out + "/" + name));
    expect_equal_events(out);
    EXPECT_EQ(read_metrics(out + "/metrics.jsonl").size(), 3u);
  }
}

/// Two runs would write their lines among one another.
TEST(Record, IsWrittenByOneRunAtATime) {
  const TempFolder folder;
  const std::string out = folder.path("a"), save = folder.path("save");
  expect_message(run_command(train({"--steps=1", "--save", save})), 0, {});
  Command first(train({"--steps=1000000", "--resume", save, "--out", out}));
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(out + "/metrics.jsonl"); }));
  expect_message(
      run_command(train({"--steps=3", "--resume", save, "--out", out})), 1,
      {"--out " + out + " is being written by another run (process ", "; give another folder, or wait for it"});
  ::kill(first.pid(), SIGKILL);
  first.wait();
  expect_message(run_command(train({"--steps=3", "--resume", save, "--out", out})), 0, {"done: "});
}

TEST(Record, OfAFailedRunSaysWhy) {
  const TempFolder folder;
  const std::string out = folder.path("a");
  expect_message(run_command(tessera({"train", "--model", golden(), "--data", golden("/tokens.bin"), "--batch-size=1",
                                      "--seq-len=32", "--threads=1", "--steps=40", "--lr=1e30", "--out", out})),
                 1, {});
  EXPECT_NE(file_bytes(out + "/log.rank0.txt").find("note: fails: "), std::string::npos);
}

TEST(Record, HasTheLinesOfTheLauncherToo) {
  const TempFolder folder;
  const std::string first = folder.path("first"), out = folder.path("a");
  expect_message(run_command(train({"--steps=2", "--nproc=2", "--out", first})), 0, {});
  const CommandResult lost = run_command(
      tessera({"train", "--config", first + "/config.json", "--steps=40", "--lr=1e30", "--clip=0", "--out", out}));
  const std::string log = file_bytes(out + "/log.rank0.txt"), failure = "the job failed after step 21\n  cause: ";
  expect_message(lost, 1, {"--config", failure});
  const size_t settings = log.find("--config"), begins = log.find("rank 0 of 2 begins"), end = log.find(failure);
  EXPECT_LT(settings, begins) << log;
  EXPECT_LT(begins, end) << log;
  EXPECT_NE(end, log.npos) << log;
}

TEST(Config, ARunIsRepeatedByItsRecord) {
  const TempFolder folder;
  const std::string a = folder.path("a"), b = folder.path("b");
  expect_message(run_command(evaluated({"--steps=3", "--nproc=2", "--strategy=fsdp", "--clip=0.5", "--out", a})), 0,
                 {});
  const CommandResult again = run_command(tessera({"train", "--config", a + "/config.json", "--out", b, "--steps=4"}));
  expect_message(
      again, 0,
      {"--steps is 4, from the command line; --config " + a + "/config.json has 3", "--out is " + b, "done: 4 steps"});
  EXPECT_EQ(count(again.err, "--steps is 4"), 1u);
  const auto first = read_metrics(a + "/metrics.jsonl"), second = read_metrics(b + "/metrics.jsonl");
  ASSERT_EQ(second.size(), 4u);
  for (size_t i = 0; i < first.size(); ++i)
    EXPECT_EQ(first[i]["loss"], second[i]["loss"]);
  expect_message(run_command(tessera({"plan", "--config", a + "/config.json", "--verify"})), 0, {});
  expect_message(run_command(tessera({"eval", golden(), "--config", a + "/config.json", "--eval-batches=1"})), 0,
                 {"evaluation: loss"});
}

TEST(Config, OfARunThatOffloadsServesEval) {
  const TempFolder folder;
  const std::string out = folder.path("a");
  expect_message(run_command(evaluated({"--steps=1", "--offload=optimizer-state", "--out", out})), 0, {});
  expect_message(run_command(tessera({"eval", golden(), "--config", out + "/config.json", "--eval-batches=1"})), 0,
                 {"evaluation: loss"});
}

/// A relative path in it counts from the current folder, which may be another one than that of the run.
TEST(Config, OfARunInAnotherFolderIsNamedWithItsPath) {
  const TempFolder folder;
  const std::string config = folder.write("c.json", R"({"model": "tiny", "data": "text.txt"})");
  const std::string origin = "; a relative path there counts from the current folder: start in the folder";
  for (const char* command : {"train", "plan"})
    expect_message(run_command(tessera({command, "--config", config})), 2,
                   {"--model tiny: there is neither", " (--model is of --config " + config + origin});
  expect_message(run_command(tessera({"train", "--config", config, "--model=mlp:2,4,3"})), 2,
                 {"--data text.txt", " (--data is of --config " + config + origin});
  const CommandResult given = run_command(tessera({"train", "--config", config, "--model=miny"}));
  EXPECT_EQ(given.err.find("is of --config"), std::string::npos) << given.err;
}

TEST(Config, SaysWhereANameWasNotUtf8) {
  const TempFolder folder;
  const std::string data = folder.write("b\xff.bin", file_bytes(golden("/tokens.bin"))), out = folder.path("out");
  Words words = {"train",          "--model",      golden(),      "--data",   data,
                 "--batch-size=1", "--seq-len=32", "--threads=1", "--steps=1"};
  words.insert(words.end(), {"--out", out});
  expect_message(run_command(tessera(words)), 0, {"config.json cannot hold the value of --data, which is not UTF-8"});
  expect_message(run_command(tessera({"train", "--config", out + "/config.json", "--out", folder.path("again")})), 2,
                 {"(--data is of --config " + out + "/config.json, where "});
}

TEST(Config, IsReadFromAPipe) {
  const std::string print = R"("$0" train --model mlp:2,4,3 --data x.csv --print-config)";
  const auto piped = [&](const std::string& flags) {
    return run_command({"bash", "-c", print + R"( | "$0" train --config /dev/stdin )" + flags, tessera_program()});
  };
  const CommandResult once = run_command({"bash", "-c", print, tessera_program()});
  const CommandResult again = piped("--print-config");
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(again.out, once.out);
  const TempFolder folder;
  const std::string data = folder.write("x.csv", "0,1,2\n1,0,1\n");
  expect_message(piped("--steps=1 --nproc=2 --data " + data), 2,
                 {"--config /dev/stdin is a pipe, which can be read once, and each of 2 ranks reads it"});
}

TEST(Record, IsNotWrittenIntoACheckpoint) {
  const TempFolder folder;
  const std::string save = folder.path("save"), checkpoint = save + "/step-00000001";
  expect_message(run_command(evaluated({"--steps=1", "--save", save})), 0, {});
  for (const char* flag : {"--save", "--out"})
    expect_message(
        run_command(evaluated({"--steps=1", flag, checkpoint})), 2,
        {std::string(flag) + " " + checkpoint + " is a checkpoint, which has index.json; give another folder"});
  const std::string file = checkpoint + "/metrics.jsonl";
  for (const char* flag : {"--metrics", "--profile-out", "--save", "--out"})
    expect_message(run_command(evaluated({"--steps=1", "--profile=1:1", flag, file})), 2,
                   {flag + (" " + file) + " is in a checkpoint, which has its own files alone; give another folder"});
  expect_message(run_command(evaluated({"--steps=1", "--out", folder.path("run")})), 0, {});
  for (const auto& [name, command] : std::map<std::string, Words>{
           {"--svg", {"plan", "--model", golden(), "--svg", checkpoint + "/plan.svg"}},
           {"--rates", {"bench", "rates", "--model", golden(), "--rates", checkpoint + "/rates.json"}},
           {"OUT", {"convert", golden(), checkpoint + "/a/hf/"}},
           {"--to", {"report", folder.path("run"), "--to", checkpoint + "/report.html"}}})
    expect_message(run_command(tessera(command)), 2,
                   {name + " " + command.back() + " is in a checkpoint, which has its own files alone"});
}

TEST(Config, IsPrintedAsItIsRecorded) {
  const TempFolder folder;
  const std::string out = folder.path("a");
  const Words words = train({"--steps=1", "--nproc=2", "--out", out});
  Words print = words;
  print.push_back("--print-config");
  const CommandResult printed = run_command(print);
  expect_message(printed, 0, {});
  EXPECT_FALSE(std::filesystem::exists(out));
  expect_message(run_command(words), 0, {});
  EXPECT_EQ(printed.out, file_bytes(out + "/config.json"));
  print[1] = "plan";
  EXPECT_EQ(run_command(print).out, printed.out);
  const CommandResult eval =
      run_command(tessera({"eval", golden(), "--data", golden("/tokens.bin"), "--print-config", "--threads=1"}));
  EXPECT_EQ(json::parse(eval.out)["model"], golden());
  EXPECT_FALSE(json::parse(eval.out).contains("lr"));
}

// The package tensorboard is an independent reader, and the one that counts.
TEST(TensorBoard, LoadsTheRecord) {
  const char* given = std::getenv("TESSERA_PYTHON");
  const std::string python = given ? given : "python3";
  if (run_command({"/usr/bin/env", python, "-c", "import tensorboard"}).exit_code != 0)
    GTEST_SKIP() << "needs tensorboard in " << python << " (TESSERA_PYTHON names another Python)";
  const TempFolder folder;
  const std::string out = folder.path("a"), save = folder.path("save");
  expect_message(run_command(evaluated({"--steps=5", "--out", out, "--save", save, "--save-every=2", "--keep=0"})), 0,
                 {});
  expect_message(run_command(evaluated(
                     {"--steps=7", "--out", out, "--save", save, "--resume", save + "/step-00000004", "--overwrite"})),
                 0, {});
  const CommandResult read =
      run_command({"/usr/bin/env", python, source_dir("tests/judge/tensorboard_scalars.py"), out});
  ASSERT_EQ(read.exit_code, 0) << read.err;
  const json scalars = json::parse(read.out);
  std::map<int64_t, float> loss, eval;  // of metrics, without the steps that were repeated
  for (const json& line : read_json_lines(out + "/metrics.jsonl")) {
    if (line.contains("resumed_step"))
      for (auto* curve : {&loss, &eval})
        std::erase_if(*curve, [&](const auto& point) { return point.first > line["resumed_step"]; });
    if (line.contains("step")) loss[line["step"]] = line["loss"];
    if (line.value("kind", "") == "eval") eval[line["after_step"]] = line["loss"];
  }
  for (const auto& [tag, expected] : {std::pair("train/loss", loss), {"eval/loss", eval}}) {
    std::map<int64_t, float> found;
    for (const json& point : scalars[tag])
      found[point[0]] = point[1];
    EXPECT_EQ(found, expected) << tag;
    EXPECT_EQ(scalars[tag].size(), expected.size()) << tag << " has a step twice";
  }
  for (const char* tag : {"train/norm", "train/lr", "train/tokens_per_second", "memory/bytes", "memory/peak_bytes"})
    EXPECT_EQ(scalars[tag].size(), 7u) << tag;
}

}  // namespace
}  // namespace tessera::testing
