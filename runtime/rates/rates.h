// The rates of a machine, measured by `tessera bench` and read by `plan --rates`. A file holds the results of one
// command: `bench rates` measures everything that a job needs; `bench comm`, `device` and `disk` a part each.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::host {

/// How long the device takes for one op by itself.
struct OpRate {
  std::string op;         ///< "linear forward f32": what it computes
  std::string shape;      ///< "batch 8, seq 128, in 128, out 384": how much of it
  double operations = 0;  ///< of products
  double num_bytes = 0;   ///< of its operands
  double seconds = 0;
};

/// What two kinds of work lose when they run at the same time: the share of its own speed that each keeps.
struct Together {
  double compute = 1;
  double copies = 1;
};

/// Copies between device memory and the host's.
struct CopyRates {
  double in_bytes_per_second = 0, out_bytes_per_second = 0;
  Together beside_compute;
};

/// Files of --offload-dir, through the store.
struct FileRates {
  double read_bytes_per_second = 0, write_bytes_per_second = 0;  ///< one direction alone
  double both_bytes_per_second = 0;                              ///< of both together, when both are at work
  double seconds_per_transfer = 0;                               ///< beyond the time of its bytes
  Together beside_compute;
  double random_bytes_per_second = 0;  ///< read in pieces of 64 KiB at random places; not kept in the file
};

/// How long one collective takes by itself.
struct CollectiveTime {
  std::string collective;  ///< "all_reduce", as programs print it
  double num_bytes = 0;    ///< of the whole buffer: what all slices have together, or one message
  double seconds = 0;
};

/// The collectives of groups of one size.
struct CollectiveRates {
  std::string communicator;
  int num_ranks = 2;
  Together beside_compute;  ///< `copies`: the share that collectives keep
  std::vector<CollectiveTime> times;
};

struct Rates {
  std::string device;    ///< the plugin that was measured; empty without ops and copies
  std::string measured;  ///< when: ISO 8601, UTC
  int num_threads = 1;   ///< of the device, where it is a CPU
  std::vector<OpRate> ops;
  std::optional<CopyRates> copies;
  std::optional<FileRates> files;  ///< measured with --offload-dir, or by bench disk
  std::vector<CollectiveRates> collectives;
  std::optional<double> link_bytes_per_second;  ///< what a rank sends to others; never measured, for users to add
};

/// The file's text.
std::string rates_json(const Rates& rates);
/// Throws NOT_FOUND, UNAVAILABLE for a file that cannot be read, INVALID_ARGUMENT for one that does not hold rates,
/// naming the file and what is wrong with it.
Rates read_rates(const std::string& path);
/// Merges several files: a later file overrides an earlier one for the same op, group or part. Throws what read_rates
/// throws, and INVALID_ARGUMENT for files of two devices.
Rates read_all_rates(std::span<const std::string> paths);

/// `measured`, and of the file what was not measured again; nothing of a file that is not there, does not hold rates or
/// is of another device.
Rates with_others_of(const std::string& path, const Rates& measured);

/// Whether a file that begins like this has our rates.
bool begins_like_rates(std::string_view begin);

}  // namespace tessera::host
