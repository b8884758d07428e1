// What a store says of folders, disks and kernels that do not do what it needs. The faults are the system's own:
// mounts, limits and seccomp filters in a child process.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <csignal>
#include <sstream>
#include <thread>

#include "storage/file_store.h"
#include "support/child_process.h"
#include "support/expect_error.h"
#include "support/patience.h"
#include "support/refused_call.h"
#include "support/store_files.h"
#include "support/temp_folder.h"

namespace tessera::testing {
using namespace host;
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr CallArgument kTmpfile = {2, O_TMPFILE, O_TMPFILE};                                // of openat
const std::vector<CallArgument> kSetDirect = {{1, ~0u, F_SETFL}, {2, O_DIRECT, O_DIRECT}};  // of fcntl

FileStoreOptions options(const std::string& folder, IoEngine engine = IoEngine::automatic) {
  return {.folders = {folder}, .num_bytes = 4 * kMiB, .engine = engine};
}

/// A store's log, as one line.
struct Logged {
  std::string line() const {
    std::string text = out.str();
    std::ranges::replace(text, '\n', ' ');
    return text;
  }

  std::ostringstream out;
  Log log{out, LogLevel::info};
};

/// Writes and reads the whole store; throws where it is not the same.
void use(FileStore& store) {
  const std::vector<std::byte> data(store.num_bytes(), std::byte{7});
  std::vector<std::byte> copy(data.size());
  store.write(0, data, "optimizer h.3 m");
  store.read(0, copy, "optimizer h.3 m");
  if (copy != data) throw std::runtime_error("the store holds something else");
}

/// What the body, in a process of its own, throws: "threw ..."; or what it says.
std::string in_child(const std::function<void(const ChildProcess::Say&)>& body) {
  ChildProcess child(body);
  return child.next_line(kPatienceMs);
}

/// Mounts a file system for this process alone. False where that is not allowed.
bool mount_for_me(const char* source, const char* target, const char* type, unsigned long flags, const char* data) {
  return ::unshare(CLONE_NEWNS) == 0 && ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount(source, target, type, flags, data) == 0;
}

TEST(FileStoreFolder, IsMissingOrAFile) {
  const TempFolder folder;
  const Log log(LogLevel::off);
  const auto make = [&](std::vector<std::string> folders) {
    return [&log, folders] { FileStore({.folders = folders, .num_bytes = 4096}, log); };
  };
  expect_error(make({}), {"files need --offload-dir FOLDER, on a local disk"});
  expect_error(make({folder.path("missing")}),
               {"--offload-dir " + folder.path("missing") + " does not exist; make it, on a local disk"});
  expect_error(make({folder.path(), folder.write("file", "x")}),
               {"--offload-dir " + folder.path("file") + " is not a folder; give one on a local disk"});
  EXPECT_TRUE(unnamed_files(folder.path()).empty()) << "the file in the folder that is good is left open";
}

TEST(FileStoreFolder, CannotBeWrittenTo) {
  const TempFolder folder;
  const std::string said = in_child([&](const auto& say) {
    if (::geteuid() != 0) {
      ::chmod(folder.path().c_str(), 0500);
    } else if (!mount_for_me("none", folder.path().c_str(), "tmpfs", MS_RDONLY, nullptr)) {
      return say("skip");
    }
    FileStore(options(folder.path()), Log(LogLevel::off));
  });
  if (said == "skip") GTEST_SKIP() << "needs the right to mount a tmpfs";
  EXPECT_TRUE(said.starts_with("threw --offload-dir " + folder.path() + ": cannot make a file there: ")) << said;
  EXPECT_TRUE(said.ends_with("; give a folder that this user may write to")) << said;
}

TEST(FileStoreFolder, IsTooSmall) {
  const TempFolder folder;
  for (const bool can_reserve : {true, false}) {
    const std::string said = in_child([&](const auto& say) {
      if (!mount_for_me("none", folder.path().c_str(), "tmpfs", 0, "size=3m")) return say("skip");
      if (!can_reserve) refuse_call(SYS_fallocate, EOPNOTSUPP);
      FileStore(options(folder.path()), Log(LogLevel::off));
    });
    if (said == "skip") GTEST_SKIP() << "needs the right to mount a tmpfs";
    EXPECT_EQ(said, "threw --offload-dir " + folder.path() + " has 3.0 MiB free; 4.0 MiB are needed there");
  }
}

// The number of free bytes is a guess until they are reserved: quotas, other processes.
TEST(FileStoreFolder, IsTooSmallForAReasonThatShowsLate) {
  const TempFolder folder;
  const std::string said = in_child([&](const auto& say) {
    refuse_call(SYS_fallocate, ENOSPC);
    const std::string text = expect_error([&] { FileStore(options(folder.path()), Log(LogLevel::off)); }, {});
    say(concat(text, ", ", unnamed_files(folder.path()).size(), " files open"));
  });
  EXPECT_TRUE(said.ends_with(" free; 4.0 MiB are needed there, 0 files open")) << said;
}

TEST(FileStoreFolder, MayNotHoldSoLongAFile) {
  const TempFolder folder;
  const std::string said = in_child([&](const auto&) {
    const rlimit limit{kMiB, kMiB};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    FileStore(options(folder.path()), Log(LogLevel::off));
  });
  EXPECT_EQ(said, "threw --offload-dir " + folder.path() +
                      ": a file of this process may have 1.0 MiB; 4.0 MiB are needed there; raise the limit "
                      "(ulimit -f)");
}

TEST(FileStoreFolder, IsInMemory) {
  if (!std::filesystem::is_directory("/dev/shm")) GTEST_SKIP() << "needs /dev/shm";
  Logged logged;
  FileStore store(options("/dev/shm"), logged.log);
  use(store);
  EXPECT_NE(logged.line().find("--offload-dir /dev/shm is in memory (tmpfs)"), std::string::npos) << logged.line();
  EXPECT_EQ(logged.line().find("page cache"), std::string::npos) << logged.line();
}

TEST(FileStoreFolder, CannotReserveSpace) {
  const TempFolder folder;
  const std::string said = in_child([&](const auto& say) {
    refuse_call(SYS_fallocate, EOPNOTSUPP);
    Logged logged;
    FileStore store(options(folder.path()), logged.log);
    use(store);
    say(logged.line());
  });
  EXPECT_NE(said.find("its file system cannot reserve space; 4.0 MiB must stay free"), std::string::npos) << said;
}

// What is written through the page cache must not stay there: it would be the memory that was to be freed.
TEST(FileStoreFolder, HasNoDirectIo) {
  const TempFolder folder;
  const std::string said = in_child([&](const auto& say) {
    refuse_call(SYS_fcntl, EINVAL, kSetDirect);
    Logged logged;
    FileStore store(options(folder.path()), logged.log);
    if (logged.line().find("is in memory") != std::string::npos) return say("skip");
    if (logged.line().find("has no direct I/O (O_DIRECT)") == std::string::npos) return say(logged.line());
    use(store);
    const int file = open_again(unnamed_files(folder.path()).at(0), O_RDONLY);
    void* const mapped = ::mmap(nullptr, store.num_bytes(), PROT_READ, MAP_SHARED, file, 0);
    std::vector<unsigned char> pages(store.num_bytes() / 4096);
    if (mapped == MAP_FAILED || ::mincore(mapped, store.num_bytes(), pages.data()) != 0) return say("cannot look");
    say(concat(std::ranges::count_if(pages, [](unsigned char page) { return page & 1; }), " pages"));
  });
  if (said == "skip") GTEST_SKIP() << folder.path() << " is in memory; needs a folder on disk";
  EXPECT_EQ(said, "0 pages");
}

// As some file systems do: the flag is taken, the transfer refused.
TEST(FileStoreFolder, RefusesDirectIoLate) {
  const TempFolder folder;
  const std::string said = in_child([&](const auto& say) {
    refuse_call(SYS_pwrite64, EINVAL);  // which io_uring does not use
    Logged logged;
    FileStore store(options(folder.path()), logged.log);
    if (store.engine() != IoEngine::uring || logged.line().find("is in memory") != std::string::npos)
      return say("skip");
    use(store);
    say(logged.line());
  });
  if (said == "skip") GTEST_SKIP() << "needs io_uring, and a folder on disk";
  EXPECT_NE(said.find("has no direct I/O (O_DIRECT)"), std::string::npos) << said;
}

TEST(FileStoreEngine, FallsBackToThreadsAndSaysSoOnce) {
  const TempFolder folder;
  const std::string said = in_child([&](const auto& say) {
    refuse_call(SYS_io_uring_setup, EPERM);
    Logged logged;
    FileStore store(options(folder.path()), logged.log);
    use(store);
    say(concat(store.engine() == IoEngine::threads ? "threads: " : "uring: ", logged.line()));
  });
  EXPECT_TRUE(said.starts_with("threads: ")) << said;
  const std::string expected = "the system refuses io_uring (Operation not permitted); four threads";
  ASSERT_NE(said.find(expected), std::string::npos) << said;
  EXPECT_EQ(said.find("refuses", said.find(expected) + expected.size()), std::string::npos) << said;
}

TEST(FileStoreEngine, UringIsRefusedWhereItWasAskedFor) {
  const TempFolder folder;
  for (const int call : {SYS_io_uring_setup, SYS_io_uring_enter}) {
    const std::string said = in_child([&](const auto&) {
      refuse_call(call, EPERM);
      FileStore(options(folder.path(), IoEngine::uring), Log(LogLevel::off));
    });
    EXPECT_EQ(said,
              "threw --offload-io uring: the system refuses io_uring (Operation not permitted); let the container's "
              "seccomp filter and kernel.io_uring_disabled allow it, or give --offload-io threads");
  }
}

// A filter holds for its own thread: what was refused there must not be submitted by another's transfer.
TEST(FileStoreEngine, WhatUringRefusedIsNotWrittenLater) {
  const TempFolder folder;
  const std::string said = in_child([&](const auto& say) {
    FileStoreOptions unchecked = options(folder.path());
    unchecked.check = false;
    FileStore store(unchecked, Log(LogLevel::off));
    if (store.engine() != IoEngine::uring) return say("skip");
    const std::vector<std::byte> ones(4096, std::byte{1}), twos(4096, std::byte{2});
    std::thread([&] {
      refuse_call(SYS_io_uring_enter, EPERM);
      expect_error([&] { store.write(0, ones, "ones"); }, {"cannot write ones", "Operation not permitted"});
    }).join();
    store.write(4096, twos, "twos");
    std::vector<std::byte> copy(8192);
    store.read(0, copy, "both");
    say(concat(static_cast<int>(copy[0]), ' ', static_cast<int>(copy[4096])));
  });
  if (said == "skip") GTEST_SKIP() << "needs io_uring, which this system refuses";
  EXPECT_EQ(said, "0 2");
}

// A submission that is refused later is an error of the transfer.
TEST(FileStoreEngine, UringIsRefusedLater) {
  const TempFolder folder;
  const std::string said = in_child([&](const auto& say) {
    FileStore store(options(folder.path()), Log(LogLevel::off));
    if (store.engine() != IoEngine::uring) return say("skip");
    refuse_call(SYS_io_uring_enter, EPERM);
    use(store);
  });
  if (said == "skip") GTEST_SKIP() << "needs io_uring, which this system refuses";
  EXPECT_EQ(said, "threw offload file: cannot write optimizer h.3 m at 0 in --offload-dir " + folder.path() +
                      ": Operation not permitted");
}

class FileStoreFault : public ::testing::TestWithParam<IoEngine> {
 protected:
  void SetUp() override {
    if (GetParam() == IoEngine::threads) return;
    const TempFolder folder;
    if (FileStore(options(folder.path()), Log(LogLevel::off)).engine() != IoEngine::uring)
      GTEST_SKIP() << "needs io_uring, which this system refuses";
  }
};

// A real EIO: the file becomes this process's memory, whose first page nothing maps.
TEST_P(FileStoreFault, AnErrorOfTheDiskNamesWhatItWas) {
  const TempFolder folder;
  FileStore store(options(folder.path(), GetParam()), Log(LogLevel::off));
  use(store);
  const int memory = ::open("/proc/self/mem", O_RDWR | O_CLOEXEC);
  ASSERT_GE(memory, 0);
  ASSERT_GE(::dup3(memory, unnamed_files(folder.path()).at(0), O_CLOEXEC), 0);
  ::close(memory);
  std::vector<std::byte> data(kMiB);
  const std::string where = " optimizer h.3 m at 0 in --offload-dir " + folder.path() + ": Input/output error";
  expect_error([&] { store.read(0, data, "optimizer h.3 m"); }, {"offload file: cannot read" + where});
  expect_error([&] { store.write(0, data, "optimizer h.3 m"); }, {"offload file: cannot write" + where});
}

// The system writes up to the limit, and refuses the rest: the error is where the short write ended.
TEST_P(FileStoreFault, AShortWriteIsContinued) {
  const TempFolder folder;
  const std::string said = in_child([&](const auto&) {
    FileStore store(options(folder.path(), GetParam()), Log(LogLevel::off));
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{5 * kMiB / 2, 5 * kMiB / 2};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    store.write(0, std::vector<std::byte>(3 * kMiB), "gradient wte");
  });
  EXPECT_EQ(said, "threw offload file: cannot write gradient wte at 2621440 in --offload-dir " + folder.path() +
                      ": File too large");
}

INSTANTIATE_TEST_SUITE_P(Engines, FileStoreFault, ::testing::Values(IoEngine::uring, IoEngine::threads),
                         [](const auto& engine) { return engine.param == IoEngine::uring ? "Uring" : "Threads"; });

// Both ways to a file without a name.
TEST(FileStoreKilled, LeavesNothing) {
  for (const bool has_tmpfile : {true, false}) {
    const TempFolder folder;
    ChildProcess child([&](const auto& say) {
      if (!has_tmpfile) refuse_call(SYS_openat, EOPNOTSUPP, {kTmpfile});
      FileStore store(options(folder.path()), Log(LogLevel::off));
      use(store);
      struct stat info {};
      ::fstat(unnamed_files(folder.path()).at(0), &info);
      say(concat(info.st_nlink, " names, mode ", std::oct, info.st_mode & 0777));
      ::pause();
    });
    EXPECT_EQ(child.next_line(kPatienceMs), "0 names, mode 600");
    EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
    child.signal(SIGKILL);
    EXPECT_EQ(child.next_line(kPatienceMs), "");
    EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  }
}

}  // namespace
}  // namespace tessera::testing
