// Walks the program once for each axis of several ranks (placement_walk.h), and keeps what each action writes that is
// then the same on all of them. Under ddp, the keys on dp:
//
//     38    backward h.0.ln_1 mb=0  ...  w %61+13568:32 g:ln_1.weight    none: a partial sum
//     42    all_reduce group=dp reduce=sum  a %61 dst                    comm.dp.gradient dp 0 720896+26880:5120, ...
//     73    optimizer home=wte.weight predicated  a %1 dst  ...          compute optimizer wte.weight home wte, ...
//
// Invariant: equal keys name the same elements on all ranks of the axis. So a key does not hold the position in the
// list, which may differ by rank, and writes that share a key are dropped.
//
// Cost: one walk for each such axis, and n log n in the ranges that are the same.

#include "verify/placement/replicated_writes.h"

#include <map>
#include <tuple>
#include <utility>

#include "base/concat.h"
#include "verify/diagnostics.h"
#include "verify/placement/placement_rules.h"
#include "verify/placement/placement_walk.h"

namespace tessera::host {
namespace {

/// Results that every rank has in full, encoded ones included.
constexpr uint32_t kSame = bit(PlacementKind::replicated) | bit(PlacementKind::gathered) | bit(PlacementKind::bound);

using Key = std::tuple<size_t, uint64_t, uint64_t, uint64_t>;  // action, buffer, offset, elements

/// Joins adjacent ranges that are the same on all ranks.
std::vector<std::pair<uint64_t, uint64_t>> same_ranges(const PlacementParts& parts) {
  std::vector<std::pair<uint64_t, uint64_t>> ranges;  // begin, end
  for (const PlacementPart& part : parts) {
    if (!(bit(part.placement.kind) & kSame)) continue;
    if (ranges.empty() || ranges.back().second != part.offset) ranges.emplace_back(part.offset, part.offset);
    ranges.back().second = part.offset + part.num_elements;
  }
  return ranges;
}

/// The keys of what actions write. Actions come in the program's order.
class Keys {
 public:
  explicit Keys(const Program& program) : program_(program) {}

  void next(size_t action) {
    const Action& a = program_.actions[action];
    const std::string text = action_text(program_, -1, action);  // "#41 comm.dp.gather all_gather h.2"
    name_ = text.substr(text.find(' ') + 1);
    by_order_ = is_collective(a.kind);
    // From other elements on each rank it is not the same.
    if (const Binding* source = is_elementwise(a.kind) ? a.find(kSource) : nullptr)
      name_ += concat(" of ", range_text(program_, *source));
    if (!by_order_) return;
    name_ = concat(program_.streams[a.stream].name, " ",
                   group_text(program_, program_.groups[static_cast<size_t>(a.group)]));
    name_ += concat(" ", num_collectives_[name_]++);
  }
  /// Elements of the binding, from `begin` on.
  std::string of(const Binding& written, const Binding& range) const {
    if (!by_order_) return concat(name_, " ", range_text(program_, range));
    return concat(name_, " ", written.slot, "+", range.offset - written.offset, ":", range.num_elements);
  }

 private:
  const Program& program_;
  std::string name_;
  bool by_order_ = false;
  std::map<std::string, int> num_collectives_;  // of a group and stream, so far
};

/// Whether it moves what another action has written to or from where an offload policy keeps it. Ranks may do so at
/// different times, before or after a change.
bool is_move(const Program& program, const Action& action) {
  if (action.kind != TSR_ACTION_COPY) return false;
  return std::ranges::any_of(action.bindings, [&](const Binding& binding) {
    const Buffer& buffer = program.buffer(binding.buffer);
    return buffer.kind == TSR_BUFFER_FETCHED || buffer.memory != TSR_MEMORY_DEVICE;
  });
}

/// On an axis that splits the layers, ranks have different actions; only a collective over the axis is common to all of
/// them.
bool is_comparable(const Program& program, const Action& action, size_t axis) {
  if (is_move(program, action)) return false;
  if (program.mesh->axes()[axis].splits != TSR_SPLITS_LAYERS || !is_collective(action.kind)) return true;
  const int over = program.groups[static_cast<size_t>(action.group)].axis;
  return action.kind != TSR_ACTION_EXCHANGE && (over == TSR_WORLD_AXIS || over == static_cast<int>(axis));
}

/// Drops those whose keys are not unique.
std::vector<ReplicatedWrite> with_own_key(std::map<Key, ReplicatedWrite> found) {
  std::map<std::string, int> times;
  for (const auto& [at, write] : found)
    ++times[write.key];
  std::vector<ReplicatedWrite> writes;
  for (auto& [at, write] : found)
    if (times[write.key] == 1) writes.push_back(std::move(write));
  return writes;
}

}  // namespace

std::vector<ReplicatedWrite> replicated_writes(const Program& program) {
  std::map<Key, ReplicatedWrite> found;
  for (size_t axis = 0; axis < program.mesh->axes().size(); ++axis) {
    if (program.mesh->axes()[axis].num_ranks < 2) continue;
    DiagnosticList ignored;
    PlacementWalk walk(program, static_cast<int>(axis), ignored);
    Keys keys(program);
    walk.run([&](size_t action) {
      keys.next(action);
      if (!is_comparable(program, program.actions[action], axis)) return;
      for (const Binding& written : program.actions[action].bindings) {
        if (!is_output(written) || has_role(written, TSR_ROLE_WORKSPACE)) continue;
        if (program.buffer(written.buffer).memory == TSR_MEMORY_FILE) continue;
        for (const auto& [begin, end] : same_ranges(walk.read(written))) {
          Binding range = written;
          range.offset += begin;
          range.num_elements = end - begin;
          ReplicatedWrite& write = found[{action, range.buffer, range.offset, range.num_elements}];
          write.action = action;
          write.range = range;
          write.key = keys.of(written, range);
          write.axes.push_back(static_cast<int>(axis));
        }
      }
    });
  }
  return with_own_key(std::move(found));
}

}  // namespace tessera::host
