#include "base/progress.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "base/terminal.h"
#include "support/shared_text.h"

namespace tessera::host {
namespace {

using namespace std::chrono_literals;
using testing::SharedText;

TEST(Progress, SaysWhatIsDoneAndHowFarItIs) {
  SharedText lines;
  std::ostream out(&lines);
  const Log log(out, LogLevel::info);
  Progress progress(log, "planning 64 ranks", 1ms);
  EXPECT_TRUE(lines.wait_for("planning 64 ranks: "));
  progress.at(12, 64);
  progress.phase("placing buffers");
  EXPECT_TRUE(lines.wait_for("planning 64 ranks: 12 of 64, placing buffers, ")) << lines.text();
  EXPECT_NE(lines.text().find(" s so far"), std::string::npos) << lines.text();
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

TEST(Progress, LeavesTheBarOutRatherThanTheTime) {
  const std::string text = "planning 8 ranks that differ: 2 of 8, checking its programs, 2.2 s so far";
  const int columns = num_columns_of(text);
  for (const int room : {0, 4, 5, 12, 21, 80}) {
    const std::string line = line_with_bar(0.25, text, columns + room);
    EXPECT_TRUE(line.ends_with(text)) << line;
    const int bar = room < 5 ? 0 : std::min(room - 1, 20);
    EXPECT_EQ(num_columns_of(line), columns + (bar > 0 ? bar + 1 : 0)) << room;
  }
}

}  // namespace
}  // namespace tessera::host
