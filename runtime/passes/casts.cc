// With 16-bit values a step begins with the casts of all homes, and their copies live until the backward has used them:
//
//     compute   cast  r %7 src  w %30 dst                       %30 = gathered h.0 bf16[13312]
//     ...
//     compute   forward h.0.ln_1 mb=0   r %30+0:32 p:ln_1.weight  ...
//     compute   backward h.0.ln_1 mb=0  r %30+0:32 p:ln_1.weight  ...
//
// becomes
//
//     compute   cast  r %7 src  w %30 dst
//     compute   forward h.0.ln_1 mb=0   r %30+0:32 p:ln_1.weight  ...
//     ...
//     compute   cast  r %7 src  w %90 dst                       %90 = gathered h.0 bf16[13312]
//     compute   backward h.0.ln_1 mb=0  r %90+0:32 p:ln_1.weight  ...
//
// Only copies that nothing but their cast writes, and whose home nothing writes between the cast and the last use.
// Cost: linear in the bindings, and in the copies times the actions that are inserted.

#include "passes/casts.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace tessera::host {
namespace {

/// A compute copy: the action that casts it, and those that use it.
struct CastCopy {
  size_t cast = 0;
  std::vector<size_t> uses;
  bool is_plain = true;
};

/// What uses of one run have in common; an action that does not compute is a run of its own.
using RunKey = std::tuple<int, int, bool, size_t>;

RunKey run_of(const Program& program, size_t index) {
  const Action& action = program.actions[index];
  if (!is_compute(action.kind)) return {-1, -1, false, index};
  const Segment& segment = program.model->segments[action.segment];
  const int block = segment.block >= 0 ? segment.block : program.model->num_blocks() + action.segment;
  return {block, action.micro_batch, action.kind == TSR_ACTION_FORWARD, 0};
}

class Recaster {
 public:
  explicit Recaster(Program& program) : program_(program) {}

  void run() {
    find_copies();
    for (const auto& [buffer, copy] : copies_)
      if (copy.is_plain && !copy.uses.empty()) recast(buffer, copy);
    rebuild();
  }

 private:
  void find_copies() {
    std::map<uint64_t, size_t> last_write;  // of each persistent buffer
    for (size_t i = 0; i < program_.actions.size(); ++i)
      for (const Binding& b : program_.actions[i].bindings)
        if (b.mode != TSR_MODE_READ && program_.buffer(b.buffer).persistent) last_write[b.buffer] = i;
    for (size_t i = 0; i < program_.actions.size(); ++i)
      if (program_.actions[i].kind == TSR_ACTION_CAST && is_of_home(program_.actions[i]))
        copies_[program_.actions[i].find(kDestination)->buffer].cast = i;
    for (size_t i = 0; i < program_.actions.size(); ++i)
      for (const Binding& b : program_.actions[i].bindings)
        if (const auto copy = copies_.find(b.buffer); copy != copies_.end() && i != copy->second.cast) {
          copy->second.is_plain &= b.mode == TSR_MODE_READ && i > copy->second.cast;
          if (copy->second.uses.empty() || copy->second.uses.back() != i) copy->second.uses.push_back(i);
        }
    for (auto& [buffer, copy] : copies_) {
      const auto written = last_write.find(program_.actions[copy.cast].find(kSource)->buffer);
      if (copy.uses.empty() || written == last_write.end()) continue;
      copy.is_plain &= written->second < copy.cast || written->second > copy.uses.back();
    }
  }

  /// Whether it is a cast of a home into the whole of a transient buffer.
  bool is_of_home(const Action& cast) const {
    const Binding &source = *cast.find(kSource), &destination = *cast.find(kDestination);
    const Buffer &from = program_.buffer(source.buffer), &to = program_.buffer(destination.buffer);
    return from.kind == TSR_BUFFER_HOME && from.persistent && to.kind == TSR_BUFFER_GATHERED && !to.persistent &&
           destination.offset == 0 && destination.num_elements == to.num_elements;
  }

  void recast(uint64_t buffer, const CastCopy& copy) {
    const Action cast = program_.actions[copy.cast];
    removed_.push_back(copy.cast);
    std::optional<RunKey> last;
    uint64_t own = 0;
    for (const size_t use : copy.uses) {
      const RunKey key = run_of(program_, use);
      if (key != last) own = insert_cast(cast, buffer, own == 0, use);
      last = key;
      for (Binding& b : program_.actions[use].bindings)
        if (b.buffer == buffer) b.buffer = own;
    }
  }

  uint64_t insert_cast(Action cast, uint64_t buffer, bool is_first, size_t before) {
    Buffer like = program_.buffer(buffer);
    const uint64_t own = is_first ? buffer : program_.add_buffer(std::move(like));
    if (!is_first) cast.id = program_.next_id++;
    for (Binding& b : cast.bindings)
      if (b.slot == kDestination) b.buffer = own;
    inserted_[before].push_back(std::move(cast));
    return own;
  }

  void rebuild() {
    std::vector<Action> result;
    for (size_t i = 0; i < program_.actions.size(); ++i) {
      if (const auto casts = inserted_.find(i); casts != inserted_.end())
        std::ranges::move(casts->second, std::back_inserter(result));
      if (std::ranges::find(removed_, i) == removed_.end()) result.push_back(std::move(program_.actions[i]));
    }
    program_.actions = std::move(result);
  }

  Program& program_;
  std::map<uint64_t, CastCopy> copies_;             // by buffer
  std::map<size_t, std::vector<Action>> inserted_;  // before these actions
  std::vector<size_t> removed_;
};

}  // namespace

void cast_anew(Program& program) {
  Recaster(program).run();
}

}  // namespace tessera::host
