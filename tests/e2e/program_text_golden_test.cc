// The programs of a two-block GPT-2 under every strategy and mode, and of a classifier, as a person reads them, are
// golden files. After a change that is meant: tests/golden/programs/regenerate.sh
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "e2e/cli.h"
#include "support/paths.h"

namespace tessera::testing {
namespace {

std::string folder() {
  return source_dir("tests/golden/programs");
}

std::string plan(std::vector<std::string> more) {
  std::vector<std::string> arguments = {"plan", "--batch-size=2", "--print-program",
                                        "--plugin-dir=" + binary_dir("tests/devices")};
  if (std::ranges::none_of(more, [](const std::string& flag) { return flag.starts_with("--model="); }))
    arguments.insert(arguments.end(), {"--model=" + folder() + "/two-blocks", "--seq-len=16"});
  arguments.insert(arguments.end(), more.begin(), more.end());
  const CommandResult result = run_command(tessera(arguments));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return result.out;
}

struct GoldenFile {
  std::string name;
  std::vector<std::string> flags;
};

/// The lines of programs.txt: a name, then flags.
std::vector<GoldenFile> golden_files() {
  std::vector<GoldenFile> files;
  std::ifstream list(folder() + "/programs.txt");
  for (std::string line; std::getline(list, line);) {
    std::istringstream words(line);
    GoldenFile file;
    words >> file.name;
    for (std::string flag; words >> flag;)
      file.flags.push_back(flag);
    if (!file.name.empty() && file.name[0] != '#') files.push_back(file);
  }
  return files;
}

class ProgramTextGolden : public ::testing::TestWithParam<GoldenFile> {};

TEST_P(ProgramTextGolden, IsTheFile) {
  std::ifstream then(folder() + "/" + GetParam().name + ".txt");
  ASSERT_TRUE(then) << GetParam().name << ".txt is missing; run tests/golden/programs/regenerate.sh";
  std::istringstream now(plan(GetParam().flags));
  std::string a, b;
  for (int line = 1; std::getline(then, b); ++line) {
    ASSERT_TRUE(std::getline(now, a)) << "the program ends before line " << line << " of the golden file: " << b;
    ASSERT_EQ(a, b) << "line " << line << "; if it is meant, run tests/golden/programs/regenerate.sh";
  }
  EXPECT_FALSE(std::getline(now, a)) << "the program goes on after the golden file: " << a;
}

INSTANTIATE_TEST_SUITE_P(Programs, ProgramTextGolden, ::testing::ValuesIn(golden_files()), [](const auto& test) {
  std::string name = test.param.name;
  std::ranges::replace(name, '-', '_');
  return name;
});

TEST(ProgramText, EveryGoldenFileIsListed) {
  std::set<std::string> listed{"programs.txt"}, there;
  for (const GoldenFile& file : golden_files())
    listed.insert(file.name + ".txt");
  for (const auto& entry : std::filesystem::directory_iterator(folder()))
    if (entry.path().extension() == ".txt") there.insert(entry.path().filename());
  EXPECT_EQ(there, listed);
}

// A reduction follows the last writer of what it sums at once: before the backward of earlier blocks.
TEST(ProgramText, GradientsAreReducedWhileTheBackwardRuns) {
  const std::string text = plan({"--nproc=2", "--ddp.bucket-mb=0.01"});
  const size_t step = text.find("program step");
  const size_t first = text.find("all_reduce group=dp", step);
  EXPECT_LT(first, text.find("backward h.0.add ", step));
  EXPECT_GT(first, text.find("backward h.1.add ", step));
}

// A unit is used once per micro-batch; it is gathered once a step all the same.
TEST(ProgramText, UnderAPipelineUnitsAreGatheredOnce) {
  const auto gathers = [](const char* dp, const std::vector<std::string>& options) {
    std::vector<std::string> flags = {"--mesh=pp=2,dp=2", std::string("--strategy=pp=pipeline,dp=") + dp,
                                      "--pipeline.cut=even", "--grad-accum=4"};
    flags.insert(flags.end(), options.begin(), options.end());
    const std::string text = plan(flags), program = text.substr(text.find("program step"));
    const std::string step = program.substr(0, program.find("program eval"));
    size_t n = 0;
    for (size_t at = 0; (at = step.find("comm.dp.gather ", at)) != step.npos; ++at)
      ++n;
    return n;
  };
  EXPECT_EQ(gathers("fsdp", {}), 3u);                                      // wte, wpe, h.0
  EXPECT_GE(gathers("fsdp", {"--fsdp.reshard-after-forward=true"}), 12u);  // in each forward
  EXPECT_LT(gathers("zero3", {}), gathers("zero3", {"--zero3.reshard-after-forward=true"}));
}

TEST(ProgramText, SmallerBucketsAreMoreReductions) {
  const auto reductions = [](const std::string& text) {
    size_t n = 0;
    for (size_t at = text.find("all_reduce group=dp"); at != text.npos; at = text.find("all_reduce group=dp", at + 1))
      ++n;
    return n;
  };
  EXPECT_EQ(reductions(plan({"--nproc=2"})), 1u);
  EXPECT_GT(reductions(plan({"--nproc=2", "--ddp.bucket-mb=0.01"})), 10u);
}

}  // namespace
}  // namespace tessera::testing
