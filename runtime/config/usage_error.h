// Wrong usage: what the person who typed the command can put right.
#pragma once

#include <string>

#include "tessera/error.hpp"

namespace tessera::host {

/// The command ends with exit code 2, where any other Error ends it with 1.
class UsageError : public Error {
 public:
  explicit UsageError(const std::string& message, tsr_status code = TSR_E_INVALID_ARGUMENT) : Error(code, message) {}
};

}  // namespace tessera::host
