// `plan --svg`: a simulated step as an SVG file on its own: a rectangle with a tooltip for each action, and a path for
// live memory. Time is scaled to a fixed width, so a step of any length fits. One rank of each class is drawn.
//
//     compute            |ffff|ffff|    |bbbbbbbb|bbbbbbbb|oo|
//     comm.dp.gradient                       |cccc|   |cccc|
//     live memory        /////^^^^^^^^^^^^^\\\____

#include "plan/step_svg.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/concat.h"
#include "memory/first_fit.h"
#include "plan/format.h"
#include "plan/memory_report.h"
#include "plan/simulate.h"
#include "verify/diagnostics.h"

namespace tessera::host {
namespace {

// In pixels. `kLeft` leaves room for the names of streams.
constexpr double kLeft = 190, kTimeWidth = 1400, kRight = 20, kRow = 18, kBar = 14, kMemoryHeight = 44;
constexpr double kGap = 14, kTitleHeight = 46, kLegendHeight = 26;

constexpr std::string_view kTitle = "<title>One step of Tessera</title>";

struct Colour {
  std::string_view name, css_class, fill;
};
constexpr Colour kForward = {"forward", "f", "#4c78a8"}, kBackward = {"backward, loss", "b", "#e07b39"},
                 kRecompute = {"recompute", "r", "#e3c73f"}, kOptimizer = {"optimizer, norm", "o", "#54a24b"},
                 kOther = {"copies and sums", "e", "#8c8c8c"}, kIdle = {"idle compute", "i", "#f3d9d9"},
                 kMemory = {"live memory", "m", "#b9c6d6"};
// For comm streams, in order of their names; with more streams they repeat.
constexpr Colour kComm[] = {{"", "c0", "#b279a2"}, {"", "c1", "#72b7b2"},  {"", "c2", "#9d755d"},
                            {"", "c3", "#d6547e"}, {"", "c4", "#6a51a3"},  {"", "c5", "#2f8f83"},
                            {"", "c6", "#c49a3c"}, {"", "c7", "#7f7fd5"},  {"", "c8", "#a3c76d"},
                            {"", "c9", "#5a5a9c"}, {"", "c10", "#d98cb3"}, {"", "c11", "#3f7f5f"}};

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '<')
      result += "&lt;";
    else if (c == '&')
      result += "&amp;";
    else
      result += c;
  }
  return result;
}

std::string rectangle(std::string_view css_class, double x, double y, double width, double height,
                      const std::string& title) {
  // At least 0.2 pixels wide, so that actions that take no time can be found.
  return format("<rect class=\"%s\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\">",
                std::string(css_class).c_str(), x, y, std::max(width, 0.2), height) +
         "<title>" + escaped(title) + "</title></rect>\n";
}

std::string words(double x, double y, const std::string& text) {
  return format("<text x=\"%.1f\" y=\"%.1f\">", x, y) + escaped(text) + "</text>\n";
}

std::string duration_text(double seconds) {
  return seconds < 1e-3 ? format("%.1f us", seconds * 1e6) : format("%.3f ms", seconds * 1e3);
}

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

class Drawing {
 public:
  Drawing(const Mesh& mesh, const JobPrograms& job)
      : job_(job),
        num_ranks_(mesh.num_ranks()),
        simulation_(simulate(mesh, job.classes, program_of(job), [](const Program& p, const Action& a) {
          return estimated_seconds(p, a, MachineRates());
        })) {
    for (const auto& [rank, members] : job.classes.members())
      for (const Action& action : step(rank).actions)
        if (is_collective(action.kind)) comm_.insert(step(rank).streams[action.stream].name);
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
  static ProgramOf program_of(const JobPrograms& job) {
    return [&job](int rank) -> const Program& { return job.of(rank).steps[0]; };
  }
  const Program& step(int rank) const { return job_.of(rank).steps[0]; }
  double x(double seconds) const { return kLeft + (end_ > 0 ? seconds / end_ * kTimeWidth : 0); }

  std::vector<Colour> colours() const {
    std::vector<Colour> all = {kForward, kBackward, kRecompute, kOptimizer, kOther, kIdle, kMemory};
    for (const std::string& name : comm_)
      all.push_back(comm_colour(name));
    return all;
  }
  Colour comm_colour(const std::string& stream) const {
    const auto entry = comm_.find(stream);
    Colour colour = kComm[static_cast<size_t>(std::distance(comm_.begin(), entry)) % std::size(kComm)];
    colour.name = *entry;
    return colour;
  }
  Colour colour_of(const Program& program, const Action& action) const {
    if (is_collective(action.kind)) return comm_colour(program.streams[action.stream].name);
    if (action.kind == TSR_ACTION_FORWARD) return kForward;
    if (action.kind == TSR_ACTION_RECOMPUTE) return kRecompute;
    if (is_compute(action.kind)) return kBackward;
    const bool is_step = action.kind >= TSR_ACTION_SUM_SQUARES && action.kind <= TSR_ACTION_OPTIMIZER;
    return is_step ? kOptimizer : kOther;
  }

  std::string style() const {
    std::string text =
        "<style type=\"text/css\">text { font: 12px sans-serif; fill: #222222; } .paper { fill: #ffffff; }";
    std::set<std::string_view> written;
    for (const Colour& colour : colours())
      if (written.insert(colour.css_class).second)
        text += concat(" .", colour.css_class, " { fill: ", colour.fill, "; }");
    return text + "</style>\n";
  }

  std::string title() {
    const MachineRates rates;
    y_ = kTitleHeight;
    return words(10, 18,
                 concat("One step: ", duration_text(end_), " simulated. Ranks that do the same are drawn once: ",
                        job_.classes.members().size(), " of ", num_ranks_, " ranks.")) +
           words(10, 36,
                 format("Assumed per rank: %.0f Tflop/s of matrix products, %.0f GB/s of memory, %.0f GB/s sent. An "
                        "action takes the longer of its operations and one pass over its bytes.",
                        rates.operations / 1e12, rates.memory_bytes / 1e9, rates.link_bytes / 1e9));
  }

  std::string legend() {
    std::string text;
    double left = 10;
    for (const Colour& colour : colours()) {
      const double width = 40 + 7.0 * static_cast<double>(colour.name.size());
      if (left + width > kLeft + kTimeWidth) left = 10, y_ += kLegendHeight;
      text += rectangle(colour.css_class, left, y_, kBar, kBar, std::string(colour.name)) +
              words(left + kBar + 6, y_ + 12, std::string(colour.name));
      left += width;
    }
    y_ += kLegendHeight;
    return text;
  }

  std::string draw_rank(int rank, const std::vector<int>& members) {
    const Program& program = step(rank);
    const std::vector<Interval>& intervals = simulation_.of(rank);
    y_ += kGap + kBar;
    std::string text = words(10, y_, heading(rank, members, program, intervals));
    y_ += 6;
    std::set<uint32_t> used;
    for (const Action& action : program.actions)
      used.insert(action.stream);
    for (const uint32_t stream : used)
      text += draw_stream(program, rank, intervals, stream);
    return text + draw_memory(program, intervals);
  }

  std::string heading(int rank, const std::vector<int>& members, const Program& program,
                      const std::vector<Interval>& intervals) const {
    double busy = 0;
    for (size_t i = 0; i < program.actions.size(); ++i)
      if (program.actions[i].stream == TSR_STREAM_COMPUTE) busy += intervals[i].end - intervals[i].start;
    std::string text = concat("rank ", rank);
    if (members.size() > 1)
      text += concat(", for the ", members.size(), " ranks that do the same, up to rank ", members.back());
    return text + format(": compute is idle for %.1f %% of the step", end_ > 0 ? 100 * (1 - busy / end_) : 0.0);
  }

  std::string draw_stream(const Program& program, int rank, const std::vector<Interval>& intervals, uint32_t stream) {
    std::string text = words(16, y_ + 12, program.streams[stream].name);
    double free_from = 0;
    // Only compute is marked idle: communication streams wait for it by design.
    const auto idle_until = [&](double time) {
      if (stream == TSR_STREAM_COMPUTE && time > free_from)
        text += rectangle(kIdle.css_class, x(free_from), y_, x(time) - x(free_from), kBar,
                          "idle for " + duration_text(time - free_from));
    };
    for (size_t i = 0; i < program.actions.size(); ++i) {
      const Action& action = program.actions[i];
      if (action.stream != stream) continue;
      const Interval& at = intervals[i];
      idle_until(at.start);
      free_from = at.end;
      text += rectangle(colour_of(program, action).css_class, x(at.start), y_, x(at.end) - x(at.start), kBar,
                        concat(action_text(program, rank, i), ": from ", duration_text(at.start), " for ",
                               duration_text(at.end - at.start)));
    }
    idle_until(end_);
    y_ += kRow;
    return text;
  }

  std::string draw_memory(const Program& program, const std::vector<Interval>& intervals) {
    const auto live = live_over_time(program, intervals);
    const uint64_t peak = std::ranges::max_element(live, {}, [](const auto& point) { return point.second; })->second;
    const double bottom = y_ + kMemoryHeight;
    const auto height = [&](uint64_t bytes) {
      return peak ? static_cast<double>(bytes) / static_cast<double>(peak) * (kMemoryHeight - 4) : 0;
    };
    std::string path = format("M%.2f %.1f", x(0), bottom);
    double level = bottom;
    for (const auto& [time, bytes] : live) {
      path += format(" L%.2f %.1f", x(time), level);
      level = bottom - height(bytes);
      path += format(" L%.2f %.1f", x(time), level);
    }
    path += format(" L%.2f %.1f L%.2f %.1f Z", x(end_), level, x(end_), bottom);
    const std::string most = "at most " + human_bytes(peak);
    const std::string text = words(16, y_ + 16, "live memory") + words(16, y_ + 32, most) + "<path class=\"m\" d=\"" +
                             path + "\"><title>live memory, " + most + "</title></path>\n";
    y_ = bottom;
    return text;
  }

  const JobPrograms& job_;
  const int num_ranks_;
  const Simulation simulation_;
  const double end_ = simulation_.end();
  std::set<std::string> comm_;  // streams
  double y_ = 0;                // where drawing goes on
};

}  // namespace

std::string step_svg(const Mesh& mesh, const JobPrograms& job) {
  return Drawing(mesh, job).run();
}

bool begins_like_step_svg(std::string_view begin) {
  return begin.find(kTitle) != begin.npos;
}

}  // namespace tessera::host
