// A file is written through WriteBehind and read through ReadAhead, in pieces of 1 MiB, as a save and a resumed run do.
// Writing ends with fsync: a checkpoint has its name only once its files are durable, so a run waits for that too.
// Between the two the file is dropped from the page cache, which would otherwise be what is measured.

#include "rates/checkpoint_file_bench.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <vector>

#include "base/clock.h"
#include "base/concat.h"
#include "base/read_only_file.h"
#include "storage/read_ahead.h"
#include "storage/write_behind.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kPieceBytes = ReadAhead::kMaxBytes;

/// A new file with a name of its own, removed when it goes.
class NewFile {
 public:
  explicit NewFile(const std::string& folder) : path_(folder + "/.tessera-bench-XXXXXX") {
    descriptor_ = ::mkostemp(path_.data(), O_CLOEXEC);
    if (descriptor_ < 0) fail("make a file");
  }
  ~NewFile() {
    ::close(descriptor_);
    ::unlink(path_.c_str());
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  [[noreturn]] void fail(const char* what) const {
    throw Error(TSR_E_UNAVAILABLE, concat("cannot ", what, " in the folder of ", path_, ": ", std::strerror(errno),
                                          "; give a folder that can be written"));
  }
  const std::string& path() const { return path_; }
  int descriptor() const { return descriptor_; }

 private:
  std::string path_;
  int descriptor_ = -1;
};

double rate_since(Clock::time_point start, uint64_t num_bytes) {
  return static_cast<double>(num_bytes) / seconds_since(start);
}

double write_file(const NewFile& file, uint64_t num_bytes) {
  const std::vector<std::byte> piece(kPieceBytes, std::byte{0x5A});
  const auto start = Clock::now();
  WriteBehind writer(file.path(), file.descriptor());
  for (uint64_t done = 0; done < num_bytes; done += kPieceBytes)
    writer.write(done, std::span(piece).first(std::min(kPieceBytes, num_bytes - done)));
  writer.finish();
  if (::fsync(file.descriptor()) != 0) file.fail("make a file durable");
  return rate_since(start, num_bytes);
}

double read_file(const NewFile& file, uint64_t num_bytes) {
  ::posix_fadvise(file.descriptor(), 0, 0, POSIX_FADV_DONTNEED);
  const ReadOnlyFile reader(file.path());
  const auto size_at = [&](uint64_t offset) { return std::min(kPieceBytes, num_bytes - offset); };
  ReadAhead ahead;
  FileBytes bytes;
  uint64_t expected = 0;
  const auto start = Clock::now();
  for (uint64_t done = 0; done < num_bytes; done += kPieceBytes) {
    for (; expected < num_bytes && expected < done + ReadAhead::kParts * kPieceBytes; expected += kPieceBytes)
      ahead.expect(reader, expected, size_at(expected));
    ahead.read(reader, done, size_at(done), bytes);
  }
  return rate_since(start, num_bytes);
}

}  // namespace

CheckpointFileRates measure_checkpoint_file(const std::string& folder, uint64_t num_bytes) {
  const NewFile file(folder);
  CheckpointFileRates rates;
  rates.written_bytes_per_second = write_file(file, num_bytes);
  rates.read_bytes_per_second = read_file(file, num_bytes);
  return rates;
}

}  // namespace tessera::host
