// Makes the instances of offload policies, as JobStrategies does those of strategies: each with its resolved options,
// so that what a policy refuses is known before anything is planned.

#include "job/job_policies.h"

#include <algorithm>

#include "config/usage_error.h"
#include "guard/process_state.h"
#include "tessera/error.hpp"

namespace tessera::host {

JobPolicies::JobPolicies(const Job& job, const HostServices& host) {
  for (size_t i = 0; i < job.plugins.offload.size(); ++i) {
    const LoadedPlugin& plugin = job.plugins.offload[i];
    const auto values = job.options.offload[i].values();
    const tsr_offload_create_args args{sizeof args, 0, host.of(plugin), values.data(), values.size()};
    OffloadPolicy policy{plugin.name, plugin.offload(), nullptr};
    try {
      policy.instance = create_by<tsr_offload>(true, policy.interface->create, &args);
    } catch (const Error& e) {
      throw UsageError(e.what() + see_options(plugin), e.code());
    }
    if (std::ranges::count(plugin.options, "update", &PluginOption::name))
      policy.host_flag = "--" + plugin.name + ".update=host";
    instances_.emplace_back(policy.instance, Destroy{policy.interface});
    policies_.push_back(std::move(policy));
  }
}

}  // namespace tessera::host
