// A communicator may refuse its options only when it is created (an interface that does not exist). In a job every rank
// would then report that; creating it once for a group of one finds it out before.

#include "train/try_communicator.h"

#include <algorithm>

#include "config/usage_error.h"
#include "exec/device.h"
#include "guard/process_state.h"
#include "launch/memory_store.h"
#include "plan/job_plan.h"
#include "plugins/host_services.h"

namespace tessera::host {
namespace {

constexpr int64_t kTimeoutMs = 10'000;

bool has_options(const Job& job) {
  const std::string prefix = job.plugins.communicator->name + ".";
  return std::ranges::any_of(job.plugin_flags, [&](const PluginFlag& flag) { return flag.name.starts_with(prefix); });
}

}  // namespace

void try_communicator(const Job& job, const Log& log) {
  const auto& communicator = job.plugins.communicator;
  if (!communicator || !has_options(job) || !(job.computes_on_host() || job.staged.collectives)) return;
  const HostServices host(log, std::make_shared<MemoryStore>());
  const Device cpu({job.plugins.cpu.device(), job.options.cpu.values(), 0, 1, host.of(job.plugins.cpu)});
  const auto values = job.options.communicator.values();
  tsr_comm_create_args args{};
  args.struct_size = sizeof args;
  args.size = 1;
  args.is_local = 1;
  args.name = str("options");
  args.rendezvous = str("options");
  args.host = host.of(*communicator);
  args.device_interface = &cpu.api();
  args.device = cpu.handle();
  args.options = values.data();
  args.num_options = values.size();
  args.timeout_ms = kTimeoutMs;
  as_usage([&] {
    tsr_comm* const comm = create_by<tsr_comm>(false, communicator->communicator()->create, &args);
    end_with(communicator->communicator()->destroy, comm);
  });
}

}  // namespace tessera::host
