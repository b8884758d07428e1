// train --profile: the trace holds every action of every rank; tessera trace and plan --trace read it.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include "e2e/cli.h"

namespace tessera::testing {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

void expect_all(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << part << " is missing in\n" << text;
}

/// Number of actions on each line that begins with an index, in the step program as plan prints it.
size_t num_planned_actions(const std::vector<std::string>& flags) {
  std::vector<std::string> all = {"plan", "--model", golden(), "--batch-size=1", "--seq-len=32", "--json"};
  all.insert(all.end(), flags.begin(), flags.end());
  const json plan = json::parse(run_command(tessera(all)).out);
  for (const json& program : plan["programs"])
    if (program["name"] == "step") return program["actions"];
  return 0;
}

/// A run's trace: actions by rank and step, each of which holds all indices of the program once.
void expect_whole(const json& trace, int num_ranks, const std::set<int64_t>& steps, size_t num_actions) {
  std::map<std::pair<int, int64_t>, std::set<size_t>> found;
  std::map<std::pair<int, int>, double> free_from;  // by thread: actions of a stream do not overlap
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    const int rank = event["pid"];
    auto& actions = found[{rank, event["args"]["step"]}];
    EXPECT_TRUE(actions.insert(event["args"]["action"].get<size_t>()).second) << event;
    EXPECT_GE(event["ts"].get<double>(), 0) << event;
    double& free = free_from[{rank, event["tid"]}];
    EXPECT_GE(event["ts"].get<double>(), free - 0.002) << event;
    free = event["ts"].get<double>() + event["dur"].get<double>();
  }
  EXPECT_EQ(found.size(), static_cast<size_t>(num_ranks) * steps.size());
  for (const auto& [of, actions] : found) {
    EXPECT_TRUE(steps.contains(of.second)) << of.second;
    EXPECT_EQ(actions.size(), num_actions) << "rank " << of.first << " step " << of.second;
  }
}

class ProfileOver : public ::testing::TestWithParam<const char*> {};

TEST_P(ProfileOver, HoldsEveryActionOfEveryRank) {
  const TempFolder folder;
  const std::string file = folder.path("t.json"), svg = folder.path("both.svg");
  const std::vector<std::string> ranks = {"--nproc=2", "--strategy=fsdp"};
  const CommandResult run = run_command(train({"--nproc=2", "--strategy=fsdp", std::string("--comm=") + GetParam(),
                                               "--steps=4", "--profile=2:3", "--profile-out", file}));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  expect_all(run.err, {"trace: --profile 2:3 is in " + file, "\n  time by action   ", "\n  communication    "});
  expect_whole(json::parse(file_bytes(file)), 2, {2, 3}, num_planned_actions(ranks));

  const CommandResult summary = run_command(tessera({"trace", file}));
  EXPECT_EQ(summary.exit_code, 0) << summary.err;
  expect_all(summary.out, {"on dp=2 fsdp; steps 2 to 3; 2 ranks", "critical path of a step", "forward", "all_gather",
                           "comm.dp.gather", "hidden by compute"});

  std::vector<std::string> plan = {"plan", "--model", golden(), "--batch-size=1", "--seq-len=32", "--trace", file};
  plan.insert(plan.end(), ranks.begin(), ranks.end());
  auto drawn = plan;
  drawn.insert(drawn.end(), {"--svg", svg});
  const CommandResult compared = run_command(tessera(drawn));
  EXPECT_EQ(compared.exit_code, 0) << compared.err;
  expect_all(compared.out, {"predicted by rates", "  (a rough estimate: ", "measured in steps 2 to 3", "reduce_scatter",
                            "compute idle"});
  expect_all(file_bytes(svg), {"run: forward", "of the run", "in the run for"});
  plan.push_back("--grad-accum=2");
  const CommandResult other = run_command(tessera(plan));
  EXPECT_EQ(other.exit_code, 2);
  expect_all(other.err, {file + " is of another program: a rank has ", "give plan the flags of that run"});
}
INSTANTIATE_TEST_SUITE_P(Communicators, ProfileOver, ::testing::Values("gloo", "local"));

TEST(Profile, MayLieInTheFolderOfTheRecordThatTheRunMakes) {
  const TempFolder folder;
  const std::string out = folder.path("new"), file = out + "/../new/t.json";
  EXPECT_EQ(run_command(train({"--steps=1", "--profile=1", "--out", out, "--profile-out", file})).exit_code, 0);
  EXPECT_TRUE(fs::exists(out + "/t.json"));
  const std::string elsewhere = folder.path("other/t.json");
  EXPECT_EQ(
      run_command(train({"--steps=1", "--profile=1", "--out", folder.path("b"), "--profile-out", elsewhere})).exit_code,
      2);
}

TEST(Profile, DoesNotChangeABit) {
  const TempFolder folder;
  const std::string metrics = folder.path("m.jsonl");
  const CommandResult plain = run_command(train({"--steps=3", "--metrics", metrics}));
  const CommandResult traced = run_command(
      train({"--steps=3", "--metrics", metrics, "--profile=1:3", "--profile-out", folder.path("t.json.gz")}));
  ASSERT_EQ(plain.exit_code + traced.exit_code, 0) << plain.err << traced.err;
  const auto steps = read_metrics(metrics);
  ASSERT_EQ(steps.size(), 6u);
  for (size_t i = 0; i < 3; ++i)
    for (const char* field : {"loss", "grad_norm"})
      EXPECT_EQ(steps[i][field], steps[i + 3][field]) << "step " << i + 1;
  EXPECT_EQ(run_command(tessera({"trace", folder.path("t.json.gz")})).exit_code, 0);
}

TEST(Profile, ReplacesOnlyATrace) {
  const TempFolder folder;
  const std::string file = folder.path("t.json.gz");
  const auto profiled = train({"--steps=1", "--profile=1", "--profile-out", file});
  EXPECT_EQ(run_command(profiled).exit_code, 0);
  EXPECT_EQ(run_command(profiled).exit_code, 0) << "its own file is replaced";
  std::ofstream(file) << "a letter";
  const CommandResult refused = run_command(profiled);
  EXPECT_EQ(refused.exit_code, 2);
  expect_all(refused.err, {"--profile-out " + file});
  EXPECT_EQ(file_bytes(file), "a letter");
}

/// The folder that it is started in is removed while its steps run; the last one is profiled.
CommandResult run_from_a_folder_that_goes(const TempFolder& folder, const std::string& trace) {
  const std::string start = folder.path("start");
  fs::create_directory(start);
  std::vector<std::string> words = {"/bin/sh", "-c", "cd \"$0\" && exec \"$@\"", start};
  const auto job = train({"--steps=1000", "--profile=1000", "--profile-out", trace});
  words.insert(words.end(), job.begin(), job.end());
  Command run(words);
  EXPECT_TRUE(run.wait_for("step    1/1000 ")) << run.err();
  fs::remove_all(start);
  return run.wait();
}

TEST(Profile, ATraceWhoseFolderIsGoneIsAWarning) {
  const TempFolder folder;
  expect_message(run_from_a_folder_that_goes(folder, "t.json"), 0,
                 {"no trace: --profile-out ", "start/t.json cannot be written: its folder ",
                  "No such file or directory; the run continues", "done: 1000 steps"});
}

TEST(Profile, ATraceElsewhereNeedsNoFolderOfTheStart) {
  const TempFolder folder;
  expect_message(run_from_a_folder_that_goes(folder, "../t.json"), 0, {"trace: --profile 1000:1000 is in ../t.json"});
  EXPECT_EQ(run_command(tessera({"trace", folder.path("t.json")})).exit_code, 0);
}

// A launcher that starts a job again gives the flags of its first start.
TEST(Profile, OfStepsThatAreDoneIsAWarning) {
  const TempFolder folder;
  const auto run = [&](const std::string& steps) {
    return run_command(train({steps, "--save", folder.path("save"), "--resume", folder.path("save"), "--profile=1:2",
                              "--profile-out", folder.path("t.json")}));
  };
  ASSERT_EQ(run("--steps=2").exit_code, 0);
  const std::string first = file_bytes(folder.path("t.json"));
  for (const char* done : {"2 of them", "none of them"}) {
    const CommandResult again = run("--steps=4");
    expect_message(again, 0,
                   {"--profile 1:2 is of steps that were done before this run, which continues after step ",
                    ": it writes no trace", std::string("done: 4 steps, ") + done + " in this run"});
    EXPECT_EQ(again.err.find("the run ended before these steps"), std::string::npos) << again.err;
    EXPECT_EQ(file_bytes(folder.path("t.json")), first);
  }
}

TEST(TraceCommand, RefusesWhatIsNoTrace) {
  const TempFolder folder;
  EXPECT_EQ(run_command(tessera({"trace"})).exit_code, 2);
  for (const char* text : {"", "{}", "{\"otherData\":{\"tessera_trace\":1,", "\x1f\x8b"}) {
    std::ofstream(folder.path("bad")) << text;
    const CommandResult refused = run_command(tessera({"trace", folder.path("bad")}));
    EXPECT_EQ(refused.exit_code, 1) << refused.err;
    expect_all(refused.err, {folder.path("bad")});
  }
  expect_all(run_command(tessera({"trace", folder.path("missing")})).err, {folder.path("missing")});
}

// Perfetto's trace processor is an independent reader, and the one that counts (tests/judge/perfetto.py).
class Perfetto : public ::testing::Test {
 protected:
  static CommandResult rows_of(const std::string& trace, const std::vector<std::string>& queries) {
    const char* given = std::getenv("TESSERA_PYTHON");
    std::vector<std::string> words = {"/usr/bin/env", given ? given : "python3", source_dir("tests/judge/perfetto.py"),
                                      trace};
    words.insert(words.end(), queries.begin(), queries.end());
    return run_command(words);
  }
};

TEST_F(Perfetto, FindsEveryActionOfEveryRank) {
  const TempFolder folder;
  const std::string file = folder.path("t.json");
  ASSERT_EQ(run_command(train({"--nproc=2", "--steps=2", "--profile=2", "--profile-out", file})).exit_code, 0);
  const CommandResult read = rows_of(
      file, {"select count(*), max(depth), sum(dur) from slice",  // depth: slices of a stream are side by side
             "select count(distinct extract_arg(arg_set_id, 'args.action')) from slice",
             "select distinct process.name, thread.name from slice join thread_track on track_id = thread_track.id "
             "join thread using (utid) join process using (upid) order by 1, 2",
             "select name from stats where severity in ('error', 'data_loss') and value > 0"});
  if (read.exit_code == 77) GTEST_SKIP() << read.err;
  ASSERT_EQ(read.exit_code, 0) << read.err;
  const json trace = json::parse(file_bytes(file));
  double microseconds = 0;
  for (const json& event : trace["traceEvents"])
    if (event["ph"] == "X") microseconds += event["dur"].get<double>();
  const size_t num_actions = num_planned_actions({"--nproc=2"});
  std::istringstream lines(read.out);
  std::vector<json> answers;
  for (std::string line; std::getline(lines, line);)
    answers.push_back(json::parse(line));
  ASSERT_EQ(answers.size(), 4u) << read.out;
  EXPECT_EQ(answers[0], json({{2 * num_actions, 0, std::llround(microseconds * 1e3)}}));
  EXPECT_EQ(answers[1], json({{num_actions}}));
  EXPECT_EQ(answers[2],
            json::parse(R"([["rank 0", "comm.dp.gradient"], ["rank 0", "comm.world.scalars"], ["rank 0", "compute"],
                            ["rank 1", "comm.dp.gradient"], ["rank 1", "comm.world.scalars"], ["rank 1", "compute"]])"));
  EXPECT_EQ(answers[3], json::array());
}

TEST_F(Perfetto, SaysWhatAQueryLacks) {
  const TempFolder folder;
  const CommandResult read = rows_of(folder.write("t.json", "{\"traceEvents\":[]}"), {"select no_such from slice"});
  if (read.exit_code == 77) GTEST_SKIP() << read.err;
  EXPECT_EQ(read.exit_code, 1);
  expect_all(read.err, {"select no_such from slice", "no such column"});
}

}  // namespace
}  // namespace tessera::testing
