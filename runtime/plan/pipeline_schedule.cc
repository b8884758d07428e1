// `plan --schedule`: simulates the programs with costs of one slot for a forward and two for a backward, and draws
// which stage computes when (2 stages, 3 micro-batches):
//
//     rank 0    | F0 F1 .  .  B0 B0 F2 B1 B1 .  B2 B2
//     rank 1    | .  F0 B0 B0 F1 B1 B1 F2 B2 B2 .  .
//
// No schedule is built in: a stage's actions are found in the programs, so third-party schedules are drawn as well, and
// a bubble that differs from the formula shows. The cost of a stage's action is that of its first program action; the
// others take no time.

#include "plan/pipeline_schedule.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_map>

#include "base/concat.h"

namespace tessera::host {
namespace {

/// The stage actions in one program, each at its first action.
class StageActions {
 public:
  explicit StageActions(const Program& program) {
    find_chunks(program);
    std::set<StageAction> seen;
    for (const Action& action : program.actions) {
      if (!is_compute(action.kind) || action.kind == TSR_ACTION_RECOMPUTE) continue;
      const StageAction item{action.kind == TSR_ACTION_FORWARD, action.micro_batch, chunk_of_[action.segment]};
      if (seen.insert(item).second) at_.emplace(action.id, item);
    }
  }

  int num_chunks() const { return num_chunks_; }
  const StageAction* at(const Action& action) const {
    const auto found = at_.find(action.id);
    return found == at_.end() ? nullptr : &found->second;
  }

 private:
  /// A chunk is a range of consecutive segments.
  void find_chunks(const Program& program) {
    std::set<int> computed;
    for (const Action& action : program.actions)
      if (is_compute(action.kind)) computed.insert(action.segment);
    for (const int segment : computed) {
      // Chunks of a stage are never adjacent: the next chunk is on the next stage.
      if (!computed.contains(segment - 1)) ++num_chunks_;
      chunk_of_[segment] = num_chunks_ - 1;
    }
  }

  int num_chunks_ = 0;
  std::unordered_map<int, int> chunk_of_;
  std::unordered_map<uint64_t, StageAction> at_;
};

int layer_axis(const Mesh& mesh) {
  const auto found = std::ranges::find_if(
      mesh.axes(), [](const Axis& axis) { return axis.splits == TSR_SPLITS_LAYERS && axis.num_ranks > 1; });
  return found == mesh.axes().end() ? -1 : static_cast<int>(found - mesh.axes().begin());
}

PipelineSchedule::Stage stage_of(const Program& program, int rank, const StageActions& items,
                                 const std::vector<Interval>& intervals, size_t num_slots) {
  PipelineSchedule::Stage stage{rank, std::vector<std::vector<StageAction>>(num_slots)};
  for (size_t i = 0; i < program.actions.size(); ++i)
    if (const StageAction* item = items.at(program.actions[i]))
      for (auto slot = std::lround(intervals[i].start); slot < std::lround(intervals[i].end); ++slot)
        stage.actions_by_slot[static_cast<size_t>(slot)].push_back(*item);
  return stage;
}

std::string label(const StageAction& item, bool has_chunks) {
  return concat(item.is_forward ? "F" : "B", item.micro_batch, has_chunks ? concat(".", item.chunk) : "");
}

std::string row(const PipelineSchedule::Stage& stage, bool has_chunks, size_t width) {
  std::string text = format("rank %-5d|", stage.rank);
  for (const auto& items : stage.actions_by_slot) {
    std::string cell = items.empty() ? "." : label(items.front(), has_chunks);
    cell.resize(width, ' ');
    text += " " + cell;
  }
  text.erase(text.find_last_not_of(' ') + 1);
  return text + "\n";
}

}  // namespace

double PipelineSchedule::bubble() const {
  size_t num_idle = 0, num_slots = 0;
  for (const Stage& stage : stages) {
    num_slots += stage.actions_by_slot.size();
    num_idle +=
        static_cast<size_t>(std::ranges::count_if(stage.actions_by_slot, [](const auto& s) { return s.empty(); }));
  }
  return num_slots ? static_cast<double>(num_idle) / static_cast<double>(num_slots) : 0;
}

double PipelineSchedule::expected_bubble() const {
  const auto fill = static_cast<double>(stages.size()) - 1;
  return fill / (static_cast<double>(num_chunks) * num_micro_batches + fill);
}

std::optional<PipelineSchedule> pipeline_schedule(const Mesh& mesh, const RankClasses& classes,
                                                  const ProgramOf& program) {
  const int axis = layer_axis(mesh);
  if (axis < 0) return std::nullopt;
  std::unordered_map<const Program*, StageActions> items;
  for (const auto& [rank, members] : classes.members())
    items.try_emplace(&program(rank), program(rank));
  const Simulation simulation = simulate(mesh, classes, program, [&](const Program& own, const Action& action) {
    const StageAction* item = items.at(&own).at(action);
    return !item ? 0.0 : item->is_forward ? kForwardSlots : kBackwardSlots;
  });
  PipelineSchedule schedule{mesh.axes()[axis].name, static_cast<int>(program(0).step_config.num_micro_batches), 1, {}};
  const auto num_slots = static_cast<size_t>(std::lround(simulation.end()));
  for (const int rank : mesh.members({axis, {}}, mesh.coordinates(0))) {
    const Program& own = program(rank);
    schedule.stages.push_back(stage_of(own, rank, items.at(&own), simulation.of(rank), num_slots));
    schedule.num_chunks = std::max(schedule.num_chunks, items.at(&own).num_chunks());
  }
  return schedule;
}

std::string schedule_text(const PipelineSchedule& s) {
  const size_t p = s.stages.size();
  const bool has_chunks = s.num_chunks > 1;
  std::string text = concat("pipeline over axis ", s.axis, ": ", p, " stages, ", s.num_micro_batches, " micro-batches",
                            has_chunks ? concat(", ", s.num_chunks, " chunks per stage") : "", "\n",
                            "a column is a slot: a forward (F) takes ", kForwardSlots, ", a backward (B) ",
                            kBackwardSlots, ", moving data none; the number is the micro-batch",
                            has_chunks ? ", after the dot the chunk" : "", "; '.' is idle\n");
  const size_t width = label({true, s.num_micro_batches - 1, s.num_chunks - 1}, has_chunks).size();
  for (const PipelineSchedule::Stage& stage : s.stages)
    text += row(stage, has_chunks, width);
  const bool agree = std::abs(s.bubble() - s.expected_bubble()) < 1e-9;
  return text + format("bubble: %.1f %% of the slots are idle; ", 100 * s.bubble()) +
         format("with p = %zu, m = %d, v = %d, (p-1)/(v m + p-1) is %.1f %%", p, s.num_micro_batches, s.num_chunks,
                100 * s.expected_bubble()) +
         (agree ? "\n" : ": this schedule differs\n");
}

}  // namespace tessera::host
