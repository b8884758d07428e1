// `tessera bench disk`: the folders of --offload-dir and --save, by the patterns in which a run uses them.

#include <iostream>
#include <optional>
#include <thread>

#include "base/concat.h"
#include "cli/bench/bench_commands.h"
#include "cli/command_line.h"
#include "config/default_plugins.h"
#include "config/text_values.h"
#include "config/train_config.h"
#include "config/usage_error.h"
#include "plan/format.h"
#include "plugins/host_services.h"
#include "plugins/loader.h"
#include "plugins/plugin_options.h"
#include "rates/checkpoint_file_bench.h"
#include "rates/kernel_bench.h"
#include "rates/measure.h"
#include "rates/transfer_bench.h"

namespace tessera::host {
namespace {

constexpr CommandFlag kFlags[] = {
    {"io", kIoEngineChoices, "how files are read and written (default auto)"},
    {"chunk", "SIZE", "what the store reads and writes at once, as --offload-chunk (default 16MiB)"},
    {"check", "", "compare a crc32c of each block that is read, as --offload-check"},
    {"checkpoint-size", "SIZE", "size of the file of a checkpoint that is written and read (default 256MiB)"},
    {"rates", "FILE", "also write the rates for plan --rates to this file"},
    {"overwrite", "", "let --rates replace a file that tessera did not write"},
};
constexpr CommandSyntax kSyntax = {
    "usage: tessera bench disk FOLDER[,FOLDER...] [flags]",
    "measures the disks of these folders as a run uses them: the file store of --offload-dir, of which several "
    "folders "
    "have a share each, in sequence, at random, and beside compute; and in the first folder a file of a checkpoint. "
    "Takes 512 MiB and the size of the checkpoint of free space, and leaves nothing.",
    kFlags, 1};

constexpr int64_t kTimeoutMs = 600'000;
constexpr int64_t kProductSize = 512;

std::vector<std::string> folders_of(const std::string& word) {
  std::vector<std::string> folders;
  for (const std::string_view folder : split(word, ',')) {
    if (folder.empty()) throw UsageError(concat("'", word, "' has an empty part; give folders with commas between"));
    folders.emplace_back(folder);
  }
  return folders;
}

std::string gigabytes(double bytes_per_second) {
  return format("%8.3f GB/s", bytes_per_second * 1e-9);
}

void print_files(const FileRates& files, uint64_t chunk_bytes) {
  std::cout << "file store, chunks of " << print_bytes(chunk_bytes) << "\n  read in sequence    "
            << gigabytes(files.read_bytes_per_second) << "\n  written in sequence "
            << gigabytes(files.write_bytes_per_second) << "\n  both at once        "
            << gigabytes(files.both_bytes_per_second) << "\n  read at random      "
            << gigabytes(files.random_bytes_per_second) << ", pieces of 64KiB"
            << format("\n  a transfer costs %.1f us beyond its bytes", 1e6 * files.seconds_per_transfer)
            << format("\n  beside products, files keep %.0f %% of their speed, and products %.0f %%\n",
                      100 * files.beside_compute.copies, 100 * files.beside_compute.compute);
}

}  // namespace

const CommandSyntax& bench_disk_syntax() {
  return kSyntax;
}

int bench_disk_command(std::span<const std::string> arguments) {
  const CommandLine line(kSyntax, arguments);
  if (line.wants_help()) {
    std::cout << help_of(kSyntax);
    return 0;
  }
  FileStoreOptions options;
  options.folders = folders_of(line.words()[0]);
  options.engine = static_cast<IoEngine>(parse_choice("io", line.value("io", "auto"), kIoEngineChoices));
  options.check = line.has("check");
  options.timeout_ms = kTimeoutMs;
  const uint64_t chunk_bytes = parse_bytes("chunk", line.value("chunk", "16MiB"));
  const uint64_t checkpoint_bytes = parse_bytes("checkpoint-size", line.value("checkpoint-size", "256MiB"));
  if (line.has("rates")) check_rates_file(line.value("rates"), line.has("overwrite"));
  const Log log;
  const LoadedPlugin plugin = load_plugin(PluginKind::device, kDefaultDevice, plugin_folders({}), log);
  const PluginOptions values(plugin, "", {});
  const HostServices host(log);
  const Device device({plugin.device(), values.values(), 0, 1, host.of(plugin)});
  KernelBench product(device, product_op(TSR_F32, kProductSize));
  product.measure(2, 10);
  Rates rates;
  rates.measured = time_of_measurement();
  rates.files = measure_files(options, chunk_bytes, product.load(), log);
  print_files(*rates.files, chunk_bytes);
  const CheckpointFileRates checkpoint = measure_checkpoint_file(options.folders[0], checkpoint_bytes);
  std::cout << "checkpoint, a file of " << print_bytes(checkpoint_bytes) << "\n  written, durable    "
            << gigabytes(checkpoint.written_bytes_per_second) << "\n  read                "
            << gigabytes(checkpoint.read_bytes_per_second) << '\n';
  if (line.has("rates")) {
    write_rates_file(line.value("rates"), line.has("overwrite"), rates);
    std::cout << "wrote the rates to " << line.value("rates") << '\n';
  }
  return 0;
}

}  // namespace tessera::host
