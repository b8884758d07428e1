// What README and docs show is true: commands run, program lines are those of a program, linked files are there.
#include <gtest/gtest.h>

#include <regex>
#include <sstream>

#include "e2e/cli.h"

#include "support/paths.h"

namespace tessera::testing {
namespace {

const std::string kSource = source_dir();

std::string contents(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::vector<std::string> lines_of(const std::string& path) {
  std::istringstream in(contents(path));
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);)
    lines.push_back(line);
  return lines;
}

std::vector<std::string> documents() {
  std::vector<std::string> files = {kSource + "/README.md"};
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kSource + "/docs"))
    if (entry.path().extension() == ".md") files.push_back(entry.path());
  return files;
}

TEST(Docs, EveryCommandShownRuns) {
  const TempFolder folder;
  std::filesystem::create_directory_symlink(kSource + "/examples", folder.path("examples"));
  std::filesystem::create_directory_symlink(kSource + "/runtime", folder.path("runtime"));
  std::filesystem::create_directory_symlink(kSource + "/tests", folder.path("tests"));
  for (const char* text : {"shakespeare-train.txt", "shakespeare-val.txt"})  // the reader's; any text does
    std::filesystem::copy_file(kSource + "/docs/architecture.md", folder.path(text));
  size_t commands = 0;
  for (const std::string& file : documents())
    for (const std::string& line : lines_of(file)) {
      constexpr std::string_view kPrefix = "    ./dev run ";
      if (!line.starts_with(kPrefix)) continue;
      if (line.find("--device cuda") != line.npos && !std::filesystem::exists(plugin_dir() + "/cuda-device.so"))
        continue;
      std::string command = "cd " + folder.path() + " && exec " + tessera_program() + " " + line.substr(kPrefix.size());
      if (command.find(" train ") != command.npos && command.find("--help") == command.npos)
        command = std::regex_replace(command, std::regex(R"( --steps \d+)"), "") + " --steps 2";
      const CommandResult result = run_command({"/bin/sh", "-c", command});
      EXPECT_EQ(result.exit_code, 0) << file << ": " << line << "\n" << result.err;
      ++commands;
    }
  EXPECT_GE(commands, 7u);
}

TEST(Docs, ProgramLinesAreOfTheGoldenPrograms) {
  std::string golden_programs;
  for (const char* name : {"ddp", "ddp-staged", "fsdp-optimizer-only", "activations"})
    golden_programs += contents(kSource + "/tests/golden/programs/two-blocks-" + name + ".txt");
  const std::regex program_line(R"([\s*]*(\d+ +(compute|copy_in|copy_out|fetch|evict|comm\.\S+) .*))");
  size_t shown = 0;
  for (const std::string& file :
       {kSource + "/README.md", kSource + "/docs/architecture.md", kSource + "/docs/offload.md",
        kSource + "/docs/plugin-guide.md", kSource + "/docs/plugin-structs.md",
        kSource + "/plugin-api/include/tessera/offload.h"})
    for (const std::string& line : lines_of(file)) {
      std::smatch match;
      if (!std::regex_match(line, match, program_line)) continue;
      EXPECT_NE(golden_programs.find("\n" + match[1].str() + "\n"), std::string::npos) << file << ": " << line;
      ++shown;
    }
  EXPECT_GE(shown, 16u);
}

TEST(Docs, LinksLeadSomewhere) {
  const std::regex link(R"(\]\(([^)#:]+)\))");
  for (const std::string& file : documents()) {
    const std::string text = contents(file);
    for (std::sregex_iterator it(text.begin(), text.end(), link), end; it != end; ++it)
      EXPECT_TRUE(std::filesystem::exists(std::filesystem::path(file).parent_path() / (*it)[1].str()))
          << file << " links to " << (*it)[1];
  }
}

// Files that a document names in backquotes, from the root or from runtime/. Those of foo are to be made by the reader.
TEST(Docs, FilesNamedAreThere) {
  const std::regex name(R"(`((runtime|plugins|plugin-api|tests|examples|docs|cmake)/[A-Za-z0-9_./-]+)`)");
  size_t named = 0;
  for (const std::string& file : documents()) {
    if (file.find("/decisions/") != file.npos) continue;  // they name what there was
    const std::string text = contents(file);
    for (std::sregex_iterator it(text.begin(), text.end(), name), end; it != end; ++it) {
      const std::string path = (*it)[1];
      if (path.find("/foo/") != path.npos) continue;
      EXPECT_TRUE(std::filesystem::exists(kSource + "/" + path) ||
                  std::filesystem::exists(kSource + "/runtime/" + path))
          << file << " names " << path;
      ++named;
    }
  }
  EXPECT_GE(named, 50u);
}

// The command above README's output is the one that ./dev train runs.
TEST(Docs, TheTrainingShownIsTheOneThatDevRuns) {
  const std::string readme = contents(kSource + "/README.md"), script = contents(kSource + "/examples/text/train.sh");
  const std::string start = "tessera train ", end = "\n";
  const size_t at = readme.find(start) + start.size();
  std::string shown = readme.substr(at, readme.find(end, at) - at);
  const size_t defaults = script.find("defaults=(") + 10;
  std::string run = script.substr(defaults, script.find(')', defaults) - defaults);
  run = std::regex_replace(std::regex_replace(run, std::regex(R"(\s+)"), " "), std::regex(R"(\$\{here\})"), "");
  EXPECT_EQ(shown, run);
}

}  // namespace
}  // namespace tessera::testing
