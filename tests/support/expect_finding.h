// Findings of the verifier, as tests expect them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>

#include "verify/verify.h"

namespace tessera::testing {
using namespace host;

/// True when one of the findings contains `text`; prints them all otherwise.
inline ::testing::AssertionResult has_finding(const Findings& findings, std::string_view text) {
  for (const std::string& finding : findings)
    if (finding.find(text) != std::string::npos) return ::testing::AssertionSuccess();
  auto failure = ::testing::AssertionFailure() << "no finding says \"" << text << "\"; there are " << findings.size();
  for (const std::string& finding : findings)
    failure << "\n  " << finding;
  return failure;
}

/// True when there is none; prints them otherwise.
inline ::testing::AssertionResult is_clean(const Findings& findings) {
  if (findings.empty()) return ::testing::AssertionSuccess();
  auto failure = ::testing::AssertionFailure() << findings.size() << " findings";
  for (const std::string& finding : findings)
    failure << "\n  " << finding;
  return failure;
}

}  // namespace tessera::testing
