// Devices and communicators: a kernel, a sum, and what is around them.
#pragma once

#include <cstring>

#include "plugin_on_host.h"
#include "tessera/communicator.h"
#include "tessera/device_timestamps.h"

namespace tessera::minors {

/// An open device with a stream and memory.
class OpenDevice {
 public:
  explicit OpenDevice(const Plugin& plugin)
      : table(*plugin.table<tsr_device_interface>(TSR_DEVICE_INTERFACE,
                                                  TSR_END_OF(tsr_device_interface, get_extension))) {
    tsr_device_open_args args{};
    args.struct_size = sizeof args;
    args.num_threads = 1;
    args.host = &plugin.host;
    args.options = plugin.options.data();
    args.num_options = plugin.options.size();
    TESSERA_GROWN(args);
    call("open", table.open, &args, &device);
    call("stream_create", table.stream_create, device, text_of("compute"), &stream);
    void* pointer = nullptr;
    call("allocate", table.allocate, device, TSR_MEMORY_HOST, uint64_t{64}, &pointer);
    memory = static_cast<float*>(pointer);
  }
  ~OpenDevice() {
    table.release(device, TSR_MEMORY_HOST, memory);
    table.stream_destroy(stream);
    table.close(device);
  }
  OpenDevice(const OpenDevice&) = delete;

  void wait() const { call("synchronize", table.stream_synchronize, stream, int64_t{10000}); }

  const tsr_device_interface& table;
  tsr_device* device = nullptr;
  tsr_stream* stream = nullptr;
  float* memory = nullptr;
};

/// One of the device's optional tables, null when it has none; `floor` is its size in the oldest minor with the table.
template <class Table>
inline const Table* optional_table(const OpenDevice& open, const char* id, uint64_t floor) {
  const auto* table = static_cast<const Table*>(open.table.get_extension(text_of(id)));
  if (table && (table->struct_size < floor || table->reserved != 0))
    stop(id, "the table is short, or reserved is not 0");
  return table;
}

inline void drive_optional_tables(const OpenDevice& open) {
  if (const auto* info = optional_table<tsr_device_memory_info>(open, TSR_DEVICE_MEMORY_INFO,
                                                                TSR_END_OF(tsr_device_memory_info, query))) {
    uint64_t total_bytes = 0, used_bytes = 0;
    call("query", info->query, open.device, &total_bytes, &used_bytes);
    std::printf("%d bytes of %d\n", static_cast<int>(used_bytes), static_cast<int>(total_bytes));
  }
  if (const auto* table =
          optional_table<tsr_device_timestamps>(open, TSR_DEVICE_TIMESTAMPS, TSR_END_OF(tsr_device_timestamps, read))) {
    tsr_timestamps* timestamps = nullptr;
    call("create", table->create, open.device, uint64_t{2}, &timestamps);
    call("write", table->write, timestamps, open.stream, uint64_t{1});
    tsr_error err{};
    std::printf("past the end: %d\n", table->write(timestamps, open.stream, 2, &err));
    int64_t times_ns[] = {-1, -1};
    call("read", table->read, timestamps, times_ns);
    std::printf("times %d %d\n", times_ns[0] > 0, times_ns[1] > 0);
    table->destroy(timestamps);
  }
}

inline void drive_device(const Plugin& plugin) {
  const OpenDevice open(plugin);
  tsr_op op{};
  op.struct_size = sizeof op;
  op.kind = TSR_OP_SCALE;
  op.dtype = op.destination_dtype = TSR_F32;
  op.dims[TSR_DIM_ELEMENTS] = 4;
  op.attributes[TSR_ATTR_SCALE] = 0.5;
  TESSERA_GROWN(op);
  tsr_slot_spec slots[4] = {};
  uint64_t num_slots = 4;
  call("describe", open.table.describe, &op, slots, &num_slots);
  for (uint64_t i = 0; i < num_slots; ++i)
    std::printf("slot %x mode %u elements %llu\n", slots[i].slot, slots[i].mode,
                static_cast<unsigned long long>(slots[i].num_elements));
  tsr_kernel* kernel = nullptr;
  call("prepare", open.table.prepare, open.device, &op, slots, num_slots, &kernel);
  const float given[4] = {1, 2, 4, 8};
  std::memcpy(open.memory, given, sizeof given);
  void* const pointers[] = {open.memory};
  call("launch", open.table.launch, kernel, open.stream, pointers, uint64_t{1});
  tsr_event* event = nullptr;
  call("event_create", open.table.event_create, open.device, &event);
  call("event_record", open.table.event_record, event, open.stream);
  call("stream_wait", open.table.stream_wait, open.stream, event);
  call("copy", open.table.copy, open.stream, open.memory + 4, open.memory, uint64_t{16});
  call("fill", open.table.fill, open.stream, open.memory + 8, 0u, uint64_t{4});
  const tsr_host_function print = [](void* user, tsr_error*) noexcept -> tsr_status {
    const auto* memory = static_cast<const float*>(user);
    std::printf("memory %g %g %g %g\n", memory[0], memory[3], memory[7], memory[8]);
    return TSR_OK;
  };
  call("host_function", open.table.host_function, open.stream, print, open.memory);
  open.wait();
  open.table.event_destroy(event);
  open.table.kernel_destroy(kernel);
  op.kind = 4242;
  tsr_error err{};
  num_slots = 4;
  std::printf("an unknown op: %d\n", open.table.describe(&op, slots, &num_slots, &err));
  drive_optional_tables(open);
}

inline void drive_communicator(const Plugin& plugin, const char* device_path) {
  const auto* table = plugin.table<tsr_communicator_interface>(TSR_COMMUNICATOR_INTERFACE,
                                                               TSR_END_OF(tsr_communicator_interface, get_extension));
  const Plugin device = load(device_path);
  const OpenDevice open(device);
  tsr_comm_caps caps{};
  caps.struct_size = sizeof caps;
  call("caps", table->caps, open.table.stream_kind, &caps);
  std::printf("caps %u, %llu types\n", caps.flags, static_cast<unsigned long long>(caps.num_dtypes));
  const int32_t rank = 0;
  const uint32_t cancel = 0;
  tsr_comm_create_args args{};
  args.struct_size = sizeof args;
  args.size = 1;
  args.is_local = 1;
  args.name = text_of("dp.test");
  args.rendezvous = text_of("comm/test");
  args.world_ranks = &rank;
  args.host = &plugin.host;
  args.device_interface = &open.table;
  args.device = open.device;
  args.options = plugin.options.data();
  args.num_options = plugin.options.size();
  args.timeout_ms = 10000;
  args.cancel = &cancel;
  TESSERA_GROWN(args);
  tsr_comm* comm = nullptr;
  call("create", table->create, &args, &comm);
  tsr_collective sum{};
  sum.struct_size = sizeof sum;
  sum.kind = TSR_COLL_ALL_REDUCE;
  sum.reduce = TSR_REDUCE_SUM;
  sum.dtype = TSR_F32;
  sum.num_elements = 4;
  sum.send = open.memory;
  sum.recv = open.memory + 4;
  sum.stream = open.stream;
  sum.label = text_of("test");
  TESSERA_GROWN(sum);
  const float given[4] = {1, 2, 4, 8};
  std::memcpy(open.memory, given, sizeof given);
  uint64_t workspace_bytes = 0;
  call("describe", table->describe, &sum, 1, &workspace_bytes);
  std::vector<char> workspace(workspace_bytes + 1);
  sum.workspace = workspace.data();
  call("submit", table->submit, comm, &sum);
  open.wait();
  call("async_error", table->async_error, comm);
  std::printf("sum %g %g\n", open.memory[4], open.memory[7]);
  table->abort(nullptr, 0);
  table->abort(&comm, 1);
  tsr_error err{};
  std::printf("after abort: %d\n", table->submit(comm, &sum, &err));
  table->destroy(comm);
}

}  // namespace tessera::minors
