// tessera bench rates, and what plan predicts by what it wrote. How near a prediction is to a run is measured by
// ./dev bench offload, not here: a test machine may be busy.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>

#include "e2e/cli.h"

namespace tessera::testing {
namespace {

using Flags = std::vector<std::string>;
using nlohmann::json;
namespace fs = std::filesystem;

Flags operator+(Flags a, const Flags& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

const Flags kJob = {"--model=" + golden(), "--batch-size=1", "--seq-len=32", "--threads=1"};

CommandResult run(const Flags& flags) {
  return Command(tessera(flags + kJob)).wait(std::chrono::minutes(3));
}

/// The rates of the golden model on this machine, measured once.
class BenchRates : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TempFolder;
    result_ = new CommandResult(run({"bench", "rates", "--rates=" + file(),
                                     "--offload-dir=" + fs::current_path().string(), "--offload-chunk=1MiB"}));
  }
  static void TearDownTestSuite() {
    delete folder_;
    delete result_;
  }
  void SetUp() override { ASSERT_EQ(result_->exit_code, 0) << result_->err; }

  static std::string file(const std::string& name = "rates") { return folder_->path(name); }
  static json rates() { return json::parse(file_bytes(file())); }
  /// The same with a change, in a file of its own.
  static std::string changed(const std::function<void(json&)>& change) {
    json all = rates();
    change(all);
    std::ofstream(file("changed")) << all.dump();
    return file("changed");
  }
  static json plan(const Flags& flags, const std::string& rates_file = file()) {
    const CommandResult result = run(Flags{"plan", "--json", "--rates=" + rates_file} + flags);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return json::parse(result.out);
  }
  static void expect_refused(const Flags& flags, const std::string& words) {
    const CommandResult result = run(flags);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_NE(result.err.find(words), std::string::npos) << words << " is missing in\n" << result.err;
  }

  static TempFolder* folder_;
  static CommandResult* result_;
};

TempFolder* BenchRates::folder_ = nullptr;
CommandResult* BenchRates::result_ = nullptr;

const Flags kStream = {"--offload=stream", "--stream.to=file", "--offload-dir=/nowhere"};

TEST_F(BenchRates, MeasureOpsCopiesAndFiles) {
  const json all = rates();
  EXPECT_EQ(all["device"], "cpu");
  EXPECT_EQ(all["threads"], 1);
  EXPECT_NE(result_->out.find("wrote the rates of " + std::to_string(all["ops"].size()) + " ops to "),
            std::string::npos);
  std::set<std::string> names, shapes;
  for (const json& op : all["ops"]) {
    names.insert(op["op"]);
    EXPECT_TRUE(shapes.insert(op["op"].get<std::string>() + op["shape"].get<std::string>()).second) << op;
  }
  for (const char* name : {"linear forward f32", "linear backward f32", "attention backward f32", "loss backward f32",
                           "token_embedding forward f32", "sum_squares f32", "clip f32", "adamw f32", "zero i64"})
    EXPECT_TRUE(names.contains(name)) << name;
  // An update that was skipped takes next to no time.
  std::map<std::string, double> most;
  for (const json& op : all["ops"])
    most[op["op"]] = std::max(most[op["op"]], op["seconds"].get<double>());
  EXPECT_GT(most["adamw f32"], 0.1 * most["sum_squares f32"]);
  EXPECT_GT(all["copies"]["in_bytes_per_second"], 1e6);
  EXPECT_GT(all["files"]["read_bytes_per_second"], 1e5);
}

TEST_F(BenchRates, OneStreamTakesTheSumOfItsOps) {
  const json time = plan({})["time"];
  const double predicted = time["predicted_seconds"], bound = time["bound_seconds"];
  EXPECT_GT(predicted, 0);
  EXPECT_NEAR(predicted, bound, 1e-9 * bound);
  EXPECT_DOUBLE_EQ(time["tokens_per_second"], 32 / predicted);
  double compute = 0;
  for (const json& phase : time["phases"]) {
    EXPECT_GT(phase["compute_seconds"], 0) << phase;
    EXPECT_EQ(phase["file_seconds"], 0);
    compute += phase["compute_seconds"].get<double>();
  }
  EXPECT_DOUBLE_EQ(compute, bound);
  const json twice = plan({}, changed([](json& all) {
                            for (json& op : all["ops"])
                              op["seconds"] = 2 * op["seconds"].get<double>();
                          }))["time"];
  EXPECT_DOUBLE_EQ(twice["predicted_seconds"], 2 * predicted);
}

TEST_F(BenchRates, SlowFilesAreWaitedFor) {
  const auto with_files_at = [&](double rate) {
    return plan(kStream, changed([=](json& all) {
                  for (const char* key : {"read_bytes_per_second", "write_bytes_per_second", "both_bytes_per_second"})
                    all["files"][key] = rate;
                  all["files"]["seconds_per_transfer"] = 0;
                }));
  };
  const json fast = with_files_at(1e15), slow = with_files_at(1e6);
  EXPECT_LT(fast["time"]["predicted_seconds"], 1);
  const json& moved = slow["offload"]["moved"];
  double num_bytes = 0;
  for (const json& phase : moved)
    num_bytes += phase["file_read_bytes"].get<double>() + phase["file_written_bytes"].get<double>();
  EXPECT_NEAR(slow["time"]["bound_seconds"], num_bytes / 1e6, 0.01 * num_bytes / 1e6);
  EXPECT_GE(slow["time"]["predicted_seconds"], slow["time"]["bound_seconds"].get<double>() * 0.999);
  EXPECT_EQ(slow["offload"]["predicted_seconds"], slow["time"]["predicted_seconds"]);
  const double hidden = slow["offload"]["hidden_at_bytes_per_second"];
  const auto needed = [&](const json& phase, const json& time) {
    return (phase["file_read_bytes"].get<double>() + phase["file_written_bytes"].get<double>()) /
           time["compute_seconds"].get<double>();
  };
  const json& times = slow["time"]["phases"];
  EXPECT_DOUBLE_EQ(hidden, std::max(needed(moved[0], times[0]), needed(moved[1], times[1])));
  EXPECT_FALSE(plan({})["offload"].contains("hidden_at_bytes_per_second"));
}

// Compute and copies that keep half of their speed beside one another win nothing by it: the bound is their sum.
TEST_F(BenchRates, TheBoundKnowsWhatIsLostSideBySide) {
  const auto bound_where_kept = [&](double share) {
    const json time = plan(kStream, changed([=](json& all) {
                             all["files"]["beside_compute"] = {{"compute", share}, {"copies", share}};
                             for (const char* key : {"read_bytes_per_second", "write_bytes_per_second"})
                               all["files"][key] = 2e9;
                             all["files"]["both_bytes_per_second"] = 2e9;
                           }))["time"];
    double alone = 0, longest = 0;
    for (const json& phase : time["phases"]) {
      const double compute = phase["compute_seconds"], files = phase["file_seconds"];
      alone += compute + files;
      longest += std::max(compute, files);
    }
    return std::array{time["bound_seconds"].get<double>(), alone, longest};
  };
  const auto [bound, alone, longest] = bound_where_kept(1);
  EXPECT_NEAR(bound, longest, 1e-9 * longest);
  EXPECT_LT(longest, alone);
  const auto half = bound_where_kept(0.5);
  EXPECT_NEAR(half[0], half[1], 1e-9 * half[1]);
  EXPECT_GT(bound_where_kept(0.75)[0], bound);
  EXPECT_LT(bound_where_kept(0.75)[0], half[0]);
}

TEST_F(BenchRates, TheReportShowsTheTime) {
  const std::string text = run(Flags{"plan", "--rates=" + file()} + kStream).out;
  for (const char* words :
       {"\ntime of a step, by ", ", 1 thread)\n", "compute", "at least", "\n  predicted: ", " tokens/s; at least ",
        " GB per TFLOP, here ", "  written to files in a step: ", "; a drive rated for 600 TB lasts "})
    EXPECT_NE(text.find(words), std::string::npos) << words << " is missing in\n" << text;
}

TEST_F(BenchRates, WhatTheRatesLackIsSaid) {
  const auto without = [](const char* key) { return changed([=](json& all) { all.erase(key); }); };
  expect_refused(Flags{"plan", "--rates=" + without("files")} + kStream,
                 "--rates has no rates of files, which this job uses; give tessera bench rates an --offload-dir");
  expect_refused({"plan", "--nproc=2", "--rates=" + file()},
                 "--rates has no times of all_reduce between 2 ranks and no \"link_bytes_per_second\"");
  EXPECT_EQ(
      run({"plan", "--nproc=2", "--rates=" + changed([](json& all) { all["link_bytes_per_second"] = 1e9; })}).exit_code,
      0);
  expect_refused({"plan", "--rates=" + changed([](json& all) { all["device"] = "abacus"; })},
                 "was measured on --device abacus, but the plan is for --device cpu; measure that one");
  const std::string narrow = run({"plan", "--dtype=bf16", "--rates=" + file()}).err;
  EXPECT_NE(narrow.find("has no time of "), std::string::npos) << narrow;
  EXPECT_NE(narrow.find(" % of its compute by an average rate of the other ops"), std::string::npos) << narrow;
  const CommandResult known = run({"plan", "--rates=" + file()});
  EXPECT_EQ(known.err.find("has no time of "), std::string::npos) << known.err;
  const std::string two_threads = changed([](json& all) { all["threads"] = 2; });
  EXPECT_NE(run({"plan", "--rates=" + two_threads}).err.find("was measured with 2 threads, not with --threads 1"),
            std::string::npos);
  const Flags any_threads = {"plan", "--model=" + golden(), "--seq-len=32", "--rates=" + two_threads};
  EXPECT_EQ(run_command(tessera(any_threads)).err.find("was measured with"), std::string::npos);
}

TEST_F(BenchRates, TheHostsProcessorHasTimesOfItsOwn) {
  const auto update = [](const Flags& flags) { return plan(flags)["time"]["phases"][2]; };
  EXPECT_EQ(update({"--offload=stream"})["host_seconds"], 0);
  EXPECT_GT(update({"--offload=stream", "--stream.update=host"})["host_seconds"], 0);
}

// Where a drive does both as fast as either, the longer of the two is all.
TEST_F(BenchRates, FilesAreReadAndWrittenTogether) {
  constexpr double kFast = 1e18;
  const auto seconds = [&](double read_rate, double write_rate) {
    const std::string rates_file = changed([=](json& all) {
      all["files"]["read_bytes_per_second"] = read_rate;
      all["files"]["write_bytes_per_second"] = write_rate;
      all["files"]["both_bytes_per_second"] = kFast;
    });
    return plan(kStream, rates_file)["time"]["phases"][2]["file_seconds"].get<double>();
  };
  const double read = seconds(1e6, kFast), written = seconds(kFast, 1e6), both = seconds(1e6, 1e6);
  EXPECT_GT(std::min(read, written), 1e-3);
  EXPECT_NEAR(both, std::max(read, written), 1e-9 * both);
}

TEST_F(BenchRates, SeveralRanksMeasureTheirCollectives) {
  const Flags ranks = {"--nproc=2", "--strategy=fsdp", "--comm=local"};
  const CommandResult result = run(Flags{"bench", "rates", "--rates=" + file("ranks")} + ranks);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json group = json::parse(file_bytes(file("ranks")))["collectives"][0];
  EXPECT_EQ(group["ranks"], 2);
  std::set<std::string> names;
  for (const json& time : group["times"])
    names.insert(time["collective"]);
  EXPECT_TRUE(names.contains("all_gather") && names.contains("reduce_scatter")) << group;
  EXPECT_LE(group["beside_compute"]["compute"], 1);
  const json time = plan(ranks, file("ranks"))["time"];
  EXPECT_GT(time["phases"][0]["link_seconds"], 0);
}

/// Collectives of two streams run side by side.
TEST_F(BenchRates, NoPredictionIsBelowItsBound) {
  const std::string with_links = changed([](json& all) {
    json times = json::array();
    for (const char* collective : {"all_reduce", "all_gather", "reduce_scatter"})
      times.push_back({{"collective", collective}, {"bytes", 1024}, {"seconds", 1e-4}});
    all["collectives"] = {{{"communicator", "gloo"},
                           {"ranks", 2},
                           {"beside_compute", {{"compute", 0.9}, {"copies", 0.9}}},
                           {"times", times}}};
  });
  for (const char* strategy : {"--strategy=ddp", "--strategy=fsdp"}) {
    const json time = plan({"--nproc=2", strategy}, with_links)["time"];
    EXPECT_GE(time["predicted_seconds"], time["bound_seconds"]) << strategy;
    EXPECT_GT(time["bound_seconds"], 0.01) << strategy << ": the link decides";
  }
}

TEST_F(BenchRates, MayBeReplacedAndNothingElse) {
  fs::copy_file(file(), file("again"));
  EXPECT_EQ(run({"bench", "rates", "--rates=" + file("again")}).exit_code, 0);
  std::ofstream(file("other")) << "other";
  expect_refused({"bench", "rates", "--rates=" + file("other")}, "other");
  EXPECT_EQ(file_bytes(file("other")), "other");
}

}  // namespace
}  // namespace tessera::testing
