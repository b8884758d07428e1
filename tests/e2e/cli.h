// What the tests of the command line share.
#pragma once

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "support/command.h"
#include "support/paths.h"
#include "support/temp_folder.h"

namespace tessera::testing {

inline std::string golden(const std::string& name = "") {
  return source_dir("tests/golden/gpt2-nano") + name;
}

inline std::vector<std::string> tessera(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), tessera_program());
  return arguments;
}

/// `tessera train` on the golden model with small batches, and a line of the log for every step.
inline std::vector<std::string> train(std::vector<std::string> more) {
  std::vector<std::string> all = {"train",          "--model",      golden(),     "--data",      golden("/tokens.bin"),
                                  "--batch-size=1", "--seq-len=32", "--lr=0.003", "--threads=1", "--log-every=1"};
  all.insert(all.end(), more.begin(), more.end());
  return tessera(all);
}

/// What torchrun sets for a rank of a job on this machine.
inline std::map<std::string, std::string> torchrun_variables(int rank, int num_ranks, int master_port) {
  return {{"RANK", std::to_string(rank)},       {"WORLD_SIZE", std::to_string(num_ranks)},
          {"LOCAL_RANK", std::to_string(rank)}, {"LOCAL_WORLD_SIZE", std::to_string(num_ranks)},
          {"MASTER_ADDR", "127.0.0.1"},         {"MASTER_PORT", std::to_string(master_port)}};
}

/// The command ended with this code, and each part is in what it wrote to standard error.
inline void expect_message(const CommandResult& result, int exit_code, const std::vector<std::string>& parts) {
  EXPECT_EQ(result.exit_code, exit_code) << result.err;
  for (const std::string& part : parts)
    EXPECT_NE(result.err.find(part), std::string::npos) << part << " is missing in\n" << result.err;
}

inline std::vector<nlohmann::json> read_json_lines(const std::string& path) {
  std::vector<nlohmann::json> lines;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);)
    lines.push_back(nlohmann::json::parse(line));
  return lines;
}

/// The lines of steps; the line that describes each run is left out.
inline std::vector<nlohmann::json> read_metrics(const std::string& path) {
  std::vector<nlohmann::json> lines = read_json_lines(path);
  std::erase_if(lines, [](const nlohmann::json& line) { return line.contains("kind"); });
  return lines;
}

}  // namespace tessera::testing
