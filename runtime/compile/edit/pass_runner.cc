// The host's side of the edit table: each entry forwards to a Rewriter, and guard() turns exceptions into statuses,
// since none may cross the ABI. With one call of insert, after action 40, ddp adds action 42:
//
//     40    compute             backward wte mb=0  ...  a %61+28928:3072 g:weight
//     42    comm.dp.gradient    all_reduce group=dp reduce=sum  a %61 dst
//     43    compute             sum_squares home=wte.weight  r %61+28928:3072 src  ...
//
// An invalid edit fails at the call that makes it, where the author of a pass can see it; faults that show only in the
// whole program (races, missing sums) are left to the verifiers.
//
// Invariant: a failed pass leaves no trace. Edits go to a private copy, which replaces the program when the pass
// returns OK. Cost: a snapshot and a copy of the program for each pass, then that of its edits (rewriter.cc).

#include "compile/edit/pass_runner.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <utility>

#include "base/concat.h"
#include "compile/edit/edit_checks.h"
#include "compile/edit/program_snapshot.h"
#include "compile/edit/rewriter.h"
#include "guard/lent_table.h"
#include "guard/plugin_calls.h"
#include "guard/process_state.h"
#include "guard/readable.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

constexpr std::string_view kDomain = "host";

/// What an edit table's `ctx` is: the copy that is edited, and the first edit that failed.
struct Edits {
  Rewriter rewriter;
  std::string first_failure = {};
};

/// Runs `work(rewriter)` and remembers its failure: an edit that failed may be half done, so the pass has failed too,
/// whatever it returns.
template <class Work>
tsr_status edit(void* ctx, const char* function, tsr_error* err, const Work& work) noexcept {
  return guard(err, kDomain, [&] {
    Edits& edits = borrowed<Edits>(ctx, function);
    try {
      work(edits.rewriter);
    } catch (const std::exception& e) {
      if (edits.first_failure.empty()) edits.first_failure = concat(function, ": ", e.what());
      throw;
    }
  });
}

/// Where a result of an edit goes.
template <class T>
void check_result(const T* result) {
  checked(result, "the pointer for the result");
}

/// The edits of the list of actions.
void set_edits_of_actions(tsr_edit& t) {
  t.insert = [](void* ctx, uint64_t anchor, uint32_t where, const tsr_action* action, uint64_t* id,
                tsr_error* err) noexcept {
    return edit(ctx, "insert", err, [&](Rewriter& r) {
      check_result(id);
      *id = r.insert(anchor, where, checked_action(action));
    });
  };
  t.remove = [](void* ctx, uint64_t action, tsr_error* err) noexcept {
    return edit(ctx, "remove", err, [&](Rewriter& r) { r.remove(action); });
  };
  t.bind = [](void* ctx, uint64_t action, const tsr_binding* binding, tsr_error* err) noexcept {
    return edit(ctx, "bind", err, [&](Rewriter& r) { r.bind(action, checked(binding, "the binding")); });
  };
  t.split_backward = [](void* ctx, uint64_t action, uint64_t* input, uint64_t* weight, tsr_error* err) noexcept {
    return edit(ctx, "split_backward", err, [&](Rewriter& r) {
      check_result(input);
      check_result(weight);
      std::tie(*input, *weight) = r.split_backward(action);
    });
  };
  t.order = [](void* ctx, const uint64_t* actions, uint64_t num_actions, tsr_error* err) noexcept {
    return edit(ctx, "order", err, [&](Rewriter& r) {
      check_array(actions, num_actions, "the array actions");
      r.order({actions, actions + num_actions});
    });
  };
  t.wait_for = [](void* ctx, uint64_t action, uint64_t earlier, tsr_error* err) noexcept {
    return edit(ctx, "wait_for", err, [&](Rewriter& r) { r.wait_for(action, earlier); });
  };
}

/// The edits of what actions use: streams, groups, buffers, homes.
void set_other_edits(tsr_edit& t) {
  t.add_stream = [](void* ctx, int32_t axis, tsr_str lane, uint32_t* stream, tsr_error* err) noexcept {
    return edit(ctx, "add_stream", err, [&](Rewriter& r) {
      check_text(lane, "the lane's name");
      check_result(stream);
      *stream = r.add_stream(axis, view(lane));
    });
  };
  t.add_group = [](void* ctx, const tsr_group* group, int32_t* index, tsr_error* err) noexcept {
    return edit(ctx, "add_group", err, [&](Rewriter& r) {
      check_result(index);
      *index = r.add_group(checked_group(group));
    });
  };
  t.add_buffer = [](void* ctx, const tsr_buffer* buffer, uint64_t* id, tsr_error* err) noexcept {
    return edit(ctx, "add_buffer", err, [&](Rewriter& r) {
      check_result(id);
      *id = r.add_buffer(checked_buffer(buffer));
    });
  };
  t.rebind = [](void* ctx, uint64_t from, uint64_t to, uint64_t offset, tsr_error* err) noexcept {
    return edit(ctx, "rebind", err, [&](Rewriter& r) { r.rebind(from, to, offset); });
  };
  t.set_role = [](void* ctx, uint64_t home, const tsr_home_role* role, tsr_error* err) noexcept {
    return edit(ctx, "set_role", err, [&](Rewriter& r) { r.set_role(home, checked(role, "the role")); });
  };
  t.replace_homes = [](void* ctx, const uint64_t* homes, uint64_t num_homes, const tsr_home* replacement, uint64_t* id,
                       tsr_error* err) noexcept {
    return edit(ctx, "replace_homes", err, [&](Rewriter& r) {
      check_array(homes, num_homes, "the array homes");
      const uint64_t made = r.replace_homes({homes, homes + num_homes}, checked_home(replacement));
      if (id) *id = made;
    });
  };
  t.collect_garbage = [](void* ctx, tsr_error* err) noexcept {
    return edit(ctx, "collect_garbage", err, [&](Rewriter& r) { r.collect_garbage(); });
  };
  t.complete = [](void* ctx, uint64_t home, uint64_t* action, tsr_error* err) noexcept {
    return edit(ctx, "complete", err, [&](Rewriter& r) {
      check_result(action);
      *action = r.complete(home);
    });
  };
  t.describe_state = [](void* ctx, uint64_t buffer, const tsr_state_description* state, tsr_error* err) noexcept {
    return edit(ctx, "describe_state", err, [&](Rewriter& r) { r.describe_state(buffer, checked_state(state)); });
  };
}

tsr_edit edit_functions() {
  tsr_edit t{};
  t.struct_size = sizeof t;
  set_edits_of_actions(t);
  set_other_edits(t);
  return t;
}

[[noreturn]] void refuse(const Program& program, const StrategyOnAxis& strategy, const Error& e) {
  throw Error(e.code(), strategies_text(*program.mesh, {&strategy, 1}) + ": " + e.what());
}

/// Of the buffers that the pass has added, those that outlive a step. A checkpoint holds what homes have in the roles
/// that the host gives them, and beside a VALUE in a MASTER, and what is a strategy's own.
void check_kept(const Program& before, const Program& program, const StrategyOnAxis& strategy, uint64_t first_new) {
  std::set<uint32_t> saved{TSR_HOME_MASTER};
  for (const Home& home : before.homes)
    for (const auto& [role, place] : home.roles)
      if (place.buffer) saved.insert(role);
  const auto is_role = [&](uint64_t id) {
    return std::ranges::any_of(program.homes, [&](const Home& home) {
      return std::ranges::any_of(saved, [&](uint32_t role) { return home.roles[role].buffer == id; });
    });
  };
  for (const Buffer& buffer : program.buffers)
    if (buffer.id >= first_new && buffer.persistent && buffer.kind != TSR_BUFFER_PLUGIN && !is_role(buffer.id))
      refuse(
          program, strategy,
          Error(TSR_E_INVALID_ARGUMENT,
                concat(
                    "the buffer ", buffer.name, " is persistent and of kind ", buffer_kind_name(buffer.kind),
                    ", and no home has it as its value, master or state of the optimizer: no checkpoint would hold it; "
                    "make it one of these, or give it the kind TSR_BUFFER_PLUGIN, which is saved as the strategy's "
                    "own")));
}

/// The strategy's index; -1 in a program that does not list it.
int index_of(const Program& program, const StrategyOnAxis& strategy) {
  const auto found = std::ranges::find(program.strategies, strategy.instance, &StrategyOnAxis::instance);
  return found == program.strategies.end() ? -1 : static_cast<int>(found - program.strategies.begin());
}

/// Of flat elements; dims are checked where they are cut (passes/shard_model.cc).
void check_flat_split(const tsr_layout_entry& entry, const Program& program) {
  if (entry.kind != TSR_LAYOUT_SPLIT || entry.dim >= 0) return;
  const Parameter& parameter = program.model->parameters[static_cast<size_t>(entry.parameter)];
  const Axis& axis = program.mesh->axes()[static_cast<size_t>(entry.axis)];
  if (entry.num_coordinates == 0 && entry.parts != static_cast<uint32_t>(axis.num_ranks))
    throw Error(TSR_E_INVALID_ARGUMENT,
                concat("a layout entry splits ", parameter.name, " into ", entry.parts, " parts over the ",
                       axis.num_ranks, " ranks of ", axis.name,
                       "; give it one part for each rank, or list the coordinate that owns the whole"));
  if (entry.padded_size < parameter.num_elements)
    throw Error(TSR_E_INVALID_ARGUMENT,
                concat("a layout entry splits ", parameter.name, ", which has ", parameter.num_elements,
                       " elements, and its padded_size is ", entry.padded_size, "; give at least the elements"));
}

/// Refuses an entry that this host could only misunderstand.
void check_entry(const tsr_layout_entry& entry, const StrategyOnAxis& strategy, const Program& program) {
  const size_t num_parameters = program.model->parameters.size();
  check_spare(entry, "tsr_layout_entry");
  if (entry.axis != strategy.axis)
    throw Error(TSR_E_INVALID_ARGUMENT, "a layout entry is for axis " + std::to_string(entry.axis) +
                                            ", but a strategy declares the layout of its own axis only");
  const bool is_of_parameter = entry.parameter >= 0 && static_cast<size_t>(entry.parameter) < num_parameters;
  if (!is_of_parameter && entry.parameter != kNamedDim)
    throw Error(TSR_E_INVALID_ARGUMENT, "parameter " + std::to_string(entry.parameter) + " does not exist");
  if (is_of_parameter && entry.name != 0)
    throw Error(TSR_E_INVALID_ARGUMENT,
                "a layout entry has a parameter and names a dim of values; it is for one of them");
  int last = -1;
  for (const int32_t coordinate : std::span(entry.coordinates, entry.num_coordinates)) {
    const Axis& axis = program.mesh->axes()[static_cast<size_t>(entry.axis)];
    if (coordinate <= last || coordinate >= axis.num_ranks)
      throw Error(TSR_E_INVALID_ARGUMENT, concat("a layout entry must list ascending coordinates of ", axis.name,
                                                 ", from 0 to ", axis.num_ranks - 1));
    last = coordinate;
  }
  if (is_of_parameter) return check_flat_split(entry, program);
  if (entry.name != TSR_DIM_ROWS || entry.kind != TSR_LAYOUT_SPLIT || entry.dim != -1 ||
      strategy.interface->splits != TSR_SPLITS_TENSORS)
    throw Error(TSR_E_UNSUPPORTED, "a layout entry splits dim " + std::to_string(entry.name) +
                                       " of values; so far only their rows (TSR_DIM_ROWS) can be split, over an axis "
                                       "that splits tensors");
}

/// Refuses a second entry for a role of a parameter: what rules see of one entry is then all there is. `roles`: those
/// that entries have so far, by parameter.
void check_roles(const tsr_layout_entry& entry, const Program& program, std::map<int, uint32_t>& roles) {
  if (entry.parameter == kNamedDim) return;
  uint32_t& known = roles[entry.parameter];
  if (const uint32_t twice = known & entry.roles)
    throw Error(
        TSR_E_INVALID_ARGUMENT,
        concat("two layout entries are for the ", home_role_name(static_cast<uint32_t>(std::countr_zero(twice))),
               " of ", program.model->parameters[static_cast<size_t>(entry.parameter)].name, " on axis ",
               program.mesh->axes()[static_cast<size_t>(entry.axis)].name, "; give each role one entry"));
  known |= entry.roles;
}

/// `snapshot` shows the program.
Program after_pass(const Program& program, const ProgramSnapshot& snapshot, const StrategyOnAxis& strategy,
                   const DescribeOp& describe) {
  Edits edits{Rewriter(program, describe, index_of(program, strategy))};
  const LentTable table(edit_functions(), &edits, "the edit table", address_of(strategy.interface->lower));
  try {
    call_unchanged(strategy.interface->lower, strategy.instance, &snapshot.view(), &table.table());
    snapshot.check_unchanged(address_of(strategy.interface->lower));
    if (!edits.first_failure.empty())
      throw Error(TSR_E_INVALID_ARGUMENT,
                  concat("its pass returned OK although an edit had failed (", edits.first_failure,
                         "); return the status of the first edit that fails"));
  } catch (const Error& e) {
    refuse(program, strategy, e);
  }
  const uint64_t first_new = program.next_id;
  Program lowered = edits.rewriter.take();
  check_kept(program, lowered, strategy, first_new);
  return lowered;
}

}  // namespace

void BaseProgram::move_to(const Coordinates& coordinates, const Layout& layout, uint32_t variant) {
  program_.coordinates = coordinates;
  program_.layout = layout;
  program_.variant = variant;
}

const ProgramSnapshot& BaseProgram::shown_to(const StrategyOnAxis& strategy) {
  const auto [shown, is_new] =
      shown_.try_emplace(strategy.instance, program_, strategy.axis, index_of(program_, strategy));
  if (!is_new) shown->second.show_rank_of(program_);
  return shown->second;
}

// The first pass reads the base program itself, which saves a copy.
Program BaseProgram::after_passes(std::span<const StrategyOnAxis> strategies, const DescribeOp& describe) {
  if (strategies.empty()) return program_;
  const StrategyOnAxis& first = strategies.front();
  Program program = after_pass(program_, shown_to(first), first, describe);
  for (const StrategyOnAxis& strategy : strategies.subspan(1))
    run_pass(program, strategy, describe);
  return program;
}

void run_pass(Program& program, const StrategyOnAxis& strategy, const DescribeOp& describe) {
  const ProgramSnapshot snapshot(program, strategy.axis, index_of(program, strategy));
  program = after_pass(program, snapshot, strategy, describe);
}

void BaseProgram::add_layout(const StrategyOnAxis& strategy) {
  if (!TSR_HAS_FN(strategy.interface, tsr_strategy_interface, layout)) return;
  struct Sink {
    const StrategyOnAxis& strategy;
    const Program& program;
    Layout layout;
    std::map<int, uint32_t> roles;
  } sink{strategy, program_, {}, {}};
  tsr_layout_sink table{};
  table.struct_size = sizeof table;
  table.add_entry = [](void* ctx, const tsr_layout_entry* s, tsr_error* err) noexcept {
    return guard(err, kDomain, [&] {
      Sink& to = borrowed<Sink>(ctx, "add_entry");
      checked_entry(s);
      check_entry(*s, to.strategy, to.program);
      check_roles(*s, to.program, to.roles);
      to.layout.push_back({s->parameter,
                           s->axis,
                           s->roles,
                           s->kind,
                           s->dim,
                           s->parts,
                           s->blocks,
                           {s->coordinates, s->coordinates + s->num_coordinates},
                           s->padded_size,
                           s->name});
    });
  };
  const LentTable lent(table, &sink, "the layout sink", address_of(strategy.interface->layout));
  const ProgramSnapshot& snapshot = shown_to(strategy);
  try {
    call_unchanged(strategy.interface->layout, strategy.instance, &snapshot.view(), &lent.table());
    snapshot.check_unchanged(address_of(strategy.interface->layout));
  } catch (const Error& e) {
    refuse(program_, strategy, e);
  }
  program_.layout.insert(program_.layout.end(), sink.layout.begin(), sink.layout.end());
}

}  // namespace tessera::host
