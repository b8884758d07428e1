// Wrong usage: an error that the user can correct.
#pragma once

#include <string>

#include "tessera/error.hpp"

namespace tessera::host {

/// Ends the command with exit code 2; any other Error ends it with 1.
class UsageError : public Error {
 public:
  explicit UsageError(const std::string& message, tsr_status code = TSR_E_INVALID_ARGUMENT) : Error(code, message) {}
};

}  // namespace tessera::host
