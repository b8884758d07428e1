// SPDX-License-Identifier: Apache-2.0
// When whole copies of sharded parameters are made: PyTorch's FSDP calls making one unshard, and dropping it reshard.
// The plan reads the view as it was at the start of the pass. Time and memory are linear in the actions, but for
// merging, which looks back over the copies made before: quadratic in the number of unshards of a program.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/flat_param.hpp"

namespace tessera::storage {

/// When whole copies are made and how long they are kept.
struct UnshardOptions {
  enum class Backward {
    pre,   ///< before the compute of the unit that is `prefetch` ahead
    post,  ///< after it
    none,  ///< just in time
  };
  bool keep = false;      ///< one copy for the whole program
  uint64_t prefetch = 1;  ///< how many units ahead
  Backward backward = Backward::pre;
  uint64_t limit = 0;             ///< most copies alive at once; 0: as many as prefetch needs
  bool keep_in_pipeline = false;  ///< reshard-after-forward=auto
};
/// From the options prefetch, backward-prefetch, limit-all-gathers, reshard-after-forward (auto|true|false).
inline UnshardOptions read_unshard_options(std::span<const tsr_option_value> options) {
  const auto text = [&](const char* name) { return to_string(option(options, name).s); };
  UnshardOptions result;
  result.prefetch = static_cast<uint64_t>(option(options, "prefetch").i);
  result.limit = static_cast<uint64_t>(option(options, "limit-all-gathers").i);
  const std::string backward = text("backward-prefetch"), reshard = text("reshard-after-forward");
  if (backward == "post") result.backward = UnshardOptions::Backward::post;
  if (backward == "none") result.backward = UnshardOptions::Backward::none;
  result.keep = reshard == "false";
  result.keep_in_pipeline = reshard == "auto";
  return result;
}

/// With pipelining each unit is used once per micro-batch, far apart, so resharding after forward multiplies the
/// all-gathers, and a stage's part of the model is small already. So parameters are kept unsharded there unless the
/// options say otherwise. Throws INVALID_ARGUMENT, naming `strategy`, for a limit on kept copies.
inline UnshardOptions options_in_mesh(UnshardOptions options, const ProgramView& view, std::string_view strategy) {
  const bool is_in_pipeline = std::ranges::any_of(
      view.axes(), [](const tsr_axis& a) { return a.splits == TSR_SPLITS_LAYERS && a.num_ranks > 1; });
  if (!is_in_pipeline || !options.keep_in_pipeline) return options;
  const std::string name(strategy);
  if (options.limit)
    throw Error(TSR_E_INVALID_ARGUMENT,
                name + ".limit-all-gathers needs parameters that are freed after use; with a pipeline they are kept " +
                    "unless " + name + ".reshard-after-forward=true");
  options.keep = true;
  return options;
}

/// An operand that reads a group's parameters; `offset` is into the group.
struct Use {
  uint64_t action;
  tsr_binding binding;
  uint64_t offset;
};

/// One whole copy of a group: made before the action `anchor`, for `uses`.
struct Unshard {
  size_t group;
  uint64_t anchor;
  std::vector<Use> uses;
};

namespace detail {

/// Decides before which compute action each group is unsharded, and how long the copy lives.
///
/// A position is the number of a compute action among those that use any group. A range holds consecutive uses of one
/// group. With a prefetch of 1:
///
///     position    0     1     2     3     4          range      unsharded before
///     group      h.0   h.1   wte   h.1   h.0         h.0  0     0
///     phase       f     f    loss   b     b          h.1  1     0: one range ahead
///                                                    wte  2     1
///                                                    h.1  3     2: merged, the copy of range 1 is still alive
///                                                    h.0  4     3: unsharded again
///
/// A copy lives until its last use; a later one that would be made by then is merged into it: the all-gather that
/// PyTorch's FSDP saves for the last block. With a limit a copy waits until no more than limit - 1 others are alive.
/// With `keep` a group has one range, and so one copy, for the whole program.
///
/// Invariant: position <= first: a copy is made before its first use; a limit that violates this is refused. Copies are
/// inserted in the order of their positions, which depend on the program alone, so the all-gathers of all ranks match.
class UnshardPlanner {
 public:
  UnshardPlanner(const ProgramView& view, std::span<const ParamGroup> groups, const UnshardOptions& options)
      : view_(view), options_(options) {
    for (size_t g = 0; g < groups.size(); ++g)
      for (size_t i = 0; i < groups[g].params.size(); ++i)
        offsets_[groups[g].params[i].computed_with().id] = {g, groups[g].base[i]};
  }

  std::vector<Unshard> run() {
    collect_ranges();
    for (size_t i = 0; i < ranges_.size(); ++i)
      schedule(i);
    std::erase_if(ranges_, [](const UseRange& range) { return range.is_merged; });
    std::ranges::stable_sort(ranges_, {}, &UseRange::position);
    std::vector<Unshard> result;
    for (const UseRange& range : ranges_)
      result.push_back({range.group, users_[range.position]->id, range.uses});
    return result;
  }

 private:
  struct GroupOffset {
    size_t group;
    uint64_t base;
  };
  /// Consecutive uses of one group, by position.
  struct UseRange {
    size_t group;
    bool is_forward;
    size_t first, last;
    size_t position = 0;     // before which action the copy is made
    bool is_merged = false;  // into an earlier one
    std::vector<Use> uses;
  };

  void collect_ranges() {
    std::map<size_t, size_t> open;  // group -> its range
    for (const tsr_action& action : view_.actions()) {
      if (!is_compute(action)) continue;
      std::map<size_t, std::vector<Use>> uses;
      for (const tsr_binding& b : ProgramView::bindings(action))
        if (const auto offset = offsets_.find(b.buffer); offset != offsets_.end())
          uses[offset->second.group].push_back({action.id, b, offset->second.base + b.offset});
      if (uses.empty()) continue;
      if (!options_.keep) std::erase_if(open, [&](const auto& entry) { return !uses.contains(entry.first); });
      const size_t position = users_.size();
      users_.push_back(&action);
      for (auto& [group, of_group] : uses) {
        const auto [found, is_new] = open.try_emplace(group, ranges_.size());
        if (is_new) ranges_.push_back({group, action.kind == TSR_ACTION_FORWARD, position, position, 0, false, {}});
        UseRange& range = ranges_[found->second];
        range.last = position;
        range.uses.insert(range.uses.end(), of_group.begin(), of_group.end());
      }
    }
  }

  /// The first position at which at most limit - 1 of the earlier copies are alive: one after the limit-th latest end
  /// among them.
  size_t earliest_within_limit(size_t index) const {
    if (options_.limit == 0) return 0;
    std::vector<size_t> lasts;
    for (size_t i = 0; i < index; ++i)
      if (!ranges_[i].is_merged) lasts.push_back(ranges_[i].last);
    if (lasts.size() < options_.limit) return 0;
    std::ranges::nth_element(lasts, lasts.begin() + static_cast<ptrdiff_t>(options_.limit) - 1, std::greater());
    return lasts[options_.limit - 1] + 1;
  }

  /// Sets the position: the start of the range `prefetch` before this one. Backward::post uses that range's end
  /// instead: one copy fewer is alive, but there is less time to overlap.
  void schedule(size_t index) {
    UseRange& range = ranges_[index];
    using Backward = UnshardOptions::Backward;
    const bool is_just_in_time = !range.is_forward && options_.backward == Backward::none;
    const uint64_t depth = is_just_in_time ? 0 : options_.prefetch;
    const UseRange& ahead = ranges_[index - std::min<uint64_t>(index, depth)];
    range.position = ahead.first;
    if (!range.is_forward && options_.backward == Backward::post && depth > 0)
      range.position = std::min(ahead.last + 1, range.first);
    range.position = std::max(range.position, earliest_within_limit(index));
    if (range.position > range.first)
      throw Error(
          TSR_E_INVALID_ARGUMENT,
          "a limit of " + std::to_string(options_.limit) +
              " unsharded units alive at once is too small: a single action uses more of them; raise the limit");
    merge(index);
  }

  /// Merges a copy into the previous one of its group if that one is still alive.
  void merge(size_t index) {
    UseRange& range = ranges_[index];
    for (size_t i = index; i-- > 0;) {
      UseRange& earlier = ranges_[i];
      if (earlier.group != range.group || earlier.is_merged) continue;
      if (range.position > earlier.last + 1) return;
      earlier.last = range.last;
      earlier.uses.insert(earlier.uses.end(), range.uses.begin(), range.uses.end());
      range.is_merged = true;
      return;
    }
  }

  const ProgramView& view_;
  const UnshardOptions& options_;
  std::map<uint64_t, GroupOffset> offsets_;  // by the buffer that compute actions read
  std::vector<const tsr_action*> users_;
  std::vector<UseRange> ranges_;
};

}  // namespace detail

/// The copies that the program's compute actions need, in the order in which they are made. Throws INVALID_ARGUMENT
/// when the limit is below what one action needs.
inline std::vector<Unshard> plan_unshards(const ProgramView& view, std::span<const ParamGroup> groups,
                                          const UnshardOptions& options) {
  return detail::UnshardPlanner(view, groups, options).run();
}

}  // namespace tessera::storage
