// Training on one GPU: GPT-2 124M and 1558M in bf16, T = 1024, beside PyTorch compiled on the same card. Prints a table
// in Markdown.
//     gpu_bench --program TESSERA --plugin CUDA-DEVICE.so [--peer PEER_TORCH.py] [--steps N] [--only MODEL]
//               [--limit-s S] [--dry MODEL]
// With --dry it trains that small model instead, 16 tokens at once, and multiplies small matrices: that it works.
// MFU is tokens/s times (6 parameters + 12 layers width T) operations (PaLM, arXiv:2204.02311, appendix B, with all of
// attention counted), over the card's dense bf16 rate: the measured one of an 8192 x 8192 product, and the datasheet's.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "gpu/matrix_rate.h"
#include "support/command.h"
#include "support/temp_folder.h"

namespace tessera::testing {
namespace {

using Options = std::map<std::string, std::string>;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::minutes kMaxRun{2};  // of tessera's; the peer compiles for longer

struct Size {
  std::string name;
  int batch_size;
  double parameters, layers, width;
  double target;  // tokens/s to reach
  int seq_len = 1024;
  uint16_t vocab = 50257;

  double flops_per_token() const { return 6 * parameters + 12 * layers * width * seq_len; }
  double tokens_per_step() const { return static_cast<double>(batch_size) * seq_len; }
};
const std::vector<Size> kSizes = {{"gpt2", 32, 124'439'808, 12, 768, 458'000},
                                  {"gpt2_xl", 16, 1'557'611'200, 48, 1600, 47'700}};

struct Measured {
  std::string who;
  double tokens_per_second = 0;
  std::optional<double> planned_bytes, peak_bytes;
  std::string problem;  // why there are no numbers
};

Options read_options(int argc, char** argv) {
  Options options = {{"--program", ""}, {"--plugin", ""},     {"--peer", ""}, {"--steps", "20"},
                     {"--only", ""},    {"--limit-s", "900"}, {"--dry", ""}};
  for (int i = 1; i + 1 < argc; i += 2) {
    if (!options.contains(argv[i])) throw std::invalid_argument(std::string("unknown option ") + argv[i]);
    options[argv[i]] = argv[i + 1];
  }
  for (const char* needed : {"--program", "--plugin"})
    if (options[needed].empty()) throw std::invalid_argument(std::string(needed) + " is needed");
  return options;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

std::string last_line(const std::string& text) {
  const size_t end = text.find_last_not_of('\n');
  if (end == std::string::npos) return "";
  const size_t begin = text.rfind('\n', end);
  return text.substr(begin + 1, end - begin);  // npos + 1 is 0
}

/// Raw uint16 tokens for four steps.
std::string random_tokens(const Size& size) {
  std::minstd_rand random(7);
  std::vector<uint16_t> tokens(static_cast<size_t>(4 * size.tokens_per_step()) + 1);
  for (uint16_t& token : tokens)
    token = static_cast<uint16_t>(random() % size.vocab);
  return raw_bytes(tokens);
}

/// What the program prints. Throws when it fails, or has not ended by then.
std::string output_of(const std::vector<std::string>& command, Clock::time_point end) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
  if (left.count() <= 0) throw std::runtime_error("there was no time left");
  const CommandResult run = Command(command).wait(left);
  if (run.exit_code != 0) throw std::runtime_error("exit " + std::to_string(run.exit_code) + ": " + last_line(run.err));
  return run.out;
}

/// Those numbers, or why there are none: one run that fails leaves the others.
Measured measure(const std::string& who, const std::function<void(Measured&)>& run) {
  Measured result{who, 0, {}, {}, ""};
  try {
    run(result);
  } catch (const std::exception& error) {
    result.problem = std::string(error.what()).substr(0, 200);
    std::ranges::replace(result.problem, '\n', ' ');
  }
  return result;
}

void run_tessera(const Size& size, const Options& options, const std::vector<std::string>& more, Clock::time_point end,
                 Measured& result) {
  const TempFolder folder;
  const std::string data = folder.write("tokens.bin", random_tokens(size));
  std::vector<std::string> command = {options.at("--program"),
                                      "train",
                                      "--model",
                                      size.name,
                                      "--data",
                                      data,
                                      "--device",
                                      options.at("--plugin"),
                                      "--dtype",
                                      "bf16",
                                      "--batch-size",
                                      std::to_string(size.batch_size),
                                      "--seq-len",
                                      std::to_string(size.seq_len),
                                      "--steps",
                                      options.at("--steps"),
                                      "--lr",
                                      "1e-4",
                                      "--weight-decay",
                                      "0.1",
                                      "--clip",
                                      "1",
                                      "--log-level",
                                      "warning",
                                      "--metrics",
                                      folder.path("metrics")};
  command.insert(command.end(), more.begin(), more.end());
  output_of(command, options.at("--dry").empty() ? std::min(end, Clock::now() + kMaxRun) : end);
  std::vector<double> rates;
  std::istringstream lines(file_bytes(folder.path("metrics")));
  for (std::string line; std::getline(lines, line);) {
    const auto step = nlohmann::json::parse(line);
    if (step.contains("kind")) {
      result.planned_bytes = step["planned_peak_bytes"].get<double>();
      continue;
    }
    if (step["step"] > 4) rates.push_back(step["tokens_per_second"]);  // the first ones load, capture and warm up
    result.peak_bytes = step["peak_memory_bytes"].get<double>();
  }
  if (rates.empty()) throw std::runtime_error("--steps must be above 4");
  result.tokens_per_second = median(rates);
}

void run_peer(const Size& size, const Options& options, Clock::time_point end, Measured& result) {
  const std::string out =
      output_of({"python3", options.at("--peer"), "--model", size.name, "--batch-size", std::to_string(size.batch_size),
                 "--seq-len", std::to_string(size.seq_len), "--steps", "8", "--warmup", "4", "--device", "cuda",
                 "--dtype", "bf16", "--compile"},
                end);
  const auto json = nlohmann::json::parse(last_line(out));
  result.who = "PyTorch " + json["version"].get<std::string>() + ", compiled";
  result.tokens_per_second = json["tokens_per_second"];
  result.peak_bytes = json["peak_device_bytes"].get<double>();
}

std::string gpu_name() {
  try {
    const CommandResult run = run_command({"nvidia-smi", "--query-gpu=name", "--format=csv,noheader", "--id=0"});
    if (run.exit_code == 0) return run.out.substr(0, run.out.find('\n'));
  } catch (const std::exception&) {  // no nvidia-smi: the card has no name
  }
  return "unknown GPU";
}

/// Dense bf16 TFLOP/s that the datasheet of `gpu` promises; nothing for one that is not listed.
std::optional<double> datasheet_rate(const std::string& gpu) {
  static const std::vector<std::pair<std::string, double>> kRates = {
      {"H100 PCIe", 756}, {"H100 NVL", 835}, {"H200 NVL", 835}, {"H200", 989}, {"H100", 989}, {"A100", 312}};
  for (const auto& [name, rate] : kRates)
    if (gpu.find(name) != std::string::npos) return rate;
  return std::nullopt;
}

std::string percent(double part, std::optional<double> whole) {
  char text[32];
  if (!whole || *whole <= 0) return "-";
  std::snprintf(text, sizeof text, "%.1f %%", 100 * part / *whole);
  return text;
}

std::string gib(std::optional<double> bytes) {
  char text[32];
  if (!bytes) return "-";
  std::snprintf(text, sizeof text, "%.2f", *bytes / (1 << 30));
  return text;
}

void print_row(const Size& size, const Measured& m, double matrix_rate, std::optional<double> datasheet) {
  std::printf("| %s | %s | %d | ", size.name.c_str(), m.who.c_str(), size.batch_size);
  if (!m.problem.empty()) {
    std::printf("not measured: %s | | | | | |\n", m.problem.c_str());
    return;
  }
  const double rate = m.tokens_per_second * size.flops_per_token() / 1e12;
  std::printf("%.0f | %.2f | %s | %s | %s | %s |\n", m.tokens_per_second,
              1e3 * size.tokens_per_step() / m.tokens_per_second, percent(rate, matrix_rate).c_str(),
              percent(rate, datasheet).c_str(), gib(m.planned_bytes).c_str(), gib(m.peak_bytes).c_str());
}

/// 0 when it cannot be measured.
double matrix_rate_of(const std::string& plugin, int64_t extent) {
  try {
    return measure_matrix_rate(plugin, extent);
  } catch (const std::exception& error) {
    std::cerr << "gpu_bench: the product of " << extent << " x " << extent << ": " << error.what() << '\n';
    return 0;
  }
}

std::string verdict(const Size& size, const Measured& ours, const Measured* peer) {
  char text[160];
  std::snprintf(text, sizeof text, "\n%s: target %.0f tokens/s %s (%.2f of it); ", size.name.c_str(), size.target,
                ours.tokens_per_second >= size.target ? "reached" : "missed", ours.tokens_per_second / size.target);
  if (!peer || !peer->problem.empty()) return text + std::string("no peer was run.");
  char ratio[64];
  std::snprintf(ratio, sizeof ratio, "%.2f times PyTorch.", ours.tokens_per_second / peer->tokens_per_second);
  return text + std::string(ratio);
}

std::vector<Size> sizes_of(const Options& options) {
  if (const std::string& model = options.at("--dry"); !model.empty()) return {{model, 1, 1, 1, 1, 1, 16, 96}};
  std::vector<Size> sizes;
  for (const Size& size : kSizes)
    if (options.at("--only").empty() || options.at("--only") == size.name) sizes.push_back(size);
  if (sizes.empty()) throw std::invalid_argument("--only names no model of this benchmark");
  return sizes;
}

/// Peers come last: they take longest.
int bench(int argc, char** argv) {
  const Options options = read_options(argc, argv);
  const std::vector<Size> sizes = sizes_of(options);
  const auto end = Clock::now() + std::chrono::seconds(std::stoi(options.at("--limit-s")));
  const std::string gpu = gpu_name();
  const auto datasheet = datasheet_rate(gpu);
  const int extent = options.at("--dry").empty() ? 8192 : 64;
  const double matrix_rate = matrix_rate_of(options.at("--plugin"), extent);
  std::printf("%s; bf16 product of %d x %d: %.0f TFLOP/s measured, datasheet %s. T = %d, medians of %s steps.\n\n",
              gpu.c_str(), extent, extent, matrix_rate,
              datasheet ? std::to_string(static_cast<int>(*datasheet)).c_str() : "not listed", sizes[0].seq_len,
              options.at("--steps").c_str());
  std::puts(
      "| model | runtime | B | tokens/s | ms/step | MFU, of measured | MFU, of datasheet | planned GiB | peak GiB |");
  std::puts("|---|---|---|---|---|---|---|---|---|");
  const auto row = [&](const Size& size, const std::string& who, const std::function<void(Measured&)>& run) {
    const Measured measured = measure(who, run);
    print_row(size, measured, matrix_rate, datasheet);
    return measured;
  };
  std::vector<Measured> ours, peers;
  for (const Size& size : sizes)
    ours.push_back(row(size, "tessera", [&](Measured& m) { run_tessera(size, options, {}, end, m); }));
  const std::string no_graph = "--cuda-graph=off";  // matters where kernels are short
  row(sizes[0], "tessera " + no_graph, [&](Measured& m) { run_tessera(sizes[0], options, {no_graph}, end, m); });
  if (!options.at("--peer").empty())
    for (const Size& size : sizes)
      peers.push_back(row(size, "PyTorch, compiled", [&](Measured& m) { run_peer(size, options, end, m); }));
  for (size_t i = 0; i < sizes.size(); ++i)
    std::puts(verdict(sizes[i], ours[i], peers.empty() ? nullptr : &peers[i]).c_str());
  const bool all_are_measured = std::ranges::all_of(ours, [](const Measured& m) { return m.problem.empty(); });
  return all_are_measured && (matrix_rate > 0 || options.at("--dry").empty()) ? 0 : 1;
}

}  // namespace
}  // namespace tessera::testing

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // what has been measured is told, whatever comes
  try {
    return tessera::testing::bench(argc, argv);
  } catch (const std::exception& e) {
    std::cerr << "gpu_bench: " << e.what() << '\n';
    return 1;
  }
}
