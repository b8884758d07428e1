// What is measured is what a step does: the kernels that the device prepares for the program's own actions, the store
// that keeps what offload moves, with the options that the job gives.

#include "rates/measure.h"

#include <algorithm>
#include <ctime>
#include <iomanip>
#include <thread>

#include "base/concat.h"
#include "base/progress.h"
#include "exec/self_test/test_device.h"
#include "plugins/host_services.h"
#include "rates/op_bench.h"
#include "rates/transfer_bench.h"

namespace tessera::host {
namespace {

std::string now() {
  const std::time_t time = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&time, &utc);
  return concat(std::put_time(&utc, "%Y-%m-%dT%H:%M:%SZ"));
}

}  // namespace

int threads_of_a_rank(const Job& job) {
  if (job.config.threads > 0) return job.config.threads;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / job.mesh.num_ranks());
}

Rates measure_rates(const Job& job, const RankPrograms& programs, const Log& log) {
  const HostServices host(log);
  Rates rates;
  rates.device = job.plugins.device.name;
  rates.measured = now();
  rates.num_threads = threads_of_a_rank(job);
  const Device device({job.plugins.device.device(), job.options.device.values(), 0,
                       static_cast<uint32_t>(rates.num_threads), host.of(job.plugins.device)});
  test_device(device, job.config.start_timeout_ms);
  OpBench ops(device, programs.steps[0]);
  {
    Progress progress(log, "measuring ops");
    rates.ops = ops.measure(&progress);
  }
  log.info("measured ", rates.ops.size(), " ops; copies follow");
  rates.copies = measure_copies(device, ops);
  if (job.config.offload_dirs.empty()) return rates;
  log.info("files in --offload-dir follow");
  const FileStoreOptions files = {job.config.offload_dirs, 0, job.config.offload_io, job.config.offload_check,
                                  job.config.timeout_ms};
  rates.files = measure_files(files, job.config.offload_chunk, ops, log);
  return rates;
}

}  // namespace tessera::host
