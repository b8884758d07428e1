// What each fuzz target defines; its program is libFuzzer's where the build has TESSERA_FUZZ, and else driver.cc's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "tessera/error.hpp"

/// Takes any bytes. Ends the process when something is wrong.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace tessera::testing {

/// Valid inputs to begin with.
std::vector<std::string> fuzz_seeds();

/// Ends the process unless it holds.
inline void require(bool holds, const char* what) {
  if (holds) return;
  std::cerr << "wrong: " << what << "\n";
  std::abort();
}

/// Whether the work succeeds. It may fail with a tessera::Error that says why; anything else ends the process.
inline bool succeeds(const std::function<void()>& work) {
  try {
    work();
    return true;
  } catch (const Error& error) {
    require(error.what()[0] != '\0', "an error without a sentence");
    return false;
  }
}

}  // namespace tessera::testing
