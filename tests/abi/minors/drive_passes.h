// Strategies and offload policies: what they answer to the tiny step.
#pragma once

#include <algorithm>

#include "plugin_on_host.h"
#include "tiny_step.h"

namespace tessera::minors {

inline tsr_edit printing_edit() {
  tsr_edit edit{};
  edit.struct_size = sizeof edit;
  edit.add_stream = [](void*, int32_t axis, tsr_str lane, uint32_t* stream, tsr_error*) noexcept -> tsr_status {
    std::printf("stream %d %.*s\n", axis, static_cast<int>(lane.len), lane.ptr);
    *stream = 3;
    return TSR_OK;
  };
  edit.add_group = [](void*, const tsr_group* group, int32_t* index, tsr_error*) noexcept -> tsr_status {
    std::printf("group of axis %d, %u listed\n", group->axis, group->num_coordinates);
    *index = 0;
    return TSR_OK;
  };
  edit.insert = [](void*, uint64_t anchor, uint32_t where, const tsr_action* a, uint64_t* id,
                   tsr_error*) noexcept -> tsr_status {
    std::printf("insert %s %llu: kind %u stream %u group %d peer %d reduce %u flags %u",
                where == TSR_AFTER ? "after" : "before", static_cast<unsigned long long>(anchor), a->kind, a->stream,
                a->group, a->peer, a->reduce, a->flags);
    for (uint64_t i = 0; i < a->num_bindings; ++i)
      std::printf(" %llu+%llu:%llu mode %u", static_cast<unsigned long long>(a->bindings[i].buffer),
                  static_cast<unsigned long long>(a->bindings[i].offset),
                  static_cast<unsigned long long>(a->bindings[i].num_elements), a->bindings[i].mode);
    std::printf("\n");
    *id = 100;
    return TSR_OK;
  };
  edit.add_buffer = [](void*, const tsr_buffer* buffer, uint64_t* id, tsr_error*) noexcept -> tsr_status {
    static uint64_t next_id = 200;
    std::printf("buffer of kind %u, %llu elements\n", buffer->kind,
                static_cast<unsigned long long>(buffer->num_elements));
    *id = next_id++;
    return TSR_OK;
  };
  edit.bind = [](void*, uint64_t action, const tsr_binding* binding, tsr_error*) noexcept -> tsr_status {
    std::printf("bind %llu to %llu\n", static_cast<unsigned long long>(action),
                static_cast<unsigned long long>(binding->buffer));
    return TSR_OK;
  };
  edit.rebind = [](void*, uint64_t from, uint64_t to, uint64_t offset, tsr_error*) noexcept -> tsr_status {
    std::printf("rebind %llu to %llu+%llu\n", static_cast<unsigned long long>(from),
                static_cast<unsigned long long>(to), static_cast<unsigned long long>(offset));
    return TSR_OK;
  };
  edit.collect_garbage = [](void*, tsr_error*) noexcept -> tsr_status { return TSR_OK; };
  TESSERA_GROWN_TABLE(edit);
  return edit;
}

inline tsr_layout_sink printing_sink() {
  tsr_layout_sink sink{};
  sink.struct_size = sizeof sink;
  sink.add_entry = [](void*, const tsr_layout_entry* entry, tsr_error*) noexcept -> tsr_status {
    std::printf("layout of %d over %d: kind %u dim %d\n", entry->parameter, entry->axis, entry->kind, entry->dim);
    return TSR_OK;
  };
  TESSERA_GROWN_TABLE(sink);
  return sink;
}

inline void drive_strategy(const Plugin& plugin) {
  const auto* table =
      plugin.table<tsr_strategy_interface>(TSR_STRATEGY_INTERFACE, TSR_END_OF(tsr_strategy_interface, get_extension));
  std::printf("role %u splits %u flags %u\n", table->role, table->splits, table->flags);
  tsr_strategy_create_args args{};
  args.struct_size = sizeof args;
  args.host = &plugin.host;
  args.axis = text_of("dp");
  args.options = plugin.options.data();
  args.num_options = plugin.options.size();
  TESSERA_GROWN(args);
  tsr_strategy* strategy = nullptr;
  call("create", table->create, &args, &strategy);
  TinyStep step;
  const auto* view = const_cast<const tsr_program_view*>(&step.view);
  const tsr_layout_sink sink = printing_sink();
  if (table->layout) call("layout", table->layout, strategy, view, &sink);
  const uint32_t num_variants = table->num_variants ? table->num_variants(strategy) : 0;
  const uint32_t depends = table->depends_on_coordinate ? table->depends_on_coordinate(strategy) : 0;
  std::printf("%u variants, depends on the coordinate %u\n", num_variants, depends);
  const tsr_edit edit = printing_edit();
  for (const uint32_t purpose : {TSR_PURPOSE_INIT, TSR_PURPOSE_STEP, TSR_PURPOSE_EVAL})
    for (uint32_t variant = 0; variant < std::max(1u, num_variants); ++variant) {
      step.view.purpose = purpose;
      step.view.variant = variant;
      std::printf("purpose %u variant %u\n", purpose, variant);
      call("lower", table->lower, strategy, view, &edit);
    }
  table->destroy(strategy);
}

inline void drive_policy(const Plugin& plugin) {
  const auto* table =
      plugin.table<tsr_offload_interface>(TSR_OFFLOAD_INTERFACE, TSR_END_OF(tsr_offload_interface, get_extension));
  tsr_offload_create_args args{};
  args.struct_size = sizeof args;
  args.host = &plugin.host;
  args.options = plugin.options.data();
  args.num_options = plugin.options.size();
  TESSERA_GROWN(args);
  tsr_offload* policy = nullptr;
  call("create", table->create, &args, &policy);
  const TinyStep step;
  tsr_offload_sink sink{};
  sink.struct_size = sizeof sink;
  sink.leave = [](void*, const tsr_leave* leave, tsr_error*) noexcept -> tsr_status {
    std::printf("%llu leaves after %u for %u, ahead %u, linger %u\n", static_cast<unsigned long long>(leave->buffer),
                leave->after, leave->memory, leave->ahead, leave->linger);
    return TSR_OK;
  };
  TESSERA_GROWN_TABLE(sink);
  call("plan", table->plan, policy, &step.offload, const_cast<const tsr_offload_sink*>(&sink));
  table->destroy(policy);
}

}  // namespace tessera::minors
