// Files that are written in windows: what they hold, and the errors when the system refuses.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <random>

#include "storage/block_sums.h"
#include "storage/write_behind.h"
#include "support/child_process.h"
#include "support/expect_error.h"
#include "support/patience.h"
#include "support/refused_call.h"
#include "support/temp_folder.h"

namespace tessera::testing {
namespace {

using namespace host;

constexpr uint64_t kWindow = WriteBehind::kWindowBytes;

/// A file of a name, open for writing.
class OpenFile {
 public:
  explicit OpenFile(std::string name)
      : path(std::move(name)), descriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)) {}
  ~OpenFile() { ::close(descriptor); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  const std::string path;
  const int descriptor;
};

std::string random_bytes(uint64_t num_bytes, unsigned seed) {
  std::mt19937 random(seed);
  std::string bytes(num_bytes, '\0');
  for (char& byte : bytes)
    byte = static_cast<char>(random());
  return bytes;
}

std::span<const std::byte> part(const std::string& bytes, uint64_t begin, uint64_t end) {
  return std::as_bytes(std::span(bytes)).subspan(begin, end - begin);
}

/// Writes `bytes` in pieces of up to `most`, and says whether the file then holds them.
bool writes(const std::string& path, const std::string& bytes, uint64_t most) {
  const OpenFile file(path);
  WriteBehind out(file.path, file.descriptor);
  std::mt19937 random(static_cast<unsigned>(most));
  for (uint64_t at = 0; at < bytes.size();) {
    const uint64_t end = std::min<uint64_t>(at + 1 + random() % most, bytes.size());
    out.write(at, part(bytes, at, end));
    at = end;
  }
  out.finish();
  return file_bytes(path) == bytes;
}

TEST(WriteBehind, HoldsWhatWasWrittenInOrder) {
  const TempFolder folder;
  for (const uint64_t size :
       {uint64_t{0}, uint64_t{1}, kBlockBytes, kWindow - 1, kWindow, kWindow + 1, 12 * kWindow, 20 * kWindow + 12345})
    for (const uint64_t most : {uint64_t{70'000}, 5 * kWindow})
      EXPECT_TRUE(writes(folder.path("file"), random_bytes(size, 1), most)) << size << " by " << most;
}

/// Pieces begin and end anywhere.
TEST(WriteBehind, HoldsWhatWasWrittenInAnyOrder) {
  const TempFolder folder;
  for (unsigned round = 0; round < 8; ++round) {
    std::mt19937_64 random(round);
    const std::string bytes = random_bytes(9 * kWindow + 777, round);
    std::vector<std::pair<uint64_t, uint64_t>> pieces;
    for (uint64_t at = 0, end = 0; at < bytes.size(); at = end) {
      end = std::min<uint64_t>(at + 1 + random() % (round % 2 ? 4 * kWindow : kBlockBytes * 40), bytes.size());
      pieces.emplace_back(at, end);
    }
    std::ranges::shuffle(pieces, random);
    const OpenFile file(folder.path("file"));
    WriteBehind out(file.path, file.descriptor);
    for (const auto& [begin, end] : pieces)
      out.write(begin, part(bytes, begin, end));
    out.finish();
    EXPECT_TRUE(file_bytes(file.path) == bytes) << "round " << round;
  }
}

/// By a descriptor of its own, where the file system of the temporary files has direct I/O; elsewhere there is none.
TEST(WriteBehind, FullWindowsPassThePageCacheBy) {
  const TempFolder folder;
  const OpenFile file(folder.path("file"));
  const int probe = ::open(file.path.c_str(), O_WRONLY | O_DIRECT | O_CLOEXEC);
  const bool has_direct = probe >= 0;
  const int next = has_direct ? probe : ::dup(file.descriptor);  // the lowest free number, which the next file has
  ::close(next);
  WriteBehind out(file.path, file.descriptor);
  const std::string bytes = random_bytes(2 * kWindow, 3);
  out.write(0, part(bytes, 0, kWindow - 1));
  const auto is_direct = [&] { return ::fcntl(next, F_GETFL) >= 0 && (::fcntl(next, F_GETFL) & O_DIRECT) != 0; };
  EXPECT_FALSE(is_direct());
  out.write(kWindow - 1, part(bytes, kWindow - 1, 2 * kWindow));
  EXPECT_EQ(is_direct(), has_direct);
}

/// What the body says in a process of its own; what it throws: "threw ...".
std::string in_child(const std::function<void(const ChildProcess::Say&)>& body) {
  ChildProcess child(body);
  return child.next_line(kPatienceMs);
}

constexpr CallArgument kDirect = {2, O_DIRECT, O_DIRECT};  // of openat

TEST(WriteBehind, NeedsNoDirectIo) {
  const TempFolder folder;
  const std::string bytes = random_bytes(5 * kWindow + 99, 4);
  const std::string said = in_child([&](const auto& say) {
    refuse_call(SYS_openat, EINVAL, {kDirect});
    say(writes(folder.path("file"), bytes, kWindow) ? "same" : "other");
  });
  EXPECT_EQ(said, "same");
}

/// Of a descriptor that is opened next.
CallArgument next_descriptor(const OpenFile& file) {
  const int next = ::dup(file.descriptor);
  ::close(next);
  return {0, ~0u, static_cast<uint32_t>(next)};
}

std::string result_when_direct_writes_fail(int error) {
  const TempFolder folder;
  const std::string bytes = random_bytes(12 * kWindow, 5);
  return in_child([&](const auto& say) {
    const OpenFile file(folder.path("file"));
    refuse_call(SYS_pwrite64, error, {next_descriptor(file)});
    WriteBehind out(file.path, file.descriptor);
    out.write(0, part(bytes, 0, bytes.size()));
    out.finish();
    say(file_bytes(file.path) == bytes ? "same" : "other");
  });
}

/// As some file systems do: the flag is taken, the transfer refused.
TEST(WriteBehind, TakesThePageCacheWhereDirectTransfersAreRefused) {
  EXPECT_EQ(result_when_direct_writes_fail(EINVAL), "same");
}

TEST(WriteBehind, SaysWhatFailed) {
  const std::string said = result_when_direct_writes_fail(ENOSPC);
  EXPECT_TRUE(said.starts_with("threw cannot write ") && said.ends_with("/file: No space left on device")) << said;
  const OpenFile full("/dev/full");
  WriteBehind out(full.path, full.descriptor);
  const std::string byte(1, 'x');
  out.write(0, part(byte, 0, 1));
  expect_error([&] { out.finish(); }, {"cannot write /dev/full: No space left on device"});
}

}  // namespace
}  // namespace tessera::testing
