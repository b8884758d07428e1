#include <gtest/gtest.h>

#include <vector>

#include "base/concat.h"

namespace tessera::host {
namespace {

TEST(Printable, LeavesWhatPeopleWrite) {
  for (const char* text : {"", "h.0.*", "caf\xc3\xa9 \xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x9a\x80", "C:\\x41", "100 % {}"})
    EXPECT_EQ(printable(text), text);
}

TEST(Printable, EscapesWhatATerminalWouldObey) {
  EXPECT_EQ(printable("a\nb\rc\td"), "a\\nb\\rc\\td");
  EXPECT_EQ(printable("\x1b[2J\x7f\x01"), "\\x1b[2J\\x7f\\x01");
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\xc2\\x9b31m");  // CSI in one character
  EXPECT_EQ(printable("gpt\xe2\x80\xae"
                      "2"),
            "gpt\\xe2\\x80\\xae2");  // from right to left
}

TEST(Printable, EscapesBytesThatAreNotUtf8) {
  EXPECT_EQ(printable("\xff\xfe"), "\\xff\\xfe");
  EXPECT_EQ(printable("caf\xe9"), "caf\\xe9");
  EXPECT_EQ(printable("\xe6\x97"), "\\xe6\\x97");           // cut off
  EXPECT_EQ(printable("\xc0\x8a"), "\\xc0\\x8a");           // a newline in two bytes
  EXPECT_EQ(printable("\xe0\x82\x9b"), "\\xe0\\x82\\x9b");  // CSI in three
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // a surrogate
  EXPECT_EQ(printable("\xf5\x80\x80\x80"), "\\xf5\\x80\\x80\\x80");
  EXPECT_EQ(printable("\x9b"
                      "31m"),
            "\\x9b31m");
}

TEST(Printable, LeavesContinuationLines) {
  EXPECT_EQ(printable("is wrong:\n  one\n  two"), "is wrong:\n  one\n  two");
  EXPECT_EQ(printable("x\n error: forged"), "x\\n error: forged");
}

TEST(ProcessText, HasTheHostThatIsKnown) {
  EXPECT_EQ(process_text(733, "node1"), "process 733 on node1");
  EXPECT_EQ(process_text(733, ""), "process 733");
}

TEST(RankList, IsShort) {
  const auto list = [](std::vector<int> ranks) { return rank_list(ranks); };
  EXPECT_EQ(list({}), "");
  EXPECT_EQ(list({2}), "2");
  EXPECT_EQ(list({1, 2, 4, 5, 6, 9}), "1, 2, 4 to 6, 9");
  std::vector<int> all, odd;
  for (int rank = 1; rank < 500; ++rank) {
    all.push_back(rank);
    if (rank % 2) odd.push_back(rank);
  }
  EXPECT_EQ(list(all), "1 to 499");
  EXPECT_EQ(list(odd), "1, 3, 5, 7, 9, 11, 13, 15, ... (250 ranks)");
}

}  // namespace
}  // namespace tessera::host
