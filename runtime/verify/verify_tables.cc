// Checks what actions refer to: buffers, streams, groups, layout, homes. For example
//
//     the m of home h.0 has 6656 elements, the home 13312
//     the gradient of home h.0 reaches beyond gradient h.0, which has 6656 elements
//     the value of home a and the value of home b both have home h.0[32:64]; give each element to one home
//
// Everything that later code indexes without a check is checked here. Cost: linear in the tables, n log n in the homes.

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "verify/verify_rank.h"

namespace tessera::host {
namespace {

template <class T>
void check_ids(const std::vector<T>& all, const char* what, DiagnosticList& diagnostics) {
  uint64_t last = 0;
  for (const T& one : all) {
    if (one.id <= last)
      diagnostics.add(std::string(what) + " " + one.name + " has id " + std::to_string(one.id) + " after id " +
                      std::to_string(last) + "; ids start at 1 and ascend");
    last = one.id;
  }
}

void check_buffers(const Program& program, DiagnosticList& diagnostics) {
  for (const Buffer& buffer : program.buffers) {
    if (buffer.kind < TSR_BUFFER_HOME || buffer.kind > TSR_BUFFER_FETCHED)
      diagnostics.add(buffer_text(buffer) + " has the unknown kind " + std::to_string(buffer.kind));
    if (TSR_DTYPE_BITS(buffer.dtype) < 8)
      diagnostics.add(buffer_text(buffer) + " has the unknown dtype " + std::to_string(buffer.dtype));
    else if (buffer.num_elements > (uint64_t{1} << 60))
      diagnostics.add(buffer_text(buffer) + " has " + std::to_string(buffer.num_elements) +
                      " elements: too many to address");
    if (buffer.memory < TSR_MEMORY_DEVICE || buffer.memory > TSR_MEMORY_FILE)
      diagnostics.add(buffer_text(buffer) + " is in the unknown memory " + std::to_string(buffer.memory));
  }
}

void check_streams(const Program& program, DiagnosticList& diagnostics) {
  if (program.streams.size() <= TSR_STREAM_COPY_OUT)
    diagnostics.add("the program has " + std::to_string(program.streams.size()) +
                    " streams; compute, copy_in and copy_out are the first three of every program");
  for (const Stream& stream : program.streams) {
    if (stream.kind < TSR_STREAM_KIND_DEVICE || stream.kind > TSR_STREAM_KIND_HOST)
      diagnostics.add("stream " + stream.name + " is of the unknown kind " + std::to_string(stream.kind));
    if (stream.axis != TSR_WORLD_AXIS && !is_index(stream.axis, program.mesh->axes()))
      diagnostics.add("stream " + stream.name + " is for axis " + std::to_string(stream.axis) +
                      ", which the mesh does not have");
  }
}

void check_group(const Program& program, const Group& group, DiagnosticList& diagnostics) {
  if (group.axis == TSR_WORLD_AXIS) {
    if (!group.coordinates.empty()) diagnostics.add("a group of the world lists coordinates; it must be all ranks");
    return;
  }
  if (!is_index(group.axis, program.mesh->axes())) {
    diagnostics.add("a group is for axis " + std::to_string(group.axis) + ", which the mesh does not have");
    return;
  }
  const Axis& axis = program.mesh->axes()[group.axis];
  int last = -1;
  for (const int coordinate : group.coordinates) {
    if (coordinate <= last || coordinate >= axis.num_ranks) {
      diagnostics.add("group " + group_text(program, group) + " must list ascending coordinates below " +
                      std::to_string(axis.num_ranks));
      return;
    }
    last = coordinate;
  }
}

void check_layout(const Program& program, DiagnosticList& diagnostics) {
  for (const LayoutEntry& split : program.layout) {
    if (split.parameter == kNamedDim && split.name == TSR_DIM_ROWS && is_index(split.axis, program.mesh->axes()))
      continue;
    if (!is_index(split.parameter, program.model->parameters) || !is_index(split.axis, program.mesh->axes())) {
      diagnostics.add("the layout has an entry for parameter " + std::to_string(split.parameter) + " on axis " +
                      std::to_string(split.axis) + ", which do not exist");
      continue;
    }
    const Parameter& parameter = program.model->parameters[split.parameter];
    const std::string where = "the layout of " + parameter.name + " on " + program.mesh->axes()[split.axis].name;
    if (split.kind < TSR_LAYOUT_REPLICATED || split.kind > TSR_LAYOUT_DIVERGENT)
      diagnostics.add(where + " has the unknown kind " + std::to_string(split.kind));
    if (split.dim < -1 || split.dim >= static_cast<int>(parameter.dims.size()))
      diagnostics.add(where + " splits dim " + std::to_string(split.dim) + " of a tensor with " +
                      std::to_string(parameter.dims.size()) + " dims");
  }
}

void check_role(const Program& program, const Home& home, uint32_t role, DiagnosticList& diagnostics) {
  const HomeRole& place = home.roles[role];
  if (place.buffer == 0) return;
  const std::string where = "the " + home_role_name(role) + " of home " + home.name;
  const Buffer* buffer = buffer_or_null(program, place.buffer);
  if (!buffer) {
    diagnostics.add(where + " is in buffer %" + std::to_string(place.buffer) + ", which does not exist");
    return;
  }
  if (place.offset > buffer->num_elements || place.num_elements > buffer->num_elements - place.offset)
    diagnostics.add(where + " reaches beyond " + buffer_text(*buffer) + ", which has " +
                    std::to_string(buffer->num_elements) + " elements");
  if (place.num_elements != home.num_elements)
    diagnostics.add(where + " has " + std::to_string(place.num_elements) + " elements, the home " +
                    std::to_string(home.num_elements));
  constexpr uint32_t kKnown[] = {TSR_HOME_VALUE, TSR_HOME_MASTER, TSR_HOME_GRADIENT, TSR_HOME_M, TSR_HOME_V};
  if (buffer->kind == TSR_BUFFER_PLUGIN && std::ranges::find(kKnown, role) != std::end(kKnown))
    diagnostics.add(
        where + " is in " + buffer_text(*buffer) +
        ", a strategy's own, of which nothing is proved; keep it in a buffer of the role's kind, such as home");
  const bool is_compute_copy = role == TSR_HOME_VALUE && home.roles[TSR_HOME_MASTER].buffer != 0;
  if (role != TSR_HOME_GRADIENT && !is_compute_copy && !buffer->persistent)
    diagnostics.add(where + " is in " + buffer_text(*buffer) + ", which does not outlive the step");
}

/// One home's update would pass for that of both.
void check_apart(const Program& program, DiagnosticList& diagnostics) {
  struct Place {
    const Home* home;
    uint32_t role;
    const HomeRole* range;
  };
  std::vector<Place> places;
  for (const Home& home : program.homes)
    for (const auto& [role, range] : home.roles)
      if (range.buffer && range.num_elements && program.buffer(range.buffer).persistent)
        places.push_back({&home, role, &range});
  std::ranges::stable_sort(places, {},
                           [](const Place& place) { return std::pair(place.range->buffer, place.range->offset); });
  for (size_t i = 0; i + 1 < places.size(); ++i) {
    const Place &one = places[i], &next = places[i + 1];
    const uint64_t end = one.range->offset + one.range->num_elements;
    if (one.range->buffer != next.range->buffer || end <= next.range->offset) continue;
    diagnostics.add("the " + home_role_name(one.role) + " of home " + one.home->name + " and the " +
                    home_role_name(next.role) + " of home " + next.home->name + " both have " +
                    range_text(program.buffer(one.range->buffer), next.range->offset,
                               std::min(end, next.range->offset + next.range->num_elements)) +
                    "; give each element to one home");
  }
}

void check_pieces(const Program& program, const Home& home, DiagnosticList& diagnostics) {
  uint64_t end = 0;
  for (const tsr_piece& piece : home.pieces) {
    if (!is_index(piece.parameter, program.model->parameters)) {
      diagnostics.add("home " + home.name + " has a piece of parameter " + std::to_string(piece.parameter) +
                      ", which does not exist");
      continue;
    }
    const Parameter& parameter = program.model->parameters[piece.parameter];
    const std::string where = "the piece of " + parameter.name + " in home " + home.name;
    const uint64_t num_elements = parameter.part ? parameter.part->whole_elements : parameter.num_elements;
    if (piece.parameter_offset > num_elements || piece.num_elements > num_elements - piece.parameter_offset)
      diagnostics.add(where + " reaches beyond the parameter's " + std::to_string(num_elements) + " elements");
    if (piece.home_offset > home.num_elements || piece.num_elements > home.num_elements - piece.home_offset)
      diagnostics.add(where + " reaches beyond the home's " + std::to_string(home.num_elements) + " elements");
    if (piece.home_offset < end) diagnostics.add(where + " overlaps the piece before it; pieces ascend");
    end = piece.home_offset + piece.num_elements;
  }
}

}  // namespace

void verify_tables(const Program& program, DiagnosticList& diagnostics) {
  check_ids(program.buffers, "buffer", diagnostics);
  check_ids(program.homes, "home", diagnostics);
  check_buffers(program, diagnostics);
  check_streams(program, diagnostics);
  for (const Group& group : program.groups)
    check_group(program, group, diagnostics);
  check_layout(program, diagnostics);
  for (const Home& home : program.homes) {
    if (!is_index(home.unit, program.model->units))
      diagnostics.add("home " + home.name + " is of unit " + std::to_string(home.unit) + ", which does not exist");
    for (const auto& [role, place] : home.roles)
      check_role(program, home, role, diagnostics);
    check_pieces(program, home, diagnostics);
  }
  if (diagnostics.empty()) check_apart(program, diagnostics);
}

}  // namespace tessera::host
