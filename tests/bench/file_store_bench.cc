// Speed of the file store against the raw pattern: the same requests of 1 MiB, 16 in flight on one ring, without sums,
// labels and deadlines. They take turns in one run, since a disk's speed changes from one minute to the next; a ratio
// is the median over the rounds. Processor time is of the whole process, the kernel's part included.
//     file_store_bench [--folder FOLDER] [--mib N] [--chunk-mib N] [--rounds N] [--engine uring|threads]
//                      [--check true|false]
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "storage/file_store.h"
#include "storage/uring_queue.h"

namespace tessera::testing {
namespace {

using namespace host;
using Clock = std::chrono::steady_clock;
using Options = std::map<std::string, std::string>;

constexpr uint64_t kMiB = uint64_t{1} << 20;

Options read_options(int argc, char** argv) {
  Options options = {{"--folder", "."}, {"--mib", "1024"},     {"--chunk-mib", "16"},
                     {"--rounds", "5"}, {"--engine", "uring"}, {"--check", "true"}};
  for (int i = 1; i + 1 < argc; i += 2) {
    if (!options.contains(argv[i])) throw std::invalid_argument(std::string("there is no option ") + argv[i]);
    options[argv[i]] = argv[i + 1];
  }
  return options;
}

/// Memory at a multiple of 4096 bytes, as the runtime's arenas give it.
class Chunk {
 public:
  explicit Chunk(uint64_t num_bytes)
      : data_(static_cast<std::byte*>(std::aligned_alloc(4096, num_bytes))), num_bytes_(num_bytes) {
    if (!data_) throw std::bad_alloc();
    for (uint64_t i = 0; i < num_bytes; ++i)
      data_[i] = static_cast<std::byte>(i * 2654435761u >> 16);
  }
  Chunk(const Chunk&) = delete;
  Chunk& operator=(const Chunk&) = delete;
  ~Chunk() { std::free(data_); }
  std::span<std::byte> bytes() const { return {data_, num_bytes_}; }

 private:
  std::byte* data_;
  uint64_t num_bytes_;
};

/// The raw pattern over a file of its own.
class RawFile {
 public:
  RawFile(const std::string& folder, uint64_t num_bytes) : num_bytes_(num_bytes) {
    descriptor_ = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_DIRECT | O_CLOEXEC, 0600);
    if (descriptor_ < 0 || ::fallocate(descriptor_, 0, 0, static_cast<off_t>(num_bytes)) != 0)
      throw std::runtime_error(folder + ": " + std::strerror(errno));
  }
  RawFile(const RawFile&) = delete;
  RawFile& operator=(const RawFile&) = delete;
  ~RawFile() { ::close(descriptor_); }

  /// Moves the whole file, through `chunk` again and again.
  void move(bool is_write, const Chunk& chunk) const {
    const auto queue = make_uring_queue();
    uint64_t next = 0, num_done = 0;
    const auto start = [&](unsigned slot) {
      queue->start(slot, {descriptor_, next, chunk.bytes().data() + next % chunk.bytes().size(), kMiB, is_write});
      next += kMiB;
    };
    for (unsigned slot = 0; slot < IoQueue::kSlots && next < num_bytes_; ++slot)
      start(slot);
    while (num_done < num_bytes_) {
      const auto completion = queue->wait_until(Clock::time_point::max());
      if (!completion || completion->result != static_cast<int64_t>(kMiB)) throw std::runtime_error("raw transfer");
      num_done += kMiB;
      if (next < num_bytes_) start(completion->slot);
    }
  }

 private:
  int descriptor_ = -1;
  uint64_t num_bytes_;
};

/// The store as a step uses it: a transfer for each chunk, at the end of which the queue runs empty.
void move(FileStore& store, bool is_write, uint64_t first, uint64_t num_bytes, const Chunk& chunk) {
  for (uint64_t done = 0; done < num_bytes; done += chunk.bytes().size())
    if (is_write)
      store.write(first + done, chunk.bytes(), "bench");
    else
      store.read(first + done, chunk.bytes(), "bench");
}

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](timeval time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct Contender {
  std::string name;
  uint64_t num_bytes;
  std::function<void()> move;
  std::vector<double> seconds = {}, cpu = {};

  void measure() {
    const double cpu_before = cpu_seconds();
    const auto start = Clock::now();
    move();
    seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    cpu.push_back(cpu_seconds() - cpu_before);
  }
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values.size() % 2 ? values[values.size() / 2]
                           : (values[values.size() / 2 - 1] + values[values.size() / 2]) / 2;
}

void both(const std::function<void(bool is_write)>& move) {
  std::thread writer([&] { move(true); });
  move(false);
  writer.join();
}

void print(const std::vector<Contender>& contenders) {
  std::printf("%-12s %8s %16s %10s\n", "", "GB/s", "CPU s per GB", "of raw");
  for (size_t i = 0; i < contenders.size(); ++i) {
    const Contender& one = contenders[i];
    const double gigabytes = static_cast<double>(one.num_bytes) * 1e-9;
    std::printf("%-12s %8.2f %16.3f", one.name.c_str(), gigabytes / median(one.seconds), median(one.cpu) / gigabytes);
    // Each round's own pair, so that a slow minute is in both.
    if (i % 2 == 1) {
      std::vector<double> ratios;
      for (size_t round = 0; round < one.seconds.size(); ++round)
        ratios.push_back(contenders[i - 1].seconds[round] / one.seconds[round]);
      std::printf(" %9.1f%%", 100 * median(ratios));
    }
    std::printf("\n");
  }
}

void bench(const Options& options) {
  const std::string& folder = options.at("--folder");
  const uint64_t chunk_bytes = std::stoull(options.at("--chunk-mib")) * kMiB;
  const uint64_t num_bytes = std::stoull(options.at("--mib")) * kMiB / chunk_bytes * chunk_bytes;
  const int rounds = std::stoi(options.at("--rounds"));
  const Chunk in(chunk_bytes), out(chunk_bytes);
  const RawFile raw(folder, num_bytes), other_raw(folder, num_bytes);
  const IoEngine engine = options.at("--engine") == "threads" ? IoEngine::threads : IoEngine::uring;
  FileStore store(
      {.folders = {folder}, .num_bytes = 2 * num_bytes, .engine = engine, .check = options.at("--check") == "true"},
      Log());
  const auto move_store = [&](bool is_write) {
    // Reads and writes have halves of their own.
    move(store, is_write, is_write ? num_bytes : 0, num_bytes, is_write ? out : in);
  };
  std::vector<Contender> contenders = {
      {"raw write", num_bytes, [&] { raw.move(true, out); }},
      {"store write", num_bytes, [&] { move_store(true); }},
      {"raw read", num_bytes, [&] { raw.move(false, in); }},
      {"store read", num_bytes, [&] { move_store(false); }},
      {"raw both", 2 * num_bytes,
       [&] { both([&](bool is_write) { (is_write ? other_raw : raw).move(is_write, is_write ? out : in); }); }},
      {"store both", 2 * num_bytes, [&] { both(move_store); }}};
  // A file's first write also makes its extents: each is written once before.
  raw.move(true, out);
  other_raw.move(true, out);
  move(store, true, 0, 2 * num_bytes, out);
  for (int round = 0; round < rounds; ++round)
    for (Contender& contender : contenders)
      contender.measure();
  std::printf("%s, %llu MiB in transfers of %llu MiB, engine %s, check %s, %d rounds in turns\n", folder.c_str(),
              static_cast<unsigned long long>(num_bytes / kMiB), static_cast<unsigned long long>(chunk_bytes / kMiB),
              options.at("--engine").c_str(), options.at("--check").c_str(), rounds);
  print(contenders);
}

}  // namespace
}  // namespace tessera::testing

int main(int argc, char** argv) {
  try {
    tessera::testing::bench(tessera::testing::read_options(argc, argv));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "file_store_bench: %s\n", error.what());
    return 1;
  }
}
