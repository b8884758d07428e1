/* The type of the entry and of every function slot of ABI 0.12. C only: types of C++17 have noexcept in them.
 * One frozen file per released minor from 1.0 on, never edited; until then it is changed together with the
 * header, on purpose. headers_test.sh compiles it in every standard that the headers promise. */
#include "sentinels.h"

#define SLOT(type, field, signature) CHECK(_Generic(((type*)0)->field, signature : 1, default : 0), #type "." #field)

/* entries and callbacks */
CHECK(_Generic(&tsr_plugin_query_v1, tsr_plugin_query_fn : 1, default : 0), "tsr_plugin_query_v1");
CHECK(_Generic((tsr_plugin_query_fn)0,
               tsr_status (*)(tsr_handshake*, const tsr_host*, const tsr_factory**, tsr_error*) : 1, default : 0),
      "tsr_plugin_query_fn");
CHECK(_Generic((tsr_host_function)0, tsr_status (*)(void*, tsr_error*) : 1, default : 0), "tsr_host_function");

/* core.h */
SLOT(tsr_host, log, void (*)(void*, int32_t, tsr_str));
SLOT(tsr_host, get_service, const void* (*)(void*, tsr_str));
SLOT(tsr_kv_service, set, tsr_status (*)(void*, tsr_str, const void*, uint64_t, tsr_error*));
SLOT(tsr_kv_service, get, tsr_status (*)(void*, tsr_str, void*, uint64_t*, int64_t, tsr_error*));
SLOT(tsr_kv_service, add, tsr_status (*)(void*, tsr_str, int64_t, int64_t*, tsr_error*));
SLOT(tsr_factory, get_interface, const void* (*)(tsr_str));

/* device.h */
SLOT(tsr_device_interface, describe, tsr_status (*)(const tsr_op*, tsr_slot_spec*, uint64_t*, tsr_error*));
SLOT(tsr_device_interface, open, tsr_status (*)(const tsr_device_open_args*, tsr_device**, tsr_error*));
SLOT(tsr_device_interface, close, void (*)(tsr_device*));
SLOT(tsr_device_interface, allocate, tsr_status (*)(tsr_device*, uint32_t, uint64_t, void**, tsr_error*));
SLOT(tsr_device_interface, release, void (*)(tsr_device*, uint32_t, void*));
SLOT(tsr_device_interface, stream_create, tsr_status (*)(tsr_device*, tsr_str, tsr_stream**, tsr_error*));
SLOT(tsr_device_interface, stream_destroy, void (*)(tsr_stream*));
SLOT(tsr_device_interface, stream_synchronize, tsr_status (*)(tsr_stream*, int64_t, tsr_error*));
SLOT(tsr_device_interface, event_create, tsr_status (*)(tsr_device*, tsr_event**, tsr_error*));
SLOT(tsr_device_interface, event_destroy, void (*)(tsr_event*));
SLOT(tsr_device_interface, event_record, tsr_status (*)(tsr_event*, tsr_stream*, tsr_error*));
SLOT(tsr_device_interface, stream_wait, tsr_status (*)(tsr_stream*, tsr_event*, tsr_error*));
SLOT(tsr_device_interface, copy, tsr_status (*)(tsr_stream*, void*, const void*, uint64_t, tsr_error*));
SLOT(tsr_device_interface, fill, tsr_status (*)(tsr_stream*, void*, uint32_t, uint64_t, tsr_error*));
SLOT(tsr_device_interface, host_function, tsr_status (*)(tsr_stream*, tsr_host_function, void*, tsr_error*));
SLOT(tsr_device_interface, native_handle, void* (*)(tsr_stream*, tsr_str));
SLOT(tsr_device_interface, prepare,
     tsr_status (*)(tsr_device*, const tsr_op*, const tsr_slot_spec*, uint64_t, tsr_kernel**, tsr_error*));
SLOT(tsr_device_interface, kernel_destroy, void (*)(tsr_kernel*));
SLOT(tsr_device_interface, launch, tsr_status (*)(tsr_kernel*, tsr_stream*, void* const*, uint64_t, tsr_error*));
SLOT(tsr_device_interface, get_extension, const void* (*)(tsr_str));
SLOT(tsr_device_capture, begin, tsr_status (*)(tsr_stream*, tsr_error*));
SLOT(tsr_device_capture, end, tsr_status (*)(tsr_stream*, tsr_graph**, tsr_error*));
SLOT(tsr_device_capture, launch, tsr_status (*)(tsr_graph*, tsr_stream*, tsr_error*));
SLOT(tsr_device_capture, destroy, void (*)(tsr_graph*));
SLOT(tsr_device_semaphore, create, tsr_status (*)(tsr_device*, tsr_semaphore**, tsr_error*));
SLOT(tsr_device_semaphore, destroy, void (*)(tsr_semaphore*));
SLOT(tsr_device_semaphore, wait, tsr_status (*)(tsr_stream*, tsr_semaphore*, uint32_t, tsr_error*));
SLOT(tsr_device_semaphore, signal, void (*)(tsr_semaphore*, uint32_t));
SLOT(tsr_device_memory_info, query, tsr_status (*)(tsr_device*, uint64_t*, uint64_t*, tsr_error*));

/* device_timestamps.h */
SLOT(tsr_device_timestamps, create, tsr_status (*)(tsr_device*, uint64_t, tsr_timestamps**, tsr_error*));
SLOT(tsr_device_timestamps, destroy, void (*)(tsr_timestamps*));
SLOT(tsr_device_timestamps, write, tsr_status (*)(tsr_timestamps*, tsr_stream*, uint64_t, tsr_error*));
SLOT(tsr_device_timestamps, read, tsr_status (*)(tsr_timestamps*, int64_t*, tsr_error*));

/* communicator.h */
SLOT(tsr_communicator_interface, caps, tsr_status (*)(tsr_str, tsr_comm_caps*, tsr_error*));
SLOT(tsr_communicator_interface, describe, tsr_status (*)(const tsr_collective*, int32_t, uint64_t*, tsr_error*));
SLOT(tsr_communicator_interface, create, tsr_status (*)(const tsr_comm_create_args*, tsr_comm**, tsr_error*));
SLOT(tsr_communicator_interface, submit, tsr_status (*)(tsr_comm*, const tsr_collective*, tsr_error*));
SLOT(tsr_communicator_interface, async_error, tsr_status (*)(tsr_comm*, tsr_error*));
SLOT(tsr_communicator_interface, abort, void (*)(tsr_comm* const*, uint64_t));
SLOT(tsr_communicator_interface, destroy, void (*)(tsr_comm*));
SLOT(tsr_communicator_interface, get_extension, const void* (*)(tsr_str));

/* strategy.h */
SLOT(tsr_edit, add_stream, tsr_status (*)(void*, int32_t, tsr_str, uint32_t*, tsr_error*));
SLOT(tsr_edit, add_group, tsr_status (*)(void*, const tsr_group*, int32_t*, tsr_error*));
SLOT(tsr_edit, add_buffer, tsr_status (*)(void*, const tsr_buffer*, uint64_t*, tsr_error*));
SLOT(tsr_edit, insert, tsr_status (*)(void*, uint64_t, uint32_t, const tsr_action*, uint64_t*, tsr_error*));
SLOT(tsr_edit, remove, tsr_status (*)(void*, uint64_t, tsr_error*));
SLOT(tsr_edit, bind, tsr_status (*)(void*, uint64_t, const tsr_binding*, tsr_error*));
SLOT(tsr_edit, rebind, tsr_status (*)(void*, uint64_t, uint64_t, uint64_t, tsr_error*));
SLOT(tsr_edit, set_role, tsr_status (*)(void*, uint64_t, const tsr_home_role*, tsr_error*));
SLOT(tsr_edit, replace_homes, tsr_status (*)(void*, const uint64_t*, uint64_t, const tsr_home*, uint64_t*, tsr_error*));
SLOT(tsr_edit, split_backward, tsr_status (*)(void*, uint64_t, uint64_t*, uint64_t*, tsr_error*));
SLOT(tsr_edit, order, tsr_status (*)(void*, const uint64_t*, uint64_t, tsr_error*));
SLOT(tsr_edit, collect_garbage, tsr_status (*)(void*, tsr_error*));
SLOT(tsr_edit, wait_for, tsr_status (*)(void*, uint64_t, uint64_t, tsr_error*));
SLOT(tsr_edit, complete, tsr_status (*)(void*, uint64_t, uint64_t*, tsr_error*));
SLOT(tsr_edit, describe_state, tsr_status (*)(void*, uint64_t, const tsr_state_description*, tsr_error*));
SLOT(tsr_layout_sink, add_entry, tsr_status (*)(void*, const tsr_layout_entry*, tsr_error*));
SLOT(tsr_strategy_interface, create, tsr_status (*)(const tsr_strategy_create_args*, tsr_strategy**, tsr_error*));
SLOT(tsr_strategy_interface, destroy, void (*)(tsr_strategy*));
SLOT(tsr_strategy_interface, num_variants, uint32_t (*)(tsr_strategy*));
SLOT(tsr_strategy_interface, depends_on_coordinate, uint32_t (*)(tsr_strategy*));
SLOT(tsr_strategy_interface, layout,
     tsr_status (*)(tsr_strategy*, const tsr_program_view*, const tsr_layout_sink*, tsr_error*));
SLOT(tsr_strategy_interface, lower,
     tsr_status (*)(tsr_strategy*, const tsr_program_view*, const tsr_edit*, tsr_error*));
SLOT(tsr_strategy_interface, call, tsr_status (*)(tsr_strategy*, const tsr_call*, tsr_error*));
SLOT(tsr_strategy_interface, get_extension, const void* (*)(tsr_str));

/* offload.h */
SLOT(tsr_offload_sink, leave, tsr_status (*)(void*, const tsr_leave*, tsr_error*));
SLOT(tsr_offload_sink, run_on_host, tsr_status (*)(void*, uint64_t, tsr_error*));
SLOT(tsr_offload_interface, create, tsr_status (*)(const tsr_offload_create_args*, tsr_offload**, tsr_error*));
SLOT(tsr_offload_interface, destroy, void (*)(tsr_offload*));
SLOT(tsr_offload_interface, plan,
     tsr_status (*)(tsr_offload*, const tsr_offload_view*, const tsr_offload_sink*, tsr_error*));
SLOT(tsr_offload_interface, get_extension, const void* (*)(tsr_str));
