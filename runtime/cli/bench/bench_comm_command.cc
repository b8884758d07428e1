// `tessera bench comm`: reads the flags, chooses the communicator as a run would, and starts the ranks; comm_rank.cc
// measures. Needs no model. A communicator that does not take the device's streams is measured in the host's memory, on
// the CPU's streams, which is how a run would use it.

#include <algorithm>
#include <iostream>

#include "base/concat.h"
#include "cli/bench/bench_commands.h"
#include "cli/bench/bench_ranks.h"
#include "cli/bench/comm_bench.h"
#include "cli/command_line.h"
#include "config/default_plugins.h"
#include "config/text_values.h"
#include "config/usage_error.h"
#include "guard/call_watch.h"
#include "guard/supervisor.h"
#include "job/choose_communicator.h"
#include "plugins/loader.h"

namespace tessera::host {
namespace {

constexpr CommandFlag kFlags[] = {
    {"comm", "auto|PLUGIN", "communicator to measure (default auto)"},
    {"device", "PLUGIN", "device whose memory is sent (default " TESSERA_DEFAULT_DEVICE ")"},
    {"nproc", "N", "ranks to start on this machine (default 2); a launcher's world takes its place"},
    {"collectives", "NAME,...",
     "collectives to measure: all_reduce, reduce_scatter, all_gather, broadcast, reduce, all_to_all, send, exchange, "
     "barrier (default: all that the communicator supports)"},
    {"min-size", "SIZE", "smallest buffer (default 1KiB)"},
    {"max-size", "SIZE", "largest buffer (default 64MiB)"},
    {"factor", "N", "each size is N times the one before it (default 4)"},
    {"iters", "N", "measured iterations per size (default 20)"},
    {"warmup", "N", "unmeasured iterations before those (default 5)"},
    {"dtype", "float32|float64|fp16|bf16|int32", "element type (default float32)"},
    {"redop", "sum|min|max", "reduction (default sum)"},
    kPluginDirFlag,
    {"timeout-ms", "N", "time limit of the start and of each collective, in milliseconds (default 60000)"},
    {"insecure", "", "let ranks on several machines connect without TESSERA_JOB_SECRET; for trusted networks only"},
    kRatesFlag,
    kOverwriteFlag,
};
constexpr CommandSyntax kSyntax = {
    "usage: tessera bench comm [--comm PLUGIN] [--nproc N] [flags]",
    "Times every collective of a communicator over a range of sizes, and checks the results. The columns are those of "
    "NCCL's tests: size of the whole buffer, time of one collective (median, minimum), algorithm and bus bandwidth. "
    "\"errors\" counts wrong elements; \"memory\" is the fraction of this machine's memory bandwidth, measured in the "
    "same run. Options of the communicator and the device are given as --PLUGIN.OPTION=VALUE.",
    kFlags, 0, "tessera bench comm --nproc 2 --max-size 16MiB"};

constexpr uint64_t kMaxBytes = uint64_t{1} << 36;

constexpr NamedDtype kDtypes[] = {
    {"float32", TSR_F32}, {"float64", TSR_F64}, {"fp16", TSR_F16}, {"bf16", TSR_BF16}, {"int32", TSR_I32}};
constexpr std::string_view kDtypeChoices = "float32|float64|fp16|bf16|int32";
constexpr NamedReduce kReduces[] = {{"sum", TSR_REDUCE_SUM}, {"min", TSR_REDUCE_MIN}, {"max", TSR_REDUCE_MAX}};
constexpr std::string_view kReduceChoices = "sum|min|max";

std::vector<uint64_t> sizes_of(const CommandLine& line) {
  const uint64_t least = parse_bytes("min-size", line.value("min-size", "1KiB"));
  const uint64_t most = parse_bytes("max-size", line.value("max-size", "64MiB"));
  const auto factor = static_cast<uint64_t>(line.integer("factor", 4, 2, 1 << 20));
  if (most > kMaxBytes)
    throw UsageError(concat("--max-size is ", print_bytes(most), "; give at most ", print_bytes(kMaxBytes)));
  if (least > most)
    throw UsageError(concat("--min-size ", print_bytes(least), " is above --max-size ", print_bytes(most),
                            "; lower it, or raise --max-size"));
  std::vector<uint64_t> sizes;
  for (uint64_t size = least; size <= most; size *= factor)
    sizes.push_back(size);
  return sizes;
}

/// The kinds that --collectives names; without it, all that the communicator supports.
std::vector<CollectiveKind> kinds_of(const CommandLine& line, const CommunicatorClaims& claims) {
  const auto has = [&](const CollectiveKind& kind) { return (claims.collectives >> kind.kind & 1) != 0; };
  std::vector<CollectiveKind> kinds;
  if (!line.has("collectives")) {
    std::ranges::copy_if(collective_kinds(), std::back_inserter(kinds), has);
    return kinds;
  }
  const std::string given = line.value("collectives");
  for (const std::string_view name : split(given, ',')) {
    const auto kind = std::ranges::find(collective_kinds(), name, &CollectiveKind::name);
    std::string names;
    for (const CollectiveKind& one : collective_kinds())
      names += concat(names.empty() ? "" : ", ", one.name);
    if (kind == collective_kinds().end())
      throw UsageError(concat("--collectives: unknown collective '", name, "'; choose from ", names));
    if (!has(*kind)) throw UsageError(concat("--comm ", claims.name, " does not support ", name, "; leave it out"));
    kinds.push_back(*kind);
  }
  return kinds;
}

void check_claims(const CommBench& bench) {
  if (std::ranges::count(bench.claims.dtypes, bench.dtype.dtype) == 0)
    throw UsageError(
        concat("--comm ", bench.claims.name, " does not support ", bench.dtype.name, "; give another --dtype"));
  if ((bench.claims.reduces >> bench.reduce.reduce & 1) == 0)
    throw UsageError(
        concat("--comm ", bench.claims.name, " does not support ", bench.reduce.name, "; give another --redop"));
}

void load(CommBench& bench, const CommandLine& line, const std::vector<PluginFlag>& options, const Log& log) {
  const auto folders =
      plugin_folders(line.has("plugin-dir") ? std::vector{line.value("plugin-dir")} : std::vector<std::string>());
  bench.cpu = load_plugin(PluginKind::device, kDefaultDevice, folders, log);
  const std::string device = line.value("device", kDefaultDevice);
  bench.device = device == kDefaultDevice ? bench.cpu : load_plugin(PluginKind::device, device, folders, log);
  const bool is_shared = ranks_may_share(bench.device, PluginOptions(bench.device, "", options));
  auto chosen =
      choose_communicator(line.value("comm", kAutoCommunicator), bench.device, is_shared, bench.cpu, folders, log);
  bench.communicator = std::move(chosen.plugin);
  bench.reason = std::move(chosen.reason);
  const tsr_communicator_interface& api = *bench.communicator.communicator();
  std::string reason;
  auto claims = claims_on(api, bench.communicator.name, bench.device.device()->stream_kind, reason);
  bench.is_staged = !claims;
  if (!claims) claims = claims_on(api, bench.communicator.name, bench.cpu.device()->stream_kind, reason);
  if (!claims)
    throw UsageError(concat("--comm ", bench.communicator.name, " works neither on the streams of --device ",
                            bench.device.name, " nor on the host's: ", reason, "; give another communicator"));
  bench.claims = *claims;
  std::vector<PluginUse> uses{{&bench.device, ""}, {&bench.communicator, ""}};
  if (bench.cpu.path != bench.device.path) uses.push_back({&bench.cpu, ""});
  check_flag_names(options, uses);
  bench.device_options = PluginOptions(bench.device, "", options);
  bench.cpu_options = PluginOptions(bench.cpu, "", options);
  bench.comm_options = PluginOptions(bench.communicator, "", options);
}

CommBench read_bench(const CommandLine& line, const std::vector<PluginFlag>& options, const Log& log) {
  CommBench bench;
  bench.dtype = kDtypes[parse_choice("dtype", line.value("dtype", "float32"), kDtypeChoices)];
  bench.reduce = kReduces[parse_choice("redop", line.value("redop", "sum"), kReduceChoices)];
  bench.sizes = sizes_of(line);
  bench.rounds = {static_cast<int>(line.integer("warmup", 5, 0, 1'000'000)),
                  static_cast<int>(line.integer("iters", 20, 1, 1'000'000))};
  bench.timeout_ms = line.integer("timeout-ms", 60'000, 1, int64_t{1} << 40);
  bench.rates_file = RatesFile(line);
  set_call_timeouts({bench.timeout_ms, bench.timeout_ms});  // before plugins are asked for their caps
  load(bench, line, options, log);
  bench.kinds = kinds_of(line, bench.claims);
  check_claims(bench);
  return bench;
}

}  // namespace

const CommandSyntax& bench_comm_syntax() {
  return kSyntax;
}

int bench_comm_command(std::span<const std::string> arguments, const std::vector<std::string>& argv) {
  std::vector<std::string> words(arguments.begin(), arguments.end());
  const std::vector<PluginFlag> options = take_plugin_flags(words);
  const CommandLine line(kSyntax, words);
  if (line.wants_help()) {
    std::cout << bench_part_help(kSyntax, line);
    return 0;
  }
  const RankEnvironment environment = read_rank_environment(process_environment(), starter_of_program());
  const Log log(LogLevel::info, environment.rank, environment.world_size);
  const auto requested = static_cast<int>(line.integer("nproc", 0, 1, 1 << 16));
  const int num_ranks = environment.world_size > 1 ? environment.world_size : line.has("nproc") ? requested : 2;
  ranks_to_start(requested, environment);
  if (num_ranks < 2) throw UsageError("--nproc 1: a collective of one rank moves no data; give 2 ranks or more");
  const CommBench bench = read_bench(line, options, environment.rank == 0 ? log : Log(LogLevel::off));
  BenchRanks ranks{num_ranks, (bench.claims.flags & TSR_COMM_ONE_PROCESS) != 0, line.has("insecure")};
  ranks.start_timeout_ms = ranks.timeout_ms = bench.timeout_ms;
  ranks.argv = &argv;
  return run_bench_ranks(ranks, environment, log, [&](const RankInfo& info) {
    measure_as_rank(bench, info, num_ranks, info.rank == 0 ? log : Log(LogLevel::warning, info.rank, num_ranks));
  });
}

}  // namespace tessera::host
