// One rank's offload policies.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "guard/plugin_calls.h"
#include "job/job.h"
#include "program/offload_policy.h"

namespace tessera::host {

/// One rank's instances of the job's offload policies.
class JobPolicies {
 public:
  /// Throws UsageError for options that a policy refuses.
  JobPolicies(const Job& job, const HostServices& host);
  /// In the order of --offload.
  std::span<const OffloadPolicy> all() const { return policies_; }

 private:
  struct Destroy {
    const tsr_offload_interface* interface = nullptr;
    void operator()(tsr_offload* policy) const noexcept { end_with(interface->destroy, policy); }
  };
  std::vector<std::unique_ptr<tsr_offload, Destroy>> instances_;
  std::vector<OffloadPolicy> policies_;
};

}  // namespace tessera::host
