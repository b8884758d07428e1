// `plan --svg`: a simulated step as an SVG file on its own: a rectangle with a tool tip for each action, and a path for
// live memory. Time is scaled to a fixed width, so a step of any length fits. One rank of each class is drawn. If the
// trace has that rank, the measured step is drawn below: the traced step whose time is nearest to the mean.
//
//     time               0 ms      10 ms     20 ms     30 ms
//     compute            |ffff|ffff|    |bbbbbbbb|bbbbbbbb|oo|
//       run              |fffff|ffff|     |bbbbbbb|bbbbbbbb|oo|
//     comm.dp.gradient                       |cccc|   |cccc|
//     live memory        /////^^^^^^^^^^^^^\\\____
//
// The file is complete in itself: styles are in it, and nothing is loaded. `y_` grows as parts are written, so the
// height is known at the end. All ranks have the same scales, of time and of memory, to be compared by eye.

#include "plan/drawing/step_svg.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "base/concat.h"
#include "memory/first_fit.h"
#include "plan/drawing/colors.h"
#include "plan/drawing/svg_text.h"
#include "plan/memory_report.h"
#include "trace/summary.h"
#include "verify/diagnostics.h"

namespace tessera::host {
namespace {

// In pixels. `kLeft` leaves room for the names of streams.
constexpr double kLeft = 190, kTimeWidth = 1400, kRight = 60, kRow = 18, kBar = 14, kMemoryHeight = 72;
constexpr double kGap = 14, kTitleHeight = 64, kLegendHeight = 26, kAxisHeight = 18;
constexpr int kTimeTicks = 12, kMemoryTicks = 4;

constexpr std::string_view kTitle = "<title>One step of Tessera</title>";

/// Device memory of a rank over simulated time: a transient buffer is alive from the start of the first action that
/// binds it to the end of the last.
std::map<double, uint64_t> live_over_time(const Program& program, const std::vector<Interval>& intervals) {
  std::map<uint64_t, Interval> lives;
  for (size_t i = 0; i < program.actions.size(); ++i)
    for (const Binding& binding : program.actions[i].bindings) {
      Interval& life = lives.try_emplace(binding.buffer, intervals[i]).first->second;
      life = {std::min(life.start, intervals[i].start), std::max(life.end, intervals[i].end)};
    }
  uint64_t states = 0;
  // What begins and what ends at one time are summed, so that a buffer which takes over from another makes no spike.
  std::map<double, int64_t> changes;
  for (const Buffer& buffer : program.buffers) {
    if (buffer.memory != TSR_MEMORY_DEVICE) continue;
    const uint64_t num_bytes = footprint_bytes(buffer, 0);
    const auto life = lives.find(buffer.id);
    if (buffer.persistent) states += num_bytes;
    if (buffer.persistent || life == lives.end()) continue;
    changes[life->second.start] += static_cast<int64_t>(num_bytes);
    changes[life->second.end] -= static_cast<int64_t>(num_bytes);
  }
  std::map<double, uint64_t> live{{0, states}};
  for (const auto& [time, change] : changes)
    live[time] = states = static_cast<uint64_t>(static_cast<int64_t>(states) + change);
  return live;
}

/// The measured step, from its beginning: by rank, then by name of stream.
class MeasuredStep {
 public:
  explicit MeasuredStep(const Trace& trace) {
    std::map<int64_t, Interval> steps;
    for (const TracedAction& action : trace.actions) {
      const Interval own = {static_cast<double>(action.begin_ns), static_cast<double>(action.end_ns)};
      Interval& step = steps.try_emplace(action.step, own).first->second;
      step = {std::min(step.start, own.start), std::max(step.end, own.end)};
    }
    // The step whose length is nearest to the mean represents the others; the first is slow, and the fastest is luck.
    const double mean = summarize(trace).mean_step_seconds() * 1e9;
    const auto distance = [&](const auto& step) { return std::abs(step.second.end - step.second.start - mean); };
    const auto nearest = std::ranges::min_element(steps, {}, distance);
    step_ = nearest->first;
    origin_ns_ = nearest->second.start;
    seconds_ = (nearest->second.end - nearest->second.start) * 1e-9;
    for (const TracedAction& action : trace.actions)
      if (action.step == step_) rows_[{action.rank, trace.streams[action.stream]}].push_back(&action);
  }

  int64_t step() const { return step_; }
  double seconds() const { return seconds_; }
  const std::vector<const TracedAction*>& row(int rank, const std::string& stream) const {
    static const std::vector<const TracedAction*> none;
    const auto found = rows_.find({rank, stream});
    return found == rows_.end() ? none : found->second;
  }
  Interval interval(const TracedAction& action) const {
    return {(static_cast<double>(action.begin_ns) - origin_ns_) * 1e-9,
            (static_cast<double>(action.end_ns) - origin_ns_) * 1e-9};
  }

 private:
  int64_t step_ = 0;
  double origin_ns_ = 0, seconds_ = 0;
  std::map<std::pair<int, std::string>, std::vector<const TracedAction*>> rows_;
};

class Drawing {
 public:
  Drawing(const Mesh& mesh, const JobPrograms& job, const DrawnStep& drawn)
      : job_(job), num_ranks_(mesh.num_ranks()), drawn_(drawn) {
    if (drawn.measured) measured_.emplace(*drawn.measured);
    end_ = std::max(simulated_, measured_ ? measured_->seconds() : 0);
    for (const auto& [rank, members] : job.classes.members()) {
      for (const Action& action : step(rank).actions)
        use(color_of(action.kind));
      live_[rank] = live_over_time(step(rank), drawn.simulation.of(rank));
      for (const auto& [time, bytes] : live_[rank])
        most_bytes_ = std::max(most_bytes_, bytes);
    }
    use(kIdle);
    use(kLiveMemory);
  }

  std::string run() {
    std::string drawn = title();
    drawn += legend();
    for (const auto& [rank, members] : job_.classes.members())
      drawn += draw_rank(rank, members);
    y_ += kGap;
    const double width = kLeft + kTimeWidth + kRight;
    return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n" +
           format(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" version=\"1.1\" width=\"%.0f\" height=\"%.0f\" "
               "viewBox=\"0 0 %.0f %.0f\">\n",
               width, y_, width, y_) +
           std::string(kTitle) + "\n" + style() +
           "<rect class=\"paper\" x=\"0\" y=\"0\" width=\"100%\" height=\"100%\"/>\n" + drawn + "</svg>\n";
  }

 private:
  const Program& step(int rank) const { return job_.of(rank).steps[0]; }
  double x(double seconds) const { return kLeft + (end_ > 0 ? seconds / end_ * kTimeWidth : 0); }

  void use(const Color& color) {
    if (std::ranges::find(used_, color) == used_.end()) used_.push_back(color);
  }

  std::string style() const {
    std::string text =
        "<style type=\"text/css\">text { font: 12px sans-serif; fill: #222222; } .small { font: 10px sans-serif; fill: "
        "#666666; } .end { text-anchor: end; } .mid { text-anchor: middle; } .paper { fill: #ffffff; } line { stroke: "
        "#dddddd; stroke-width: 1; }";
    for (const Color& color : used_)
      text += concat(" .", color.css_class, " { fill: ", color.fill, "; }");
    return text + "</style>\n";
  }

  std::string title() {
    y_ = kTitleHeight;
    std::string first = concat("One step: ", time_text(simulated_), " simulated");
    if (measured_)
      first +=
          concat(", ", time_text(measured_->seconds()), " in step ", measured_->step(), " of the run (rows \"run\")");
    first += concat(". Ranks that do the same are drawn once: ", job_.classes.members().size(), " of ", num_ranks_,
                    " ranks.");
    const std::string second =
        concat("Simulated ", drawn_.source, drawn_.caveat.empty() ? "" : concat(" (", drawn_.caveat, ")"));
    return svg_words(10, 18, first) + svg_words(10, 36, second) +
           svg_words(10, 54,
                     "Idle shares differ from those of --schedule, where a forward is one slot, a backward two and all "
                     "else nothing; here every action takes its own time, and so do the update and what waits for it.");
  }

  std::string legend() {
    std::string text;
    double left = 10;
    for (const Color& color : used_) {
      const double width = 40 + 7.0 * static_cast<double>(color.name.size());
      if (left + width > kLeft + kTimeWidth) left = 10, y_ += kLegendHeight;
      text += svg_rectangle(color.css_class, left, y_, kBar, kBar, std::string(color.name)) +
              svg_words(left + kBar + 6, y_ + 12, std::string(color.name));
      left += width;
    }
    y_ += kLegendHeight;
    return text;
  }

  std::string draw_rank(int rank, const std::vector<int>& members) {
    const Program& program = step(rank);
    y_ += kGap + kBar;
    std::string text = svg_words(10, y_, heading(rank, members, program, drawn_.simulation.of(rank)));
    y_ += 6 + kAxisHeight;
    const double top = y_;
    std::set<uint32_t> used;
    for (const Action& action : program.actions)
      used.insert(action.stream);
    std::string rows;
    for (const uint32_t stream : used) {
      rows += draw_stream(program, rank, drawn_.simulation.of(rank), stream);
      if (measured_) rows += draw_run(rank, program.streams[stream].name);
    }
    rows += draw_memory(rank);
    return text + time_axis(top) + rows;
  }

  /// Lines through all rows of a rank, so it is called when y_ is below them.
  std::string time_axis(double top) const {
    std::string text;
    for (const Tick& tick : time_ticks(end_, kTimeTicks))
      text += svg_line(x(tick.value), top - 4, x(tick.value), y_) +
              svg_words(x(tick.value), top - 7, tick.text, "small mid");
    return text;
  }

  std::string heading(int rank, const std::vector<int>& members, const Program& program,
                      const std::vector<Interval>& intervals) const {
    double busy = 0;
    for (size_t i = 0; i < program.actions.size(); ++i)
      if (program.actions[i].stream == TSR_STREAM_COMPUTE) busy += intervals[i].end - intervals[i].start;
    std::string text = concat("rank ", rank);
    if (members.size() > 1)
      text += concat(", for the ", members.size(), " ranks that do the same, up to rank ", members.back());
    text += format(": compute is idle for %.1f %% of the step", simulated_ > 0 ? 100 * (1 - busy / simulated_) : 0.0);
    if (!measured_) return text;
    double ran = 0;
    for (const TracedAction* action : measured_->row(rank, program.streams[TSR_STREAM_COMPUTE].name)) {
      const Interval at = measured_->interval(*action);
      ran += at.end - at.start;
    }
    return text + format(", in the run for %.1f %%", 100 * (1 - ran / measured_->seconds()));
  }

  std::string draw_stream(const Program& program, int rank, const std::vector<Interval>& intervals, uint32_t stream) {
    std::string text = svg_words(16, y_ + 12, program.streams[stream].name);
    double free_from = 0;
    // Only compute is marked idle: communication streams wait for it by design.
    const auto idle_until = [&](double time) {
      if (stream == TSR_STREAM_COMPUTE && time > free_from)
        text += svg_rectangle(kIdle.css_class, x(free_from), y_, x(time) - x(free_from), kBar,
                              "idle for " + time_text(time - free_from));
    };
    // A stream runs its actions in list order, so the gaps between them are where it is idle.
    for (size_t i = 0; i < program.actions.size(); ++i) {
      const Action& action = program.actions[i];
      if (action.stream != stream) continue;
      const Interval& at = intervals[i];
      idle_until(at.start);
      free_from = at.end;
      text += draw_action(color_of(action.kind), at, action_text(program, rank, i));
    }
    idle_until(simulated_);
    y_ += kRow;
    return text;
  }

  std::string draw_run(int rank, const std::string& stream) {
    std::string text = svg_words(28, y_ + 11, "run", "small");
    for (const TracedAction* action : measured_->row(rank, stream))
      if (const Color* const color = color_of(action->kind))
        text += draw_action(*color, measured_->interval(*action), concat("run: ", action->name));
    y_ += kRow + 4;
    return text;
  }

  std::string draw_action(const Color& color, const Interval& at, const std::string& what) const {
    return svg_rectangle(color.css_class, x(at.start), y_, x(at.end) - x(at.start), kBar,
                         concat(what, ": from ", time_text(at.start), " for ", time_text(at.end - at.start)));
  }

  std::string draw_memory(int rank) {
    const auto& live = live_.at(rank);
    const uint64_t peak = std::ranges::max_element(live, {}, [](const auto& point) { return point.second; })->second;
    const double bottom = y_ + kMemoryHeight;
    const auto height = [&](double bytes) {
      return most_bytes_ ? bytes / static_cast<double>(most_bytes_) * (kMemoryHeight - 8) : 0;
    };
    std::string path = format("M%.2f %.1f", x(0), bottom);
    double level = bottom;
    // A staircase: along at the old level, then up or down.
    for (const auto& [time, bytes] : live) {
      path += format(" L%.2f %.1f", x(time), level);
      level = bottom - height(static_cast<double>(bytes));
      path += format(" L%.2f %.1f", x(time), level);
    }
    path += format(" L%.2f %.1f L%.2f %.1f Z", x(simulated_), level, x(simulated_), bottom);
    const std::string most = "at most " + human_bytes(peak);
    std::string text = svg_words(16, y_ + 24, "live memory") + svg_words(16, y_ + 40, most) + "<path class=\"m\" d=\"" +
                       path + "\"><title>live memory, " + most + "</title></path>\n";
    for (const Tick& tick : memory_ticks(most_bytes_, kMemoryTicks)) {
      const double at = bottom - height(tick.value);
      text += svg_line(kLeft - 4, at, kLeft + kTimeWidth, at) + svg_words(kLeft - 7, at + 4, tick.text, "small end");
    }
    y_ = bottom;
    return text;
  }

  const JobPrograms& job_;
  const int num_ranks_;
  const DrawnStep& drawn_;
  const double simulated_ = drawn_.simulation.end();
  std::optional<MeasuredStep> measured_;
  double end_ = 0;  // of the axis
  std::vector<Color> used_;
  std::map<int, std::map<double, uint64_t>> live_;
  uint64_t most_bytes_ = 0;  // of all ranks
  double y_ = 0;             // where drawing continues
};

}  // namespace

std::string step_svg(const Mesh& mesh, const JobPrograms& job, const DrawnStep& drawn) {
  return Drawing(mesh, job, drawn).run();
}

bool begins_like_step_svg(std::string_view begin) {
  return begin.find(kTitle) != begin.npos;
}

}  // namespace tessera::host
