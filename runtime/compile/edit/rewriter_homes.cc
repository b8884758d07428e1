// Homes in the private copy of a program: several become one, and so do the actions on them. Replaced homes stay in the
// table, marked, until the pass ends: a strategy with an owner for each tensor replaces a thousand, one at a time.

#include <algorithm>
#include <set>
#include <tuple>

#include "compile/edit/rewriter.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

/// The role of `home` that the binding of one of its actions covers, or -1.
int role_of(const Home& home, const Binding& binding) {
  for (const auto& [number, role] : home.roles)
    if (role.buffer && role.buffer == binding.buffer && role.offset == binding.offset) return static_cast<int>(number);
  return -1;
}

/// Actions on merged homes are merged if their keys are equal.
using HomeActionKey = std::tuple<uint32_t, int, int>;  // kind, group, micro-batch
HomeActionKey key_of(const Action& action) {
  return {action.kind, action.group, action.micro_batch};
}

}  // namespace

void Rewriter::bind_home_action(Action& a, const Home& from, const Home& to) {
  std::erase(on_home_[a.home], a.id);
  on_home_[to.id].push_back(a.id);
  a.home = to.id;
  for (Binding& b : a.bindings) {
    const int role = role_of(from, b);
    if (role < 0) continue;
    const HomeRole& place = to.roles[static_cast<uint32_t>(role)];
    b = {place.buffer, place.offset, place.num_elements, b.slot, b.mode};
  }
  std::erase_if(a.bindings, [](const Binding& b) { return b.buffer == 0; });
}

// Merges homes and the actions on them. fsdp makes one home for each unit, so that a dozen actions become one:
//
//     sum_squares home=h.0.ln_1.weight  ...           sum_squares home=h.0  r %101 src  a %2 x:squares
//     sum_squares home=h.0.ln_1.bias  ...       ->
//     ...
//
// Of the actions of one kind, group and micro-batch, the first is kept and bound to the roles of the new home; the
// others are removed. Without a new home all are removed: another rank owns the homes.
uint64_t Rewriter::replace_homes(const std::vector<uint64_t>& ids, const tsr_home* replacement) {
  Home made;
  if (replacement) made = copy_of(*replacement);
  std::set<HomeActionKey> seen;
  for (const uint64_t id : actions_on(ids)) {
    Action& a = action(id);
    if (replacement && seen.insert(key_of(a)).second)
      bind_home_action(a, home(a.home), made);
    else
      remove(id);
  }
  for (uint64_t id : ids)
    home(id);
  for (uint64_t id : ids)
    if (!replaced_homes_.insert(id).second) throw Error(TSR_E_INVALID_ARGUMENT, "a home to replace is named twice");
  if (replacement) program_.homes.push_back(std::move(made));
  return replacement ? program_.homes.back().id : 0;
}

// Of two actions with one key, the first in the list is kept. Finding it takes a walk over the list, so this is done
// once, not for each of a thousand homes: only order() changes the order of actions that are there.
std::vector<uint64_t> Rewriter::actions_on(const std::vector<uint64_t>& homes) {
  std::vector<uint64_t> found;
  std::set<HomeActionKey> keys;
  for (const uint64_t home : homes)
    for (const uint64_t id : on_home_[home]) {
      found.push_back(id);
      keys.insert(key_of(action(id)));
    }
  if (keys.size() == found.size()) return found;
  const auto is_numbered = [&](uint64_t id) { return id < turns_.size() && turns_[id] != 0; };
  if (!std::ranges::all_of(found, is_numbered)) number_actions();
  std::ranges::sort(found, {}, [&](uint64_t id) { return turns_[id]; });
  return found;
}

void Rewriter::number_actions() {
  turns_.assign(program_.next_id, 0);
  uint32_t turn = 0;
  for (const Action& action : actions_)
    turns_[action.id] = ++turn;
}

void Rewriter::erase_replaced_homes() {
  std::erase_if(program_.homes, [&](const Home& h) { return replaced_homes_.contains(h.id); });
  replaced_homes_.clear();
}

}  // namespace tessera::host
