// Speed of the file store against the raw pattern (raw_file.h). They take turns in one run, since a disk's speed
// changes from one minute to the next; a ratio is the median over the rounds. Processor time is of the whole process,
// the kernel's part included.
//     file_store_bench [--folder FOLDER] [--mib N] [--chunk-mib N] [--rounds N] [--engine uring|threads]
//                      [--check true|false]
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "bench/bench_tools.h"
#include "bench/raw_file.h"
#include "storage/file_store.h"

namespace tessera::testing {
namespace {

using namespace host;
using Clock = std::chrono::steady_clock;

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

void bench(const BenchOptions& options) {
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
       [&] { move_both([&](bool is_write) { (is_write ? other_raw : raw).move(is_write, is_write ? out : in); }); }},
      {"store both", 2 * num_bytes, [&] { move_both(move_store); }}};
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
  return tessera::testing::run_bench("file_store_bench", [&] {
    tessera::testing::bench(tessera::testing::read_options(argc, argv,
                                                           {{"--folder", "."},
                                                            {"--mib", "1024"},
                                                            {"--chunk-mib", "16"},
                                                            {"--rounds", "5"},
                                                            {"--engine", "uring"},
                                                            {"--check", "true"}}));
  });
}
