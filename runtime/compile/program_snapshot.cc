// A program as arrays of the ABI's fixed-size structs. The arrays are owned here; names, dims, pieces and bindings are
// borrowed from the program. A pass sees the program as it was when the pass began, whatever it edits (rewriter.cc
// works on a copy), so it may insert actions while it loops over them.

#include "compile/program_snapshot.h"
#include "tessera/error.hpp"

namespace tessera::host {

struct ProgramSnapshot::Arrays {
  std::vector<tsr_axis> axes;
  std::vector<tsr_unit> units;
  std::vector<tsr_parameter> parameters;
  std::vector<tsr_value> values;
  std::vector<tsr_segment> segments;
  std::vector<tsr_layout_entry> layout;
  std::vector<tsr_buffer> buffers;
  std::vector<tsr_home> homes;
  std::vector<tsr_stream_info> streams;
  std::vector<tsr_group> groups;
  std::vector<tsr_action> actions;
  tsr_program_view view{};

  void add_model(const Model& model);
  void add_mesh(const Program& program);
  void add_program(const Program& program);
};

void ProgramSnapshot::Arrays::add_model(const Model& model) {
  for (const Unit& unit : model.units)
    units.push_back({str(unit.name), unit.num_elements});
  for (const Parameter& p : model.parameters)
    parameters.push_back(
        {str(p.name), p.dims.data(), static_cast<uint32_t>(p.dims.size()), p.unit, p.num_elements, p.unit_offset,
         (p.trainable ? 0u : TSR_PARAMETER_FROZEN) | (p.rows_axis < 0 ? 0u : TSR_PARAMETER_OF_ROWS), 0});
  for (const Value& v : model.values)
    values.push_back({str(v.name), v.dims.data(), static_cast<uint32_t>(v.dims.size()), v.kind, v.gradient_of, v.dtype,
                      v.num_elements, v.rows, 0});
  for (const Segment& s : model.segments)
    segments.push_back({str(s.name), s.op.kind, static_cast<uint32_t>(s.parameters.size()), s.parameters.data(),
                        s.inputs.data(), s.outputs.data(), static_cast<uint32_t>(s.inputs.size()),
                        static_cast<uint32_t>(s.outputs.size()), s.contractions.data(), s.contractions.size()});
}

void ProgramSnapshot::Arrays::add_mesh(const Program& program) {
  for (size_t i = 0; i < program.mesh->axes().size(); ++i) {
    const Axis& axis = program.mesh->axes()[i];
    axes.push_back({str(axis.name), axis.num_ranks, program.coordinates[i], axis.splits, 0});
  }
  for (const LayoutEntry& s : program.layout)
    layout.push_back({s.parameter, s.axis, s.roles, s.kind, s.dim, s.parts, s.blocks,
                      static_cast<uint32_t>(s.coordinates.size()), s.coordinates.data(), s.padded_size});
}

void ProgramSnapshot::Arrays::add_program(const Program& program) {
  for (const Buffer& b : program.buffers)
    buffers.push_back(
        {b.id, b.num_elements, str(b.name), b.kind, b.memory, b.dtype, b.persistent ? TSR_BUFFER_PERSISTENT : 0u});
  for (const Home& h : program.homes) {
    tsr_home home{h.id,           str(h.name), h.unit, static_cast<uint32_t>(h.pieces.size()), h.pieces.data(),
                  h.num_elements, {}};
    std::copy(h.roles.begin(), h.roles.end(), home.roles);
    homes.push_back(home);
  }
  for (const Stream& s : program.streams)
    streams.push_back({str(s.name), s.axis, s.kind});
  for (const Group& g : program.groups)
    groups.push_back({g.axis, static_cast<uint32_t>(g.coordinates.size()), g.coordinates.data()});
  for (const Action& a : program.actions)
    actions.push_back({a.id,
                       a.kind,
                       a.stream,
                       a.segment,
                       a.micro_batch,
                       a.group,
                       a.peer,
                       a.reduce,
                       a.flags,
                       a.home,
                       a.tag,
                       a.scale,
                       a.bindings.data(),
                       a.bindings.size(),
                       a.counts.empty() ? nullptr : a.counts.data(),
                       a.peers.empty() ? nullptr : a.peers.data(),
                       a.counts.size(),
                       a.peers.size(),
                       a.strategy_axis,
                       0});
}

ProgramSnapshot::ProgramSnapshot(const Program& program, int axis) : arrays_(std::make_unique<Arrays>()) {
  Arrays& a = *arrays_;
  a.add_model(*program.model);
  a.add_mesh(program);
  a.add_program(program);
  tsr_program_view& v = a.view;
  v = {sizeof v,
       program.purpose,
       program.variant,
       program.shape.reduce_every,
       program.shape.num_micro_batches,
       program.shape.dtype,
       program.shape.reduce_dtype,
       axis,
       a.axes.data(),
       a.units.data(),
       a.parameters.data(),
       a.values.data(),
       a.segments.data(),
       a.layout.data(),
       a.buffers.data(),
       a.homes.data(),
       a.streams.data(),
       a.groups.data(),
       a.actions.data(),
       a.axes.size(),
       a.units.size(),
       a.parameters.size(),
       a.values.size(),
       a.segments.size(),
       a.layout.size(),
       a.buffers.size(),
       a.homes.size(),
       a.streams.size(),
       a.groups.size(),
       a.actions.size()};
}

ProgramSnapshot::~ProgramSnapshot() = default;
const tsr_program_view& ProgramSnapshot::view() const {
  return arrays_->view;
}

}  // namespace tessera::host
