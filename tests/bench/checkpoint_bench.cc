// What checkpoints cost on this machine: saving, loading and saving beside the steps, of what the disk can do with the
// same bytes in the same run, and the memory that each takes beyond training. In each round, in turns: training without
// checkpoints; with saves that steps wait for; the disk, with as many files as ranks and with one (what is better
// counts); a run that resumes, from files that are not in the page cache; saves beside the steps.
//     checkpoint_bench [--size short|char|gpt2] [--folder FOLDER] [--rounds N] [--steps N] [--save-every N] [--nproc N]
//                      [--strategy NAME] [--batch-size N] [--seq-len N]
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "bench/bench_tools.h"
#include "bench/raw_file.h"
#include "support/command.h"
#include "support/paths.h"
#include "support/temp_folder.h"

namespace tessera::testing {
namespace {

namespace fs = std::filesystem;
using Flags = std::vector<std::string>;
using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr auto kTimeLimit = std::chrono::minutes(30);

const std::map<std::string, BenchOptions>& sizes() {
  const auto options = [](const char* rounds, const char* steps, const char* every, const char* batch,
                          const char* length) {
    return BenchOptions{{"--rounds", rounds},
                        {"--steps", steps},
                        {"--save-every", every},
                        {"--batch-size", batch},
                        {"--seq-len", length}};
  };
  static const std::map<std::string, BenchOptions> all = {{"short", options("1", "6", "2", "2", "64")},
                                                          {"char", options("5", "10", "3", "8", "128")},
                                                          {"gpt2", options("3", "7", "3", "2", "256")}};
  return all;
}

BenchOptions options_of(int argc, char** argv) {
  BenchOptions defaults = {{"--size", "gpt2"}, {"--folder", "."}, {"--nproc", "2"}, {"--strategy", "fsdp"}};
  return read_sized_options(argc, argv, defaults, sizes());
}

Flags operator+(Flags a, const Flags& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

double ms_of(const std::function<void()>& work) {
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

void require(bool is_so, const std::string& what) {
  if (!is_so) throw std::runtime_error(what + ": " + std::strerror(errno));
}

/// What dd does: the file is written in pieces of 4 MiB and synced, or read.
void move_file(const std::string& path, uint64_t num_bytes, const Chunk& chunk, bool is_write) {
  const int file = ::open(path.c_str(), is_write ? O_CREAT | O_TRUNC | O_WRONLY : O_RDONLY, 0600);
  require(file >= 0, path);
  for (uint64_t done = 0; done < num_bytes;) {
    const uint64_t count = std::min<uint64_t>(num_bytes - done, chunk.bytes().size());
    const ssize_t moved =
        is_write ? ::write(file, chunk.bytes().data(), count) : ::read(file, chunk.bytes().data(), count);
    require(moved > 0, path);
    done += static_cast<uint64_t>(moved);
  }
  require(!is_write || ::fsync(file) == 0, path);
  ::close(file);
}

/// So that it is read from the disk.
void forget(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY);
  require(file >= 0 && ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) == 0, path);
  ::close(file);
}

/// By round: ms; of the bytes of a checkpoint.
struct DiskTimes {
  std::vector<double> write, read;
};

struct Run {
  std::vector<double> step_ms, save_ms, pause_ms;
  double load_ms = 0, peak_bytes = 0, num_bytes = 0;
};

class CheckpointBench {
 public:
  explicit CheckpointBench(BenchOptions options)
      : options_(std::move(options)), folder_(options_.at("--folder") + "/checkpoint_bench") {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~CheckpointBench() { fs::remove_all(folder_); }

  void run_all() {
    for (int round = 0; round < std::stoi(options_.at("--rounds")); ++round) {
      const Run plain = run({});
      const Run sync = run(saving("sync"));
      num_bytes_ = static_cast<uint64_t>(sync.num_bytes);
      DiskTimes disk;
      measure_disk(std::stoi(options_.at("--nproc")), disk);
      measure_disk(1, disk);
      for (const auto& entry : fs::recursive_directory_iterator(folder_ + "/sync"))
        if (entry.is_regular_file()) forget(entry.path());
      const std::string more = std::to_string(std::stoi(options_.at("--steps")) + 2);
      const Run resumed = run({"--resume", folder_ + "/sync", "--steps", more});
      const Run async = run(saving("async") + Flags{"--save-async"});
      copy_bytes_ = static_cast<double>(fs::file_size(last_folder("async") + "/rank-00000.safetensors"));
      note(plain, sync, resumed, async, disk);
      fs::remove_all(folder_ + "/sync");
      fs::remove_all(folder_ + "/async");
    }
  }

  void print() const;

 private:
  Flags saving(const std::string& name) const {
    return {"--save", folder_ + "/" + name, "--save-every", options_.at("--save-every"), "--keep", "1"};
  }

  std::string last_folder(const std::string& name) const {
    std::string text = file_bytes(folder_ + "/" + name + "/latest");
    text.pop_back();
    return folder_ + "/" + name + "/" + text;
  }

  Run run(const Flags& more) const {
    const std::string metrics = folder_ + "/metrics";
    fs::remove(metrics);
    const bool is_gpt2 = options_.at("--size") == "gpt2";
    Flags command = {tessera_program(), "train",
                     "--model",         is_gpt2 ? "gpt2" : source_dir("examples/char"),
                     "--data",          source_dir("runtime"),
                     "--comm",          "gloo",
                     "--threads",       "1",
                     "--log-level",     "error",
                     "--metrics",       metrics};
    for (const char* flag : {"--nproc", "--strategy", "--batch-size", "--seq-len"})
      command.insert(command.end(), {flag, options_.at(flag)});
    if (std::ranges::count(more, "--steps") == 0) command.insert(command.end(), {"--steps", options_.at("--steps")});
    const CommandResult result = Command(command + more).wait(kTimeLimit);
    if (result.exit_code != 0) throw std::runtime_error(result.err);
    return read(metrics);
  }

  /// Without the first step, which is cold, and the last save, which no step runs beside.
  static Run read(const std::string& metrics) {
    Run run;
    std::ifstream lines(metrics);
    for (std::string text; std::getline(lines, text);) {
      const json line = json::parse(text);
      const std::string kind = line.value("kind", "");
      if (kind == "run") run.load_ms = line.value("load_ms", 0.0);
      if (kind == "save") {
        if (line.contains("error")) throw std::runtime_error("a save failed: " + line["error"].get<std::string>());
        run.save_ms.push_back(line["save_ms"]);
        run.pause_ms.push_back(line["pause_ms"]);
        run.num_bytes = line["bytes"];
      }
      if (!kind.empty()) continue;
      run.step_ms.push_back(line["step_ms"]);
      run.peak_bytes = line["peak_memory_bytes"];
    }
    run.step_ms.erase(run.step_ms.begin());
    if (run.save_ms.size() > 1) run.save_ms.pop_back(), run.pause_ms.pop_back();
    return run;
  }

  void measure_disk(int num_files, DiskTimes& times) const {
    const uint64_t each = num_bytes_ / static_cast<uint64_t>(num_files);
    std::vector<std::unique_ptr<Chunk>> chunks;
    for (int i = 0; i < num_files; ++i)
      chunks.push_back(std::make_unique<Chunk>(4 * kMiB));
    const auto path = [&](int i) { return folder_ + "/raw-" + std::to_string(i); };
    const auto move_all = [&](bool is_write) {
      std::vector<std::jthread> threads;
      for (int i = 0; i < num_files; ++i)
        threads.emplace_back([&, i] { move_file(path(i), each, *chunks[static_cast<size_t>(i)], is_write); });
    };
    times.write.push_back(ms_of([&] { move_all(true); }));
    for (int i = 0; i < num_files; ++i)
      forget(path(i));
    times.read.push_back(ms_of([&] { move_all(false); }));
    for (int i = 0; i < num_files; ++i)
      fs::remove(path(i));
  }

  void note(const Run& plain, const Run& sync, const Run& resumed, const Run& async, const DiskTimes& disk) {
    const auto add = [&](const char* name, double value) { results_[name].push_back(value); };
    const double write = std::ranges::min(disk.write), read = std::ranges::min(disk.read);
    add("write", write), add("read", read);
    add("save", median(sync.save_ms)), add("save of dd", write / median(sync.save_ms));
    add("load", resumed.load_ms), add("load of dd", read / resumed.load_ms);
    add("async", median(async.save_ms)), add("pause", median(async.pause_ms));
    add("pause of save", median(async.pause_ms) / median(sync.save_ms));
    add("step", median(plain.step_ms)), add("async step", median(async.step_ms));
    add("plain peak", plain.peak_bytes), add("save peak", sync.peak_bytes - plain.peak_bytes);
    add("load peak", resumed.peak_bytes - plain.peak_bytes), add("async peak", async.peak_bytes - plain.peak_bytes);
  }

  double of(const char* name) const { return median(results_.at(name)); }

  const BenchOptions options_;
  const std::string folder_;
  uint64_t num_bytes_ = 0;  // of a checkpoint
  double copy_bytes_ = 0;
  std::map<std::string, std::vector<double>> results_;  // by round
};

void CheckpointBench::print() const {
  const auto mib = [](double num_bytes) { return num_bytes / static_cast<double>(kMiB); };
  std::printf("%s, %s; %s ranks over gloo under %s, one thread each; checkpoints of %.1f MiB; medians of %s rounds\n",
              processor().c_str(), options_.at("--size").c_str(), options_.at("--nproc").c_str(),
              options_.at("--strategy").c_str(), mib(static_cast<double>(num_bytes_)), options_.at("--rounds").c_str());
  std::printf("%-34s %10s %10s %8s\n", "", "ms", "GB/s", "of dd");
  const auto line = [&](const char* name, double ms, double of_disk) {
    std::printf("%-34s %10.1f %10.3f %8.3f\n", name, ms, static_cast<double>(num_bytes_) / ms * 1e-6, of_disk);
  };
  line("dd: write and fsync", of("write"), 1);
  line("save", of("save"), of("save of dd"));
  line("dd: read, not cached", of("read"), 1);
  line("load", of("load"), of("load of dd"));
  std::printf("%-34s %10.1f %10.3f\n", "save beside steps", of("async"),
              static_cast<double>(num_bytes_) / of("async") * 1e-6);
  std::printf("  steps wait for it %.1f ms, %.2f %% of a save; a step takes %.1f ms, and %.1f in a run that saves so\n",
              of("pause"), 100 * of("pause of save"), of("step"), of("async step"));
  std::printf(
      "peak resident memory of rank 0: %.0f MiB; with saves %+.1f MiB, after a load %+.1f, with saves beside\n"
      "  steps %+.1f, of which the copy is %.1f\n",
      mib(of("plain peak")), mib(of("save peak")), mib(of("load peak")), mib(of("async peak")), mib(copy_bytes_));
}

}  // namespace
}  // namespace tessera::testing

int main(int argc, char** argv) {
  return tessera::testing::run_bench("checkpoint_bench", [&] {
    tessera::testing::CheckpointBench bench(tessera::testing::options_of(argc, argv));
    bench.run_all();
    bench.print();
  });
}
