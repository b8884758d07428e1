#include "record/background_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>

#include "support/temp_folder.h"

namespace tessera::host {
namespace {

using std::chrono::milliseconds;
using testing::file_bytes;
using testing::TempFolder;

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

TEST(BackgroundWriter, WritesInOrderAndEndsACutLine) {
  const TempFolder folder;
  const std::string path = folder.write("a", "cut");
  std::ostringstream said;
  {
    BackgroundWriter writer("--out x", Log(said, LogLevel::info));
    const int a = writer.open(path), b = writer.open(folder.path("b"));
    for (int i = 0; i < 100; ++i)
      writer.append(i % 2 ? a : b, std::to_string(i) + "\n");
  }
  std::string expected_a = "cut\n", expected_b;
  for (int i = 0; i < 100; ++i)
    (i % 2 ? expected_a : expected_b) += std::to_string(i) + "\n";
  EXPECT_EQ(file_bytes(path), expected_a);
  EXPECT_EQ(file_bytes(folder.path("b")), expected_b);
  EXPECT_EQ(said.str(), "");
}

TEST(BackgroundWriter, AFullDiskIsReportedOnceAndCostsNothingElse) {
  const TempFolder folder;
  std::ostringstream said;
  {
    BackgroundWriter writer("--out x", Log(said, LogLevel::info));
    const int full = writer.open("/dev/full"), other = writer.open(folder.path("other"));
    for (int i = 0; i < 3; ++i) {
      writer.append(full, "lost\n");
      writer.append(other, "kept\n");
    }
  }
  EXPECT_EQ(file_bytes(folder.path("other")), "kept\nkept\nkept\n");
  EXPECT_EQ(count(said.str(), "--out x: /dev/full cannot be written: No space left on device; the run continues"), 1u)
      << said.str();
  EXPECT_EQ(count(said.str(), "--out x: 3 lines and records are missing"), 1u) << said.str();
}

TEST(BackgroundWriter, AFileThatIsRemovedIsReportedOnce) {
  const TempFolder folder;
  std::ostringstream said;
  {
    BackgroundWriter writer("--out x", Log(said, LogLevel::info));
    const int file = writer.open(folder.path("a"));
    std::filesystem::remove(folder.path("a"));
    writer.append(file, "lost\n");
    writer.append(file, "lost\n");
  }
  EXPECT_EQ(count(said.str(), "--out x: " + folder.path("a") + " was removed; the run continues"), 1u) << said.str();
  EXPECT_EQ(count(said.str(), "--out x: 2 lines and records are missing"), 1u) << said.str();
}

TEST(BackgroundWriter, APartIsWrittenWholeOrNotAtAll) {
  const TempFolder folder;
  signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  std::ostringstream said;
  {
    BackgroundWriter writer("--out x", Log(said, LogLevel::info));
    const int file = writer.open(folder.path("a"));
    const rlimit small{100, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    writer.append(file, std::string(60, 'a'));
    writer.append(file, std::string(60, 'b'));  // 40 of them fit
    writer.append(file, std::string(40, 'c'));
  }
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(file_bytes(folder.path("a")), std::string(60, 'a') + std::string(40, 'c'));
  EXPECT_EQ(count(said.str(), "File too large"), 1u) << said.str();
}

TEST(BackgroundWriter, AFileThatTakesNothingStopsNoCaller) {
  const TempFolder folder;
  ASSERT_EQ(mkfifo(folder.path("fifo").c_str(), 0600), 0);
  const int reader = ::open(folder.path("fifo").c_str(), O_RDONLY | O_NONBLOCK);
  static auto& said = *new std::ostringstream;  // the thread that is left may still write to it
  {
    BackgroundWriter writer("--out x", Log(said, LogLevel::info), milliseconds(100));
    const int fifo = writer.open(folder.path("fifo"));
    const std::string part(1 << 20, 'x');
    for (int i = 0; i < 80; ++i)  // more than the pipe takes, and more than may wait
      writer.append(fifo, part);
  }
  EXPECT_EQ(count(said.str(), "the disk does not answer"), 1u) << said.str();
  // Lets the thread that was left go on, so that it ends before the test does.
  fcntl(reader, F_SETFL, 0);
  std::string bytes(1 << 20, ' ');
  for (size_t num_read = 0; num_read < size_t{63} << 20;) {
    const ssize_t done = ::read(reader, bytes.data(), bytes.size());
    ASSERT_GT(done, 0);
    num_read += static_cast<size_t>(done);
  }
  ::close(reader);
}

TEST(BackgroundWriter, AFileThatCannotBeOpenedIsReportedOnceAndCostsNothingElse) {
  const TempFolder folder;
  std::ostringstream said;
  {
    BackgroundWriter writer("--out x", Log(said, LogLevel::info));
    const int none = writer.open(folder.path("none/a")), other = writer.open(folder.path("other"));
    writer.append(none, "lost\n");
    writer.append(other, "kept\n");
    writer.warn("another problem");
  }
  EXPECT_EQ(file_bytes(folder.path("other")), "kept\n");
  EXPECT_EQ(count(said.str(), "--out x: cannot open "), 1u) << said.str();
  EXPECT_EQ(count(said.str(), "none/a: No such file or directory; the run continues"), 1u) << said.str();
  EXPECT_EQ(count(said.str(), "--out x: 1 line or record is missing"), 1u) << said.str();
  EXPECT_EQ(count(said.str(), "another problem"), 0u) << said.str();
}

}  // namespace
}  // namespace tessera::host
