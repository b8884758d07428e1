// A program as arrays of the ABI's fixed-size structs. The arrays are owned here; names, dims, pieces and bindings are
// borrowed from the program. A pass sees the program as it was when the pass began, whatever it edits (rewriter.cc
// works on a copy), so it may insert actions while it loops over them.

#include "compile/edit/program_snapshot.h"

#include "program/lower_op.h"
#include "tessera/error.hpp"
#include "tessera/op_table.hpp"

namespace tessera::host {

namespace {

/// The states of the optimizers; SGD has the first alone.
constexpr tsr_str kStates[] = {{"m", 1}, {"v", 1}};

}  // namespace

struct ProgramSnapshot::Arrays {
  std::vector<tsr_axis> axes;
  std::vector<tsr_strategy_info> strategies;
  std::vector<tsr_unit> units;
  std::vector<tsr_parameter> parameters;
  std::vector<tsr_value> values;
  std::vector<tsr_placement> placements;  // of all values, one for each axis
  std::vector<tsr_segment_rule> rules;
  std::vector<tsr_op> ops;
  std::vector<tsr_segment> segments;
  std::vector<tsr_layout_entry> layout;
  std::vector<tsr_buffer> buffers;
  std::vector<tsr_home> homes;
  std::vector<std::vector<tsr_home_role>> roles;  // of each home
  std::vector<tsr_stream_info> streams;
  std::vector<tsr_group> groups;
  std::vector<tsr_action> actions;
  int32_t data_rank = 0;
  tsr_op optimizer{};
  tsr_program_view view{};
  ShownMemory shared, of_rank;  // what the view points to: equal for all ranks of one program, and the rest

  void add_parameters(const Model& model);
  void add_values(const Model& model, const Mesh& mesh);
  void add_segments(const Model& model);
  void add_program(const Program& program);
  void remember_shared();
  void set_rank(const Program& program);
};

void ProgramSnapshot::Arrays::add_parameters(const Model& model) {
  for (const Unit& unit : model.units)
    units.push_back({str(unit.name), unit.num_elements});
  for (const Parameter& p : model.parameters)
    parameters.push_back({str(p.name), p.dims.data(), static_cast<uint32_t>(p.dims.size()), p.unit, p.num_elements,
                          p.unit_offset, p.rows_axis < 0 ? 0 : uint64_t{1} << p.rows_axis,
                          p.trainable ? 0u : TSR_PARAMETER_FROZEN, 0});
}

namespace {

/// Where a value is over one axis. The model is this rank's, so a dim that is split has the extent of its part.
tsr_placement placement_of(const Value& value, const Axis& axis, int index) {
  for (const ValueSplit& split : value.splits)
    if (split.axis == index) return {TSR_PLACEMENT_SPLIT, split.dim, 0, 0};
  if (axis.splits == TSR_SPLITS_BATCH) return {TSR_PLACEMENT_SPLIT, TSR_DIM_BATCH, 0, 0};
  return {TSR_PLACEMENT_REPLICATED, 0, 0, 0};
}

}  // namespace

void ProgramSnapshot::Arrays::add_values(const Model& model, const Mesh& mesh) {
  for (const Value& v : model.values)
    for (size_t axis = 0; axis < mesh.axes().size(); ++axis)
      placements.push_back(placement_of(v, mesh.axes()[axis], static_cast<int>(axis)));
  for (size_t i = 0; i < model.values.size(); ++i) {
    const Value& v = model.values[i];
    values.push_back({str(v.name), v.dims.data(), static_cast<uint32_t>(v.dims.size()), v.kind, v.gradient_of, v.dtype,
                      v.num_elements, v.same_as, 0, placements.data() + i * mesh.axes().size(),
                      v.kind == TSR_VALUE_INPUT ? str(v.name) : tsr_str{}});
  }
}

void ProgramSnapshot::Arrays::add_segments(const Model& model) {
  for (const Segment& s : model.segments)
    rules.push_back({sizeof(tsr_segment_rule), 0, s.contractions.data(), s.contractions.size()});
  for (const Segment& s : model.segments)
    ops.push_back(trimmed(s.op));
  for (size_t i = 0; i < model.segments.size(); ++i) {
    const Segment& s = model.segments[i];
    const op::OpEntry* entry = op::find_op(s.op.kind);
    segments.push_back({str(s.name), &ops[i], &rules[i], s.parameters.data(), s.inputs.data(), s.outputs.data(),
                        static_cast<uint32_t>(s.parameters.size()), static_cast<uint32_t>(s.inputs.size()),
                        static_cast<uint32_t>(s.outputs.size()), entry && entry->is_tail ? TSR_SEGMENT_TAIL : 0u,
                        s.block, 0});
  }
}

void ProgramSnapshot::Arrays::add_program(const Program& program) {
  for (const StrategyOnAxis& s : program.strategies)
    strategies.push_back({str(s.name), s.axis, s.interface->role});
  for (const Buffer& b : program.buffers)
    buffers.push_back({b.id, b.num_elements, str(b.name), b.kind, b.memory, b.dtype,
                       b.persistent ? TSR_BUFFER_PERSISTENT : 0u, b.strategy, 0});
  for (const Home& h : program.homes) {
    std::vector<tsr_home_role>& own = roles.emplace_back();
    for (const auto& [number, role] : h.roles)
      if (role.buffer) own.push_back({number, 1, role.buffer, role.offset, role.num_elements});
    homes.push_back({h.id, str(h.name), h.unit, static_cast<uint32_t>(h.pieces.size()), h.pieces.data(), h.num_elements,
                     own.data(), static_cast<uint32_t>(own.size()), 0});
  }
  for (const Stream& s : program.streams)
    streams.push_back({str(s.name), s.axis, s.kind});
  for (const Group& g : program.groups)
    groups.push_back({g.axis, static_cast<uint32_t>(g.coordinates.size()), g.coordinates.data()});
  for (const Action& a : program.actions)
    actions.push_back({.id = a.id,
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
                       .bindings = a.bindings.data(),
                       .num_bindings = a.bindings.size(),
                       .counts = a.counts.empty() ? nullptr : a.counts.data(),
                       .peers = a.peers.empty() ? nullptr : a.peers.data(),
                       .num_counts = a.counts.size(),
                       .num_peers = a.peers.size(),
                       .strategy = a.strategy,
                       .code = a.code,
                       .spare = {}});
}

/// The arrays, and what their structs borrow from the host.
void ProgramSnapshot::Arrays::remember_shared() {
  const auto add = [this](const auto& array) { shared.add(array.data(), array.size()); };
  const auto add_names = [&](const auto& array) {
    add(array);
    for (const auto& named : array)
      shared.add(named.name);
  };
  add_names(strategies);
  add_names(units);
  add_names(parameters);
  for (const tsr_parameter& p : parameters)
    shared.add(p.dims, p.num_dims);
  add_names(values);
  for (const tsr_value& v : values)
    shared.add(v.dims, v.num_dims);
  add(placements);
  add(rules);
  for (const tsr_segment_rule& r : rules)
    shared.add(r.contractions, r.num_contractions);
  add(ops);
  add_names(segments);
  for (const tsr_segment& s : segments) {
    shared.add(s.parameters, s.num_parameters);
    shared.add(s.inputs, s.num_inputs);
    shared.add(s.outputs, s.num_outputs);
  }
  add_names(buffers);
  add_names(homes);
  for (const tsr_home& h : homes) {
    shared.add(h.pieces, h.num_pieces);
    shared.add(h.roles, h.num_roles);
  }
  add_names(streams);
  add(groups);
  for (const tsr_group& g : groups)
    shared.add(g.coordinates, g.num_coordinates);
  add(actions);
  for (const tsr_action& a : actions) {
    shared.add(a.bindings, a.num_bindings);
    shared.add(a.counts, a.num_counts);
    shared.add(a.peers, a.num_peers);
  }
  shared.add(&optimizer, 1);
  shared.remember();
}

/// What differs between the ranks of one program.
void ProgramSnapshot::Arrays::set_rank(const Program& program) {
  axes.clear();
  for (size_t i = 0; i < program.mesh->axes().size(); ++i) {
    const Axis& axis = program.mesh->axes()[i];
    axes.push_back({str(axis.name), axis.num_ranks, program.coordinates[i], axis.splits, 0});
  }
  data_rank = program.mesh->data_rank(program.coordinates);
  layout.clear();
  for (const LayoutEntry& s : program.layout)
    layout.push_back({s.parameter, s.axis, s.roles, s.kind, s.dim, s.parts, s.blocks,
                      static_cast<uint32_t>(s.coordinates.size()), s.coordinates.data(), s.padded_size, s.name, 0});
  view.variant = program.variant;
  view.axes = axes.data(), view.num_axes = axes.size();
  view.layout = layout.data(), view.num_layout_entries = layout.size();
  of_rank = {};
  of_rank.add(axes.data(), axes.size());
  for (const tsr_axis& axis : axes)
    of_rank.add(axis.name);
  of_rank.add(layout.data(), layout.size());
  for (const tsr_layout_entry& entry : layout)
    of_rank.add(entry.coordinates, entry.num_coordinates);
  of_rank.add(&data_rank, 1);
  of_rank.add(&view, 1);
  of_rank.remember();
}

ProgramSnapshot::ProgramSnapshot(const Program& program, int axis, int strategy) : arrays_(std::make_unique<Arrays>()) {
  Arrays& a = *arrays_;
  a.add_parameters(*program.model);
  a.add_values(*program.model, *program.mesh);
  a.add_segments(*program.model);
  a.add_program(program);
  a.optimizer = optimizer_op(program);
  tsr_program_view& v = a.view;
  v = {sizeof v,
       program.purpose,
       program.variant,
       program.step_config.reduce_every,
       program.step_config.num_micro_batches,
       program.step_config.dtype,
       program.step_config.reduce_dtype,
       axis,
       nullptr,
       a.units.data(),
       a.parameters.data(),
       a.values.data(),
       a.segments.data(),
       nullptr,
       a.buffers.data(),
       a.homes.data(),
       a.streams.data(),
       a.groups.data(),
       a.actions.data(),
       0,
       a.units.size(),
       a.parameters.size(),
       a.values.size(),
       a.segments.size(),
       0,
       a.buffers.size(),
       a.homes.size(),
       a.streams.size(),
       a.groups.size(),
       a.actions.size(),
       a.strategies.data(),
       a.strategies.size(),
       strategy,
       1,
       kStates,
       program.step_config.optimizer == TSR_OP_ADAMW ? uint64_t{2} : uint64_t{1},
       nullptr,
       0,
       &a.data_rank,
       1,
       &a.optimizer};
  a.remember_shared();
  a.set_rank(program);
}

void ProgramSnapshot::show_rank_of(const Program& program) {
  arrays_->set_rank(program);
}

ProgramSnapshot::~ProgramSnapshot() = default;
const tsr_program_view& ProgramSnapshot::view() const {
  return arrays_->view;
}
void ProgramSnapshot::check_unchanged(const void* function) const {
  arrays_->shared.check_unchanged(function);
  arrays_->of_rank.check_unchanged(function);
}

}  // namespace tessera::host
