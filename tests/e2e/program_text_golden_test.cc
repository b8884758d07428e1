// The programs of a two-block model under ddp, as a person reads them, are golden files. After a change that is meant:
//     ./dev run plan --model tests/golden/programs/two-blocks --batch-size 2 --seq-len 16 --nproc 2 --print-program
//         > tests/golden/programs/two-blocks-ddp.txt
#include <gtest/gtest.h>

#include <sstream>

#include "e2e/cli.h"

#include "support/paths.h"

namespace tessera::testing {
namespace {

std::string plan(std::vector<std::string> more) {
  std::vector<std::string> arguments = {
      "plan",      "--model",        source_dir("tests/golden/programs/two-blocks"), "--batch-size=2", "--seq-len=16",
      "--nproc=2", "--print-program"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const CommandResult result = run_command(tessera(arguments));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return result.out;
}

TEST(ProgramText, OfDdpIsTheGoldenFile) {
  std::ostringstream golden_text;
  golden_text << std::ifstream(source_dir("tests/golden/programs/two-blocks-ddp.txt")).rdbuf();
  std::istringstream now(plan({})), then(golden_text.str());
  std::string a, b;
  for (int line = 1; std::getline(then, b); ++line) {
    ASSERT_TRUE(std::getline(now, a)) << "the program ends before line " << line << " of the golden file: " << b;
    ASSERT_EQ(a, b) << "line " << line;
  }
  EXPECT_FALSE(std::getline(now, a)) << "the program goes on after the golden file: " << a;
}

// Reductions stand right behind the last writer of what they sum: before the backward of earlier blocks.
TEST(ProgramText, GradientsAreReducedWhileTheBackwardRuns) {
  const std::string text = plan({"--ddp.bucket-mb=0.01"});
  const size_t step = text.find("program step");
  const size_t first = text.find("all_reduce group=dp", step);
  EXPECT_LT(first, text.find("backward h.0.add ", step));
  EXPECT_GT(first, text.find("backward h.1.add ", step));
}

TEST(ProgramText, SmallerBucketsAreMoreReductions) {
  const auto reductions = [](const std::string& text) {
    size_t n = 0;
    for (size_t at = text.find("all_reduce group=dp"); at != text.npos; at = text.find("all_reduce group=dp", at + 1))
      ++n;
    return n;
  };
  EXPECT_EQ(reductions(plan({})), 1u);
  EXPECT_GT(reductions(plan({"--ddp.bucket-mb=0.01"})), 10u);
}

}  // namespace
}  // namespace tessera::testing
