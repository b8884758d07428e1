// Numbers that the environment may set for a test.
#pragma once

#include <cstdlib>
#include <string>

namespace tessera::testing {

/// The variable's number, or `otherwise` where it is not set. Throws std::invalid_argument for other text.
inline int setting(const char* variable, int otherwise) {
  const char* const text = std::getenv(variable);
  return text ? std::stoi(text) : otherwise;
}

}  // namespace tessera::testing
