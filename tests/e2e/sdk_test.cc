// Writing plugins with nothing but an install prefix: plugin-guide.md is followed to the letter. Its commands run in
// the order shown, each piece of code in the installed pages compiles against the installed headers, links lead to what
// is installed; and what was built on the way gives the bits that the host's own plugins give.
#include <gtest/gtest.h>

#include <regex>
#include <sstream>

#include "e2e/cli.h"
#include "support/paths.h"
#include "tessera/core.h"

namespace tessera::testing {
namespace {

namespace fs = std::filesystem;

/// A block between ``` lines of a page, with the word after the first.
struct Block {
  std::string language, text;
};

std::vector<Block> blocks_of(const std::string& page) {
  std::vector<Block> blocks;
  std::istringstream in(file_bytes(page));
  bool is_inside = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("```")) {
      is_inside = !is_inside;
      if (is_inside) blocks.push_back({line.substr(3), ""});
    } else if (is_inside) {
      blocks.back().text += line + "\n";
    }
  }
  return blocks;
}

/// What a reader has after the last command of the guide; made once for all tests.
class Sdk : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TempFolder;
    std::string commands = "set -ex\n";
    for (const Block& block : blocks_of(source_dir("docs/plugin-guide.md")))
      if (block.language == "sh") commands += block.text;
    // As on a command line: the reader's own folder, and what is installed elsewhere found by PATH.
    const std::string path = fs::path(tessera_program()).parent_path().string() + ":" +
                             fs::path(TESSERA_CMAKE).parent_path().string() + ":" + std::getenv("PATH");
    followed_ =
        Command({"/bin/sh", "-c", "cd " + folder_->path() + "\n" + commands}, {{"PREFIX", folder_->path("prefix")},
                                                                               {"TESSERA_BUILD", binary_dir()},
                                                                               {"PATH", path},
                                                                               {"CMAKE_GENERATOR", TESSERA_GENERATOR},
                                                                               {"CC", ""},
                                                                               {"CXX", ""}})
            .wait(std::chrono::minutes(8));
  }
  static void TearDownTestSuite() { delete folder_; }

  void SetUp() override { ASSERT_EQ(followed_.exit_code, 0) << followed_.out << followed_.err; }

  static std::string in_folder(const std::string& name) { return folder_->path(name); }
  static std::string documents() { return in_folder("prefix/share/doc/tessera"); }
  static std::vector<std::string> pages() {
    std::vector<std::string> pages;
    for (const auto& entry : fs::recursive_directory_iterator(documents()))
      if (entry.path().extension() == ".md") pages.push_back(entry.path());
    return pages;
  }

  /// Losses and norms of five steps of the golden model.
  static std::vector<nlohmann::json> steps(std::vector<std::string> flags) {
    const TempFolder folder;
    flags.insert(flags.end(), {"--steps=5", "--metrics=" + folder.path("metrics")});
    const CommandResult result = run_command(train(flags));
    EXPECT_EQ(result.exit_code, 0) << ::testing::PrintToString(flags) << result.err;
    std::vector<nlohmann::json> steps;
    for (const auto& line : read_metrics(folder.path("metrics")))
      steps.push_back({{"loss", line["loss"]}, {"grad_norm", line["grad_norm"]}});
    EXPECT_EQ(steps.size(), 5u);
    return steps;
  }

  static inline TempFolder* folder_ = nullptr;
  static inline CommandResult followed_;
};

TEST_F(Sdk, EveryCommandOfTheGuideRuns) {
  size_t trainings = 0;
  for (size_t at = 0; (at = followed_.err.find("info: done: 5 steps", at)) != std::string::npos; ++at)
    ++trainings;
  EXPECT_GE(trainings, 7u) << followed_.err;
  EXPECT_NE(followed_.err.find("unit-ddp: 2 sums in a step"), std::string::npos) << followed_.err;
  for (const char* plugin :
       {"plain-ddp.so", "unit-ddp.so", "shm-comm.so", "build-c/plain-ddp.so", "build-c/local-sgd.so",
        "build-c/saved-out-offload.so", "build-cpp/unit-ddp.so", "build-cpp/shm-comm.so"})
    EXPECT_TRUE(fs::exists(in_folder(plugin))) << plugin;
  EXPECT_NE(file_bytes(in_folder("build-cpp/CMakeCache.txt")).find("tessera_DIR:PATH=" + in_folder("prefix")),
            std::string::npos)
      << "another plugin-api was found than the one installed for this test";
}

TEST_F(Sdk, EveryPieceOfCodeCompiles) {
  size_t compiled = 0;
  for (const std::string& page : pages())
    for (const Block& block : blocks_of(page)) {
      if (block.language == "sh") {
        EXPECT_EQ(fs::path(page).filename(), "plugin-guide.md") << "no test runs the commands of " << page;
        continue;
      }
      ASSERT_TRUE(block.language == "c" || block.language == "cpp") << page << ": a block of " << block.language;
      const bool is_c = block.language == "c";
      const std::string file = folder_->write("pieces/piece." + block.language, block.text);
      const CommandResult result =
          run_command({is_c ? "gcc" : "g++", is_c ? "-std=c11" : "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra",
                       "-Wpedantic", "-Werror", "-I" + in_folder("prefix/include"), file});
      EXPECT_EQ(result.exit_code, 0) << page << "\n" << block.text << result.err;
      ++compiled;
    }
  EXPECT_GE(compiled, 3u);
}

TEST_F(Sdk, PagesNameWhatIsInstalled) {
  const std::regex link(R"(\]\(([^)#:]+)\))"), of_template(R"(template/[a-z_/]+\.(cc|c)\b)"),
      header(R"(tessera/[a-z_]+\.(hpp|h|inc)\b)");
  size_t named = 0;
  for (const std::string& page : pages()) {
    const std::string text = file_bytes(page), folder = fs::path(page).parent_path();
    const auto expect_all = [&](const std::regex& name, size_t group, const std::string& below) {
      for (std::sregex_iterator it(text.begin(), text.end(), name), end; it != end; ++it, ++named)
        EXPECT_TRUE(fs::exists(below + "/" + (*it)[group].str())) << page << " names " << (*it)[group];
    };
    expect_all(link, 1, folder);
    expect_all(of_template, 0, documents());
    expect_all(header, 0, in_folder("prefix/include"));
  }
  EXPECT_GE(named, 20u);
  for (const char* page : {"plugin-abi.md", "plugin-guide.md", "plugin-structs.md", "LICENSE", "template/README.md"})
    EXPECT_TRUE(fs::exists(documents() + "/" + page)) << page;
}

// A reader has nothing else of the repository.
TEST_F(Sdk, NamesNoFileOfTheRepository) {
  const std::regex path(R"((^|[\s`"(])(tests|docs|runtime|plugins|kernels|plugin-api)/[a-z_]+[/.])");
  std::vector<std::string> files = pages();
  for (const char* folder : {"prefix/include", "prefix/share"})
    for (const auto& entry : fs::recursive_directory_iterator(in_folder(folder)))
      if (entry.is_regular_file()) files.push_back(entry.path());
  EXPECT_GT(files.size(), 30u);
  for (const std::string& file : files) {
    const std::string text = file_bytes(file);
    std::smatch found;
    EXPECT_FALSE(std::regex_search(text, found, path)) << file << " names " << found.str();
  }
}

// Headers have all that a plugin for an earlier minor needs, from the oldest on; another major promises nothing.
TEST_F(Sdk, IsFoundForTheMinorsOfItsMajor) {
  const std::string major = std::to_string(TSR_ABI_MAJOR), minor = std::to_string(TSR_ABI_MINOR);
  const std::pair<std::string, bool> requests[] = {{major + "." + minor, true},
                                                   {major + "." + std::to_string(TSR_OLDEST_MINOR), true},
                                                   {major + "." + std::to_string(TSR_OLDEST_MINOR - 1), false},
                                                   {major + "." + std::to_string(TSR_ABI_MINOR + 1), false},
                                                   {std::to_string(TSR_ABI_MAJOR + 1) + ".0", false}};
  for (const auto& [version, is_found] : requests) {
    const std::string project = in_folder("find-" + version);
    folder_->write("find-" + version + "/CMakeLists.txt",
                   "cmake_minimum_required(VERSION 3.16)\nproject(find LANGUAGES NONE)\nfind_package(tessera " +
                       version + " REQUIRED)\n");
    const CommandResult result = run_command(
        {TESSERA_CMAKE, "-S", project, "-B", project + "/build", "-DCMAKE_PREFIX_PATH=" + in_folder("prefix")});
    EXPECT_EQ(result.exit_code == 0, is_found) << version << result.out << result.err;
  }
}

TEST_F(Sdk, BuildsTheExamplesInCppWithClangToo) {
  const std::string build = in_folder("build-clang");
  const CommandResult configured =
      run_command({TESSERA_CMAKE, "-S", in_folder("my-plugins/cpp"), "-B", build, "-DCMAKE_CXX_COMPILER=clang++",
                   "-DCMAKE_CXX_FLAGS=-Werror", "-DCMAKE_PREFIX_PATH=" + in_folder("prefix")});
  ASSERT_EQ(configured.exit_code, 0) << configured.out << configured.err;
  const CommandResult built = Command({TESSERA_CMAKE, "--build", build}).wait(std::chrono::minutes(4));
  ASSERT_EQ(built.exit_code, 0) << built.out << built.err;
  const CommandResult info = run_command(tessera({"plugins", "info", build + "/shm-comm.so"}));
  EXPECT_EQ(info.exit_code, 0) << info.err;
}

TEST_F(Sdk, TheStrategyInCppHasTheBitsOfDdp) {
  const std::string strategy = in_folder("build-cpp/unit-ddp.so");
  const std::vector<std::string> settings[] = {{"--nproc=2"},
                                               {"--nproc=3", "--grad-accum=2"},
                                               {"--nproc=3", "--grad-accum=2", "--reduce-every=micro-batch"},
                                               {"--nproc=2", "--dtype=bf16", "--reduce-dtype=bf16"}};
  for (std::vector<std::string> flags : settings) {
    flags.insert(flags.end(), {"--comm=local", "--strategy=ddp"});
    const auto expected = steps(flags);
    flags.back() = "--strategy=" + strategy;
    EXPECT_EQ(steps(flags), expected) << ::testing::PrintToString(flags);
  }
}

TEST_F(Sdk, TheStrategyInCppReplicatesAroundOneThatSplits) {
  for (const char* every : {"--reduce-every=step", "--reduce-every=micro-batch"}) {
    std::vector<std::string> flags = {"--nproc=4", "--mesh=r=2,s=2", "--grad-accum=2", "--comm=local", every};
    flags.push_back("--strategy=r=ddp,s=fsdp");
    const auto expected = steps(flags);
    flags.back() = "--strategy=r=" + in_folder("build-cpp/unit-ddp.so") + ",s=fsdp";
    EXPECT_EQ(steps(flags), expected) << every;
  }
}

// What a plugin does not do it refuses: another computation than the one asked for would go unnoticed.
TEST_F(Sdk, TheStrategyInCRefusesToSendAnotherDtype) {
  const CommandResult result = run_command(train(
      {"--nproc=2", "--comm=local", "--strategy=" + in_folder("plain-ddp.so"), "--reduce-dtype=bf16", "--steps=1"}));
  EXPECT_NE(result.exit_code, 0);
  EXPECT_NE(result.err.find("--reduce-dtype=float32"), std::string::npos) << result.err;
}

TEST_F(Sdk, TheCommunicatorHasTheBitsOfOthers) {
  for (const char* strategy : {"--strategy=ddp", "--strategy=fsdp"}) {
    std::vector<std::string> flags = {"--nproc=3", strategy, "--comm=local"};
    const auto expected = steps(flags);
    flags.back() = "--comm=" + in_folder("shm-comm.so");
    EXPECT_EQ(steps(flags), expected) << strategy;
  }
}

TEST_F(Sdk, TheCommunicatorSaysWhatItDoesNotDo) {
  const CommandResult result =
      run_command(train({"--mesh=pp=2", "--strategy=pp=pipeline", "--steps=1", "--comm=" + in_folder("shm-comm.so")}));
  EXPECT_NE(result.exit_code, 0);
  EXPECT_TRUE(std::regex_search(result.err, std::regex("send|recv|exchange|all_to_all"))) << result.err;
}

}  // namespace
}  // namespace tessera::testing
