// A step of one parameter, as a strategy and a policy see it: a backward writes the gradient, the optimizer reads it. A
// host of a later minor has more in it: longer structs, and numbers that this minor does not know.
#pragma once

#include <cstdint>
#include <string_view>

#include "tessera/offload.h"
#include "tessera/strategy.h"

namespace tessera::minors {

#if TSR_ABI_MINOR > TSR_OLDEST_MINOR
#define TESSERA_IS_LATER 1
/// What a later minor appended to the struct is not 0.
#define TESSERA_GROWN(object) (object).next_field = UINT64_MAX / 7
#else
#define TESSERA_IS_LATER 0
#define TESSERA_GROWN(object) static_cast<void>(object)
#endif

inline tsr_str text_of(std::string_view text) {
  return {text.data(), text.size()};
}

/// Everything is in place: the structs point at one another.
struct TinyStep {
  TinyStep() {
    view.struct_size = sizeof view;
    view.purpose = TSR_PURPOSE_STEP;
    view.reduce_every = TSR_EVERY_STEP;
    view.num_micro_batches = 1;
    view.dtype = view.reduce_dtype = TSR_F32;
    view.axes = &axis, view.num_axes = 1;
    view.units = &unit, view.num_units = 1;
    view.parameters = &parameter, view.num_parameters = 1;
    view.buffers = buffers, view.num_buffers = 4;
    view.homes = &home, view.num_homes = 1;
    view.streams = streams, view.num_streams = 3;
    view.actions = actions, view.num_actions = 3;
    view.slice_granule = 1;
    view.strategies = &strategy, view.num_strategies = 1;
    view.data_ranks = &data_rank, view.num_data_ranks = 1;
    TESSERA_GROWN(view);
    offload.struct_size = sizeof offload;
    offload.device_bytes = UINT64_MAX;
    offload.program = &view;
    offload.places = places, offload.num_places = 2;
    offload.visits = visits, offload.num_visits = 9;
    offload.items = &item, offload.num_items = 1;
    TESSERA_GROWN(offload);
    for (uint32_t v = 0; v < 9; ++v)
      visits[v].kind = v < 4 ? TSR_VISIT_FORWARD : TSR_VISIT_BACKWARD;
#if TESSERA_IS_LATER
    buffers[3].kind = TSR_BUFFER_NEXT;
    actions[2].kind = TSR_ACTION_NEXT;
    roles[2].number = 31;
    places[0].memory = TSR_MEMORY_NEXT;
    visits[2].kind = TSR_VISIT_NEXT;
    dim.name = TSR_DIM_NEXT;
#endif
  }
  TinyStep(const TinyStep&) = delete;

  int32_t data_rank = 0;
  tsr_dim dim{TSR_DIM_EMBED, 1, 8, 1};
  tsr_axis axis{text_of("dp"), 2, 0, TSR_SPLITS_BATCH, 0};
  tsr_strategy_info strategy{text_of("tested"), 0, TSR_STRATEGY_SPLIT_STORAGE};
  tsr_unit unit{text_of("u"), 128};
  tsr_parameter parameter{text_of("w"), &dim, 1, 0, 8, 0, 0, 0, 0};
  tsr_buffer buffers[4] = {
      {1, 8, text_of("w"), TSR_BUFFER_HOME, TSR_MEMORY_DEVICE, TSR_F32, TSR_BUFFER_PERSISTENT, -1, 0},
      {2, 8, text_of("dw"), TSR_BUFFER_GRADIENT, TSR_MEMORY_DEVICE, TSR_F32, 0, -1, 0},
      {3, 8, text_of("saved"), TSR_BUFFER_SAVED, TSR_MEMORY_DEVICE, TSR_F32, 0, -1, 0},
      {4, 8, text_of("other"), TSR_BUFFER_STAGING, TSR_MEMORY_DEVICE, TSR_F32, 0, -1, 0}};
  tsr_home_role roles[3] = {{TSR_HOME_VALUE, 1, 1, 0, 8}, {TSR_HOME_GRADIENT, 1, 2, 0, 8}, {TSR_HOME_M, 1, 4, 0, 8}};
  tsr_piece piece{0, 0, 0, 8, 0};
  tsr_home home{5, text_of("w"), 0, 1, &piece, 8, roles, 3, 0};
  tsr_stream_info streams[3] = {{text_of("compute"), TSR_WORLD_AXIS, TSR_STREAM_KIND_DEVICE},
                                {text_of("copy_in"), TSR_WORLD_AXIS, TSR_STREAM_KIND_DEVICE},
                                {text_of("copy_out"), TSR_WORLD_AXIS, TSR_STREAM_KIND_DEVICE}};
  tsr_binding written{2, 0, 8, TSR_SLOT(TSR_ROLE_GRADIENT, 0), TSR_MODE_ADD};
  tsr_binding read[2] = {{1, 0, 8, TSR_SLOT(TSR_ROLE_DESTINATION, 0), TSR_MODE_ADD},
                         {2, 0, 8, TSR_SLOT(TSR_ROLE_SOURCE, 0), TSR_MODE_READ}};
  tsr_binding other{4, 0, 8, TSR_SLOT(TSR_ROLE_DESTINATION, 0), TSR_MODE_WRITE};
  tsr_action actions[3] = {action(7, TSR_ACTION_BACKWARD, &written, 1), action(8, TSR_ACTION_OPTIMIZER, read, 2),
                           action(9, TSR_ACTION_ZERO, &other, 1)};
  tsr_use uses[2] = {{1, TSR_MODE_ADD, 32}, {7, TSR_MODE_READ, 32}};
  tsr_item item{3, text_of("saved"), TSR_BUFFER_SAVED, 0, 0, 0, 32, uses, 2};
  tsr_place places[2] = {{TSR_MEMORY_FILE, 0, UINT64_MAX}, {TSR_MEMORY_HOST, 0, UINT64_MAX}};
  tsr_visit visits[9] = {};
  tsr_program_view view{};
  tsr_offload_view offload{};

 private:
  static tsr_action action(uint64_t id, uint32_t kind, const tsr_binding* bindings, uint64_t num_bindings) {
    tsr_action made{};
    made.id = id;
    made.kind = kind;
    made.segment = made.group = made.peer = made.strategy = -1;
    made.home = kind == TSR_ACTION_OPTIMIZER ? 5 : 0;
    made.bindings = bindings;
    made.num_bindings = num_bindings;
    return made;
  }
};

}  // namespace tessera::minors
