// Diagnostics of the verifier, as tests expect them.
#pragma once

#include <gtest/gtest.h>

#include <string_view>

#include "verify/verify.h"

namespace tessera::testing {
using namespace host;

/// True when one of the diagnostics contains `text`; prints them all otherwise.
inline ::testing::AssertionResult has_diagnostic(const Diagnostics& diagnostics, std::string_view text) {
  for (const std::string& diagnostic : diagnostics)
    if (diagnostic.find(text) != std::string::npos) return ::testing::AssertionSuccess();
  auto failure = ::testing::AssertionFailure()
                 << "no diagnostic says \"" << text << "\"; there are " << diagnostics.size();
  for (const std::string& diagnostic : diagnostics)
    failure << "\n  " << diagnostic;
  return failure;
}

/// True when there is none; prints them otherwise.
inline ::testing::AssertionResult is_clean(const Diagnostics& diagnostics) {
  if (diagnostics.empty()) return ::testing::AssertionSuccess();
  auto failure = ::testing::AssertionFailure() << diagnostics.size() << " diagnostics";
  for (const std::string& diagnostic : diagnostics)
    failure << "\n  " << diagnostic;
  return failure;
}

}  // namespace tessera::testing
