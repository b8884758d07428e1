// What the host calls of each table, with the time-out that holds for it. An optional function may be null.
// A report then says "the plugin ddp (/path/ddp.so) in its function lower" of a call that crashes or does not return:
//
//     start    --start-timeout-ms: creates, plans, prepares
//     step     --timeout-ms: what a step calls, and what destroys an object
//     abort    two seconds, as communicator.h promises

#include "plugins/function_names.h"

#include <vector>

#include "base/concat.h"
#include "guard/known_functions.h"

namespace tessera::host {
namespace {

using enum CallLimit;

// A function past the end of an older plugin's table is missing.
#define TESSERA_NAMED(Table, field, limit) \
  { TSR_HAS_FN(&table, Table, field) ? reinterpret_cast<const void*>(table.field) : nullptr, #field, limit }

std::vector<NamedFunction> functions_of(const tsr_strategy_interface& table) {
  using Table = tsr_strategy_interface;
  return {TESSERA_NAMED(Table, create, start),       TESSERA_NAMED(Table, destroy, step),
          TESSERA_NAMED(Table, num_variants, start), TESSERA_NAMED(Table, depends_on_coordinate, start),
          TESSERA_NAMED(Table, layout, start),       TESSERA_NAMED(Table, lower, start),
          TESSERA_NAMED(Table, call, step)};
}

std::vector<NamedFunction> functions_of(const tsr_communicator_interface& table) {
  using Table = tsr_communicator_interface;
  return {TESSERA_NAMED(Table, caps, start),       TESSERA_NAMED(Table, describe, start),
          TESSERA_NAMED(Table, create, start),     TESSERA_NAMED(Table, submit, step),
          TESSERA_NAMED(Table, async_error, step), TESSERA_NAMED(Table, abort, abort),
          TESSERA_NAMED(Table, destroy, step)};
}

std::vector<NamedFunction> functions_of(const tsr_device_interface& table) {
  using Table = tsr_device_interface;
  return {TESSERA_NAMED(Table, describe, start),      TESSERA_NAMED(Table, open, start),
          TESSERA_NAMED(Table, close, step),          TESSERA_NAMED(Table, allocate, start),
          TESSERA_NAMED(Table, release, step),        TESSERA_NAMED(Table, stream_create, start),
          TESSERA_NAMED(Table, stream_destroy, step), TESSERA_NAMED(Table, stream_synchronize, step),
          TESSERA_NAMED(Table, event_create, start),  TESSERA_NAMED(Table, event_destroy, step),
          TESSERA_NAMED(Table, event_record, step),   TESSERA_NAMED(Table, stream_wait, step),
          TESSERA_NAMED(Table, copy, step),           TESSERA_NAMED(Table, fill, step),
          TESSERA_NAMED(Table, host_function, step),  TESSERA_NAMED(Table, prepare, start),
          TESSERA_NAMED(Table, kernel_destroy, step), TESSERA_NAMED(Table, launch, step),
          TESSERA_NAMED(Table, get_extension, start)};
}

std::vector<NamedFunction> functions_of(const tsr_offload_interface& table) {
  using Table = tsr_offload_interface;
  return {TESSERA_NAMED(Table, create, start), TESSERA_NAMED(Table, destroy, step), TESSERA_NAMED(Table, plan, start)};
}
#undef TESSERA_NAMED

}  // namespace

void know_functions_of(const LoadedPlugin& plugin) {
  const auto know = [&](const auto& table) {
    know_functions(concat(plugin.name, " (", plugin.path, ")"), functions_of(table));
  };
  switch (plugin.kind) {
    case PluginKind::strategy:
      return know(*plugin.strategy());
    case PluginKind::communicator:
      return know(*plugin.communicator());
    case PluginKind::device:
      return know(*plugin.device());
    case PluginKind::offload:
      return know(*plugin.offload());
  }
}

}  // namespace tessera::host
