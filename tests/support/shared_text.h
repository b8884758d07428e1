// Text that threads write while a test reads it.
#pragma once

#include <mutex>
#include <sstream>
#include <string>
#include <string_view>

#include "support/patience.h"

namespace tessera::testing {

/// The buffer of a stream that many threads may write, and one may read.
class SharedText : public std::stringbuf {
 public:
  std::string text() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }
  /// Waits until the text holds `part`; returns false if it does not come.
  bool wait_for(std::string_view part) const {
    return eventually([&] { return text().find(part) != std::string::npos; });
  }

 protected:
  std::streamsize xsputn(const char* bytes, std::streamsize num_bytes) override {
    const std::lock_guard lock(mutex_);
    text_.append(bytes, static_cast<size_t>(num_bytes));
    return num_bytes;
  }
  int overflow(int c) override {
    const std::lock_guard lock(mutex_);
    text_.push_back(static_cast<char>(c));
    return c;
  }

 private:
  mutable std::mutex mutex_;
  std::string text_;
};

}  // namespace tessera::testing
