// The bound of a step is what would be left if every copy ran beside compute and nothing waited: the sum over the
// phases of max(C, H, in, out, files, link). Compute C and copies F that lose speed beside one another, of which c and
// f are left, take longer: x seconds side by side do cx and fx of them, the rest runs alone, so
//
//     T = x + (C - cx) + (F - fx) = C + F - (c + f - 1) x,    x <= min(C/c, F/f)
//
// which is least at the largest x, and max(C, F) where nothing is lost (c = f = 1).
//
// Collectives of one stream run one after another; those of two streams, such as gradients and scalars, may run side by
// side, and beside the compute of the phase after. How much a link slows compute, and the reverse, is left out: which
// rank it slows depends on the schedule.

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
    const Resource resource = resource_of(step, action);
    const double seconds = costs.seconds(step, action);
    add(times[phase], files[phase], resource, seconds);
    if (resource == Resource::link) times[phase].link_seconds_by_stream[action.stream] += seconds;
  }
  for (PhaseTime& time : times) {
    if (rates.copies) time.beside_copies = rates.copies->beside_compute;
    if (rates.files) time.beside_files = rates.files->beside_compute;
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

/// The least time of both, T above.
double overlapped(double compute_seconds, double copy_seconds, const Together& kept) {
  const double won = std::max(0.0, kept.compute + kept.copies - 1);
  if (won == 0) return compute_seconds + copy_seconds;
  return compute_seconds + copy_seconds - won * std::min(compute_seconds / kept.compute, copy_seconds / kept.copies);
}

}  // namespace

double PhaseTime::bound_without_link() const {
  return std::max({host_seconds, overlapped(compute_seconds, std::max(in_seconds, out_seconds), beside_copies),
                   overlapped(compute_seconds, file_seconds, beside_files)});
}

double PhaseTime::bound_of_link() const {
  double most = 0;
  for (const auto& [stream, seconds] : link_seconds_by_stream)
    most = std::max(most, seconds);
  return most;
}

double PhaseTime::bound() const {
  return std::max(bound_without_link(), bound_of_link());
}

PhaseTime operator+(const PhaseTime& a, const PhaseTime& b) {
  PhaseTime sum = a;
  sum.compute_seconds += b.compute_seconds, sum.host_seconds += b.host_seconds;
  sum.in_seconds += b.in_seconds, sum.out_seconds += b.out_seconds;
  sum.file_seconds += b.file_seconds, sum.link_seconds += b.link_seconds;
  for (const auto& [stream, seconds] : b.link_seconds_by_stream)
    sum.link_seconds_by_stream[stream] += seconds;
  return sum;
}

double Prediction::bound() const {
  const PhaseTime &forward = of(MovePhase::forward), &backward = of(MovePhase::backward);
  const PhaseTime both = forward + backward;
  const double on_rank =
      micro_batches_overlap ? both.bound_without_link() : forward.bound_without_link() + backward.bound_without_link();
  return std::max(on_rank, both.bound_of_link()) + of(MovePhase::update).bound();
}

Prediction predict(const JobPlan& planned, int rank, const StepCost& cost) {
  Prediction prediction;
  prediction.step_seconds = cost.step_seconds(planned);
  const Program& step = most_moving_step(planned.programs().of(rank));
  prediction.phases = phase_times(step, *cost.costs(), *cost.rates());
  prediction.micro_batches_overlap = have_overlapping_micro_batches(step);
  return prediction;
}

}  // namespace tessera::host
