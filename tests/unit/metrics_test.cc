#include "base/metrics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "base/log.h"
#include "base/resident_memory.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace tessera::host {
namespace {

TEST(Metrics, NumbersReadBackToTheSameBits) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 5'000; ++i) {
    const uint64_t bits = random();
    double value;
    std::memcpy(&value, &bits, sizeof value);
    if (!std::isfinite(value)) continue;
    const double read =
        nlohmann::json::parse(to_json_line(StepMetrics{.step = 1, .loss = value}, "r"))["loss"].get<double>();
    ASSERT_EQ(std::memcmp(&read, &value, sizeof value), 0) << value;
  }
}

TEST(Metrics, HasTheFieldsInOrder) {
  const StepMetrics step{.step = 3,
                         .loss = 1.5,
                         .grad_norm = 2.5,
                         .lr = 0.5,
                         .loss_scale = 1024,
                         .updated = false,
                         .seconds = 0.25,
                         .step_ms = 8,
                         .tokens_per_second = 4,
                         .tokens = 96,
                         .memory_bytes = 512,
                         .peak_memory_bytes = 1024};
  EXPECT_EQ(to_json_line(step, "r1"),
            R"({"run":"r1","step":3,"loss":1.5,"grad_norm":2.5,"lr":0.5,"loss_scale":1024.0,"updated":false,)"
            R"("time":0.25,"step_ms":8.0,"tokens_per_second":4.0,"tokens":96,"memory_bytes":512,)"
            R"("peak_memory_bytes":1024})");
  const RunMetrics run{.run = "r1",
                       .started = "2026-01-02T03:04:05Z",
                       .version = "1.0",
                       .model = "gpt2",
                       .mesh = "dp=2 ddp",
                       .world_size = 2,
                       .steps = 7,
                       .tokens_per_step = 32,
                       .planned_peak_bytes = 768,
                       .planned_bytes = {{"parameters", 700}, {"waste", 68}}};
  EXPECT_EQ(to_json_line(run),
            R"({"run":"r1","kind":"run","started":"2026-01-02T03:04:05Z","tessera":"1.0","model":"gpt2",)"
            R"("mesh":"dp=2 ddp","world_size":2,"steps":7,"tokens_per_step":32,"planned_peak_bytes":768,)"
            R"("planned_bytes":{"parameters":700,"waste":68}})");
}

TEST(Metrics, AnEvaluationHasALineOfItsOwn) {
  EvalMetrics evaluation{.after_step = 7, .loss = 1.5, .perplexity = 4.5, .bits_per_byte = 2.25, .num_items = 96};
  evaluation.seconds = 0.5;
  EXPECT_EQ(to_json_line(evaluation, "r1"),
            R"({"run":"r1","kind":"eval","after_step":7,"loss":1.5,"perplexity":4.5,"bits_per_byte":2.25,)"
            R"("tokens":96,"eval_seconds":0.5})");
  const EvalMetrics of_examples{.items = "examples", .loss = std::nan(""), .accuracy = 0.75, .num_items = 4};
  EXPECT_EQ(to_json_line(of_examples, "r1"),
            R"({"run":"r1","kind":"eval","after_step":0,"loss":null,"accuracy":0.75,"examples":4,)"
            R"("eval_seconds":0.0,"not_finite":["loss"]})");
}

TEST(Metrics, ARunHasANameOfItsOwnAndATime) {
  RunMetrics a, b;
  name_run(a);
  name_run(b);
  EXPECT_NE(a.run, b.run);
  EXPECT_EQ(a.started.size(), std::string_view("2026-01-02T03:04:05Z").size());
}

TEST(Metrics, NumbersThatAreNotFiniteAreNullAndNamed) {
  const double infinity = std::numeric_limits<double>::infinity();
  const auto line =
      nlohmann::json::parse(to_json_line(StepMetrics{.loss = std::nan(""), .grad_norm = infinity, .lr = 0.5}, "r"));
  EXPECT_TRUE(line["loss"].is_null());
  EXPECT_TRUE(line["grad_norm"].is_null());
  EXPECT_EQ(line["lr"], 0.5);
  EXPECT_EQ(line["not_finite"], nlohmann::json({"loss", "grad_norm"}));
  EXPECT_FALSE(nlohmann::json::parse(to_json_line(StepMetrics{.loss = 1}, "r")).contains("not_finite"));
}

Output metrics_to(const std::string& path) {
  return {.flag = "--metrics", .path = path, .old = Output::Old::append, .is_ours = begins_like_metrics};
}

TEST(Metrics, EachLineIsInTheFileAtOnce) {
  const testing::TempFolder folder;
  const std::string path = folder.path("m.jsonl");
  MetricsWriter writer(metrics_to(path), {.run = "r"});
  for (int step = 1; step <= 3; ++step) {
    writer.write(StepMetrics{.step = step});
    std::ifstream in(path);
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);)
      lines.push_back(line);
    ASSERT_EQ(lines.size(), static_cast<size_t>(step) + 1);
    EXPECT_EQ(nlohmann::json::parse(lines.back())["step"], step);
  }
}

TEST(Metrics, ALaterRunIsAddedAlsoAfterALineThatWasCut) {
  const testing::TempFolder folder;
  const std::string path = folder.path("m.jsonl");
  MetricsWriter(metrics_to(path), {.run = "r1"}).write(StepMetrics{.step = 1});
  std::ofstream(path, std::ios::app) << R"({"run":"r1","step":2,"lo)";
  MetricsWriter(metrics_to(path), {.run = "r2"}).write(StepMetrics{.step = 1});
  const std::string text = testing::file_bytes(path);
  EXPECT_EQ(std::ranges::count(text, '\n'), 5);
  EXPECT_NE(text.find("\"lo\n{\"run\":\"r2\",\"kind\":\"run\""), text.npos) << text;
}

TEST(Metrics, ErrorsNameTheFile) {
  testing::expect_error([] { MetricsWriter(metrics_to("/no/such/folder/m.jsonl"), {}); },
                        {"--metrics /no/such/folder/m.jsonl", "No such file"});
  ASSERT_TRUE(std::filesystem::exists("/dev/full"));
  testing::expect_error([] { MetricsWriter(metrics_to("/dev/full"), {}); }, {"/dev/full", "No space left"});
}

TEST(Metrics, ASaveIsALineOfItsOwn) {
  const auto good = nlohmann::json::parse(to_json_line(SaveMetrics{4, 12.5, 0.5, 1000, ""}, "r"));
  EXPECT_EQ(good, nlohmann::json::parse(
                      R"({"run":"r","kind":"save","saved_step":4,"save_ms":12.5,"pause_ms":0.5,"bytes":1000})"));
  const auto bad = nlohmann::json::parse(to_json_line(SaveMetrics{4, 1, 1, 0, "disk full"}, "r"));
  EXPECT_EQ(bad["error"], "disk full");
}

TEST(Metrics, ARunThatWasResumedSaysFromWhere) {
  EXPECT_EQ(nlohmann::json::parse(to_json_line(RunMetrics{.resumed_step = 7}))["resumed_step"], 7);
  EXPECT_EQ(nlohmann::json::parse(to_json_line(RunMetrics{.load_ms = 2.5}))["load_ms"], 2.5);
  for (const char* key : {"resumed_step", "load_ms"})
    EXPECT_FALSE(nlohmann::json::parse(to_json_line(RunMetrics{})).contains(key));
}

TEST(ResidentMemory, GrowsWithMemoryInUseAndItsPeakStays) {
  constexpr int64_t kMost = 48 << 20;
  const ResidentMemory before = resident_memory();
  {
    std::vector<char> block(64 << 20);
    for (size_t i = 0; i < block.size(); i += 4096)
      block[i] = 1;
    EXPECT_GE(resident_memory().now_bytes, before.now_bytes + kMost);
  }
  const ResidentMemory after = resident_memory();
  EXPECT_GE(after.peak_bytes, before.now_bytes + kMost);
  EXPECT_LE(after.now_bytes, after.peak_bytes);
}

TEST(Log, KeepsItsLevelAndNamesItsRank) {
  std::ostringstream out;
  const Log log(out, LogLevel::warning, 2, 4);
  log.info("not shown");
  log.warning("step ", 3, ": slow");
  EXPECT_EQ(out.str().find("not shown"), std::string::npos);
  EXPECT_NE(out.str().find("[rank 2] warning: step 3: slow\n"), std::string::npos) << out.str();
}

TEST(Log, NoTextForgesALine) {
  std::ostringstream out;
  Log(out, LogLevel::info).info("name\n[00:00] error: forged {} %v\x1b[0m");
  EXPECT_NE(out.str().find(R"(name\n[00:00] error: forged {} %v\x1b[0m)"
                           "\n"),
            std::string::npos)
      << out.str();
}

TEST(Log, LevelsAreNamed) {
  EXPECT_EQ(parse_log_level("debug"), LogLevel::debug);
  testing::expect_error([] { parse_log_level("loud"); }, {"'loud'", std::string(kLogLevelNames)});
}

}  // namespace
}  // namespace tessera::host
