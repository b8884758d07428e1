// Times are counted for each rank and step, and then averaged: of ranks that do different work (stages of a pipeline),
// a kind's mean counts those that have none of it as 0, so that kinds add up to a rank's mean time.

#include "trace/summary.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>
#include <string_view>

#include "trace/critical_path.h"
#include "trace/intervals.h"

namespace tessera::host {
namespace {

using Actions = std::vector<const TracedAction*>;

double seconds(int64_t ns) {
  return static_cast<double>(ns) * 1e-9;
}

/// Of each communication, when the last of its actions began.
std::map<std::string_view, int64_t> last_begins_of(const Actions& actions) {
  std::map<std::string_view, int64_t> last;
  for (const TracedAction* action : actions)
    for (const std::string& communication : action->communications) {
      int64_t& begin_ns = last.try_emplace(communication, action->begin_ns).first->second;
      begin_ns = std::max(begin_ns, action->begin_ns);
    }
  return last;
}

/// A member waits from its own begin to that of the last one to come; the rest of its time is the transfer.
int64_t waiting_ns(const TracedAction& action, const std::map<std::string_view, int64_t>& last_begins) {
  int64_t begin_ns = action.begin_ns;
  for (const std::string& communication : action.communications)
    begin_ns = std::max(begin_ns, last_begins.at(communication));
  return std::min(begin_ns, action.end_ns) - action.begin_ns;
}

class Summarizer {
 public:
  explicit Summarizer(const Trace& trace) : trace_(trace) {
    std::set<int> ranks;
    for (const TracedAction& action : trace.actions) {
      steps_[action.step].push_back(&action);
      ranks.insert(action.rank);
    }
    result_.num_traced_ranks = static_cast<int>(ranks.size());
    result_.first_step = steps_.begin()->first;
    result_.last_step = steps_.rbegin()->first;
    num_rank_steps_ = static_cast<double>(ranks.size() * steps_.size());
  }

  TraceSummary run() {
    for (const auto& [step, actions] : steps_)
      add_step(actions);
    for (auto& [name, kind] : kinds_)
      result_.kinds.push_back({name, kind.work, kind.num_actions / num_rank_steps_, kind.seconds / num_rank_steps_,
                               kind.num_bytes / num_rank_steps_, kind.num_operations / num_rank_steps_,
                               kind.waiting_seconds / num_rank_steps_});
    for (const auto& [name, part] : path_)
      result_.path.push_back({name, part.num_actions / num_steps(), part.seconds / num_steps()});
    std::ranges::stable_sort(result_.kinds, std::ranges::greater(), &KindTime::seconds);
    std::ranges::stable_sort(result_.path, std::ranges::greater(), &PathKind::seconds);
    result_.path_delay_seconds /= num_steps();
    for (Overlap* overlap : {&result_.communication, &result_.copies})
      *overlap = {overlap->seconds / num_rank_steps_, overlap->hidden_seconds / num_rank_steps_};
    add_streams();
    return std::move(result_);
  }

 private:
  double num_steps() const { return static_cast<double>(steps_.size()); }

  void add_step(const Actions& actions) {
    const int64_t begin = (*std::ranges::min_element(actions, {}, &TracedAction::begin_ns))->begin_ns;
    const int64_t end = (*std::ranges::max_element(actions, {}, &TracedAction::end_ns))->end_ns;
    result_.step_seconds.push_back(seconds(end - begin));
    const std::map<std::string_view, int64_t> last_begins = last_begins_of(actions);
    std::map<int, Actions> ranks;
    for (const TracedAction* action : actions) {
      ranks[action->rank].push_back(action);
      KindTime& kind = kinds_[action->kind];
      kind.work = action->work;
      kind.num_actions += 1;
      kind.seconds += seconds(action->end_ns - action->begin_ns);
      kind.num_bytes += static_cast<double>(action->num_bytes);
      kind.num_operations += action->num_operations;
      kind.waiting_seconds += seconds(waiting_ns(*action, last_begins));
    }
    for (const auto& [rank, own] : ranks)
      add_rank(rank, own);
    for (const PathPart& part : critical_path(actions)) {
      PathKind& kind = path_[part.action->kind];
      kind.num_actions += 1;
      kind.seconds += seconds(part.end_ns - part.begin_ns);
      result_.path_delay_seconds += seconds(part.delay_ns);
    }
  }

  void add_rank(int rank, const Actions& actions) {
    std::array<std::vector<TimeSpan>, std::size(kWorkNames)> works;
    std::map<uint32_t, std::vector<TimeSpan>> streams;
    for (const TracedAction* action : actions) {
      works[static_cast<size_t>(action->work)].push_back({action->begin_ns, action->end_ns});
      streams[action->stream].push_back({action->begin_ns, action->end_ns});
    }
    for (auto& spans : works)
      spans = joined(std::move(spans));
    const auto add = [&](Overlap& overlap, Work work) {
      const auto& spans = works[static_cast<size_t>(work)];
      overlap.seconds += seconds(total_ns(spans));
      overlap.hidden_seconds += seconds(common_ns(spans, works[static_cast<size_t>(Work::compute)]));
    };
    add(result_.communication, Work::communication);
    add(result_.copies, Work::copy);
    for (auto& [stream, spans] : streams)
      busy_[stream][rank] += seconds(total_ns(joined(std::move(spans))));
  }

  void add_streams() {
    const double all = std::accumulate(result_.step_seconds.begin(), result_.step_seconds.end(), 0.0);
    for (const auto& [stream, ranks] : busy_) {
      StreamTime time{.stream = trace_.streams[stream], .least_idle_share = 2, .most_idle_share = -1};
      for (const auto& [rank, busy] : ranks) {
        const double idle = all > 0 ? 1 - busy / all : 0;
        const auto num_ranks = static_cast<double>(ranks.size());
        time.busy_seconds += busy / num_steps() / num_ranks;
        time.idle_share += idle / num_ranks;
        if (idle < time.least_idle_share) time.least_idle_share = idle, time.least_idle_rank = rank;
        if (idle > time.most_idle_share) time.most_idle_share = idle, time.most_idle_rank = rank;
      }
      result_.streams.push_back(time);
    }
  }

  const Trace& trace_;
  std::map<int64_t, Actions> steps_;
  double num_rank_steps_ = 1;
  std::map<std::string, KindTime> kinds_;
  std::map<std::string, PathKind> path_;
  std::map<uint32_t, std::map<int, double>> busy_;  // seconds of all steps, by stream, then rank
  TraceSummary result_;
};

}  // namespace

double TraceSummary::mean_step_seconds() const {
  return std::accumulate(step_seconds.begin(), step_seconds.end(), 0.0) / static_cast<double>(step_seconds.size());
}

TraceSummary summarize(const Trace& trace) {
  return Summarizer(trace).run();
}

}  // namespace tessera::host
