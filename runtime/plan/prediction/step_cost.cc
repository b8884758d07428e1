// Where the numbers of a simulated step come from, in a sentence that reports show, since a step time without its
// source is worth nothing:
//
//     --rates A,B      measured times of every op, copy and collective (costs.h)
//     on a processor   a product and a copy, timed now: a roofline (simulate.cc)
//     other devices    the same with assumed rates

#include "plan/prediction/step_cost.h"

#include <set>

#include "base/concat.h"
#include "config/text_values.h"
#include "rates/op_rate.h"
#include "rates/quick_rates.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

constexpr std::string_view kAssumed = "assumed rates, not this machine's";

/// "43.1 Gflop/s", "100 Tflop/s": three digits that count.
std::string rate_text(double per_second, const char* unit) {
  const bool is_tera = per_second >= 1e12;
  return format("%.3g ", per_second * (is_tera ? 1e-12 : 1e-9)) + (is_tera ? "T" : "G") + unit;
}

/// What a step computes by ops that the rates do not have: an average rate says little of them.
void warn_of_unmeasured(const JobPlan& planned, const Costs& costs, const std::string& rates_file) {
  const Program& step = planned.programs().of(0).steps[0];
  std::set<std::string> unknown;
  double all_seconds = 0, unknown_seconds = 0;
  for (const Action& action : step.actions) {
    const Resource resource = resource_of(step, action);
    if (resource != Resource::compute && resource != Resource::host) continue;
    const OpRate op = unmeasured(step, action);
    const double seconds = costs.seconds(step, action);
    all_seconds += seconds;
    if (costs.is_measured(op)) continue;
    unknown_seconds += seconds;
    unknown.insert(op.op);
  }
  if (unknown.empty() || all_seconds <= 0) return;
  planned.log().warning("--rates ", rates_file, " has no time of ", counted(unknown.size(), "op"), " of the step (",
                        *unknown.begin(), unknown.size() == 1 ? ")" : " and others)", ", which take ",
                        format("%.0f %%", 100 * unknown_seconds / all_seconds),
                        " of its compute by an average rate of the other ops; run tessera bench rates with the flags "
                        "of this job");
}

}  // namespace

StepCost::StepCost(const JobPlan& planned, const std::string& rates_file) {
  std::vector<std::string> files;
  for (const std::string_view file : split(rates_file, ','))
    files.emplace_back(file);
  rates_ = std::make_shared<Rates>(read_all_rates(files));
  costs_ = std::make_shared<Costs>(*rates_);
  if (rates_->ops.empty())
    throw Error(TSR_E_INVALID_ARGUMENT,
                concat("--rates ", rates_file, " has no ops; add a file of tessera bench rates or bench device"));
  const std::string& device = planned.job().plugins.device.name;
  if (rates_->device != device)
    throw Error(TSR_E_INVALID_ARGUMENT,
                concat("--rates ", rates_file, " was measured on --device ", printable(rates_->device),
                       ", but the plan is for --device ", device, "; measure that one"));
  const int num_threads = planned.job().config.threads;
  if (num_threads > 0 && num_threads != rates_->num_threads)
    planned.log().warning("--rates ", rates_file, " was measured with ", counted(rates_->num_threads, "thread"),
                          ", not with --threads ", num_threads, "; the prediction is for the former");
  warn_of_unmeasured(planned, *costs_, rates_file);
  source_ = concat("by ", rates_file, " (measured ", printable(rates_->measured), ", ",
                   counted(rates_->num_threads, "thread"), ")");
}

StepCost::StepCost(const JobPlan& planned) {
  const auto quick = quick_rates(planned.job());
  // A byte that ranks of one machine send is read and written once.
  if (quick) rough_ = {quick->operations_per_second, quick->bytes_per_second, quick->bytes_per_second / 2};
  describe_rates(quick ? concat("rates of this machine, taken now with ", counted(quick->num_threads, "thread"))
                       : std::string(kAssumed));
}

StepCost::StepCost() {
  describe_rates(std::string(kAssumed));
}

void StepCost::describe_rates(const std::string& whose) {
  source_ = concat("by ", whose, ": ", rate_text(rough_.operations, "flop/s"), " of products, ",
                   rate_text(rough_.memory_bytes, "B/s"), " of memory, ", rate_text(rough_.link_bytes, "B/s"), " sent");
  caveat_ = "a rough estimate: for a prediction, measure every op with tessera bench rates and give --rates FILE";
}

Simulation StepCost::simulate_step(const Mesh& mesh, const JobPrograms& programs, size_t variant) const {
  const auto program_of = [&](int rank) -> const Program& { return programs.of(rank).steps[variant]; };
  if (!costs_)
    return simulate(mesh, programs.classes, program_of,
                    [&](const Program& p, const Action& a) { return estimated_seconds(p, a, rough_); });
  return simulate(
      mesh, programs.classes, program_of, [&](const Program& p, const Action& a) { return costs_->seconds(p, a); },
      {resource_of, [&](Resource resource, const ResourceSet& running) { return costs_->speed(resource, running); }});
}

double StepCost::step_seconds(const JobPlan& planned) const {
  const size_t num_variants = planned.programs().by_representative.begin()->second.steps.size();
  double seconds = 0;
  for (size_t variant = 0; variant < num_variants; ++variant)
    seconds += simulate_step(planned.job().mesh, planned.programs(), variant).end() / static_cast<double>(num_variants);
  return seconds;
}

}  // namespace tessera::host
