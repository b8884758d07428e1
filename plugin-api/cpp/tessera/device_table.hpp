// SPDX-License-Identifier: Apache-2.0
// The function table of tessera/device.h, made of the classes of tessera/device.hpp.
//
//     struct Plugin {
//       static constexpr std::string_view kName = "my-device";
//       static constexpr std::string_view kStreamKind = "my.stream";
//       static std::vector<tsr_slot_spec> describe(const tsr_op& op);
//       static std::unique_ptr<tessera::Device> open(const tsr_device_open_args& args);
//       static const void* get_extension(std::string_view id) noexcept;  // may be left out: no optional tables
//     };
//     TESSERA_PLUGIN(kDescriptor, TSR_DEVICE_INTERFACE, tessera::kDeviceInterface<Plugin>)
//
// Optional tables are made of a device's own classes, too. get_extension returns those that it has:
//
//     if (id == TSR_DEVICE_CAPTURE) return &tessera::kDeviceCapture<Plugin, MyStream>;
//     if (id == TSR_DEVICE_SEMAPHORE) return &tessera::kDeviceSemaphore<Plugin, MyDevice, MyStream>;
//     if (id == TSR_DEVICE_MEMORY_INFO) return &tessera::kDeviceMemoryInfo<Plugin, MyDevice>;
//     if (id == TSR_DEVICE_TIMESTAMPS) return &tessera::kDeviceTimestamps<Plugin, MyDevice, MyStream>;
//
//     void MyStream::begin_capture();
//     std::unique_ptr<MyGraph> MyStream::end_capture();
//     void MyStream::launch(MyGraph& graph);
//     std::unique_ptr<MySemaphore> MyDevice::create_semaphore();
//     void MySemaphore::wait(MyStream& stream, uint32_t value);
//     void MySemaphore::signal(uint32_t value) noexcept;
//     tessera::DeviceMemoryUse MyDevice::memory_use();
//     std::unique_ptr<MyTimestamps> MyDevice::create_timestamps(uint64_t count);
//     void MyTimestamps::write(MyStream& stream, uint64_t index);
//     void MyTimestamps::read(int64_t* times_ns);
//
// Contracts and threads are those of the tables. All but signal may throw tessera::Error.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/device.hpp"
#include "tessera/device_timestamps.h"
#include "tessera/error.hpp"
#include "tessera/extension.hpp"
#include "tessera/operands.hpp"

namespace tessera {

/// The functions of the table; Plugin as shown at the top of this file.
template <class Plugin>
struct DeviceTable {
  template <class F>
  static tsr_status guarded(tsr_error* err, F&& f) noexcept {
    return guard(err, Plugin::kName, std::forward<F>(f));
  }
  static Device& object(tsr_device* p) noexcept { return *reinterpret_cast<Device*>(p); }
  static DeviceStream& object(tsr_stream* p) noexcept { return *reinterpret_cast<DeviceStream*>(p); }
  static DeviceEvent& object(tsr_event* p) noexcept { return *reinterpret_cast<DeviceEvent*>(p); }
  static DeviceKernel& object(tsr_kernel* p) noexcept { return *reinterpret_cast<DeviceKernel*>(p); }
  template <class Handle, class T>
  static Handle* handle(std::unique_ptr<T> owned) noexcept {
    return reinterpret_cast<Handle*>(owned.release());
  }
  template <class Handle>
  static void destroy(Handle* p) noexcept {
    if (p) delete &object(p);
  }

  static tsr_status describe(const tsr_op* op, tsr_slot_spec* slots, uint64_t* num_slots, tsr_error* err) noexcept {
    return guarded(err, [&] {
      const std::vector<tsr_slot_spec> result = Plugin::describe(checked(op));
      const uint64_t capacity = std::exchange(*num_slots, result.size());
      if (capacity < result.size())
        throw Error(TSR_E_RESOURCE_EXHAUSTED, "describe: the op has " + std::to_string(result.size()) +
                                                  " slots, but there is room for " + std::to_string(capacity));
      std::copy(result.begin(), result.end(), slots);
    });
  }
  static tsr_status open(const tsr_device_open_args* args, tsr_device** device, tsr_error* err) noexcept {
    return guarded(err, [&] {
      if (!args || !TSR_HAS(args, tsr_device_open_args, num_options))
        throw Error(TSR_E_INVALID_ARGUMENT, "open: tsr_device_open_args.struct_size is smaller than ABI 0.12 requires");
      check_reserved(args->reserved, "tsr_device_open_args");
      *device = handle<tsr_device>(Plugin::open(*args));
    });
  }
  static tsr_status allocate(tsr_device* device, uint32_t memory, uint64_t num_bytes, void** pointer,
                             tsr_error* err) noexcept {
    return guarded(err, [&] { *pointer = object(device).allocate(memory, num_bytes); });
  }
  static void release(tsr_device* device, uint32_t memory, void* pointer) noexcept {
    if (pointer) object(device).release(memory, pointer);
  }
  static tsr_status stream_create(tsr_device* device, tsr_str name, tsr_stream** stream, tsr_error* err) noexcept {
    return guarded(err, [&] { *stream = handle<tsr_stream>(object(device).create_stream(view(name))); });
  }
  // A stream's error is not an error of this call: it is returned by value, so that it keeps its domain. The call's own
  // time-out is not an error either.
  static tsr_status synchronize(tsr_stream* stream, int64_t timeout_ms, tsr_error* err) noexcept {
    std::optional<tsr_error> error;
    const tsr_status status = guarded(err, [&] {
      if (timeout_ms < 0)
        throw Error(TSR_E_INVALID_ARGUMENT,
                    "synchronize: the time-out is " + std::to_string(timeout_ms) + " ms; 0 looks once");
      error = object(stream).synchronize(timeout_ms);
    });
    if (!error) return status == TSR_E_DEADLINE ? TSR_IN_PROGRESS : status;
    if (err) *err = *error;
    return error->code;
  }
  static tsr_status event_create(tsr_device* device, tsr_event** event, tsr_error* err) noexcept {
    return guarded(err, [&] { *event = handle<tsr_event>(object(device).create_event()); });
  }
  static tsr_status record(tsr_event* event, tsr_stream* stream, tsr_error* err) noexcept {
    return guarded(err, [&] { object(stream).record(object(event)); });
  }
  static tsr_status wait(tsr_stream* stream, tsr_event* event, tsr_error* err) noexcept {
    return guarded(err, [&] { object(stream).wait(object(event)); });
  }
  static tsr_status copy(tsr_stream* stream, void* dst, const void* src, uint64_t num_bytes, tsr_error* err) noexcept {
    return guarded(err, [&] { object(stream).copy(dst, src, num_bytes); });
  }
  static tsr_status fill(tsr_stream* stream, void* dst, uint32_t byte, uint64_t num_bytes, tsr_error* err) noexcept {
    return guarded(err, [&] { object(stream).fill(dst, static_cast<uint8_t>(byte), num_bytes); });
  }
  static tsr_status host_function(tsr_stream* stream, tsr_host_function function, void* user, tsr_error* err) noexcept {
    return guarded(err, [&] { object(stream).host_function(function, user); });
  }
  static void* native_handle(tsr_stream* stream, tsr_str kind) noexcept {
    return object(stream).native_handle(view(kind));
  }
  static tsr_status prepare(tsr_device* device, const tsr_op* op, const tsr_slot_spec* slots, uint64_t num_slots,
                            tsr_kernel** kernel, tsr_error* err) noexcept {
    return guarded(err, [&] {
      const std::span given(slots, num_slots);
      for (const tsr_slot_spec& slot : given) {
        check_spare(slot, "tsr_slot_spec");
        check_flags(slot.flags, TSR_SLOT_OPTIONAL, "tsr_slot_spec");
      }
      *kernel = handle<tsr_kernel>(object(device).prepare(checked(op), given));
    });
  }
  static tsr_status launch(tsr_kernel* kernel, tsr_stream* stream, void* const* pointers, uint64_t num_pointers,
                           tsr_error* err) noexcept {
    return guarded(err, [&] { object(kernel).launch(object(stream), std::span(pointers, num_pointers)); });
  }
  static const void* get_extension(tsr_str id) noexcept { return extension_of<Plugin>(id); }

 private:
  static const tsr_op& checked(const tsr_op* op) {
    if (!op || !TSR_HAS(op, tsr_op, num_ranges))
      throw Error(TSR_E_INVALID_ARGUMENT, "tsr_op.struct_size is smaller than ABI 0.12 requires");
    op::check_known(*op);
    for (const tsr_op_range& range : std::span(op->ranges, op->num_ranges))
      check_spare(range, "tsr_op_range");
    return *op;
  }
};

/// The table itself, with static storage. Its functions are assigned by field name, so that a missing one does not
/// shift the others.
template <class Plugin, class Table = DeviceTable<Plugin>>
inline constexpr tsr_device_interface kDeviceInterface = {
    .struct_size = sizeof(tsr_device_interface),
    .reserved = 0,
    .stream_kind = {Plugin::kStreamKind.data(), Plugin::kStreamKind.size()},
    .describe = Table::describe,
    .open = Table::open,
    .close = Table::template destroy<tsr_device>,
    .allocate = Table::allocate,
    .release = Table::release,
    .stream_create = Table::stream_create,
    .stream_destroy = Table::template destroy<tsr_stream>,
    .stream_synchronize = Table::synchronize,
    .event_create = Table::event_create,
    .event_destroy = Table::template destroy<tsr_event>,
    .event_record = Table::record,
    .stream_wait = Table::wait,
    .copy = Table::copy,
    .fill = Table::fill,
    .host_function = Table::host_function,
    .native_handle = Table::native_handle,
    .prepare = Table::prepare,
    .kernel_destroy = Table::template destroy<tsr_kernel>,
    .launch = Table::launch,
    .get_extension = Table::get_extension,
};

// ---- optional tables -----------------------------------------------------------------------------------------------

/// The functions of tsr_device_capture.
template <class Plugin, class Stream>
struct DeviceCaptureTable {
  using Base = DeviceTable<Plugin>;
  using Graph = typename decltype(std::declval<Stream&>().end_capture())::element_type;
  static Stream& object(tsr_stream* p) noexcept { return static_cast<Stream&>(Base::object(p)); }
  static Graph& object(tsr_graph* p) noexcept { return *reinterpret_cast<Graph*>(p); }

  static tsr_status begin(tsr_stream* stream, tsr_error* err) noexcept {
    return Base::guarded(err, [&] { object(stream).begin_capture(); });
  }
  static tsr_status end(tsr_stream* stream, tsr_graph** graph, tsr_error* err) noexcept {
    return Base::guarded(err, [&] { *graph = Base::template handle<tsr_graph>(object(stream).end_capture()); });
  }
  static tsr_status launch(tsr_graph* graph, tsr_stream* stream, tsr_error* err) noexcept {
    return Base::guarded(err, [&] { object(stream).launch(object(graph)); });
  }
  static void destroy(tsr_graph* graph) noexcept { delete reinterpret_cast<Graph*>(graph); }
};

/// The functions of tsr_device_semaphore.
template <class Plugin, class Device, class Stream>
struct DeviceSemaphoreTable {
  using Base = DeviceTable<Plugin>;
  using Semaphore = typename decltype(std::declval<Device&>().create_semaphore())::element_type;
  static Semaphore& object(tsr_semaphore* p) noexcept { return *reinterpret_cast<Semaphore*>(p); }

  static tsr_status create(tsr_device* device, tsr_semaphore** semaphore, tsr_error* err) noexcept {
    return Base::guarded(err, [&] {
      *semaphore = Base::template handle<tsr_semaphore>(static_cast<Device&>(Base::object(device)).create_semaphore());
    });
  }
  static void destroy(tsr_semaphore* semaphore) noexcept { delete reinterpret_cast<Semaphore*>(semaphore); }
  static tsr_status wait(tsr_stream* stream, tsr_semaphore* semaphore, uint32_t value, tsr_error* err) noexcept {
    return Base::guarded(err, [&] { object(semaphore).wait(static_cast<Stream&>(Base::object(stream)), value); });
  }
  static void signal(tsr_semaphore* semaphore, uint32_t value) noexcept { object(semaphore).signal(value); }
};

/// The function of tsr_device_memory_info.
template <class Plugin, class Device>
struct DeviceMemoryInfoTable {
  using Base = DeviceTable<Plugin>;

  static tsr_status query(tsr_device* device, uint64_t* total_bytes, uint64_t* used_bytes, tsr_error* err) noexcept {
    return Base::guarded(err, [&] {
      const DeviceMemoryUse use = static_cast<Device&>(Base::object(device)).memory_use();
      *total_bytes = use.total_bytes;
      *used_bytes = use.used_bytes;
    });
  }
};

/// The functions of tsr_device_timestamps.
template <class Plugin, class Device, class Stream>
struct DeviceTimestampsTable {
  using Base = DeviceTable<Plugin>;
  using Timestamps = typename decltype(std::declval<Device&>().create_timestamps(0))::element_type;
  static Timestamps& object(tsr_timestamps* p) noexcept { return *reinterpret_cast<Timestamps*>(p); }

  static tsr_status create(tsr_device* device, uint64_t count, tsr_timestamps** timestamps, tsr_error* err) noexcept {
    return Base::guarded(err, [&] {
      *timestamps =
          Base::template handle<tsr_timestamps>(static_cast<Device&>(Base::object(device)).create_timestamps(count));
    });
  }
  static void destroy(tsr_timestamps* timestamps) noexcept { delete reinterpret_cast<Timestamps*>(timestamps); }
  static tsr_status write(tsr_timestamps* timestamps, tsr_stream* stream, uint64_t index, tsr_error* err) noexcept {
    return Base::guarded(err, [&] { object(timestamps).write(static_cast<Stream&>(Base::object(stream)), index); });
  }
  static tsr_status read(tsr_timestamps* timestamps, int64_t* times_ns, tsr_error* err) noexcept {
    return Base::guarded(err, [&] { object(timestamps).read(times_ns); });
  }
};

/// The tables themselves, with static storage.
template <class Plugin, class Stream, class Table = DeviceCaptureTable<Plugin, Stream>>
inline constexpr tsr_device_capture kDeviceCapture = {
    .struct_size = sizeof(tsr_device_capture),
    .reserved = 0,
    .begin = Table::begin,
    .end = Table::end,
    .launch = Table::launch,
    .destroy = Table::destroy,
};
template <class Plugin, class Device, class Stream, class Table = DeviceSemaphoreTable<Plugin, Device, Stream>>
inline constexpr tsr_device_semaphore kDeviceSemaphore = {
    .struct_size = sizeof(tsr_device_semaphore),
    .reserved = 0,
    .create = Table::create,
    .destroy = Table::destroy,
    .wait = Table::wait,
    .signal = Table::signal,
};
template <class Plugin, class Device, class Table = DeviceMemoryInfoTable<Plugin, Device>>
inline constexpr tsr_device_memory_info kDeviceMemoryInfo = {
    .struct_size = sizeof(tsr_device_memory_info),
    .reserved = 0,
    .query = Table::query,
};
template <class Plugin, class Device, class Stream, class Table = DeviceTimestampsTable<Plugin, Device, Stream>>
inline constexpr tsr_device_timestamps kDeviceTimestamps = {
    .struct_size = sizeof(tsr_device_timestamps),
    .reserved = 0,
    .create = Table::create,
    .destroy = Table::destroy,
    .write = Table::write,
    .read = Table::read,
};

}  // namespace tessera
