// What is measured is what a step does: the kernels that the device prepares for the program's own actions, the store
// that keeps what offload moves, with the options that the job gives. All ranks go through the same parts in one order,
// and wait for one another where `|` is, since they share cores and memory in a step too:
//
//     self-test | ops, ops of the host, copies | collectives of each group size | ... | files
//
// Copies, collectives and files are measured alone and beside the op that takes most of the step.

#include "rates/measure.h"

#include <algorithm>
#include <ctime>
#include <iomanip>
#include <iterator>
#include <memory>

#include "base/concat.h"
#include "base/progress.h"
#include "exec/self_test/test_device.h"
#include "plugins/host_services.h"
#include "rates/collective_rates.h"
#include "rates/op_bench.h"
#include "rates/transfer_bench.h"

namespace tessera::host {
namespace {

/// Opens the CPU besides the job's device if something runs on it.
std::unique_ptr<Device> open_cpu(const Job& job, const RatesRank& rank, int num_threads, const HostServices& host) {
  if (job.computes_on_host()) return nullptr;
  return std::make_unique<Device>(DeviceSetup{job.plugins.cpu.device(), job.options.cpu.values(),
                                              static_cast<uint32_t>(rank.local_rank),
                                              static_cast<uint32_t>(num_threads), host.of(job.plugins.cpu)});
}

/// For each group size of the program, the ranks are divided into groups of neighbors.
std::vector<CollectiveRates> measure_groups(const Job& job, const Program& step, const RatesRank& rank,
                                            const Device& device, const KernelLoad& compute) {
  std::vector<CollectiveRates> rates;
  for (const int size : group_sizes(step)) {
    const int first = rank.rank / size * size;
    GroupMember member{rank.rank - first, {}, concat("groups of ", size, "/", first)};
    for (int i = 0; i < size; ++i)
      member.world_ranks.push_back(first + i);
    CollectiveGroup group(rank.communicator, device, member);
    rates.push_back(measure_collectives(group, step, job.plugins.communicator->name, compute));
    rank.barrier();
  }
  return rates;
}

}  // namespace

std::string time_of_measurement() {
  const std::time_t time = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&time, &utc);
  return concat(std::put_time(&utc, "%Y-%m-%dT%H:%M:%SZ"));
}

Rates measure_rates(const Job& job, const RankPrograms& programs, const RatesRank& rank, const Log& log) {
  const HostServices host(log, rank.store);
  const Program& step = programs.steps[0];
  Rates rates;
  rates.device = job.plugins.device.name;
  rates.measured = time_of_measurement();
  rates.num_threads = threads_per_rank(job.config, rank.num_local_ranks);
  const Device device({job.plugins.device.device(), job.options.device.values(), static_cast<uint32_t>(rank.local_rank),
                       static_cast<uint32_t>(rates.num_threads), host.of(job.plugins.device)});
  const std::unique_ptr<Device> cpu = open_cpu(job, rank, rates.num_threads, host);
  test_device(device, job.config.start_timeout_ms);
  OpBench ops(device, step, OpBench::Where::device);
  if (rank.num_ranks > 1) rank.barrier();
  {
    Progress progress(log, "measuring ops");
    rates.ops = ops.measure(&progress);
  }
  if (OpBench on_host(cpu ? *cpu : device, step, OpBench::Where::host); !on_host.is_empty())
    std::ranges::move(on_host.measure(nullptr), std::back_inserter(rates.ops));
  log.info("measured ", rates.ops.size(), " ops; copies follow");
  rates.copies = measure_copies(device, ops.load());
  if (rank.num_ranks > 1) {
    log.info("collectives follow");
    rank.barrier();
    rates.collectives = measure_groups(job, step, rank, job.staged.collectives ? *cpu : device, ops.load());
  }
  if (job.config.offload_dirs.empty()) return rates;
  log.info("files in --offload-dir follow");
  const FileStoreOptions files = {job.config.offload_dirs, 0, job.config.offload_io, job.config.offload_check,
                                  job.config.timeout_ms};
  rates.files = measure_files(files, job.config.offload_chunk, ops.load(), log);
  return rates;
}

}  // namespace tessera::host
