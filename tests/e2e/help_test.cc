// `--help` of every command: 80 columns, every flag, what is required, options of the plugins that are named.
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "config/help/flag_help.h"
#include "e2e/cli.h"

namespace tessera::testing {
namespace {

using host::FlagSet;
using Words = std::vector<std::string>;

std::string help(Words words) {
  const CommandResult result = run_command(tessera(std::move(words)));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  return result.out;
}

void expect_part(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << part << "\nin\n" << text;
}

TEST(Help, HasAUsageLineAndAtMost80Columns) {
  const std::vector<Words> commands = {
      {"--help"},
      {"train", "--help"},
      {"plan", "--help"},
      {"eval", "--help"},
      {"bench", "rates", "--help"},
      {"generate", "--help"},
      {"convert", "--help"},
      {"inspect", "--help"},
      {"plugins", "--help"},
      {"tokenize", "--help"},
      {"train", "--help", "--strategy=a=ddp,b=fsdp,c=zero3,d=pipeline,e=tensor", "--comm=local",
       "--offload=activations,optimizer-state,stream,fit", "--device=cpu"},
  };
  for (const Words& command : commands) {
    const std::string text = help(command);
    EXPECT_EQ(text.find("usage: tessera"), 0u) << text;
    std::istringstream in(text);
    for (std::string line, before; std::getline(in, line); before = line) {
      EXPECT_LE(line.size(), 80u) << command[0] << ": " << line;
      // The second line of an example: a shell takes both for one command.
      if (before.starts_with("  tessera ") && line.starts_with("      ")) EXPECT_TRUE(before.ends_with(" \\")) << line;
    }
    if (command[0] != "--help") EXPECT_NE(text.find("Example"), text.npos) << text;
  }
}

TEST(Help, BreaksACommandBeforeAFlag) {
  using host::wrapped_command;
  EXPECT_EQ(wrapped_command("run --a 1 --b 2", 15), "run --a 1 --b 2");
  EXPECT_EQ(wrapped_command("run --a 1 --b 2", 14, 2), "run --a 1 \\\n  --b 2");
  EXPECT_EQ(wrapped_command("run --a 1 --b 2 --c 3", 12), "run --a 1 \\\n--b 2 --c 3");
}

TEST(Help, HasEveryFlagAndMarksThoseThatAreRequired) {
  const std::vector<std::pair<FlagSet, Words>> commands = {{FlagSet::train, {"train", "--help"}},
                                                           {FlagSet::plan, {"plan", "--help"}},
                                                           {FlagSet::eval, {"eval", "--help"}},
                                                           {FlagSet::bench, {"bench", "rates", "--help"}}};
  for (const auto& [set, command] : commands) {
    const std::string text = help(command);
    size_t num_required = 0;
    for (const host::FlagText& flag : host::flag_texts(set)) {
      expect_part(text, "\n  --" + flag.name + (flag.value.empty() ? "" : " " + flag.value));
      num_required += flag.is_required ? 1 : 0;
    }
    size_t num_marked = 0;
    for (size_t at = 0; (at = text.find("(required)", at)) != text.npos; ++at)
      ++num_marked;
    EXPECT_EQ(num_marked, num_required) << text;
    EXPECT_EQ(num_required, set == FlagSet::train || set == FlagSet::bench ? 2u : 1u);
  }
}

TEST(Help, OfPlanHasItsOwnFlagsFirst) {
  const std::string text = help({"plan", "--help"});
  EXPECT_LT(text.find("\nPlan:\n  --print-program [R]"), text.find("--model NAME|FOLDER  "));
}

TEST(Help, ListsTheOptionsOfThePluginsThatAreNamed) {
  const std::string text = help({"train", "--help", "--strategy", "dp=fsdp,tp=tensor", "--offload=activations"});
  for (const char* part :
       {"\nOptions of --strategy fsdp:\n  --fsdp.", "\nOptions of --strategy tensor:\n",
        "--tensor.sequence-parallel true|false", "\nOptions of --offload activations:\n", "--activations.min-bytes"})
    expect_part(text, part);
  EXPECT_EQ(text.find("--ddp."), text.npos);
  expect_part(help({"plan", "--strategy=zero3", "--help"}), "--zero3.");
  expect_part(help({"train", "--help"}), "Plugins have options of their own");
}

TEST(Help, ListsTheOptionsOfThePluginsThatAFileNames) {
  const TempFolder folder;
  const std::string file = folder.path("config.json");
  std::ofstream(file) << R"({"strategy": "dp=fsdp", "comm": "local", "offload": null})";
  expect_part(help({"train", "--help", "--config", file}), "\nOptions of --strategy fsdp:\n");
  const std::string other = help({"plan", "--config", file, "--help", "--strategy=zero3"});
  expect_part(other, "\nOptions of --strategy zero3:\n");
  EXPECT_EQ(other.find("--strategy fsdp:"), other.npos) << other;
  expect_part(help({"train", "--help", "--config", folder.path("none")}), "usage: tessera train");
}

TEST(Help, OfABenchListsTheOptionsOfThePluginsThatAreNamed) {
  expect_part(help({"bench", "comm", "--help", "--comm", "gloo"}), "\nOptions of --comm gloo:\n  --gloo.");
  expect_part(help({"bench", "device", "--device=cpu", "--help"}), "\nOptions of --device cpu:\n");
}

TEST(Help, WorksWithFlagsThatAreWrong) {
  expect_part(help({"train", "--help", "--strategy=fsdq", "--steps=none"}),
              "Options of --strategy fsdq:\n  plugin fsdq for --strategy was not found");
  expect_part(help({"train", "--strategy=,", "--help"}), "usage: tessera train");
}

}  // namespace
}  // namespace tessera::testing
