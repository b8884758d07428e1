// What is written to standard error while its reader pauses.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/terminal.h"

namespace tessera::testing {
namespace {

using namespace host;

/// Makes standard error a pipe that takes a page.
class Reader {
 public:
  Reader() : before_(::dup(STDERR_FILENO)) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    EXPECT_GE(::fcntl(ends[0], F_SETPIPE_SZ, 4096), 4096);
    ::dup2(ends[1], STDERR_FILENO);
    ::close(ends[1]);
    file_ = ends[0];
    ::fstat(file_, &status_);
  }
  ~Reader() {
    ::dup2(before_, STDERR_FILENO);
    ::close(before_);
    ::close(file_);
  }

  /// Closes what the process has opened for the pipe beside standard error, as a plugin may.
  void close_other_descriptors() const {
    for (int file = STDERR_FILENO + 1; file < 256; ++file) {
      struct stat status {};
      const bool is_it = file != file_ && ::fstat(file, &status) == 0 && status.st_ino == status_.st_ino;
      if (is_it) ::close(file);
    }
  }

  /// The lines up to `last`.
  std::vector<std::string> read_up_to(const std::string& last) {
    while (!text_.ends_with(last + "\n")) {
      char bytes[4096];
      const ssize_t n = ::read(file_, bytes, sizeof bytes);
      if (n <= 0) break;
      text_.append(bytes, static_cast<size_t>(n));
    }
    std::vector<std::string> lines;
    std::istringstream in(text_);
    for (std::string line; std::getline(in, line);)
      lines.push_back(line);
    return lines;
  }

 private:
  int before_, file_ = -1;
  struct stat status_ {};
  std::string text_;
};

std::string line(int number) {
  return std::to_string(number) + std::string(1000, '.');
}

// All in one test: what is set up stays for the process.
TEST(KeptLines, AreWrittenWhenTheReaderComesBack) {
  Reader reader;
  keep_what_is_not_read();

  // First what the pipe takes, then what is kept of many lines, with the number of those between.
  constexpr int kNumLines = 3000, kPipeIsFull = 10;
  for (int i = 0; i < kNumLines; ++i) {
    write_standard_error(line(i) + "\n");
    if (i >= kPipeIsFull) write_status("a status line");  // is left out
  }
  if (::fork() == 0) {  // a copy, which keeps nothing
    write_what_is_kept(UntilRead::forever);
    ::_exit(0);
  }
  int status = 0;
  ::wait(&status);
  std::thread writer([] { write_what_is_kept(UntilRead::forever); });
  const std::vector<std::string> lines = reader.read_up_to(line(kNumLines - 1));
  writer.join();

  size_t num_before = 0;
  while (num_before < lines.size() && lines[num_before] == line(static_cast<int>(num_before)))
    ++num_before;
  ASSERT_LT(num_before, lines.size());
  EXPECT_GE(num_before, 1u);
  const size_t num_after = lines.size() - num_before - 1;
  EXPECT_EQ(lines[num_before], "tessera: " + std::to_string(kNumLines - num_before - num_after) +
                                   " lines are left out here: the log was not read for too long");
  EXPECT_GE(num_after, 500u);
  EXPECT_LE(num_after, 1100u);
  for (size_t i = 0; i < num_after; ++i)
    EXPECT_EQ(lines[num_before + 1 + i], line(static_cast<int>(kNumLines - num_after + i)));

  // Then everything again at once, a status line too.
  write_standard_error("again\n");
  write_status("a status line\n");
  EXPECT_EQ(reader.read_up_to("a status line").back(), "a status line");

  // A plugin closes the files of the host: the rest is written as if nothing were kept.
  reader.close_other_descriptors();
  write_standard_error("the last\n");
  EXPECT_EQ(reader.read_up_to("the last").back(), "the last");
}

}  // namespace
}  // namespace tessera::testing
