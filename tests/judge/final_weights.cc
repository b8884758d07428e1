// final_weights FILE RANKS FLAGS...: runs `tessera train FLAGS` with RANKS local ranks and writes the values that all
// parameters end with, put together from all ranks, to FILE (safetensors; float32, flat). For judge.py.
#include <cstdlib>
#include <exception>
#include <iostream>

#include "support/local_job.h"
#include "tessera/error.hpp"
#include "weights/safetensors_writer.h"

namespace tessera::testing {
using namespace host;
namespace {

void write(const std::string& path, const std::map<std::string, std::vector<float>>& parameters) {
  std::vector<SafetensorsEntry> entries;
  for (const auto& [name, values] : parameters)
    entries.push_back({name, "F32", {values.size()}});
  SafetensorsWriter writer(path, entries, {});
  for (const auto& [name, values] : parameters)
    writer.write(name, 0, std::as_bytes(std::span(values)));
  writer.commit();
}

void run(const std::string& path, int num_ranks, const std::vector<std::string>& flags) {
  const RunResult result = run_local(flags, num_ranks);
  if (result.num_missing + result.num_contradictions != 0)
    throw Error(TSR_E_INTERNAL, std::to_string(result.num_missing) + " elements are on no rank, " +
                                    std::to_string(result.num_contradictions) + " differ between ranks");
  write(path, result.parameters);
}

}  // namespace
}  // namespace tessera::testing

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: final_weights FILE RANKS FLAGS...\n";
    return 2;
  }
  try {
    tessera::testing::run(argv[1], std::atoi(argv[2]), {argv + 3, argv + argc});
  } catch (const std::exception& e) {
    std::cerr << "final_weights: " << e.what() << "\n";
    return 1;
  }
  return 0;
}
