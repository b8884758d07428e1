// tessera bench comm, device and disk, and what plan makes of their files. Speed is not tested.
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "e2e/cli.h"
#include "support/free_port.h"
#include "support/paths.h"

namespace tessera::testing {
namespace {

using Flags = std::vector<std::string>;
using nlohmann::json;

const Flags kCollectives = {"all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce",
                            "all_to_all", "send",           "exchange",   "barrier"};

Flags comm(const Flags& more, const std::string& max_size = "1KiB") {
  Flags all = {"bench", "comm", "--min-size=1KiB", "--max-size=" + max_size, "--iters=2", "--warmup=1"};
  all.insert(all.end(), more.begin(), more.end());
  return tessera(all);
}

/// The words of the lines of a report that are not comments.
std::vector<Flags> rows(const std::string& report) {
  std::vector<Flags> rows;
  std::istringstream lines(report);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("#")) continue;
    std::istringstream words(line);
    rows.emplace_back();
    for (std::string word; words >> word;)
      if (word != "|") rows.back().push_back(word);
  }
  return rows;
}

/// Every collective with its sizes, times above zero and no errors.
void expect_report(const std::string& report, const Flags& sizes) {
  std::map<std::string, Flags> found;
  for (const Flags& row : rows(report)) {
    ASSERT_EQ(row.size(), 15u) << report;
    found[row[0]].push_back(row[1]);
    EXPECT_GT(std::stod(row[5]), 0) << row[0];
    EXPECT_EQ(row[13], "0") << row[0];
  }
  for (const std::string& name : kCollectives) {
    if (name == "barrier")
      EXPECT_EQ(found[name], Flags{"0"});
    else
      EXPECT_EQ(found[name], sizes) << name << " in\n" << report;
  }
  EXPECT_NE(report.find("# 0 errors\n"), std::string::npos) << report;
}

class BenchComm : public ::testing::TestWithParam<const char*> {};

TEST_P(BenchComm, MeasuresAndChecksEveryCollective) {
  const TempFolder folder;
  const CommandResult result =
      run_command(comm({std::string("--comm=") + GetParam(), "--rates=" + folder.path("rates")}, "16KiB"));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  expect_report(result.out, {"1024", "4096", "16384"});
  const json rates = json::parse(file_bytes(folder.path("rates")));
  EXPECT_EQ(rates["collectives"][0]["communicator"], GetParam());
  EXPECT_EQ(rates["collectives"][0]["ranks"], 2);
  std::set<std::string> names;
  for (const json& time : rates["collectives"][0]["times"])
    names.insert(time["collective"]);
  EXPECT_EQ(names, std::set<std::string>(kCollectives.begin(), kCollectives.end()));
}

TEST_P(BenchComm, OtherTypesReductionsAndRanks) {
  for (const auto& [dtype, redop, elements] :
       {std::tuple("bf16", "sum", "512"), std::tuple("int32", "max", "256"), std::tuple("float64", "min", "128")}) {
    const CommandResult result = run_command(
        comm({std::string("--comm=") + GetParam(), "--nproc=3", std::string("--dtype=") + dtype,
              std::string("--redop=") + redop, "--collectives=all_reduce,reduce_scatter,all_to_all,exchange"}));
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const auto lines = rows(result.out);
    ASSERT_EQ(lines.size(), 4u) << result.out;
    EXPECT_EQ(lines[0][2], elements);
    EXPECT_EQ(lines[0][4], redop);
    EXPECT_EQ(lines[3][4], "-");
    for (const Flags& line : lines)
      EXPECT_EQ(line[13], "0") << line[0];
  }
}

INSTANTIATE_TEST_SUITE_P(All, BenchComm, ::testing::Values("local", "gloo"));

TEST(BenchCommRanks, OfALauncherAreItsOwn) {
  const int port = free_port() - 1;
  Command first(comm({}), torchrun_variables(0, 2, port)), second(comm({}), torchrun_variables(1, 2, port));
  const CommandResult reporting = first.wait(), silent = second.wait();
  ASSERT_EQ(reporting.exit_code, 0) << reporting.err;
  EXPECT_EQ(silent.exit_code, 0) << silent.err;
  expect_report(reporting.out, {"1024"});
  EXPECT_EQ(silent.out, "");
  EXPECT_NE(reporting.out.find("--comm auto chose gloo since it connects processes"), std::string::npos);
}

TEST(BenchCommRanks, WrongResultsAreCountedAndFail) {
  const CommandResult result = run_command(
      comm({"--comm=hostile", "--plugin-dir=" + binary_dir("tests/bad_plugins"), "--collectives=all_reduce"}),
      {{"TESSERA_TEST_FAULT", "submit-nothing"}});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.err.find("gave 512 wrong elements, and reported no error"), std::string::npos) << result.err;
}

TEST(Bench, DeviceAndCommFeedAPlan) {
  const TempFolder folder;
  const CommandResult device = run_command(tessera({"bench", "device", "--threads=1", "--min-size=32", "--max-size=64",
                                                    "--iters=2", "--rates=" + folder.path("device")}));
  ASSERT_EQ(device.exit_code, 0) << device.err;
  for (const char* part : {"float32 32", "float32 64", "# memory", "# copies", "launch and wait"})
    EXPECT_NE(device.out.find(part), std::string::npos) << part << " is missing in\n" << device.out;
  const CommandResult sums = run_command(comm({"--comm=local", "--rates=" + folder.path("comm")}, "16KiB"));
  ASSERT_EQ(sums.exit_code, 0) << sums.err;
  const Flags plan = {"plan",        "--model=" + golden(), "--batch-size=1", "--seq-len=32",
                      "--threads=1", "--nproc=2",           "--json"};
  const auto planned = [&](const std::string& files) {
    Flags flags = plan;
    flags.push_back("--rates=" + files);
    return run_command(tessera(flags));
  };
  const CommandResult both = planned(folder.path("device") + "," + folder.path("comm"));
  ASSERT_EQ(both.exit_code, 0) << both.err;
  EXPECT_GT(json::parse(both.out)["time"]["predicted_seconds"], 0);
  EXPECT_NE(planned(folder.path("device")).err.find("no times of all_reduce between 2 ranks"), std::string::npos);
  EXPECT_NE(planned(folder.path("comm")).err.find("has no ops; add a file of tessera bench"), std::string::npos);
}

TEST(Bench, DiskLeavesNothing) {
  const TempFolder folder, results;
  const CommandResult result = run_command(tessera(
      {"bench", "disk", folder.path(), "--checkpoint-size=2MiB", "--chunk=1MiB", "--rates=" + results.path("disk")}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  for (const char* part : {"sequential read", "sequential write", "random read", "written, durable"})
    EXPECT_NE(result.out.find(part), std::string::npos) << part << " is missing in\n" << result.out;
  EXPECT_GT(json::parse(file_bytes(results.path("disk")))["files"]["read_bytes_per_second"], 0);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Bench, DiskNamesAFolderThatCannotBeWrittenAsItWasGiven) {
  const CommandResult result = run_command(tessera({"bench", "disk", "/proc"}));
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_NE(result.err.find("/proc: cannot make a file there: "), std::string::npos) << result.err;
  EXPECT_EQ(result.err.find("--offload-dir"), std::string::npos) << result.err;
}

}  // namespace
}  // namespace tessera::testing
