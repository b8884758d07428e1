// What a crash says when threads crash together, and in a trial; what one says of plugins,
// tests/e2e/hostile_plugins_test.cc tests.
#include "guard/crash_report.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "base/ending.h"
#include "config/usage_error.h"
#include "guard/known_functions.h"
#include "plugins/trial.h"
#include "support/child_process.h"
#include "support/patience.h"
#include "support/temp_folder.h"

namespace tessera::host {
namespace {

using testing::ChildProcess;

/// A full pipe: a writer waits for a reader.
std::array<int, 2> full_pipe() {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe(ends.data()), 0);
  const int flags = ::fcntl(ends[1], F_GETFL);
  ::fcntl(ends[1], F_SETFL, flags | O_NONBLOCK);
  const std::string blanks(4096, ' ');
  while (::write(ends[1], blanks.data(), blanks.size()) > 0) {
  }
  ::fcntl(ends[1], F_SETFL, flags);
  return ends;
}

void crash() {
  static volatile size_t address = 16;
  *reinterpret_cast<volatile int*>(address) = 1;
}

std::string read_all(int file) {
  std::string text;
  std::array<char, 4096> piece;
  for (ssize_t size; (size = ::read(file, piece.data(), piece.size())) > 0;)
    text.append(piece.data(), static_cast<size_t>(size));
  return text;
}

// The line of the first one is still on its way when the second one crashes, which must not end the process before.
TEST(CrashReport, OfTheFirstThreadIsWrittenBeforeAnotherEndsTheProcess) {
  const auto [reader, writer] = full_pipe();
  const ChildProcess child([writer = writer](const ChildProcess::Say&) {
    ::dup2(writer, STDERR_FILENO);
    report_crashes();
    std::thread other(crash);
    crash();
    other.join();
  });
  ::close(writer);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_NE(read_all(reader).find("tessera: crashed outside of the calls of plugins (SIGSEGV)\n"), std::string::npos);
  ::close(reader);
}

// A run that goes on with another plugin has not been told why it ends.
TEST(CrashReport, OfATrialIsNotThatOfTheRun) {
  ChildProcess child([](const ChildProcess::Say& say) {
    const SharedEndings shared(1);
    ending = &shared[0];
    report_crashes();
    int num_crashes = 0;
    for (const int signal : kCrashSignals)
      try {
        try_in_child([&](const TrialStep&) { ::raise(signal); });
      } catch (const UsageError&) {
        ++num_crashes;
      }
    say(std::to_string(num_crashes) + (ending->is_told ? " told" : " not told"));
    ending = &ending_here;
    end_of_program();
  });
  EXPECT_EQ(child.next_line(testing::kPatienceMs), std::to_string(kCrashSignals.size()) + " not told");
}

// A program that writes into a plugin's file, as cp does, changes the code in memory.
TEST(CrashReport, NamesAFileThatWasChangedWhileItWasInUse) {
  const testing::TempFolder folder;
  const std::string path = folder.write("plugin.so", "code");
  const auto [reader, writer] = full_pipe();
  const ChildProcess child([writer = writer, &path](const ChildProcess::Say&) {
    ::dup2(writer, STDERR_FILENO);
    report_crashes();
    know_code(reinterpret_cast<const void*>(&crash), path);
    std::filesystem::resize_file(path, 2);
    crash();
  });
  ::close(writer);
  EXPECT_NE(read_all(reader).find("; the file " + path + " was changed while it was in use"), std::string::npos);
  ::close(reader);
}

// The code in memory is that of the old file.
TEST(CrashReport, AFileThatAnotherHasReplacedIsNotChanged) {
  const testing::TempFolder folder;
  const std::string path = folder.write("plugin.so", "code"), other = folder.write("other.so", "longer code");
  ChildProcess child([&](const ChildProcess::Say& say) {
    know_code(reinterpret_cast<const void*>(&crash), path);
    std::filesystem::rename(other, path);
    say(find_changed_file() ? "changed" : "the same");
  });
  EXPECT_EQ(child.next_line(testing::kPatienceMs), "the same");
}

}  // namespace
}  // namespace tessera::host
