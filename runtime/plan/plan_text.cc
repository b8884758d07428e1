// The report as text: memory first, then traffic, then notes.
// The first two lines are the answer: whether the job fits, and how long a step takes; then comes what the rank does.
//
//     fits: a rank needs up to 1.2 GiB of the 2.0 GiB of --device-memory
//     a step takes about 0.41 s, 19980 tokens/s, by rates of this machine, taken now with 1 thread: ...
//
// Parts without contents are left out, such as offload without a policy. Sizes are rounded for people; plan_json.cc has
// the exact ones.

#include <algorithm>
#include <cmath>

#include "base/concat.h"
#include "plan/format.h"
#include "plan/plan_report.h"

namespace tessera::host {
namespace {

/// What drives of a terabyte are often rated for.
constexpr double kRatedBytes = 600e12;

std::string percent(double share) {
  return format("%.1f %%", 100 * share);
}

/// Two digits that count, and commas: "24,000".
std::string about(double number) {
  const double unit = std::pow(10, std::max(0.0, std::floor(std::log10(std::max(1.0, number))) - 1));
  std::string digits = format("%.0f", std::round(number / unit) * unit);
  for (size_t at = digits.size(); at > 3; at -= 3)
    digits.insert(at - 3, ",");
  return digits;
}

/// A line without the blanks of an empty last column.
std::string ended(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line + '\n';
}

std::string heading(const PlanReport& r) {
  std::string text = concat("rank ", r.rank, " of ", r.num_ranks);
  if (r.same_ranks.size() > 1)
    text += concat(", for the ", r.same_ranks.size(), " ranks that do the same (", rank_list(r.same_ranks), ")");
  if (r.num_ranks > 1) text += r.is_largest ? "; none needs more memory" : "; others need more memory";
  return text + concat("; ", counted(r.tokens_per_step, r.items.substr(0, r.items.size() - 1)), " per step on ",
                       r.device, "\n\n");
}

/// Whether it fits, in a line.
std::string verdict_line(const PlanReport& r) {
  const MemoryVerdict& v = r.verdict;
  const auto needs = [&r](uint64_t num_bytes) {
    return concat("a rank needs ", r.num_ranks > 1 ? "up to " : "", human_bytes(num_bytes));
  };
  const std::string need = needs(v.most_bytes);
  if (r.shortfall) {
    const std::string host = r.shortfall->memory == TSR_MEMORY_HOST
                                 ? concat(" and ", human_bytes(r.shortfall->arena_bytes), " of host memory")
                                 : "";
    return concat("does not fit: ", need, " of device memory", host, "\n");
  }
  if (v.limit_bytes) return concat("fits: ", need, " of the ", human_bytes(v.limit_bytes), " of --device-memory\n");
  if (v.machine_bytes == 0)
    return concat(need, " of device memory; give --device-memory SIZE to see whether that fits\n");
  // Both memories are the machine's.
  const uint64_t own = v.most_bytes + v.host_bytes, all = own * static_cast<uint64_t>(r.num_ranks);
  const std::string copy =
      v.copy_bytes ? concat(", ", human_bytes(v.copy_bytes), " of it for the copy of --save-async") : "";
  const std::string in_all = r.num_ranks > 1 ? concat(", all ", r.num_ranks, " together ", human_bytes(all)) : "";
  return concat(all <= v.machine_bytes ? "fits this machine: " : "does not fit this machine: ", needs(own), copy,
                in_all, "; it has ", human_bytes(v.machine_bytes), "\n");
}

/// The time of a step, in a line, and where it comes from, in a second one.
std::string estimate_lines(const PlanReport& r) {
  if (r.is_long_to_estimate) return "the step time is not estimated for this many actions; --rates FILE predicts it\n";
  if (!r.estimate) return "";
  const StepEstimate& e = *r.estimate;
  const double per_second = static_cast<double>(r.tokens_per_step) / e.seconds;
  return concat("a step takes ", e.caveat.empty() ? "" : "about ", seconds_text(e.seconds, 3), ", ",
                number_text(per_second, 3), " ", r.items, "/s, ", e.source, "\n",
                e.caveat.empty() ? "" : concat("  (", e.caveat, ")\n"));
}

std::string bytes_or_dash(uint64_t num_bytes) {
  return num_bytes ? human_bytes(num_bytes) : "-";
}

std::string memory_table(const std::string& title, const MemoryReport& m) {
  const auto line = [](std::string_view name, const std::string& states, const std::string& peak,
                       const std::string& most) {
    return ended(
        format("  %-16s %14s %14s %14s", std::string(name).c_str(), states.c_str(), peak.c_str(), most.c_str()));
  };
  std::string text = line(title, "between steps", "at the peak", "own peak");
  for (const MemoryClass what : all_memory_classes())
    if (m.most[what] > 0)
      text +=
          line(to_string(what), bytes_or_dash(m.states[what]), bytes_or_dash(m.peak[what]), human_bytes(m.most[what]));
  text += line("live", human_bytes(m.states.total()), human_bytes(m.peak.total()), "");
  // The arena beyond the live peak: gaps that first fit leaves, and addresses kept apart to save waits.
  const double waste = m.peak.total() ? static_cast<double>(m.waste_bytes()) / static_cast<double>(m.peak.total()) : 0;
  text += line("waste", "", human_bytes(m.waste_bytes()), percent(waste));
  return text + line("arena", "", human_bytes(m.arena_bytes), "");
}

std::string memory_part(const PlanReport& r) {
  std::string text;
  for (const PlaceUse& place : r.places)
    text += place.memory == TSR_MEMORY_DEVICE ? memory_table("memory", place.report)
                                              : "\n" + memory_table("in " + place_name(place.memory), place.report);
  text += "\n  program         actions          arena\n";
  for (const ProgramSummary& program : r.programs)
    text += format("  %-12s %10zu %14s\n", program.name.c_str(), program.num_actions,
                   human_bytes(program.arena_bytes).c_str());
  return text;
}

std::string peak_part(const PlanReport& r) {
  if (r.peak_action.empty()) return "";
  std::string text =
      concat("\nthe peak is in ", r.peak_program, " at ", r.peak_action, "; the largest buffers there:\n");
  for (const LiveBuffer& buffer : r.memory.largest)
    text += format("  %14s  %-15s %s\n", human_bytes(buffer.num_bytes).c_str(),
                   std::string(to_string(buffer.what)).c_str(), buffer.name.c_str());
  return text +
         concat("\nlive memory over the ", r.memory.live.size(), " actions of ", r.peak_program,
                ", in list order ('=' stays between steps):\n") +
         timeline_chart(r.memory.live, r.memory.states.total(), r.phases);
}

/// Printed after the bytes, so that they can be checked by hand.
std::string formula(uint32_t kind) {
  switch (kind) {
    case TSR_ACTION_ALL_REDUCE:
      return "2 (n-1)/n of each";
    case TSR_ACTION_REDUCE_SCATTER:
    case TSR_ACTION_ALL_GATHER:
    case TSR_ACTION_ALL_TO_ALL:
      return "(n-1)/n of each";
    case TSR_ACTION_BROADCAST:
      return "n-1 times each, from its root";
    case TSR_ACTION_REDUCE:
      return "each, to its root";
    default:
      return "";
  }
}

/// "wte 2 x (2), h.0 to h.11 2 x (24)": the unit, how often it is gathered, and the collectives that do it in all.
/// Consecutive units that are gathered equally often are one entry.
std::string gathers_text(const std::vector<UnitGathers>& gathers) {
  std::string text;
  for (size_t i = 0; i < gathers.size();) {
    const size_t first = i;
    uint64_t num_collectives = 0;
    for (; i < gathers.size() && gathers[i].num_times == gathers[first].num_times; ++i)
      num_collectives += gathers[i].num_collectives;
    text += concat(first ? ", " : "", gathers[first].unit, i - first > 1 ? " to " + gathers[i - 1].unit : "", " ",
                   gathers[first].num_times, " x (", num_collectives, ")");
  }
  return text;
}

std::string traffic_part(const PlanReport& r) {
  if (r.traffic.empty()) return "";
  const bool alternates = r.num_step_programs > 1;
  std::string text =
      concat("\nsent by this rank in ", alternates ? r.traffic_program : "a step",
             alternates ? ", the one that sends the most of the programs that steps alternate between" : "",
             ", in groups of n ranks:\n");
  uint64_t total = 0;
  for (const Traffic& t : r.traffic) {
    text += ended(format("  %-24s %-15s %6llu %12s  %s", t.stream.c_str(), std::string(action_name(t.kind)).c_str(),
                         static_cast<unsigned long long>(t.num_actions), human_bytes(t.sent_bytes).c_str(),
                         formula(t.kind).c_str()));
    total += t.sent_bytes;
  }
  text += format("  %-47s %12s\n", "in all", human_bytes(total).c_str());
  if (!r.gathers.empty()) text += "gathers of parameters in a step (collectives): " + gathers_text(r.gathers) + "\n";
  return text;
}

/// Operations of products and attention.
std::string tera(double operations) {
  return format("%.4g TFLOP", operations * 1e-12);
}

/// What a link or disk has to carry while the device computes, for the copies of the phase to take no time of their
/// own.
std::string hidden_from(const PlanReport& r, MovePhase phase) {
  const double gigabytes = static_cast<double>(r.moved.of(phase).narrowest_bytes()) * 1e-9;
  if (gigabytes == 0) return "";
  const double operations = r.moved.operations_of(phase);
  if (operations == 0) return "nothing overlaps it";
  const std::string each = format("%.3g GB per TFLOP", gigabytes / operations * 1e12);
  if (!r.prediction) return each;
  return concat(each, format(", here %.3g GB/s", gigabytes / r.prediction->of(phase).compute_seconds));
}

std::string offload_part(const PlanReport& r) {
  if (r.policies.empty()) return "";
  const auto line = [](std::string_view name, const std::string& in, const std::string& out, const std::string& beside,
                       const std::string& hidden) {
    return ended(format("  %-18s %14s %14s %16s   %s", std::string(name).c_str(), in.c_str(), out.c_str(),
                        beside.c_str(), hidden.c_str()));
  };
  std::string text = concat("\noffload: ", joined(r.policies), "\n",
                            line("moved in a step", "in", "out", "overlapped by", "hidden from"));
  for (const MovePhase phase : kMovePhases) {
    const double operations = r.moved.operations_of(phase);
    text +=
        line(to_string(phase), bytes_or_dash(r.moved.of(phase).in_bytes), bytes_or_dash(r.moved.of(phase).out_bytes),
             operations > 0 ? tera(operations) : "", hidden_from(r, phase));
  }
  if (const double written = static_cast<double>(r.moved.total().file_written_bytes); written > 0)
    text += format("  written to files in a step: %.4g GB; a drive rated for %.0f TB lasts %s steps\n", written * 1e-9,
                   kRatedBytes * 1e-12, about(kRatedBytes / written).c_str());
  return text;
}

std::string gradients_part(const PlanReport& r) {
  if (!r.reduce_every_cost) return "";
  const ReduceEveryCost& cost = *r.reduce_every_cost;
  const bool every_step = r.reduce_every == TSR_EVERY_STEP;
  return concat("gradients: --reduce-every step keeps at most ", human_bytes(cost.step_gradient_bytes), " and sends ",
                human_bytes(cost.step_sent_bytes), " per step", every_step ? " (this plan)" : "",
                "; --reduce-every micro-batch keeps at most ", human_bytes(cost.micro_batch_gradient_bytes),
                " and sends ", human_bytes(cost.micro_batch_sent_bytes), every_step ? "" : " (this plan)", "\n");
}

std::string save_part(const PlanReport& r) {
  return r.save_copy_bytes == 0 ? ""
                                : concat("save-async: ", human_bytes(r.save_copy_bytes),
                                         " of host memory for the copy of the state that is written while steps run\n");
}

std::string balance_part(const PlanReport& r) {
  const Balance& b = r.balance;
  if (b.is_even()) return "";
  std::string text =
      concat("balance: between steps rank ", b.min_rank, " keeps ", human_bytes(b.min_bytes), ", rank ", b.max_rank,
             " ", human_bytes(b.max_bytes), ", the mean is ", human_bytes(static_cast<uint64_t>(b.mean_bytes)),
             "; the largest is ", format("%.2f", 1 + b.imbalance()), " times the mean\n");
  if (!b.bottleneck.empty())
    text += concat("bottleneck: ", b.bottleneck, " alone takes ", human_bytes(b.bottleneck_bytes),
                   " on its owner, more than the mean; more ranks do not help, a strategy that splits every tensor "
                   "does\n");
  return text;
}

std::string seconds_or_dash(double seconds) {
  return seconds > 0 ? seconds_text(seconds, 4) : "-";
}

std::string time_part(const PlanReport& r) {
  if (!r.prediction) return "";
  const Prediction& p = *r.prediction;
  const auto line = [](std::string_view name, const std::array<std::string, 6>& cells) {
    std::string text = format("  %-18s", std::string(name).c_str());
    for (const std::string& cell : cells)
      text += format(" %13s", cell.c_str());
    return text + "\n";
  };
  std::string text = concat("\ntime of a step, by ", r.rates->file, " (measured ", printable(r.rates->measured), ", ",
                            counted(r.rates->num_threads, "thread"), ")\n",
                            line("busy", {"compute", "in", "out", "files", "between ranks", "at least"}));
  for (const MovePhase phase : kMovePhases) {
    const PhaseTime& time = p.of(phase);
    text += line(to_string(phase), {seconds_or_dash(time.compute_seconds), seconds_or_dash(time.in_seconds),
                                    seconds_or_dash(time.out_seconds), seconds_or_dash(time.file_seconds),
                                    seconds_or_dash(time.link_seconds), seconds_or_dash(time.bound())});
  }
  return concat(text, "  predicted: ", seconds_text(p.step_seconds, 4), ", ",
                number_text(static_cast<double>(r.tokens_per_step) / p.step_seconds, 4), " ", r.items, "/s; at least ",
                seconds_text(p.bound(), 4), ", if all copies ran during compute\n");
}

}  // namespace

std::string plan_text(const PlanReport& report) {
  std::string text = verdict_line(report) + estimate_lines(report) + "\n" + heading(report) + memory_part(report) +
                     peak_part(report) + offload_part(report) + time_part(report) + traffic_part(report);
  const std::string notes = gradients_part(report) + save_part(report) + balance_part(report);
  return text + (notes.empty() ? "" : "\n") + notes;
}

}  // namespace tessera::host
