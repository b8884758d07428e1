// Owners of a device plugin's objects.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "guard/plugin_calls.h"
#include "plugins/live_objects.h"
#include "tessera/device.h"
#include "tessera/device_timestamps.h"

namespace tessera::host {

/// What optional tables begin with, all of them.
struct OptionalTableHead {
  uint32_t struct_size;
  uint32_t reserved;
};
/// The floors of optional tables: their lengths in the minor that introduced them, which never change. What a later
/// minor appends to a table is there where TSR_HAS_FN says so.
template <class Table>
inline constexpr uint64_t kTableFloor = 0;
template <>
inline constexpr uint64_t kTableFloor<tsr_device_capture> = TSR_END_OF(tsr_device_capture, destroy);
template <>
inline constexpr uint64_t kTableFloor<tsr_device_semaphore> = TSR_END_OF(tsr_device_semaphore, signal);
template <>
inline constexpr uint64_t kTableFloor<tsr_device_memory_info> = TSR_END_OF(tsr_device_memory_info, query);
template <>
inline constexpr uint64_t kTableFloor<tsr_device_timestamps> = TSR_END_OF(tsr_device_timestamps, read);

/// Throws INTERNAL for a table that cannot be read, is shorter than its floor, or has a reserved word that is not 0.
void check_head(const tsr_device_interface& api, std::string_view id, const OptionalTableHead* head, uint64_t floor);
/// Throws INTERNAL if a function of the table is missing; names them for reports.
void check_functions(const tsr_device_interface& api, const tsr_device_capture& table);
void check_functions(const tsr_device_interface& api, const tsr_device_semaphore& table);
void check_functions(const tsr_device_interface& api, const tsr_device_memory_info& table);
void check_functions(const tsr_device_interface& api, const tsr_device_timestamps& table);

/// A device's optional table by id; null when it has none. Throws INTERNAL for one that cannot be used.
template <class Table>
const Table* optional_table(const tsr_device_interface& api, std::string_view id) {
  static_assert(kTableFloor<Table> > 0);
  if (!TSR_HAS_FN(&api, tsr_device_interface, get_extension)) return nullptr;
  const void* const table = enter(api.get_extension, tsr_str{id.data(), id.size()});
  if (!table) return nullptr;
  check_head(api, id, static_cast<const OptionalTableHead*>(table), kTableFloor<Table>);
  check_functions(api, *static_cast<const Table*>(table));
  return static_cast<const Table*>(table);
}

/// How a device is opened. Borrows.
struct DeviceSetup {
  const tsr_device_interface* api = nullptr;
  std::span<const tsr_option_value> options = {};
  uint32_t index = 0;        ///< which device of its kind
  uint32_t num_threads = 1;  ///< threads of a rank on a CPU
  const tsr_host* host = nullptr;
};

/// An open device of one rank. Streams, events, kernels and memory made from it are destroyed before it.
class Device {
 public:
  /// Throws what the plugin reports.
  explicit Device(const DeviceSetup& setup);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const tsr_device_interface& api() const { return *api_; }
  tsr_device* handle() const { return device_; }
  uint32_t num_threads() const { return num_threads_; }  ///< of the rank on a CPU
  /// One of its optional tables, or null.
  template <class Table>
  const Table* table(std::string_view id) const {
    return optional_table<Table>(*api_, id);
  }

 private:
  const tsr_device_interface* api_;
  uint32_t num_threads_;
  tsr_device* device_ = nullptr;
};

/// A stream and its device, neither owned.
struct RankStream {
  const Device* device = nullptr;
  tsr_stream* handle = nullptr;

  const tsr_device_interface& api() const { return device->api(); }
  bool operator==(const RankStream&) const = default;
};

/// Deletes a handle through a function of the device's table.
template <class T, void (*tsr_device_interface::*Destroy)(T*) TSR_NOEXCEPT>
struct HandleDeleter {
  const tsr_device_interface* api = nullptr;
  void operator()(T* handle) const noexcept {
    live_objects<T>().remove(handle);
    end_with(api->*Destroy, handle);
  }
};
using StreamHandle = std::unique_ptr<tsr_stream, HandleDeleter<tsr_stream, &tsr_device_interface::stream_destroy>>;
using EventHandle = std::unique_ptr<tsr_event, HandleDeleter<tsr_event, &tsr_device_interface::event_destroy>>;
using KernelHandle = std::unique_ptr<tsr_kernel, HandleDeleter<tsr_kernel, &tsr_device_interface::kernel_destroy>>;

StreamHandle make_stream(const Device& device, std::string_view name);
EventHandle make_event(const Device& device);
/// All slots of an op on the device.
std::vector<tsr_slot_spec> describe(const tsr_device_interface& device, const tsr_op& op);
KernelHandle make_kernel(const Device& device, const tsr_op& op, std::span<const tsr_slot_spec> slots);
/// Returns when all work of the device's stream is done. Throws its error, and DEADLINE after `timeout_ms`.
/// [control-thread]
void synchronize(const Device& device, tsr_stream* stream, int64_t timeout_ms);
/// Ends the run: stream_synchronize has returned OK, and `what` was seen. Work may still use what the host would now
/// give up.
[[noreturn]] void end_by_early_ok(const Device& device, std::string_view what);

/// The stream kind of devices whose memory is the process's own (device.h of the ABI).
inline constexpr std::string_view kHostStreamKind = "cpu.queue";

/// One allocation in one memory of a device: the arena of a rank.
class Arena {
 public:
  /// `memory` is TSR_MEMORY_*; with num_bytes 0 nothing is allocated.
  Arena(const Device& device, uint32_t memory, uint64_t num_bytes);
  ~Arena();
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&&) = delete;

  std::byte* at(uint64_t address) const { return static_cast<std::byte*>(base_) + address; }
  uint64_t num_bytes() const { return num_bytes_; }

 private:
  const Device& device_;
  uint32_t memory_;
  uint64_t num_bytes_;
  void* base_ = nullptr;
};

}  // namespace tessera::host
