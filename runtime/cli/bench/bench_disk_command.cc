// `tessera bench disk`: measures folders with the access patterns of --offload-dir and --save. The first part uses the
// store of a run (storage/file_store.h), spread over all folders, since its own costs count: checksums, blocks, queues.
// The second writes and reads one checkpoint file in the first folder.
//
// Files are measured beside products of 512 x 512 matrices too: in a step both run at once, and writing takes cores.

#include <filesystem>
#include <iostream>

#include "base/concat.h"
#include "cli/bench/bench_commands.h"
#include "cli/command_line.h"
#include "config/default_plugins.h"
#include "config/text_values.h"
#include "config/train_config.h"
#include "config/usage_error.h"
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
    {"io", kIoEngineChoices, "file I/O engine (default auto)"},
    {"chunk", "SIZE", "size of one read or write of the file store, as --offload-chunk (default 16MiB)"},
    {"check", "", "verify a crc32c of each block that is read, as --offload-check"},
    {"checkpoint-size", "SIZE", "size of the checkpoint file that is written and read (default 256MiB)"},
    kRatesFlag,
    kOverwriteFlag,
};
constexpr CommandSyntax kSyntax = {
    "usage: tessera bench disk FOLDER[,FOLDER...] [flags]",
    "Measures the disks of these folders with the access patterns of a run: the file store of --offload-dir, spread "
    "over all folders, sequentially, at random and during compute; and a checkpoint file in the first folder. Needs "
    "512 MiB of free space plus the size of the checkpoint, and removes its files.",
    kFlags, 1, "tessera bench disk /mnt/scratch --rates rates.json"};

constexpr int64_t kTimeoutMs = 600'000;
constexpr int64_t kProductSize = 512;

std::vector<std::string> folders_of(const std::string& word) {
  std::vector<std::string> folders;
  for (const std::string_view folder : split(word, ',')) {
    if (folder.empty()) throw UsageError(concat("'", word, "' has an empty part; give folders with commas between"));
    std::error_code error;
    if (!std::filesystem::is_directory(folder, error))
      throw UsageError(concat(folder, std::filesystem::exists(folder, error) ? " is not a folder" : " does not exist",
                              "; give a folder on the disk that is to be measured"));
    folders.emplace_back(folder);
  }
  return folders;
}

std::string gigabytes(double bytes_per_second) {
  return format("%8.3f GB/s", bytes_per_second * 1e-9);
}

void print_files(const FileRates& files, uint64_t chunk_bytes) {
  std::cout << "file store, in chunks of " << print_bytes(chunk_bytes) << "\n  sequential read     "
            << gigabytes(files.read_bytes_per_second) << "\n  sequential write    "
            << gigabytes(files.write_bytes_per_second) << "\n  read and write      "
            << gigabytes(files.both_bytes_per_second) << "\n  random read         "
            << gigabytes(files.random_bytes_per_second) << ", in blocks of 64KiB"
            << format("\n  overhead of a transfer: %.1f us", 1e6 * files.seconds_per_transfer)
            << format("\n  during products, files keep %.0f %% of their speed, and products %.0f %%\n",
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
  options.flag = "";
  options.timeout_ms = kTimeoutMs;
  const uint64_t chunk_bytes = parse_bytes("chunk", line.value("chunk", "16MiB"));
  const uint64_t checkpoint_bytes = parse_bytes("checkpoint-size", line.value("checkpoint-size", "256MiB"));
  const RatesFile rates_file(line);
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
  rates_file.write(rates);
  return 0;
}

}  // namespace tessera::host
