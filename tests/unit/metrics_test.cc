#include "observe/metrics.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "observe/log.h"
#include "observe/resident_memory.h"
#include "support/expect_error.h"

namespace tessera {
namespace {

TEST(Metrics, NumbersReadBackToTheSameBits) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 5'000; ++i) {
    const uint64_t bits = random();
    double value;
    std::memcpy(&value, &bits, sizeof value);
    if (!std::isfinite(value)) continue;
    const double read = nlohmann::json::parse(to_json_line({.step = 1, .loss = value}))["loss"].get<double>();
    ASSERT_EQ(std::memcmp(&read, &value, sizeof value), 0) << value;
  }
}

TEST(Metrics, HasTheFieldsInOrder) {
  const StepMetrics metrics{.step = 3,
                            .loss = 1.5,
                            .grad_norm = 2.5,
                            .lr = 0.5,
                            .loss_scale = 1024,
                            .step_ms = 8,
                            .tokens_per_second = 4,
                            .tokens = 96,
                            .memory_bytes = 512,
                            .peak_memory_bytes = 1024,
                            .planned_peak_bytes = 768,
                            .planned_bytes = {{"parameters", 700}, {"waste", 68}}};
  EXPECT_EQ(to_json_line(metrics),
            R"({"step":3,"loss":1.5,"grad_norm":2.5,"lr":0.5,"loss_scale":1024.0,)"
            R"("step_ms":8.0,"tokens_per_second":4.0,"tokens":96,"memory_bytes":512,"peak_memory_bytes":1024,)"
            R"("planned_peak_bytes":768,"planned_bytes":{"parameters":700,"waste":68}})");
}

TEST(Metrics, NumbersThatAreNotFiniteAreStrings) {
  const double infinity = std::numeric_limits<double>::infinity();
  const auto line = nlohmann::json::parse(to_json_line({.loss = std::nan(""), .grad_norm = infinity, .lr = -infinity}));
  EXPECT_EQ(line["loss"], "NaN");
  EXPECT_EQ(line["grad_norm"], "Infinity");
  EXPECT_EQ(line["lr"], "-Infinity");
}

TEST(Metrics, EachLineIsInTheFileAtOnceAndAnOldFileIsEmptied) {
  const std::string path = ::testing::TempDir() + "metrics_test.jsonl";
  std::ofstream(path) << "old\n";
  MetricsWriter writer(path);
  for (int step = 1; step <= 3; ++step) {
    writer.write({.step = step});
    std::ifstream in(path);
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);)
      lines.push_back(line);
    ASSERT_EQ(lines.size(), static_cast<size_t>(step));
    EXPECT_EQ(nlohmann::json::parse(lines.back())["step"], step);
  }
  std::filesystem::remove(path);
}

TEST(Metrics, ErrorsNameTheFile) {
  testing::expect_error([] { MetricsWriter("/no/such/folder/m.jsonl"); }, {"/no/such/folder/m.jsonl", "No such file"});
  ASSERT_TRUE(std::filesystem::exists("/dev/full"));
  MetricsWriter writer("/dev/full");
  testing::expect_error([&] { writer.write({}); }, {"/dev/full", "No space left"});
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
}  // namespace tessera
