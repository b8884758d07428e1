// Live memory as a text chart. A column of several actions shows their maximum, so that the peak of one action does not
// vanish in an average.
//
//          2.0 MiB |        ########
//          1.0 MiB |========================
//                   |- forward -| backward -
//
// A column has the phase of its first action.

#include "plan/timeline.h"

#include <algorithm>

#include "base/concat.h"

namespace tessera::host {
namespace {

/// All labels of an axis in one unit.
std::string label(double num_bytes, uint64_t peak) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  double scale = 1;
  for (; static_cast<double>(peak) / scale >= 1024 && unit + 1 < kUnits.size(); ++unit)
    scale *= 1024;
  return format("%8.1f %-3s |", num_bytes / scale, kUnits[unit]);
}

/// "|- forward --" of that many characters; where the name does not fit, its first letter repeated.
std::string phase_mark(Phase phase, size_t width) {
  const std::string name(to_string(phase));
  if (width < name.size() + 4) return std::string(width, name[0]);
  std::string mark = "|" + std::string((width - name.size() - 3) / 2, '-') + " " + name + " ";
  mark.resize(width, '-');
  return mark;
}

}  // namespace

std::string_view to_string(Phase phase) {
  constexpr std::array<std::string_view, 3> kNames = {"forward", "backward", "optimizer"};
  return kNames[static_cast<size_t>(phase)];
}

std::vector<Phase> phases_of(const Program& program) {
  std::vector<Phase> phases;
  Phase phase = Phase::forward;
  for (const Action& action : program.actions) {
    if (action.kind == TSR_ACTION_FORWARD)
      phase = Phase::forward;
    else if (is_compute(action.kind))
      phase = Phase::backward;
    else if (action.kind == TSR_ACTION_CLIP || action.kind == TSR_ACTION_OPTIMIZER)
      phase = Phase::optimizer;
    phases.push_back(phase);
  }
  return phases;
}

std::vector<PhaseRun> phase_runs(const std::vector<Phase>& phases) {
  std::vector<PhaseRun> runs;
  for (size_t i = 0; i < phases.size(); ++i) {
    if (runs.empty() || runs.back().phase != phases[i]) runs.push_back({phases[i], i, 0});
    ++runs.back().num_actions;
  }
  return runs;
}

std::string timeline_chart(const std::vector<uint64_t>& live, uint64_t state_bytes, const std::vector<Phase>& phases,
                           size_t width, size_t height) {
  if (live.empty()) return "";
  width = std::min(width, live.size());
  const auto begin_of = [&](size_t column) { return column * live.size() / width; };
  std::vector<uint64_t> columns;
  std::vector<Phase> column_phases;
  for (size_t c = 0; c < width; ++c) {
    columns.push_back(*std::max_element(live.begin() + begin_of(c), live.begin() + begin_of(c + 1)));
    column_phases.push_back(phases[begin_of(c)]);
  }
  const uint64_t peak = *std::ranges::max_element(live);
  std::string chart;
  for (size_t row = height; row > 0; --row) {
    const double step = static_cast<double>(peak) / static_cast<double>(height);
    // A cell is drawn if the bytes reach its middle.
    const double top = step * static_cast<double>(row), middle = top - step / 2;
    chart += label(top, peak);
    for (const uint64_t bytes : columns)
      chart += static_cast<double>(bytes) < middle ? ' ' : static_cast<double>(state_bytes) < middle ? '#' : '=';
    chart.erase(chart.find_last_not_of(' ') + 1);
    chart += '\n';
  }
  chart += std::string(14, ' ');
  for (const PhaseRun& run : phase_runs(column_phases))
    chart += phase_mark(run.phase, run.num_actions);
  return chart + '\n';
}

}  // namespace tessera::host
