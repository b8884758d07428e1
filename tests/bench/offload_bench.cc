// What offload to files costs on this machine, and how well it is predicted. In each round, in turns: the disk with the
// store's own pattern, tessera bench rates, then steps with optimizer-state to file, and with stream to file; where the
// system allows it also without offload but paging, in the memory that stream took; and before each of them steps
// without offload. Predictions are by the rates of the same round. The bound takes ops as long as they took in the
// steps without offload right before, as a machine that other work uses changes its speed. Ratios are by round; what is
// shown is their median. Losses must be equal to the bit.
//     offload_bench [--size short|char|deep|gpt2] [--folder FOLDER] [--rounds N] [--paging true|false] [--threads N]
//                   [--steps N] [--batch-size N] [--seq-len N] [--grad-accum N] [--offload-chunk SIZE] [--mib N]
#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/bench_tools.h"
#include "bench/paging.h"
#include "bench/raw_file.h"
#include "support/command.h"
#include "support/paths.h"
#include "support/temp_folder.h"

namespace tessera::testing {
namespace {

using Flags = std::vector<std::string>;
using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr auto kTimeLimit = std::chrono::minutes(60);
constexpr uint64_t kSwapBytes = 8192 * kMiB;

/// The flags of a size; each can be given alone.
const std::map<std::string, BenchOptions>& sizes() {
  static const std::map<std::string, BenchOptions> all = {{"short",
                                                           {{"--rounds", "1"},
                                                            {"--steps", "3"},
                                                            {"--batch-size", "2"},
                                                            {"--seq-len", "64"},
                                                            {"--grad-accum", "1"},
                                                            {"--mib", "32"}}},
                                                          {"char",
                                                           {{"--rounds", "5"},
                                                            {"--steps", "20"},
                                                            {"--batch-size", "8"},
                                                            {"--seq-len", "128"},
                                                            {"--grad-accum", "1"},
                                                            {"--mib", "256"}}},
                                                          {"deep",
                                                           {{"--rounds", "3"},
                                                            {"--steps", "3"},
                                                            {"--batch-size", "8"},
                                                            {"--seq-len", "256"},
                                                            {"--grad-accum", "8"},
                                                            {"--mib", "1024"}}},
                                                          {"gpt2",
                                                           {{"--rounds", "3"},
                                                            {"--steps", "3"},
                                                            {"--batch-size", "4"},
                                                            {"--seq-len", "256"},
                                                            {"--grad-accum", "8"},
                                                            {"--mib", "1024"}}}};
  return all;
}

BenchOptions options_of(int argc, char** argv) {
  BenchOptions defaults = {
      {"--size", "deep"}, {"--folder", "."}, {"--paging", "true"}, {"--threads", "0"}, {"--offload-chunk", "16MiB"}};
  return read_sized_options(argc, argv, defaults, sizes());
}

Flags operator+(Flags a, const Flags& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::string run(const Flags& command, const std::string& name) {
  const CommandResult result = Command(command).wait(kTimeLimit);
  if (result.exit_code != 0) throw std::runtime_error(name + ": " + result.err);
  return result.out;
}

struct Contender {
  std::string name;
  Flags flags = {};
  bool is_paging = false;
  // By round.
  std::vector<double> step_ms = {}, of_none = {}, predicted = {}, bound = {}, busy_rate = {};
  double peak_bytes = 0, read_bytes = 0, written_bytes = 0;  // the latter two of a step
  std::vector<double> losses = {};                           // of the first round
};

/// Bytes a second of the store's own pattern.
struct Disk {
  std::vector<double> read, write, both;
  std::string obstacle;
};

class OffloadBench {
 public:
  explicit OffloadBench(BenchOptions options) : options_(std::move(options)) {
    const Flags to_file = {"--offload-dir", options_.at("--folder"), "--offload-chunk", options_.at("--offload-chunk")};
    contenders_ = {{.name = "without offload"},
                   {.name = "optimizer-state to file",
                    .flags = Flags{"--offload=optimizer-state", "--optimizer-state.to=file"} + to_file},
                   {.name = "stream to file", .flags = Flags{"--offload=stream", "--stream.to=file"} + to_file}};
    if (options_.at("--size") == "deep") write_deep_model();
    if (options_.at("--paging") != "true") return;
    paging_ = std::make_unique<Paging>(options_.at("--folder"), kSwapBytes);
    if (paging_->obstacle().empty()) contenders_.push_back({.name = "paging, as little memory", .is_paging = true});
  }

  void run_all() {
    for (int round = 0; round < std::stoi(options_.at("--rounds")); ++round) {
      measure_disk();
      run(Flags{tessera_program(), "bench", "rates", "--rates", rates_file(), "--overwrite", "--offload-dir",
                options_.at("--folder"), "--offload-chunk", options_.at("--offload-chunk")} +
              job(),
          "bench rates");
      for (size_t i = 1; i < contenders_.size(); ++i)
        for (Contender* contender : {&contenders_[0], &contenders_[i]}) {
          train(*contender);
          if (!contender->is_paging) predict(*contender);
        }
    }
  }

  void print() const;

 private:
  std::string rates_file() const { return folder_.path("rates.json"); }

  /// The same with ops as fast as they were in the last steps without offload.
  std::string rates_in_steps() const {
    json rates = json::parse(std::ifstream(rates_file()));
    for (json& op : rates["ops"])
      op["seconds"] = op["seconds"].get<double>() / contenders_[0].predicted.back();
    const std::string file = folder_.path("rates_in_steps.json");
    std::ofstream(file) << rates;
    return file;
  }

  void write_deep_model() const {
    std::ofstream(folder_.path("config.json"))
        << R"({"model_type": "gpt2", "activation_function": "gelu_new", "layer_norm_epsilon": 1e-05,
               "tie_word_embeddings": true, "vocab_size": 256, "n_positions": 256, "n_embd": 512, "n_layer": 24,
               "n_head": 8})";
  }

  std::string model() const {
    const std::string& size = options_.at("--size");
    if (size == "gpt2") return "gpt2";
    return size == "deep" ? folder_.path() : source_dir("examples/char");
  }

  Flags job() const {
    Flags flags = {"--model", model(), "--log-level", "error"};
    for (const char* name : {"--batch-size", "--seq-len", "--grad-accum", "--threads"})
      flags.insert(flags.end(), {name, options_.at(name)});
    return flags;
  }

  void measure_disk() try {
    const uint64_t num_bytes = std::stoull(options_.at("--mib")) * kMiB;
    const Chunk in(16 * kMiB), out(16 * kMiB);
    const RawFile raw(options_.at("--folder"), num_bytes), other(options_.at("--folder"), num_bytes);
    raw.move(true, out);  // which also makes the file's extents
    other.move(true, out);
    const auto rate = [num_bytes](double times, const auto& move) {
      const auto start = Clock::now();
      move();
      return times * static_cast<double>(num_bytes) / std::chrono::duration<double>(Clock::now() - start).count();
    };
    disk_.read.push_back(rate(1, [&] { raw.move(false, in); }));
    disk_.write.push_back(rate(1, [&] { raw.move(true, out); }));
    disk_.both.push_back(rate(
        2, [&] { move_both([&](bool is_write) { (is_write ? other : raw).move(is_write, is_write ? out : in); }); }));
  } catch (const std::exception& error) {
    disk_.obstacle = error.what();  // no O_DIRECT or no io_uring; the store has other ways
  }

  void train(Contender& contender) {
    const std::string metrics = folder_.path("metrics");
    Flags command = Flags{tessera_program(), "train", "--data",  source_dir("runtime"),
                          "--metrics",       metrics, "--steps", options_.at("--steps")} +
                    job() + contender.flags;
    if (contender.is_paging) {
      command = paging_->limited(command, static_cast<uint64_t>(streamed().peak_bytes));
      if (!paging_->obstacle().empty()) throw std::runtime_error(paging_->obstacle());
    }
    std::remove(metrics.c_str());
    run(command, contender.name);
    read_metrics(contender, metrics);
  }

  void read_metrics(Contender& contender, const std::string& metrics) const {
    std::vector<double> step_ms, losses;
    double file_bytes = 0, busy_ms = 0;
    std::ifstream lines(metrics);
    for (std::string text; std::getline(lines, text);) {
      const json line = json::parse(text);
      if (!line.contains("step")) continue;
      losses.push_back(line["loss"]);
      contender.peak_bytes = std::max(contender.peak_bytes, line["peak_memory_bytes"].get<double>());
      if (line["step"] == 1) continue;  // which is cold
      step_ms.push_back(line["step_ms"]);
      contender.read_bytes = line.value("file_read_bytes", 0.0);
      contender.written_bytes = line.value("file_written_bytes", 0.0);
      file_bytes += contender.read_bytes + contender.written_bytes;
      busy_ms += line.value("file_busy_ms", 0.0);
    }
    contender.step_ms.push_back(median(step_ms));
    contender.of_none.push_back(contenders_[0].step_ms.back() / contender.step_ms.back());
    if (busy_ms > 0) contender.busy_rate.push_back(file_bytes / busy_ms * 1e3);
    if (contender.losses.empty()) contender.losses = losses;
    if (losses != contenders_[0].losses) throw std::runtime_error(contender.name + ": its losses are not equal");
  }

  void predict(Contender& contender) const {
    const double seconds = contender.step_ms.back() / 1e3;
    contender.predicted.push_back(planned_seconds(contender, rates_file(), "predicted_seconds") / seconds);
    contender.bound.push_back(seconds / planned_seconds(contender, rates_in_steps(), "bound_seconds"));
  }

  double planned_seconds(const Contender& contender, const std::string& rates, const char* what) const {
    const Flags plan{tessera_program(), "plan", "--json", "--rates", rates};
    return json::parse(run(plan + job() + contender.flags, "plan"))["time"][what].get<double>();
  }

  const Contender& streamed() const { return contenders_[2]; }

  const BenchOptions options_;
  const TempFolder folder_;
  Disk disk_;
  std::vector<Contender> contenders_;
  std::unique_ptr<Paging> paging_;
};

void OffloadBench::print() const {
  const double tokens = std::stod(options_.at("--batch-size")) * std::stod(options_.at("--seq-len")) *
                        std::stod(options_.at("--grad-accum"));
  std::printf("%s, %s; %.0f tokens a step, %s rounds in turns; medians\n", processor().c_str(),
              options_.at("--size").c_str(), tokens, options_.at("--rounds").c_str());
  if (!disk_.obstacle.empty()) std::printf("skipped: the disk's own pattern (%s)\n", disk_.obstacle.c_str());
  if (!disk_.read.empty())
    std::printf("disk, 1 MiB x 16: reads %.2f GB/s, writes %.2f, both %.2f\n", median(disk_.read) * 1e-9,
                median(disk_.write) * 1e-9, median(disk_.both) * 1e-9);
  std::printf("%-26s %10s %10s %8s %10s %10s %10s %9s %9s %9s\n", "", "ms/step", "tokens/s", "of none", "predicted",
              "of bound", "peak RSS", "read", "written", "at GB/s");
  for (const Contender& c : contenders_) {
    const double ms = median(c.step_ms);
    std::printf("%-26s %10.1f %10.0f %8.3f", c.name.c_str(), ms, tokens / ms * 1e3, median(c.of_none));
    if (c.is_paging)
      std::printf(" %10s %10s", "-", "-");
    else
      std::printf(" %9.1f%% %10.3f", 100 * median(c.predicted), median(c.bound));
    std::printf(" %6.0f MiB %6.3f GB %6.3f GB %9.2f\n", c.peak_bytes / static_cast<double>(kMiB), c.read_bytes * 1e-9,
                c.written_bytes * 1e-9, median(c.busy_rate) * 1e-9);
  }
  std::printf(
      "predicted: of the measured time, by tessera bench rates in the same round; of bound: measured over the "
      "least by compute, as long as in the steps without offload before, and copies\n");
  if (!paging_)
    std::printf("skipped: paging (--paging false)\n");
  else if (!paging_->obstacle().empty())
    std::printf("skipped: paging (%s)\n", paging_->obstacle().c_str());
}

}  // namespace
}  // namespace tessera::testing

int main(int argc, char** argv) {
  return tessera::testing::run_bench("offload_bench", [&] {
    tessera::testing::OffloadBench bench(tessera::testing::options_of(argc, argv));
    bench.run_all();
    bench.print();
  });
}
