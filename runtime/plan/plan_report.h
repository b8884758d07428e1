// The report of `tessera plan`: memory and traffic of one rank, and how evenly the ranks share. Implemented in
// plan_report.cc, plan_text.cc and plan_json.cc.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/advice/memory_advisor.h"
#include "plan/balance.h"
#include "plan/job_plan.h"
#include "plan/moved.h"
#include "plan/prediction/prediction.h"
#include "plan/timeline.h"
#include "plan/traffic.h"

namespace tessera::host {

/// One program of the rank, in short.
struct ProgramSummary {
  std::string name;
  size_t num_actions = 0;
  uint64_t arena_bytes = 0;
};

/// Gradients under both values of --reduce-every; only with several micro-batches and ranks.
struct ReduceEveryCost {
  uint64_t step_gradient_bytes = 0, step_sent_bytes = 0;
  uint64_t micro_batch_gradient_bytes = 0, micro_batch_sent_bytes = 0;
};

/// How long a step takes, and how that is known.
struct StepEstimate {
  double seconds = 0;
  std::string source, caveat;  ///< as StepCost says
};

/// What decides whether the job fits, in bytes of memory of the device.
struct MemoryVerdict {
  uint64_t most_bytes = 0;     ///< the arena of the rank that needs the most
  uint64_t limit_bytes = 0;    ///< --device-memory; 0: not given
  uint64_t machine_bytes = 0;  ///< memory of this machine, where its processor computes; else 0
  uint64_t host_bytes = 0;     ///< what that rank needs of host memory besides
  uint64_t copy_bytes = 0;     ///< of these for the copy that --save-async writes
};

/// Where a prediction comes from.
struct RatesUsed {
  std::string file;
  std::string measured;  ///< when
  int num_threads = 1;
};

struct PlanReport {
  int rank = 0;
  int num_ranks = 1;
  bool is_largest = true;        ///< no rank needs more device memory
  std::vector<int> same_ranks;   ///< the ranks of its class, itself included
  std::string items = "tokens";  ///< the data of a step: "tokens" or "examples"
  int64_t tokens_per_step = 0;
  std::string device;             ///< the plugin that computes
  uint64_t arena_bytes = 0;       ///< of device memory
  uint64_t host_arena_bytes = 0;  ///< of host memory, for what leaves the device, staged collectives and calls
  uint64_t save_copy_bytes = 0;   ///< of host memory besides, for the copy that --save-async writes; 0 without it
  std::vector<ProgramSummary> programs;
  std::string peak_program;  ///< the one that `memory` describes
  MemoryReport memory;
  std::vector<PlaceUse> places;       ///< device memory first
  std::vector<std::string> policies;  ///< of offload, in the order in which they decide
  uint64_t chunk_bytes = 0;           ///< --offload-chunk
  Moved moved;                        ///< in a step
  std::string peak_action;            ///< as text; empty for a program without actions
  std::vector<Phase> phases;          ///< of each action
  size_t num_step_programs = 1;       ///< steps alternate between them
  std::string traffic_program;        ///< the one that sends the most, which `traffic` and `gathers` describe
  std::vector<Traffic> traffic;
  std::vector<UnitGathers> gathers;
  uint32_t reduce_every = TSR_EVERY_STEP;
  std::optional<ReduceEveryCost> reduce_every_cost;
  Balance balance;
  MemoryVerdict verdict;
  std::optional<MemoryShortfall> shortfall;
  std::optional<StepEstimate> estimate;
  bool is_long_to_estimate = false;      ///< so it was not: there are too many actions
  std::optional<RatesUsed> rates;        ///< with --rates
  std::optional<Prediction> prediction;  ///< with --rates
};

/// `rank` -1: the first of those that need the most memory.
PlanReport plan_report(const JobPlan& planned, int rank);
/// The same, but without the cost of the other --reduce-every, which takes a second planning of the job.
PlanReport plan_report(const Job& job, const JobPrograms& all, int rank, const Log& log);
/// Adds the time of a step: with `rates_files` as predict() finds it, else (empty) an estimate. Throws what StepCost
/// and predict throw.
void predict_time(PlanReport& report, const JobPlan& planned, const std::string& rates_files);

/// The report as text, and as one JSON object (docs/plan.md).
std::string plan_text(const PlanReport& report);
std::string plan_json(const PlanReport& report);

}  // namespace tessera::host
