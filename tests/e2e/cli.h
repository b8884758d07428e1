// What the tests of the command line share.
#pragma once

#include <nlohmann/json.hpp>

#include <fstream>
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
  arguments.insert(arguments.begin(), TESSERA_PROGRAM);
  return arguments;
}

/// `tessera train` on the golden model with small batches, and a line of the log for every step.
inline std::vector<std::string> train(std::vector<std::string> more) {
  std::vector<std::string> all = {"train",          "--model",      golden(),     "--data",      golden("/tokens.bin"),
                                  "--batch-size=1", "--seq-len=32", "--lr=0.003", "--threads=1", "--log-every=1"};
  all.insert(all.end(), more.begin(), more.end());
  return tessera(all);
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
