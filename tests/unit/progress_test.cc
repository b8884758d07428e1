#include "base/progress.h"

#include <gtest/gtest.h>

#include <sstream>

namespace tessera::host {
namespace {

using namespace std::chrono_literals;

// A stream that many threads may write, and one may read.
class Lines : public std::stringbuf {
 public:
  std::string text() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }
  /// Whether the text holds `part` within a generous time.
  bool wait_for(const std::string& part) const {
    for (const auto end = std::chrono::steady_clock::now() + 30s; std::chrono::steady_clock::now() < end;) {
      if (text().find(part) != std::string::npos) return true;
      std::this_thread::sleep_for(1ms);
    }
    return false;
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

TEST(Progress, SaysWhatIsDoneAndHowFarItIs) {
  Lines lines;
  std::ostream out(&lines);
  const Log log(out, LogLevel::info);
  Progress progress(log, "planning 64 ranks", 1ms);
  EXPECT_TRUE(lines.wait_for("planning 64 ranks: 0 s so far"));
  progress.at(12, 64);
  progress.phase("placing buffers");
  EXPECT_TRUE(lines.wait_for("planning 64 ranks: 12 of 64, placing buffers, 0 s so far")) << lines.text();
}

TEST(Progress, IsSilentWhenItIsOverBefore) {
  std::ostringstream out;
  const Log log(out, LogLevel::info);
  { const Progress progress(log, "planning", 1h); }
  EXPECT_EQ(out.str(), "");
}

TEST(Progress, IsSilentBelowInfo) {
  std::ostringstream out;
  const Log log(out, LogLevel::warning);
  {
    const Progress progress(log, "planning", 1ms);
    std::this_thread::sleep_for(20ms);
  }
  EXPECT_EQ(out.str(), "");
}

}  // namespace
}  // namespace tessera::host
