// SPDX-License-Identifier: Apache-2.0
// Devices in C++: what a device plugin derives from; tessera/device_table.hpp makes the ABI's function table of it.
// What each function does, which errors it has and from which thread it is called is in tessera/device.h. All may throw
// tessera::Error. Objects belong to the host through their handles: the table deletes them in destroy and close, so a
// destructor is where a stream waits for its work and a device gives its memory back.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "tessera/device.h"

namespace tessera {

/// A point in a stream's work; only the device's own streams look into it.
class DeviceEvent {
 public:
  virtual ~DeviceEvent() = default;
};

/// Work runs first in, first out. An error in the work fails the stream; an exception is about the call alone.
class DeviceStream {
 public:
  virtual ~DeviceStream() = default;  // waits for work in flight
  /// Nothing, or the stream's first error; throws DEADLINE.
  virtual std::optional<tsr_error> synchronize(int64_t timeout_ms) = 0;
  virtual void record(DeviceEvent& event) = 0;
  virtual void wait(DeviceEvent& event) = 0;
  virtual void copy(void* dst, const void* src, uint64_t num_bytes) = 0;
  virtual void fill(void* dst, uint8_t byte, uint64_t num_bytes) = 0;
  virtual void host_function(tsr_host_function function, void* user) = 0;
  virtual void* native_handle(std::string_view) noexcept { return nullptr; }
};

/// One op, prepared; launched any number of times.
class DeviceKernel {
 public:
  virtual ~DeviceKernel() = default;
  virtual void launch(DeviceStream& stream, std::span<void* const> pointers) = 0;
};

/// An open device of one rank.
class Device {
 public:
  virtual ~Device() = default;
  virtual void* allocate(uint32_t memory, uint64_t num_bytes) = 0;
  virtual void release(uint32_t memory, void* pointer) noexcept = 0;
  virtual std::unique_ptr<DeviceStream> create_stream(std::string_view name) = 0;
  virtual std::unique_ptr<DeviceEvent> create_event() = 0;
  virtual std::unique_ptr<DeviceKernel> prepare(const tsr_op& op, std::span<const tsr_slot_spec> slots) = 0;
};

/// Bytes of a whole device, and of it in use by anyone: for tsr_device_memory_info.
struct DeviceMemoryUse {
  uint64_t total_bytes = 0;
  uint64_t used_bytes = 0;
};

}  // namespace tessera
