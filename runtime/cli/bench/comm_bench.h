// What `tessera bench comm` measures. measure_as_rank is implemented in comm_rank.cc.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "cli/bench/bench_commands.h"
#include "plugins/loaded_plugin.h"
#include "plugins/plugin_options.h"
#include "program/claims.h"
#include "rates/collective_bench.h"
#include "train/rank_info.h"

namespace tessera::host {

struct NamedReduce {
  std::string_view name;
  uint32_t reduce;
};

/// What is measured; the same on all ranks.
struct CommBench {
  LoadedPlugin device, cpu, communicator;
  std::string reason;  ///< why --comm auto chose it
  PluginOptions device_options, cpu_options, comm_options;
  bool is_staged = false;  ///< the communicator takes the CPU's streams, and the device has others
  CommunicatorClaims claims;
  NamedDtype dtype{};
  NamedReduce reduce{};
  std::vector<CollectiveKind> kinds;
  std::vector<uint64_t> sizes;
  CollectiveRounds rounds;
  int64_t timeout_ms = 0;
  RatesFile rates_file;

  /// The device whose memory is sent: the CPU where the communicator works on the host.
  const LoadedPlugin& used_device() const { return is_staged ? cpu : device; }
  const PluginOptions& used_options() const { return is_staged ? cpu_options : device_options; }
};

/// Measures as one of the ranks; rank 0 prints the report and writes the rates. Throws INTERNAL if a result was wrong.
void measure_as_rank(const CommBench& bench, const RankInfo& info, int num_ranks, const Log& log);

}  // namespace tessera::host
