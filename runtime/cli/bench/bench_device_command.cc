// `tessera bench device`: the rates of one device, without a model: matrix products by size and dtype, memory, copies
// to and from the host, launches. The parts follow one another, since they use the same cores:
//
//     products    N x N by N x N; 2 N^3 operations
//     memory      a fill and a conversion of 16 MiB, which are ops of a step; copies of 64 MiB
//     copies      to and from the host, alone and beside products
//     launches    of an op of one element: back to back, and one at a time with a wait
//
// The device passes its self-test first: the speed of wrong results is worth nothing.

#include <algorithm>
#include <iostream>
#include <thread>

#include "base/concat.h"
#include "cli/bench/bench_commands.h"
#include "cli/command_line.h"
#include "config/default_plugins.h"
#include "config/text_values.h"
#include "config/usage_error.h"
#include "exec/self_test/test_device.h"
#include "plugins/host_services.h"
#include "plugins/loader.h"
#include "plugins/plugin_options.h"
#include "rates/kernel_bench.h"
#include "rates/measure.h"
#include "rates/memory_bench.h"
#include "rates/transfer_bench.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

constexpr CommandFlag kFlags[] = {
    {"device", "PLUGIN", "device to measure (default " TESSERA_DEFAULT_DEVICE ")"},
    {"threads", "N", "CPU threads (default: all cores)"},
    {"min-size", "N", "smallest matrix product, N x N times N x N (default 256)"},
    {"max-size", "N", "largest matrix product (default 1024)"},
    {"factor", "N", "each size is N times the one before it (default 2)"},
    {"iters", "N", "measured launches of each kernel (default 10)"},
    {"warmup", "N", "unmeasured launches before those (default 2)"},
    {"only", "products|memory|copies|launches", "measure only this part"},
    kPluginDirFlag,
    kRatesFlag,
    kOverwriteFlag,
};
constexpr CommandSyntax kSyntax = {
    "usage: tessera bench device [--device PLUGIN] [flags]",
    "Measures a device: matrix products by size and dtype, memory bandwidth, copies to and from the host, and launch "
    "latency. Each time is given as median and minimum. Options of the device are given as --PLUGIN.OPTION=VALUE.",
    kFlags, 0, "tessera bench device --rates rates.json"};

constexpr int64_t kTestMs = 60'000;
constexpr int64_t kManyElements = 1 << 22;  // 16 MiB of float32
constexpr int kLaunches = 1000;
constexpr int64_t kLoadSize = 512;  // of the products beside which copies are measured

constexpr NamedDtype kDtypes[] = {{"float32", TSR_F32}, {"bf16", TSR_BF16}, {"fp16", TSR_F16}};

struct DeviceBench {
  int64_t min_size = 0, max_size = 0, factor = 0;
  int num_measured = 0, num_warmups = 0;
  std::string only;

  bool has(std::string_view part) const { return only.empty() || only == part; }
};
constexpr std::string_view kParts = "products|memory|copies|launches";

/// Refuses flags of parts that --only leaves out.
void refuse_unused(const CommandLine& line, const DeviceBench& bench) {
  const auto refuse = [&](std::initializer_list<const char*> flags) {
    for (const char* flag : flags)
      if (line.has(flag))
        throw UsageError(concat("--", flag, " has no effect with --only ", bench.only, "; leave one of them out"));
  };
  if (!bench.has("products")) refuse({"min-size", "max-size", "factor"});
  if (bench.only == "launches") refuse({"iters", "warmup"});
}

DeviceBench read_bench(const CommandLine& line) {
  DeviceBench bench;
  bench.min_size = line.integer("min-size", 256, 1, 1 << 16);
  bench.max_size = line.integer("max-size", std::max<int64_t>(1024, bench.min_size), 1, 1 << 16);
  bench.factor = line.integer("factor", 2, 2, 1 << 16);
  bench.num_measured = static_cast<int>(line.integer("iters", 10, 1, 1'000'000));
  bench.num_warmups = static_cast<int>(line.integer("warmup", 2, 0, 1'000'000));
  if (line.has("only")) {
    bench.only = line.value("only");
    parse_choice("only", bench.only, kParts);
    refuse_unused(line, bench);
  }
  if (bench.min_size > bench.max_size)
    throw UsageError(concat("--min-size ", bench.min_size, " is above --max-size ", bench.max_size,
                            "; lower it, or raise --max-size"));
  return bench;
}

void print_seconds(const std::string& what, const KernelBench::Seconds& seconds, const std::string& rate) {
  std::cout << format("%-28s %12.1f %12.1f ", what.c_str(), seconds.median * 1e6, seconds.least * 1e6) << rate << '\n'
            << std::flush;
}

/// Products of one dtype; says so if the device does not support it.
void measure_products(const Device& device, const DeviceBench& bench, const NamedDtype& dtype, Rates& rates) {
  for (int64_t n = bench.min_size; n <= bench.max_size; n *= bench.factor) {
    try {
      KernelBench product(device, product_op(dtype.dtype, n));
      const auto seconds = product.measure(bench.num_warmups, bench.num_measured);
      rates.ops.push_back(product.rate());
      print_seconds(concat(dtype.name, " ", n), seconds,
                    format("%12.1f", product.rate().operations / seconds.median * 1e-9));
    } catch (const Error& error) {
      if (error.code() != TSR_E_UNSUPPORTED) throw;
      std::cout << dtype.name << ": not supported by this device\n";
      return;
    }
  }
}

void measure_products(const Device& device, const DeviceBench& bench, Rates& rates) {
  std::cout << format("%-28s %12s %12s %12s\n", "# product, N x N", "time (us)", "min (us)", "GFLOP/s");
  for (const NamedDtype& dtype : kDtypes)
    measure_products(device, bench, dtype, rates);
}

void measure_memory_ops(const Device& device, const DeviceBench& bench, Rates& rates) {
  std::cout << format("%-28s %12s %12s %12s\n", "# memory", "time (us)", "min (us)", "GB/s");
  for (const auto& [name, op] :
       {std::pair("zero, 16 MiB", zero_op(kManyElements)), std::pair("cast to bf16, 16 MiB", cast_op(kManyElements))}) {
    KernelBench kernel(device, op);
    const auto seconds = kernel.measure(bench.num_warmups, bench.num_measured);
    rates.ops.push_back(kernel.rate());
    print_seconds(name, seconds, format("%12.1f", kernel.rate().num_bytes / seconds.median * 1e-9));
  }
  std::cout << format("copies within, 64 MiB        %38.1f  read and written\n",
                      measure_memory(device, uint64_t{64} << 20) * 1e-9);
}

void measure_launches(const Device& device) {
  std::cout << format("%-28s %12s %12s\n", "# launches", "time (us)", "min (us)");
  KernelBench small(device, zero_op(1));
  print_seconds("launch, back to back", small.measure(kLaunches, kLaunches), "");
  print_seconds("launch and wait", small.measure_round_trip(kLaunches), "");
}

void measure_copies_of(const Device& device, const DeviceBench& bench, Rates& rates) {
  KernelBench load(device, product_op(TSR_F32, kLoadSize));
  load.measure(bench.num_warmups, bench.num_measured);
  rates.copies = measure_copies(device, load.load());
  const CopyRates& copies = *rates.copies;
  std::cout << format("%-28s %12s %12s %12s\n", "# copies", "", "", "GB/s")
            << format("to the device                %38.1f\n", copies.in_bytes_per_second * 1e-9)
            << format("to the host                  %38.1f\n", copies.out_bytes_per_second * 1e-9)
            << format("during products, copies keep %.0f %% of their speed, and products %.0f %%\n",
                      100 * copies.beside_compute.copies, 100 * copies.beside_compute.compute);
}

}  // namespace

const CommandSyntax& bench_device_syntax() {
  return kSyntax;
}

int bench_device_command(std::span<const std::string> arguments) {
  std::vector<std::string> words(arguments.begin(), arguments.end());
  const std::vector<PluginFlag> options = take_plugin_flags(words);
  const CommandLine line(kSyntax, words);
  if (line.wants_help()) {
    std::cout << bench_part_help(kSyntax, line);
    return 0;
  }
  const DeviceBench bench = read_bench(line);
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  Rates rates;
  rates.num_threads = static_cast<int>(line.integer("threads", cores, 1, 4096));
  const RatesFile rates_file(line);
  const Log log;
  const auto folders =
      plugin_folders(line.has("plugin-dir") ? std::vector{line.value("plugin-dir")} : std::vector<std::string>());
  const LoadedPlugin plugin = load_plugin(PluginKind::device, line.value("device", kDefaultDevice), folders, log);
  const std::vector<PluginUse> uses{{&plugin, ""}};
  check_flag_names(options, uses);
  const PluginOptions values(plugin, "", options);
  const HostServices host(log);
  const Device device({plugin.device(), values.values(), 0, static_cast<uint32_t>(rates.num_threads), host.of(plugin)});
  test_device(device, kTestMs);
  rates.device = plugin.name;
  rates.measured = time_of_measurement();
  std::cout << "# device " << plugin.name << ' ' << plugin.version << ", " << counted(rates.num_threads, "thread")
            << '\n';
  if (bench.has("products")) measure_products(device, bench, rates);
  if (bench.has("memory")) measure_memory_ops(device, bench, rates);
  if (bench.has("copies")) measure_copies_of(device, bench, rates);
  if (bench.has("launches")) measure_launches(device);
  rates_file.write(rates);
  return 0;
}

}  // namespace tessera::host
