// `tessera plan`: compiles the programs of all ranks as `train` would, verifies them, and prints a report, or the
// outputs that flags ask for instead of it. The exit code is 1 if verification or --device-memory would stop the run.
//
//     flags -> job -> programs of one rank of each class -> verify -> --print-program
//                                                                  -> --verify, --schedule, --trace, --svg
//                                                                  -> else the report, or --json
//                                                      -> what does not fit, and flags that would
//
// The answer is that of a run: `train` compiles the same programs with the same code.

#include <iostream>
#include <optional>

#include "base/concat.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cli/flags_help_text.h"
#include "cli/outputs.h"
#include "config/settings/take_settings.h"
#include "config/usage_error.h"
#include "plan/advice/memory_advisor.h"
#include "plan/drawing/step_svg.h"
#include "plan/pipeline_schedule.h"
#include "plan/plan_report.h"
#include "plan/step_events.h"
#include "plan/verification.h"
#include "program/program_text.h"
#include "record/resolved_config.h"
#include "trace/comparison.h"
#include "trace/read_trace.h"

namespace tessera::host {
namespace {

void print_programs(const JobPlan& planned, int rank) {
  const RankPrograms shown = planned.compile(rank);
  for (const Program* program : shown.all())
    std::cout << print_program(*program) << '\n';
}

void print_schedule(const JobPlan& planned) {
  const JobPrograms& programs = planned.programs();
  const auto schedule = pipeline_schedule(planned.job().mesh, programs.classes,
                                          [&](int rank) -> const Program& { return programs.of(rank).steps[0]; });
  std::cout << (schedule
                    ? schedule_text(*schedule)
                    : "this plan has no pipeline: no axis with two or more ranks has a strategy that splits layers\n");
}

StepCost cost_of(const JobPlan& planned, const PlanFlags& flags) {
  return as_usage([&] { return flags.rates.empty() ? StepCost(planned) : StepCost(planned, flags.rates); });
}

/// Draws the step as simulated and, given a trace, as it ran.
void draw_svg(const JobPlan& planned, const std::string& path, const StepCost& cost, const Trace* measured) {
  const Simulation simulation = as_usage([&] { return cost.simulate_step(planned.job().mesh, planned.programs()); });
  const std::string drawing =
      step_svg(planned.job().mesh, planned.programs(), {simulation, cost.source(), cost.caveat(), measured});
  if (is_standard_output(path)) {
    std::cout << drawing;
    return;
  }
  write_svg(planned.job(), path, drawing);
  const size_t num_classes = planned.programs().classes.members().size();
  if (num_classes == 1)
    std::cout << "drew a step, which is the same on all ranks, in " << path << '\n';
  else
    std::cout << "drew a step of each of the " << num_classes << " ranks that differ in " << path << '\n';
}

/// Predicted against measured, per kind of action.
void compare(const JobPlan& planned, const StepCost& cost, const Trace& measured, const std::string& path) {
  const ProgramOf program = [&](int rank) -> const Program& { return planned.programs().of(rank).steps[0]; };
  const Simulation simulation = as_usage([&] { return cost.simulate_step(planned.job().mesh, planned.programs()); });
  const TraceSummary predicted = summarize(simulated_trace(planned.job().mesh, program, simulation));
  const TraceSummary traced = summarize(measured);
  as_usage([&] { check_same_program(predicted, traced, path); });
  std::cout << "predicted " << cost.source() << '\n'
            << (cost.caveat().empty() ? "" : concat("  (", cost.caveat(), ")\n")) << "measured in steps "
            << traced.first_step << " to " << traced.last_step << " of " << printable(measured.job) << ", in " << path
            << "\n\n"
            << comparison_text(predicted, traced);
}

/// Prints what flags ask for instead of the report; false if none does.
bool draw(const JobPlan& planned, const PlanFlags& flags) {
  if (flags.verify) std::cout << verification_text(summarize_verification(planned));
  if (flags.schedule) print_schedule(planned);
  const bool simulates = !flags.svg.empty() || !flags.trace.empty();
  if (simulates) {
    const StepCost cost = cost_of(planned, flags);
    std::optional<Trace> measured;
    if (!flags.trace.empty()) {
      measured = as_usage([&] { return read_trace(flags.trace, "--trace"); });
      compare(planned, cost, *measured, flags.trace);
    }
    if (!flags.svg.empty()) draw_svg(planned, flags.svg, cost, measured ? &*measured : nullptr);
  }
  return flags.verify || flags.schedule || simulates;
}

int plan_job(const ParsedFlags& flags) {
  const Log log(parse_log_level(flags.config.log_level));
  const int num_ranks = std::max(1, requested_world(flags.config));
  if (flags.plan.rank >= num_ranks)
    throw UsageError(concat("rank ", flags.plan.rank, " does not exist; the job has ",
                            num_ranks == 1 ? "rank 0 alone" : concat("the ranks 0 to ", num_ranks - 1)));
  Job job = make_job(flags, num_ranks, log);
  if (flags.print_config) {
    std::cout << resolved_config(job, threads_per_rank(job.config, num_ranks));
    return 0;
  }
  job.evaluates = true;  // a plan shows and verifies every program that a job can run
  if (!flags.plan.svg.empty()) check_svg(job, flags);
  const JobPlan planned = with_offers(job, log, [&] { return JobPlan(job, log); });
  if (const auto fault = fault_of(planned.input(), planned.programs())) throw *fault;
  if (flags.plan.print_program) {
    print_programs(planned, std::max(0, flags.plan.rank));
  }
  std::optional<MemoryShortfall> shortfall;
  if (flags.plan.print_program || draw(planned, flags.plan)) {
    shortfall = find_shortfall(planned.job(), planned.programs(), log);
  } else {
    PlanReport report = plan_report(planned, flags.plan.rank);
    // JSON must not vary from one call to the next, so it has no estimate.
    if (!flags.plan.as_json || !flags.plan.rates.empty())
      as_usage([&] { predict_time(report, planned, flags.plan.rates); });
    std::cout << (flags.plan.as_json ? plan_json(report) + "\n" : plan_text(report));
    shortfall = report.shortfall;
  }
  if (!shortfall) return 0;
  std::cout.flush();  // the answer comes first, and what would fit stays on the screen
  print_error(shortfall_text(*shortfall));
  return 1;
}

}  // namespace

int plan_command(std::span<const std::string> arguments) {
  const ParsedFlags flags = parse_flags(FlagSet::plan, arguments);
  if (flags.help) {
    std::cout << flags_help_text(flags);
    return 0;
  }
  return naming_origin(flags, [&] { return plan_job(flags); });
}

}  // namespace tessera::host
