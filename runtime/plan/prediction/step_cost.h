// The cost of a planned step's actions: from measured rates, or estimated without them.
#pragma once

#include <memory>
#include <string>

#include "plan/job_plan.h"
#include "plan/prediction/costs.h"
#include "plan/simulate.h"

namespace tessera::host {

/// The costs of one job's actions on one machine. All functions but the constructor are pure.
class StepCost {
 public:
  /// From the rates in these files, separated by commas. Throws what read_rates throws, and INVALID_ARGUMENT for rates
  /// of another device.
  StepCost(const JobPlan& planned, const std::string& rates_file);
  /// A rough estimate: where the job computes on the CPU, from a product and a copy that are timed now; else from
  /// MachineRates().
  explicit StepCost(const JobPlan& planned);
  /// A rough estimate from MachineRates(), whatever the machine.
  StepCost();

  /// For the end of a sentence: "by rates.json (measured 2026-11-20T10:00:00Z, 2 threads)".
  const std::string& source() const { return source_; }
  /// The limits of the estimate, as a sentence; empty for measured rates.
  const std::string& caveat() const { return caveat_; }
  Simulation simulate_step(const Mesh& mesh, const JobPrograms& programs, size_t variant = 0) const;
  /// The mean over the variants of the step.
  double step_seconds(const JobPlan& planned) const;
  /// The rates of the file and what follows from them; null for rough ones.
  const Rates* rates() const { return rates_.get(); }
  const Costs* costs() const { return costs_.get(); }

 private:
  void describe_rates(const std::string& whose);

  std::shared_ptr<const Rates> rates_;
  std::shared_ptr<const Costs> costs_;
  MachineRates rough_;
  std::string source_, caveat_;
};

}  // namespace tessera::host
