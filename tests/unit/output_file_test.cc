// What an output may replace, and what it never does.
#include "base/output_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <csignal>

#include "support/child_process.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace tessera::host {
namespace {

using testing::expect_error;
using testing::file_bytes;
using testing::TempFolder;

Output output(const std::string& path, Output::Old old = Output::Old::replace) {
  return {
      .flag = "--out", .path = path, .old = old, .is_ours = [](std::string_view s) { return s.starts_with("ours"); }};
}

/// Refused before and at opening, with these parts; the file, if there is one, keeps its bytes.
void expect_refusal(const Output& output, const std::vector<std::string>& parts) {
  const auto bytes = [&] { return std::filesystem::is_regular_file(output.path) ? file_bytes(output.path) : ""; };
  const std::string before = bytes(), refusal = refusal_of(output);
  EXPECT_TRUE(refusal.starts_with("--out " + output.path + " ")) << refusal;
  for (const std::string& part : parts)
    EXPECT_NE(refusal.find(part), refusal.npos) << refusal;
  expect_error([&] { OutputFile file(output); }, {refusal});
  EXPECT_EQ(bytes(), before);
}

TEST(OutputFile, ANewOneAppearsOnlyWhenItIsOpened) {
  const TempFolder folder;
  const Output out = output(folder.path("new"));
  EXPECT_EQ(refusal_of(out), "");
  EXPECT_FALSE(std::filesystem::exists(out.path));
  write_output(out, {"te", "xt"});
  EXPECT_EQ(file_bytes(out.path), "text");
}

TEST(OutputFile, TheOldOneStaysUntilTheNewOneIsWhole) {
  const TempFolder folder;
  const std::string path = folder.write("old", "ours 1");
  std::filesystem::permissions(path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  std::filesystem::create_symlink("old", folder.path("link"));
  const auto num_files = [&] { return std::distance(std::filesystem::directory_iterator(folder.path()), {}); };
  {
    OutputFile file(output(folder.path("link")));
    file.write("ours, half");
    EXPECT_EQ(file_bytes(path), "ours 1");
  }
  EXPECT_EQ(file_bytes(path), "ours 1") << "nothing was committed";
  EXPECT_EQ(num_files(), 2);
  write_output(output(folder.path("link")), {"ours 2"});
  EXPECT_EQ(file_bytes(path), "ours 2");
  EXPECT_TRUE(std::filesystem::is_symlink(folder.path("link")));
  EXPECT_EQ(std::filesystem::status(path).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  EXPECT_EQ(num_files(), 2);
}

// Of a process that was killed, in a container where the next one has its number.
TEST(OutputFile, WhatAKilledProcessLeftIsReplaced) {
  const TempFolder folder;
  const std::string path = folder.write("old", "ours 1");
  folder.write("old." + std::to_string(::getpid()) + ".partial", "ours, of a process that was killed");
  {
    OutputFile file(output(path));
    file.write("ours, half");
    EXPECT_EQ(file_bytes(path), "ours 1");
  }
  write_output(output(path), {"ours 2"});
  EXPECT_EQ(file_bytes(path), "ours 2");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(OutputFile, ALongNameIsWrittenInItsPlace) {
  const TempFolder folder;
  const std::string path = folder.write(std::string(NAME_MAX, 'n'), "ours 1");
  write_output(output(path), {"ours 2"});
  EXPECT_EQ(file_bytes(path), "ours 2");
}

// A file that may be written in a folder that may not, and what others have open, are written in their place.
TEST(OutputFile, WithoutPlaceBesideItIsReplacedWhereItIs) {
  const TempFolder folder;
  const std::string name = std::string(250, 'n'), path = folder.write(name, "ours 1");  // too long for another end
  write_output(output(path), {"ours 2"});
  EXPECT_EQ(file_bytes(path), "ours 2");
  const int open = ::open(folder.write("open", "ours 1").c_str(), O_RDONLY | O_CLOEXEC);
  write_output(output("/proc/self/fd/" + std::to_string(open)), {"ours 2"});
  ::close(open);
  EXPECT_EQ(file_bytes(folder.path("open")), "ours 2");
}

TEST(OutputFile, OursIsReplacedOrContinued) {
  const TempFolder folder;
  const std::string path = folder.write("old", "ours 1\n");
  OutputFile(output(path, Output::Old::append)).write("ours 2");
  EXPECT_EQ(file_bytes(path), "ours 1\nours 2");
  EXPECT_TRUE(OutputFile(output(path, Output::Old::append)).ends_in_half_line());
  write_output(output(path), {"ours 3"});
  EXPECT_EQ(file_bytes(path), "ours 3");
}

TEST(OutputFile, AnotherFileIsReplacedOnlyWhenAskedTo) {
  const TempFolder folder;
  for (const auto old : {Output::Old::append, Output::Old::replace}) {
    Output out = output(folder.write("notes", "three years of work"), old);
    expect_refusal(out, {"was not written by tessera", "--overwrite"});
    out.overwrite = true;
    write_output(out, {"ours"});
    EXPECT_EQ(file_bytes(out.path), "ours");
    write_output(out, {"ours"});  // what is ours is continued all the same
    EXPECT_EQ(file_bytes(out.path), old == Output::Old::append ? "oursours" : "ours");
  }
}

TEST(OutputFile, WhatTheJobReadsIsNeverWritten) {
  const TempFolder folder;
  const std::string data = folder.write("data.bin", "tokens"), weights = folder.write("blobs/1", "weights");
  folder.write("model/config.json", "{}");
  std::filesystem::create_symlink("../blobs/1", folder.path("model/model.safetensors"));
  std::filesystem::create_hard_link(data, folder.path("hard"));
  std::filesystem::create_symlink(data, folder.path("soft"));
  for (const char* name : {"data.bin", "hard", "soft", "blobs/1", "model/model.safetensors", "model/config.json"}) {
    Output out = output(folder.path(name));
    out.overwrite = true;
    out.inputs = {{"--data", data, true}, {"--model", folder.path("model")}};
    expect_refusal(out, {"is a file that the job reads for --", "give another file"});
  }
}

TEST(OutputFile, NothingIsAddedToAFolderOfData) {
  const TempFolder folder;
  folder.write("data/a.txt", "text");
  Output out = output(folder.path("data/new"));
  out.inputs = {{"--data", folder.path("data"), true}};
  expect_refusal(out, {"is in the folder that the job reads for --data"});
  EXPECT_FALSE(std::filesystem::exists(out.path));
  const auto here = std::filesystem::current_path();
  std::filesystem::current_path(folder.path("data"));
  Output relative = output("new");
  relative.inputs = {{"--data", ".", true}};
  expect_refusal(relative, {"is in the folder that the job reads for --data (.)"});
  std::filesystem::current_path(here);
  out.path = folder.write("data/ours", "ours");
  expect_refusal(out, {"is a file that the job reads for --data"});
  out.inputs = {{"--model", folder.path("data")}};  // which reads files by name
  EXPECT_EQ(refusal_of(out), "");
}

TEST(OutputFile, ANameUnderWhichTheNextRunWouldReadItIsRefused) {
  const TempFolder folder;
  Output out = output(folder.path("a.bin"));
  out.overwrite = true;
  out.inputs = {{"--data", "*.bin", false, [](const std::string& path) { return path.ends_with(".bin"); }}};
  expect_refusal(out, {"a name that the next run would read for --data (*.bin)", "give another name"});
  EXPECT_FALSE(std::filesystem::exists(out.path));
  out.path = folder.path("a.jsonl");
  EXPECT_EQ(refusal_of(out), "");
}

TEST(OutputFile, WhatIsNoFileIsRefused) {
  const TempFolder folder;
  expect_refusal(output(folder.path()), {"is a folder"});
  expect_refusal(output(folder.path("no/file")), {"cannot be written", "No such file or directory"});
  expect_refusal(output(folder.write("file", "ours") + "/below"), {"Not a directory"});
  std::filesystem::create_symlink(folder.path("gone"), folder.path("link"));
  expect_refusal(output(folder.path("link")), {"is a link to a file that does not exist"});
}

TEST(OutputFile, AFifoIsNeverWaitedFor) {
  const TempFolder folder;
  const Output out = output(folder.path("fifo"), Output::Old::append);
  ASSERT_EQ(::mkfifo(out.path.c_str(), 0600), 0);
  EXPECT_EQ(refusal_of(out), "");  // not opened: its reader would see an end
  expect_error([&] { OutputFile file(out); }, {"is a FIFO without a reader"});
}

TEST(OutputFile, ATerminalThatIsNotThereIsAnError) {
  testing::ChildProcess child([](const auto& say) {
    ::setsid();
    say("alone");
    OutputFile file(output("/dev/tty"));
  });
  ASSERT_EQ(child.next_line(10'000), "alone");
  const std::string said = child.next_line(10'000);
  EXPECT_NE(said.find("threw --out /dev/tty cannot be written: this process has no terminal"), said.npos) << said;
}

TEST(OutputFile, AReaderThatGoesIsAnError) {
  const TempFolder folder;
  const Output out = output(folder.path("fifo"));
  ASSERT_EQ(::mkfifo(out.path.c_str(), 0600), 0);
  const int reader = ::open(out.path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  OutputFile file(out);
  file.write("read");
  ::close(reader);
  expect_error([&] { file.write("lost"); }, {"--out " + out.path + " cannot be written: Broken pipe"});
}

TEST(OutputFile, ALimitOfFileSizeIsAnError) {
  const TempFolder folder;
  testing::ChildProcess child([&](const auto& say) {
    std::signal(SIGXFSZ, SIG_IGN);  // as main does
    const rlimit limit = {1024, 1024};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    OutputFile file(output(folder.path("long")));
    say("open");
    file.write(std::string(1000, 'x'));
    file.write(std::string(1000, 'x'));
  });
  EXPECT_EQ(child.next_line(10'000), "open");
  const std::string said = child.next_line(10'000);
  EXPECT_NE(said.find("threw --out " + folder.path("long") + " cannot be written: File too large"), said.npos) << said;
}

}  // namespace
}  // namespace tessera::host
