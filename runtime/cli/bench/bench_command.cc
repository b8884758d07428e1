// `tessera bench rates`: measures the ops and transfers of a job's step on this machine, for `plan --rates`. The job is
// planned as `train` plans it, and started with as many ranks: what ranks share (cores, memory, disks) is part of a
// rate. Also holds what the parts of `tessera bench` share: options of plugins, and the file of --rates.

#include <algorithm>
#include <iostream>

#include "base/concat.h"
#include "base/log.h"
#include "base/output_file.h"
#include "cli/bench/bench_commands.h"
#include "cli/bench/bench_ranks.h"
#include "cli/commands.h"
#include "cli/flags_help_text.h"
#include "cli/outputs.h"
#include "config/usage_error.h"
#include "guard/supervisor.h"
#include "launch/process_setup.h"
#include "plan/job_plan.h"
#include "plugins/host_services.h"
#include "rates/measure.h"
#include "train/consistency.h"
#include "train/rank_cores.h"
#include "train/train_rank.h"

namespace tessera::host {
namespace {

Output rates_output(const std::string& path, bool overwrite) {
  return {.flag = "--rates", .path = path, .is_ours = begins_like_rates, .overwrite = overwrite};
}

/// All ranks measure the ops of the largest; rank 0 writes what it has measured.
void measure_as_rank(const JobPlan& planned, const ParsedFlags& flags, const RankInfo& info, const Log& log) {
  const Job& job = planned.job();
  const JobPrograms& programs = planned.programs();
  const HostServices host(log, info.store);
  const CoreBinding cores = bind_rank(job, info);
  RatesRank rank{info.rank, info.local_rank, job.mesh.num_ranks(), info.num_local_ranks, info.store, {}, {}};
  if (rank.num_ranks > 1) {
    rank.communicator = communicator_setup(job, info, host);
    int num_barriers = 0;
    rank.barrier = [&job, &info, &log, num_barriers]() mutable {
      barrier(info, job.mesh.num_ranks(), concat("reach part ", ++num_barriers, " of the measurement"),
              job.config.start_timeout_ms, log);
    };
  }
  const Rates rates = measure_rates(job, programs.of(largest_rank(programs)), rank, log);
  if (info.rank != 0) return;
  write_rates(job, flags.plan.rates, rates_json(rates));
  if (!is_standard_output(flags.plan.rates))
    std::cout << "wrote the rates of " << rates.ops.size() << " ops to " << flags.plan.rates << '\n';
}

int bench_rates(std::span<const std::string> arguments, const std::vector<std::string>& argv) {
  const ParsedFlags flags = parse_flags(FlagSet::bench, arguments);
  if (flags.help) {
    std::cout << flags_help_text(flags);
    return 0;
  }
  const RankEnvironment environment = read_rank_environment(process_environment(), starter_of_program());
  const int requested = requested_world(flags.config);
  const int num_ranks = std::max(1, environment.world_size > 1 ? environment.world_size : requested);
  ranks_to_start(requested, environment);
  const Log log(parse_log_level(flags.config.log_level), environment.rank, environment.world_size);
  const Log first_log = environment.rank == 0 ? log : Log(LogLevel::off);
  Job job = make_job(flags, num_ranks, first_log);
  if (environment.rank == 0) check_rates(job, flags);
  const JobPlan planned(std::move(job), first_log);
  BenchRanks ranks{num_ranks, planned.job().ranks_are_threads(), flags.config.insecure};
  ranks.start_timeout_ms = flags.config.start_timeout_ms;
  ranks.timeout_ms = flags.config.timeout_ms;
  ranks.argv = &argv;
  return run_bench_ranks(ranks, environment, log, [&](const RankInfo& info) {
    measure_as_rank(planned, flags, info, info.rank == 0 ? log : Log(LogLevel::warning, info.rank, num_ranks));
  });
}

}  // namespace

HelpText bench_help() {
  return {
      "tessera bench comm|device|disk|rates [flags]",
      "Measures a part of this machine, also for plan --rates. tessera bench PART --help lists the flags of a part.",
      {"tessera bench comm --nproc 2", "tessera bench rates --model my-model --rates rates.json"},
      "Parts",
      "  comm     collectives: time, algorithm and bus bandwidth\n"
      "  device   matrix products by size and dtype, memory bandwidth, copies, launches\n"
      "  disk     the files of --offload-dir and of checkpoints\n"
      "  rates    everything that plan --rates needs to predict the step time of a job\n"};
}

int bench_command(std::span<const std::string> arguments, const std::vector<std::string>& argv) {
  const std::string part = arguments.empty() ? "" : arguments[0];
  const auto rest = arguments.empty() ? arguments : arguments.subspan(1);
  if (part == "rates") return bench_rates(rest, argv);
  if (part == "comm") return bench_comm_command(rest, argv);
  if (part == "device" || part == "disk") ignore_save_requests();
  if (part == "device") return bench_device_command(rest);
  if (part == "disk") return bench_disk_command(rest);
  if (part == "--help" || part == "-h") {
    std::cout << help_of(bench_help(), {});
    return 0;
  }
  throw UsageError(part.empty() ? "tessera bench needs a part to measure; give comm, device, disk or rates"
                                : concat("tessera bench does not measure '", part,
                                         "'; give comm, device, disk or rates (see tessera bench --help)"));
}

std::string bench_part_help(const CommandSyntax& syntax, const CommandLine& line) {
  std::vector<std::string> folders;
  if (line.has("plugin-dir")) folders.push_back(line.value("plugin-dir"));
  std::string text = help_of(syntax);
  if (line.value("comm", kAutoCommunicator) != kAutoCommunicator)
    text += plugin_options_help(PluginKind::communicator, line.value("comm"), folders);
  if (line.has("device")) text += plugin_options_help(PluginKind::device, line.value("device"), folders);
  return text;
}

std::vector<PluginFlag> take_plugin_flags(std::vector<std::string>& arguments) {
  std::vector<PluginFlag> flags;
  std::vector<std::string> others;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    if (!word.starts_with("--") || name.find('.') == name.npos) {
      others.push_back(word);
      continue;
    }
    if (std::ranges::count(flags, name.substr(2), &PluginFlag::name))
      throw UsageError(concat(name, " is given more than once; give it once"));
    if (equals != word.npos)
      flags.push_back({name.substr(2), word.substr(equals + 1), true});
    else if (i + 1 < arguments.size() && !arguments[i + 1].starts_with("--"))
      flags.push_back({name.substr(2), arguments[++i], true});
    else
      flags.push_back({name.substr(2), "true", false});
  }
  arguments = std::move(others);
  return flags;
}

RatesFile::RatesFile(const CommandLine& line) : path_(line.value("rates")), overwrite_(line.has("overwrite")) {
  if (!line.has("rates")) return;
  if (const std::string refusal = refusal_of(rates_output(path_, overwrite_)); !refusal.empty())
    throw UsageError(refusal);
  refuse_inside_checkpoint("--rates", path_);
}

void RatesFile::write(const Rates& rates) const {
  if (!is_wanted()) return;
  const Rates all = overwrite_ ? rates : with_others_of(path_, rates);
  write_output(rates_output(path_, overwrite_), {rates_json(all)});
  std::cout << "# wrote the rates to " << path_ << '\n';
}

}  // namespace tessera::host
