// Devices in C++: what a device plugin derives from; tessera/device_table.hpp makes the ABI's function table of it.
// What each function does, and from which thread, stands in tessera/device.h. All may throw tessera::Error.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "tessera/device.h"

namespace tessera {

class DeviceEvent {
 public:
  virtual ~DeviceEvent() = default;
};

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

class DeviceKernel {
 public:
  virtual ~DeviceKernel() = default;
  virtual void launch(DeviceStream& stream, std::span<void* const> pointers) = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual void* allocate(uint32_t memory, uint64_t num_bytes) = 0;
  virtual void release(uint32_t memory, void* pointer) noexcept = 0;
  virtual std::unique_ptr<DeviceStream> create_stream(std::string_view name) = 0;
  virtual std::unique_ptr<DeviceEvent> create_event() = 0;
  virtual std::unique_ptr<DeviceKernel> prepare(const tsr_op& op, std::span<const tsr_slot_spec> slots) = 0;
};

}  // namespace tessera
