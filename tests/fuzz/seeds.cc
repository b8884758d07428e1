// libFuzzer reads inputs from a folder; this writes the target's own there before it does.
#include <fstream>

#include "fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  const char* folder = std::getenv("TESSERA_FUZZ_SEEDS");
  if (!folder) return 0;
  size_t number = 0;
  for (const std::string& seed : tessera::testing::fuzz_seeds())
    std::ofstream(std::string(folder) + "/seed-" + std::to_string(number++), std::ios::binary) << seed;
  return 0;
}
