// Look-ups in a program, and the names of its kinds. Buffers and homes ascend by id, so an id is found by bisection.
// Names are those of a program's text (program_text.h), of traces and of reports, so golden files hold them; a number
// without a name is an error where a program is made, and "memory 7" where one is only described.

#include "program/program.h"

#include <algorithm>

#include "base/concat.h"
#include "tessera/collective.hpp"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

struct Name {
  uint32_t number;
  std::string_view text;
};

constexpr Name kActions[] = {{TSR_ACTION_FORWARD, "forward"},
                             {TSR_ACTION_BACKWARD, "backward"},
                             {TSR_ACTION_BACKWARD_INPUT, "backward_input"},
                             {TSR_ACTION_BACKWARD_WEIGHT, "backward_weight"},
                             {TSR_ACTION_RECOMPUTE, "recompute"},
                             {TSR_ACTION_LOSS, "loss"},
                             {TSR_ACTION_ALL_REDUCE, "all_reduce"},
                             {TSR_ACTION_REDUCE_SCATTER, "reduce_scatter"},
                             {TSR_ACTION_ALL_GATHER, "all_gather"},
                             {TSR_ACTION_BROADCAST, "broadcast"},
                             {TSR_ACTION_REDUCE, "reduce"},
                             {TSR_ACTION_ALL_TO_ALL, "all_to_all"},
                             {TSR_ACTION_SEND, "send"},
                             {TSR_ACTION_RECV, "recv"},
                             {TSR_ACTION_EXCHANGE, "exchange"},
                             {TSR_ACTION_BARRIER, "barrier"},
                             {TSR_ACTION_COPY, "copy"},
                             {TSR_ACTION_CAST, "cast"},
                             {TSR_ACTION_ADD_INTO, "add"},
                             {TSR_ACTION_SCALE, "scale"},
                             {TSR_ACTION_ZERO, "zero"},
                             {TSR_ACTION_SUM_SQUARES, "sum_squares"},
                             {TSR_ACTION_CLIP, "clip"},
                             {TSR_ACTION_OPTIMIZER, "optimizer"},
                             {TSR_ACTION_CALL, "call"}};

constexpr Name kBufferKinds[] = {
    {TSR_BUFFER_HOME, "home"},         {TSR_BUFFER_GRADIENT, "gradient"},       {TSR_BUFFER_OPTIMIZER, "optimizer"},
    {TSR_BUFFER_GATHERED, "gathered"}, {TSR_BUFFER_ACTIVATION, "activation"},   {TSR_BUFFER_SAVED, "saved"},
    {TSR_BUFFER_STAGING, "staging"},   {TSR_BUFFER_WORKSPACE, "workspace"},     {TSR_BUFFER_INPUT, "input"},
    {TSR_BUFFER_SCALAR, "scalar"},     {TSR_BUFFER_ACCUMULATOR, "accumulator"}, {TSR_BUFFER_PLUGIN, "plugin"},
    {TSR_BUFFER_FETCHED, "fetched"}};

constexpr Name kMemories[] = {{TSR_MEMORY_DEVICE, "device"}, {TSR_MEMORY_HOST, "host"}, {TSR_MEMORY_FILE, "file"}};

constexpr Name kHomeRoles[] = {{TSR_HOME_VALUE, "value"},
                               {TSR_HOME_MASTER, "master"},
                               {TSR_HOME_GRADIENT, "gradient"},
                               {TSR_HOME_M, "m"},
                               {TSR_HOME_V, "v"}};

template <size_t N>
std::string_view text_of(const Name (&names)[N], uint32_t number, const char* what) {
  for (const Name& name : names)
    if (name.number == number) return name.text;
  throw Error(TSR_E_INVALID_ARGUMENT, std::string("unknown ") + what + " " + std::to_string(number));
}

template <class T>
const T& by_id(const std::vector<T>& all, uint64_t id, const char* what) {
  const auto found = std::ranges::lower_bound(all, id, {}, &T::id);
  if (found == all.end() || found->id != id)
    throw Error(TSR_E_INTERNAL, std::string("the program has no ") + what + " %" + std::to_string(id));
  return *found;
}

}  // namespace

const Binding* Action::find(uint32_t slot) const {
  const auto found = std::ranges::find(bindings, slot, &Binding::slot);
  return found == bindings.end() ? nullptr : &*found;
}

HomeRole& HomeRoles::operator[](uint32_t number) {
  auto found = std::ranges::lower_bound(roles_, number, {}, &std::pair<uint32_t, HomeRole>::first);
  if (found == roles_.end() || found->first != number) found = roles_.insert(found, {number, {}});
  return found->second;
}
// A handful of entries: a search through all is faster than bisection.
const HomeRole& HomeRoles::operator[](uint32_t number) const {
  static constexpr HomeRole kNone;
  const auto found = std::ranges::find(roles_, number, &std::pair<uint32_t, HomeRole>::first);
  return found == roles_.end() ? kNone : found->second;
}

const Buffer& Program::buffer(uint64_t id) const {
  return by_id(buffers, id, "buffer");
}
const Home& Program::home(uint64_t id) const {
  return by_id(homes, id, "home");
}

// Ids only grow, so the list stays sorted without a search.
uint64_t Program::add_buffer(Buffer buffer) {
  buffer.id = next_id++;
  buffers.push_back(std::move(buffer));
  return buffers.back().id;
}

// "comm.dp.gradient", "comm.world.scalars": lanes of one axis run side by side, and a strategy names its own.
uint32_t Program::comm_stream(int axis, std::string_view lane) {
  const std::string where = axis == TSR_WORLD_AXIS ? "world" : mesh->axes()[axis].name;
  return stream({"comm." + where + "." + std::string(lane), axis, TSR_STREAM_KIND_COMM});
}

uint32_t Program::device_stream(std::string_view name) {
  return stream({std::string(name), TSR_WORLD_AXIS, TSR_STREAM_KIND_DEVICE});
}

uint32_t Program::host_stream(std::string_view name) {
  return stream({std::string(name), TSR_WORLD_AXIS, TSR_STREAM_KIND_HOST});
}

// Streams and groups are numbered in the order of their first use, which is the same on ranks with equal programs.
uint32_t Program::stream(Stream wanted) {
  const auto found = std::ranges::find(streams, wanted.name, &Stream::name);
  if (found != streams.end()) return static_cast<uint32_t>(found - streams.begin());
  streams.push_back(std::move(wanted));
  return static_cast<uint32_t>(streams.size()) - 1;
}

int Program::group(const Group& wanted) {
  const auto found = std::ranges::find(groups, wanted);
  if (found != groups.end()) return static_cast<int>(found - groups.begin());
  groups.push_back(wanted);
  return static_cast<int>(groups.size()) - 1;
}

std::string strategies_text(const Mesh& mesh, std::span<const StrategyOnAxis> strategies) {
  if (strategies.empty()) return "no strategy";
  std::string text = strategies.size() == 1 ? "strategy" : "strategies";
  for (size_t i = 0; i < strategies.size(); ++i)
    text += concat(i == 0                       ? " "
                   : i + 1 == strategies.size() ? " and "
                                                : ", ",
                   strategies[i].name, " on axis ", mesh.axes()[static_cast<size_t>(strategies[i].axis)].name);
  return text;
}

std::string program_name(const Program& program) {
  switch (program.purpose) {
    case TSR_PURPOSE_INIT:
      return "init";
    case TSR_PURPOSE_EVAL:
      return "eval";
    default:
      return program.variant ? "step " + std::to_string(program.variant) : "step";
  }
}

std::string memory_name(uint32_t memory) {
  const auto known = std::ranges::find(kMemories, memory, &Name::number);
  return known == std::end(kMemories) ? "memory " + std::to_string(memory) : std::string(known->text);
}
std::string home_role_name(uint32_t number) {
  const auto known = std::ranges::find(kHomeRoles, number, &Name::number);
  if (known != std::end(kHomeRoles)) return std::string(known->text);
  const uint32_t first_state = TSR_HOME_STATE(0);
  return number < first_state ? "role " + std::to_string(number) : "state " + std::to_string(number - first_state);
}
std::string_view action_name(uint32_t kind) {
  return text_of(kActions, kind, "action kind");
}
std::string_view buffer_kind_name(uint32_t kind) {
  return text_of(kBufferKinds, kind, "buffer kind");
}
std::string_view dtype_name(tsr_dtype dtype) {
  if (std::ranges::find(kAllDtypes, dtype) == std::end(kAllDtypes))
    throw Error(TSR_E_INVALID_ARGUMENT, concat("unknown dtype ", dtype));
  return tessera::dtype_name(dtype);
}

// A strategy gives a role one entry (check_roles in compile/edit/pass_runner.cc); where a role has several the last one
// counts.
const LayoutEntry* entry_on(const Program& program, int parameter, int axis, uint32_t role) {
  const LayoutEntry* last = nullptr;
  for (const LayoutEntry& split : program.layout)
    if (split.parameter == parameter && split.axis == axis && (split.roles >> role & 1u)) last = &split;
  return last;
}

bool is_sliced_by(const LayoutEntry& entry, const Mesh& mesh) {
  const bool is_part = entry.dim >= 0 && mesh.axes()[static_cast<size_t>(entry.axis)].splits == TSR_SPLITS_TENSORS;
  return entry.kind == TSR_LAYOUT_SPLIT && !is_part;
}

std::vector<HomeRange> ranges_of(const Home& home) {
  std::vector<HomeRange> ranges;
  for (const tsr_piece& piece : home.pieces) {
    const bool goes_on = !ranges.empty() && ranges.back().parameter == piece.parameter &&
                         ranges.back().home_offset + ranges.back().num_elements == piece.home_offset;
    if (goes_on)
      ranges.back().num_elements += piece.num_elements;
    else
      ranges.push_back({piece.parameter, piece.home_offset, piece.num_elements});
  }
  return ranges;
}

const HomeRole& role_of_values(const Home& home) {
  return home.roles[home.roles[TSR_HOME_MASTER].buffer ? TSR_HOME_MASTER : TSR_HOME_VALUE];
}

uint64_t find_buffer(const Program& program, uint32_t kind, std::string_view name) {
  for (const Buffer& buffer : program.buffers)
    if (buffer.kind == kind && buffer.name == name) return buffer.id;
  return 0;
}

}  // namespace tessera::host
