// Walks back from the action that ended last. An action waited for whichever ended last: the previous action on its
// stream or one of its dependencies. A collective or message effectively began when its last member arrived, so the
// path continues through that member, perhaps on another rank:
//
//     rank 0   | backward |. . . . | optimizer |          the path: backward and all_reduce of rank 1,
//     comm                | all_reduce |                  then optimizer
//     rank 1   | backward      |
//     comm                     | a_r   |
//
// Cost: linear in the dependencies of the actions on the path.

#include "trace/critical_path.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

namespace tessera::host {
namespace {

class PathFinder {
 public:
  explicit PathFinder(std::span<const TracedAction* const> actions) {
    std::map<std::pair<int, uint32_t>, const TracedAction*> last_on_stream;
    std::vector<const TracedAction*> ordered(actions.begin(), actions.end());
    std::ranges::stable_sort(ordered, {}, [](const TracedAction* a) { return std::pair(a->rank, a->action); });
    for (const TracedAction* action : ordered) {
      by_index_[{action->rank, action->action}] = action;
      const TracedAction*& last = last_on_stream[{action->rank, action->stream}];
      before_[action] = std::exchange(last, action);
      for (const std::string& communication : action->communications)
        communications_[communication].push_back(action);
      if (!first_ || action->begin_ns < first_->begin_ns) first_ = action;
      if (!last_ || action->end_ns > last_->end_ns) last_ = action;
    }
  }

  std::vector<PathPart> find() {
    std::vector<PathPart> path;
    if (!last_) return path;
    std::set<const TracedAction*> seen;  // inconsistent times of ranks could make the walk loop
    int64_t end_ns = last_->end_ns;
    for (const TracedAction* action = last_; action && seen.insert(action).second;) {
      const TracedAction* const latest = last_to_come(*action);
      const int64_t begin_ns = std::clamp(latest->begin_ns, std::min(action->begin_ns, end_ns), end_ns);
      const TracedAction* const awaited = awaited_by(*latest);
      const int64_t free_ns = std::min(awaited ? awaited->end_ns : first_->begin_ns, begin_ns);
      path.push_back({action, begin_ns, end_ns, begin_ns - free_ns});
      end_ns = free_ns;
      action = awaited;
    }
    std::ranges::reverse(path);
    return path;
  }

 private:
  const TracedAction* last_to_come(const TracedAction& action) const {
    const TracedAction* latest = &action;
    for (const std::string& communication : action.communications)
      for (const TracedAction* member : communications_.at(communication))
        if (member->begin_ns > latest->begin_ns) latest = member;
    return latest;
  }

  const TracedAction* awaited_by(const TracedAction& action) const {
    const TracedAction* awaited = before_.at(&action);
    for (const uint32_t index : action.after) {
      const auto found = by_index_.find({action.rank, index});
      if (found != by_index_.end() && (!awaited || found->second->end_ns > awaited->end_ns)) awaited = found->second;
    }
    return awaited;
  }

  std::map<std::pair<int, uint32_t>, const TracedAction*> by_index_;
  std::map<const TracedAction*, const TracedAction*> before_;  // on the same stream
  std::map<std::string_view, std::vector<const TracedAction*>> communications_;
  const TracedAction *first_ = nullptr, *last_ = nullptr;
};

}  // namespace

std::vector<PathPart> critical_path(std::span<const TracedAction* const> actions) {
  return PathFinder(actions).find();
}

}  // namespace tessera::host
