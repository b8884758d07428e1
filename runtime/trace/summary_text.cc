// The text of `tessera trace`: below a heading four parts, with columns of one width.
//
//       critical path of a step                ms        share      actions
//       backward                           14.500       49.8 %           37
//       between actions                     0.310        1.1 %
//
//       time by kind, of a rank                ms      waiting      actions         GB/s      Gflop/s
//       all_reduce                          4.100        0.900            6          2.1            -
//
//       streams, of a rank                busy ms         idle
//       compute                            27.600        5.2 %
//
//     communication 4.100 ms a step: 2.900 ms hidden by compute, 1.200 ms exposed
//
// Rates are of the time without waiting: a link is not slow because a rank came late. Names come from a file that may
// be from anywhere, so they are escaped.

#include "trace/summary_text.h"

#include <algorithm>

#include "base/concat.h"

namespace tessera::host {
namespace {

std::string percent(double share) {
  return format("%.1f %%", 100 * share);
}

/// "a | b" in columns; names first, then numbers.
std::string row(const std::string& name, std::initializer_list<std::string> cells) {
  std::string text = format("  %-28.60s", name.c_str());
  for (const std::string& cell : cells)
    text += format(" %12s", cell.c_str());
  text.erase(text.find_last_not_of(' ') + 1);
  return text + '\n';
}

std::string count_text(double number) {
  return format(number == static_cast<double>(static_cast<int64_t>(number)) ? "%.0f" : "%.1f", number);
}

std::string heading(const Trace& trace, const TraceSummary& s) {
  const bool is_one = s.first_step == s.last_step;
  const auto [fastest, slowest] = std::ranges::minmax(s.step_seconds);
  std::string text = concat(printable(trace.job), "; ", is_one ? "step " : "steps ", s.first_step,
                            is_one ? "" : concat(" to ", s.last_step), "; ", counted(s.num_traced_ranks, "rank"), "\n");
  text += concat("a step takes ", milliseconds(s.mean_step_seconds()), " ms");
  if (!is_one) text += concat(" (", milliseconds(fastest), " to ", milliseconds(slowest), ")");
  text += ", from the first begin of an action to the last end\n";
  if (trace.clock_error_ns > 0)
    text += format("clocks of different hosts were compared to within %.1f us\n",
                   static_cast<double>(trace.clock_error_ns) * 1e-3);
  return text;
}

std::string path_part(const TraceSummary& s) {
  const double all = s.mean_step_seconds();
  std::string text = "\n" + row("critical path of a step", {"ms", "share", "actions"});
  for (const PathKind& kind : s.path)
    text += row(printable(kind.kind),
                {milliseconds(kind.seconds), percent(all > 0 ? kind.seconds / all : 0), count_text(kind.num_actions)});
  return text + row("between actions",
                    {milliseconds(s.path_delay_seconds), percent(all > 0 ? s.path_delay_seconds / all : 0), ""});
}

std::string kinds_part(const TraceSummary& s) {
  std::string text = "\n" + row("time by kind, of a rank", {"ms", "waiting", "actions", "GB/s", "Gflop/s"});
  for (const KindTime& kind : s.kinds) {
    const auto rate = [&](double amount) {
      const double own = kind.seconds - kind.waiting_seconds;
      return amount > 0 && own > 0 ? format("%.1f", amount / own * 1e-9) : std::string("-");
    };
    text += row(printable(kind.kind),
                {milliseconds(kind.seconds), kind.waiting_seconds > 0 ? milliseconds(kind.waiting_seconds) : "-",
                 count_text(kind.num_actions), rate(kind.num_bytes), rate(kind.num_operations)});
  }
  return text;
}

std::string streams_part(const TraceSummary& s) {
  std::string text = "\n" + row("streams, of a rank", {"busy ms", "idle"});
  for (const StreamTime& stream : s.streams) {
    std::string line = row(printable(stream.stream), {milliseconds(stream.busy_seconds), percent(stream.idle_share)});
    if (stream.least_idle_rank != stream.most_idle_rank) {
      line.pop_back();
      line += concat("   from ", percent(stream.least_idle_share), " on rank ", stream.least_idle_rank, " to ",
                     percent(stream.most_idle_share), " on rank ", stream.most_idle_rank, "\n");
    }
    text += line;
  }
  return text;
}

std::string overlap_line(const char* what, const Overlap& overlap) {
  return overlap.seconds == 0 ? "" : concat(what, ' ', overlap_text(overlap), "\n");
}

}  // namespace

std::string milliseconds(double seconds) {
  return format("%.3f", seconds * 1e3);
}

std::string summary_text(const Trace& trace, const TraceSummary& summary) {
  const std::string overlaps =
      overlap_line("communication", summary.communication) + overlap_line("copies", summary.copies);
  return heading(trace, summary) + path_part(summary) + kinds_part(summary) + streams_part(summary) +
         (overlaps.empty() ? "" : "\n") + overlaps;
}

std::string kinds_text(const TraceSummary& summary, size_t max_kinds) {
  double all = 0;
  for (const KindTime& kind : summary.kinds)
    all += kind.seconds;
  std::string text;
  double rest = all;
  for (size_t i = 0; i < std::min(max_kinds, summary.kinds.size()) && all > 0; ++i) {
    const KindTime& kind = summary.kinds[i];
    text += concat(i ? ", " : "", kind.kind, format(" %.1f %%", 100 * kind.seconds / all));
    rest -= kind.seconds;
  }
  return rest > 0.0005 * all ? text + format(", others %.1f %%", 100 * rest / all) : text;
}

std::string overlap_text(const Overlap& overlap) {
  if (overlap.seconds == 0) return "";
  return concat(milliseconds(overlap.seconds), " ms a step: ", milliseconds(overlap.hidden_seconds),
                " ms hidden by compute, ", milliseconds(overlap.exposed_seconds()), " ms exposed");
}

}  // namespace tessera::host
