// Expectations on tessera::Error.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tessera/error.hpp"

namespace tessera::testing {

/// `action` must throw an `E` whose text holds each of `parts`; returns the text.
template <class E = Error, class Action>
std::string expect_error(Action&& action, const std::vector<std::string>& parts) {
  try {
    action();
  } catch (const E& error) {
    const std::string text = error.what();
    for (const std::string& part : parts)
      EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is missing in: " << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << "more than one line: " << text;
    return text;
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another exception: " << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

}  // namespace tessera::testing
