// The bound of a step, T >= max(C1, in1, out1, files1) + max(C2, H2, in2, out2, files2), adds up what the simulation
// lets overlap: it is what would be left if every copy ran beside compute without loss and without waiting.

#include "plan/prediction/prediction.h"

#include <algorithm>

#include "plan/prediction/costs.h"

namespace tessera::host {
namespace {

/// What a phase does with files.
struct FileTime {
  double read_seconds = 0, write_seconds = 0;
};

void add(PhaseTime& time, FileTime& files, Resource resource, double seconds) {
  switch (resource) {
    case Resource::none:
      break;
    case Resource::compute:
      time.compute_seconds += seconds;
      break;
    case Resource::host:
      time.host_seconds += seconds;
      break;
    case Resource::copy_in:
      time.in_seconds += seconds;
      break;
    case Resource::copy_out:
      time.out_seconds += seconds;
      break;
    case Resource::file_read:
      files.read_seconds += seconds;
      break;
    case Resource::file_write:
      files.write_seconds += seconds;
      break;
    case Resource::link:
      time.link_seconds += seconds;
      break;
  }
}

/// The time of each phase of a step.
std::array<PhaseTime, kMovePhases.size()> phase_times(const Program& step, const Costs& costs, const Rates& rates) {
  std::array<PhaseTime, kMovePhases.size()> times;
  std::array<FileTime, kMovePhases.size()> files;
  const Moved moved = moved_in(step);
  const std::vector<MovePhase> phases = move_phases_of(step);
  for (size_t i = 0; i < step.actions.size(); ++i) {
    const auto phase = static_cast<size_t>(phases[i]);
    const Action& action = step.actions[i];
    add(times[phase], files[phase], resource_of(step, action), costs.seconds(step, action));
  }
  if (!rates.files) return times;
  for (const MovePhase phase : kMovePhases) {
    const FileTime& file = files[static_cast<size_t>(phase)];
    const MovedBytes& bytes = moved.of(phase);
    const auto num_bytes = static_cast<double>(bytes.file_read_bytes + bytes.file_written_bytes);
    times[static_cast<size_t>(phase)].file_seconds =
        std::max({file.read_seconds, file.write_seconds, num_bytes / rates.files->both_bytes_per_second});
  }
  return times;
}

}  // namespace

double PhaseTime::bound() const {
  return std::max({compute_seconds, host_seconds, in_seconds, out_seconds, file_seconds, link_seconds});
}

double Prediction::bound() const {
  double sum = 0;
  for (const PhaseTime& phase : phases)
    sum += phase.bound();
  return sum;
}

Prediction predict(const JobPlan& planned, int rank, const StepCost& cost) {
  Prediction prediction;
  prediction.step_seconds = cost.step_seconds(planned);
  prediction.phases = phase_times(most_moving_step(planned.programs().of(rank)), *cost.costs(), *cost.rates());
  return prediction;
}

}  // namespace tessera::host
