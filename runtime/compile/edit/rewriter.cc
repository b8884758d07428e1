// Edits a private copy of a program. Actions are a linked list with an index by id: an insert, a removal and a lookup
// take constant time, and handles stay valid whatever is inserted around them.
//
// Inserts at one anchor keep the order of the calls, on both sides:
//
//     after(5, a)  after(5, b)  before(5, c)  before(5, d)    gives    c d 5 a b
//
// So a pass that inserts a cast, a collective and a cast makes three calls with one anchor and does not have to chain
// ids.
//
// Ids are checked where they are used. They are never given out twice, and a new one may be used at once. Cost:
// each binding is checked in the logarithm of the buffers; rebind, order, complete and collect_garbage walk the whole
// list.

#include "compile/edit/rewriter.h"

#include <algorithm>
#include <set>
#include <utility>

#include "passes/completion.h"
#include "tessera/error.hpp"
#include "verify/diagnostics.h"

namespace tessera::host {
namespace {

Error invalid(const std::string& text) {
  return Error(TSR_E_INVALID_ARGUMENT, text);
}

}  // namespace

Rewriter::Rewriter(Program program, const DescribeOp& describe, int strategy)
    : program_(std::move(program)), describe_(describe), strategy_(strategy) {
  actions_.assign(std::make_move_iterator(program_.actions.begin()), std::make_move_iterator(program_.actions.end()));
  program_.actions.clear();
  for (auto position = actions_.begin(); position != actions_.end(); ++position)
    index(position);
  first_ = actions_.begin();
}

void Rewriter::index(Position position, uint64_t inserted_after) {
  by_id_[position->id] = {position, position, inserted_after};
  if (position->home) on_home_[position->home].push_back(position->id);
}

Program Rewriter::take() {
  for (Action& a : actions_)
    // A pass may ask for a wait and later remove the awaited action.
    std::erase_if(a.waits_for, [&](uint64_t earlier) { return !by_id_.contains(earlier); });
  erase_replaced_homes();
  program_.actions.assign(std::make_move_iterator(actions_.begin()), std::make_move_iterator(actions_.end()));
  return std::move(program_);
}

Action& Rewriter::action(uint64_t id) {
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) throw invalid("action " + std::to_string(id) + " does not exist");
  return *found->second.position;
}
Buffer& Rewriter::buffer(uint64_t id) {
  const auto found = std::ranges::lower_bound(program_.buffers, id, {}, &Buffer::id);
  if (found == program_.buffers.end() || found->id != id)
    throw invalid("buffer " + std::to_string(id) + " does not exist");
  return *found;
}
Home& Rewriter::home(uint64_t id) {
  const auto found = std::ranges::lower_bound(program_.homes, id, {}, &Home::id);
  if (found == program_.homes.end() || found->id != id || replaced_homes_.contains(id))
    throw invalid("home " + std::to_string(id) + " does not exist");
  return *found;
}

void Rewriter::check_binding(const tsr_binding& b) {
  check_spare(b, "tsr_binding");
  const Buffer& target = buffer(b.buffer);
  if (b.offset > target.num_elements || b.num_elements > target.num_elements - b.offset)
    throw invalid("range " + std::to_string(b.offset) + "+" + std::to_string(b.num_elements) + " is outside buffer " +
                  target.name + " of " + std::to_string(target.num_elements) + " elements");
  if (b.mode < TSR_MODE_READ || b.mode > TSR_MODE_ADD)
    throw invalid(std::to_string(b.mode) + " is not a mode (TSR_MODE_*)");
}

void Rewriter::check_binding(const Action& action, const tsr_binding& b) {
  check_binding(b);
  if (is_collective(action.kind) && TSR_SLOT_ROLE(b.slot) == TSR_ROLE_WORKSPACE)
    throw invalid(std::string(action_name(action.kind)) +
                  " binds a workspace; the host gives collectives what their communicator asks for");
}

HomeRole Rewriter::place_of(const tsr_home_role& role) {
  check_spare(role, "tsr_home_role");
  if (role.number >= kMaxHomeRoles)
    throw invalid(std::to_string(role.number) + " is not a role of a home (TSR_HOME_*)");
  if (role.buffer == 0) return {};
  if (role.granule != 1)
    throw Error(TSR_E_UNSUPPORTED, "the " + home_role_name(role.number) + " of a home has granule " +
                                       std::to_string(role.granule) +
                                       "; so far a role has one element for each of the home's");
  check_binding({role.buffer, role.offset, role.num_elements, 0, TSR_MODE_READ});
  return {role.buffer, role.offset, role.num_elements};
}

Home Rewriter::copy_of(const tsr_home& home) {
  check_spare(home, "tsr_home");
  if (home.unit < 0 || static_cast<size_t>(home.unit) >= program_.model->units.size())
    throw invalid("a home is of unit " + std::to_string(home.unit) + "; the model has " +
                  std::to_string(program_.model->units.size()) + " units");
  Home made{program_.next_id++, tessera::to_string(home.name),
            home.unit,          {home.pieces, home.pieces + home.num_pieces},
            home.num_elements,  {}};
  for (const tsr_piece& piece : made.pieces)
    check_spare(piece, "tsr_piece");
  for (uint32_t i = 0; i < home.num_roles; ++i)
    if (const HomeRole place = place_of(home.roles[i]); place.buffer) made.roles[home.roles[i].number] = place;
  return made;
}

uint32_t Rewriter::add_stream(int32_t axis, std::string_view lane) {
  if (axis != TSR_WORLD_AXIS && (axis < 0 || axis >= static_cast<int32_t>(program_.mesh->axes().size())))
    throw invalid("axis " + std::to_string(axis) + " does not exist");
  if (lane.empty() || lane.find_first_of(" .\n\t") != lane.npos)
    throw invalid("a lane's name must be one word without dots");
  return program_.comm_stream(axis, lane);
}

int32_t Rewriter::add_group(const tsr_group& group) {
  check_spare(group, "tsr_group");
  const auto num_axes = static_cast<int32_t>(program_.mesh->axes().size());
  if (group.axis != TSR_WORLD_AXIS && (group.axis < 0 || group.axis >= num_axes))
    throw invalid("axis " + std::to_string(group.axis) + " does not exist");
  Group wanted{group.axis, {group.coordinates, group.coordinates + group.num_coordinates}};
  if (!std::ranges::is_sorted(wanted.coordinates, std::less_equal<>()))
    throw invalid("the coordinates of a group must ascend, without repeats");
  const int32_t num_ranks = group.axis == TSR_WORLD_AXIS ? 0 : program_.mesh->axes()[group.axis].num_ranks;
  for (int c : wanted.coordinates)
    if (c < 0 || c >= num_ranks) throw invalid("the axis of a group has no coordinate " + std::to_string(c));
  return program_.group(wanted);
}

uint64_t Rewriter::add_buffer(const tsr_buffer& b) {
  check_spare(b, "tsr_buffer");
  check_flags(b.flags, TSR_BUFFER_PERSISTENT, "tsr_buffer");
  buffer_kind_name(b.kind);
  dtype_name(b.dtype);
  if (b.memory != TSR_MEMORY_DEVICE && b.memory != TSR_MEMORY_HOST)
    throw invalid("memory " + std::to_string(b.memory) + " does not exist");
  return program_.add_buffer({0, tessera::to_string(b.name), b.kind, b.memory, b.dtype,
                              (b.flags & TSR_BUFFER_PERSISTENT) != 0, b.num_elements,
                              b.kind == TSR_BUFFER_PLUGIN ? strategy_ : -1});
}

void Rewriter::check_is_member(const tsr_action& a) {
  const Group& group = program_.groups[a.group];
  if (program_.mesh->position(group, program_.coordinates) < 0)
    throw invalid(std::string(action_name(a.kind)) + " is for group " + group_text(program_, group) +
                  ", and coordinate " + std::to_string(program_.coordinates[group.axis]) +
                  " of this rank is outside it");
}

Action Rewriter::copy_of(const tsr_action& a) {
  check_spare(a, "tsr_action");
  check_flags(a.flags, TSR_ACTION_PREDICATED, "tsr_action");
  action_name(a.kind);
  if (a.stream >= program_.streams.size()) throw invalid("stream " + std::to_string(a.stream) + " does not exist");
  const int32_t num_groups = static_cast<int32_t>(program_.groups.size());
  if (a.group < (is_collective(a.kind) ? 0 : -1) || a.group >= num_groups)
    throw invalid(std::string(action_name(a.kind)) + " names group " + std::to_string(a.group) + " of " +
                  std::to_string(num_groups));
  if (a.group >= 0) check_is_member(a);
  if (a.segment >= static_cast<int32_t>(program_.model->segments.size()))
    throw invalid("segment " + std::to_string(a.segment) + " does not exist");
  if (a.home) home(a.home);
  Action action{.id = program_.next_id++,
                .kind = a.kind,
                .stream = a.stream,
                .segment = a.segment,
                .micro_batch = a.micro_batch,
                .group = a.group,
                .peer = a.peer,
                .reduce = a.reduce,
                .flags = a.flags,
                .home = a.home,
                .tag = a.tag,
                .scale = a.scale,
                .strategy = a.strategy,
                .code = a.code,
                .bindings = {a.bindings, a.bindings + a.num_bindings},
                .counts = {},
                .peers = {},
                .dependencies = {},
                .waits_for = {}};
  if (a.counts) action.counts.assign(a.counts, a.counts + a.num_counts);
  if (a.peers) action.peers.assign(a.peers, a.peers + a.num_peers);
  for (const Binding& b : action.bindings)
    check_binding(action, b);
  return action;
}

uint64_t Rewriter::insert(uint64_t anchor, uint32_t where, const tsr_action& a) {
  if (where != TSR_BEFORE && where != TSR_AFTER)
    throw invalid(std::to_string(where) + " is not a place to insert: give TSR_BEFORE or TSR_AFTER");
  if (anchor) action(anchor);
  Action made = copy_of(a);
  Position position;
  if (anchor == 0) {
    position = actions_.insert(where == TSR_BEFORE ? first_ : actions_.end(), std::move(made));
    // The first action of an empty program: later inserts at the start go in front of it.
    if (where == TSR_AFTER && first_ == actions_.end()) first_ = position;
  } else if (where == TSR_BEFORE) {
    position = actions_.insert(by_id_[anchor].position, std::move(made));
  } else {
    Anchored& at = by_id_[anchor];
    position = actions_.insert(std::next(at.last_after), std::move(made));
    at.last_after = position;
  }
  index(position, where == TSR_AFTER ? anchor : 0);
  return position->id;
}

void Rewriter::remove(uint64_t id) {
  action(id);
  const auto [gone, last_after, inserted_after] = by_id_[id];
  const auto anchor = by_id_.find(inserted_after);
  // The next insert after that anchor goes to where this one was.
  if (anchor != by_id_.end() && anchor->second.last_after == gone) anchor->second.last_after = std::prev(gone);
  if (first_ == gone) ++first_;
  if (gone->home) std::erase(on_home_[gone->home], id);
  actions_.erase(gone);
  by_id_.erase(id);
}

void Rewriter::bind(uint64_t id, const tsr_binding& binding) {
  Action& a = action(id);
  check_binding(a, binding);
  const auto found = std::ranges::find(a.bindings, binding.slot, &Binding::slot);
  if (found == a.bindings.end())
    a.bindings.push_back(binding);
  else
    *found = binding;
}

// Actions and homes that use `from` use `to` instead: so ddp moves the gradients of small units into one bucket. `from`
// stays, unused, until garbage is collected.
void Rewriter::rebind(uint64_t from, uint64_t to, uint64_t offset) {
  const Buffer &old = buffer(from), &target = buffer(to);
  if (offset > target.num_elements || old.num_elements > target.num_elements - offset || old.dtype != target.dtype)
    throw invalid("buffer " + old.name + " does not fit into " + target.name + " at " + std::to_string(offset));
  for (Action& a : actions_)
    for (Binding& b : a.bindings)
      if (b.buffer == from) b = {to, b.offset + offset, b.num_elements, b.slot, b.mode};
  for (Home& h : program_.homes)
    for (auto& [number, role] : h.roles)
      if (role.buffer == from) role = {to, role.offset + offset, role.num_elements};
}

void Rewriter::set_role(uint64_t id, const tsr_home_role& role) {
  const HomeRole place = place_of(role);
  home(id).roles[role.number] = place;
}

void Rewriter::order(const std::vector<uint64_t>& ids) {
  if (ids.size() != actions_.size() || std::set<uint64_t>(ids.begin(), ids.end()).size() != ids.size())
    throw invalid("an order must name each of the " + std::to_string(actions_.size()) + " actions exactly once");
  for (uint64_t id : ids)
    action(id);
  for (uint64_t id : ids)
    actions_.splice(actions_.end(), actions_, by_id_[id].position);
  // Actions inserted after an anchor may now be anywhere, so the next insert goes right after the anchor again.
  for (auto& [id, anchored] : by_id_)
    anchored.last_after = anchored.position;
  first_ = actions_.begin();
  turns_.clear();
}

void Rewriter::wait_for(uint64_t id, uint64_t earlier) {
  action(earlier);
  if (id == earlier) throw invalid("action " + std::to_string(id) + " cannot wait for itself");
  action(id).waits_for.push_back(earlier);
}

// In two passes on two axes the sum is inserted once.
uint64_t Rewriter::complete(uint64_t id) {
  const Home& completed = home(id);
  for (const Action& a : actions_)
    if (is_completion(program_, a, completed)) return a.id;
  const Position reader = first_reader(actions_, gradient_of(completed));
  uint64_t last = 0;
  if (reader == actions_.end()) return last;
  for (Action& sum : completions_of(program_, completed)) {
    last = sum.id;
    index(actions_.insert(reader, std::move(sum)));
  }
  return last;
}

void Rewriter::describe_state(uint64_t id, const tsr_state_description& state) {
  Buffer& described = buffer(id);
  if (described.kind != TSR_BUFFER_PLUGIN || !described.persistent || described.strategy != strategy_)
    throw invalid("buffer " + described.name + " is not a persistent one of the strategy's own (TSR_BUFFER_PLUGIN)");
  if (state.on_change < TSR_ON_CHANGE_RESET || state.on_change > TSR_ON_CHANGE_REFUSE)
    throw invalid(std::to_string(state.on_change) + " does not say what becomes of state (TSR_ON_CHANGE_*)");
  const StateDescription description{state.version, state.on_change};
  if (described.state != StateDescription() && described.state != description)
    throw invalid("buffer " + described.name + " is described twice, and not alike");
  described.state = description;
}

void Rewriter::collect_garbage() {
  erase_replaced_homes();
  program_.erase_unused_buffers(actions_);
}

}  // namespace tessera::host
