// A device for tests of the host: it computes as cpu-device does, but its memory cannot be touched by the host, its
// streams are of another kind, its host functions run one at a time as a driver's do, and it can capture work.
//
// What the host sees of device memory are addresses without access rights; streams and kernels work on memory
// elsewhere.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "cpu-device/device.h"
#include "devices/recording.h"

namespace tessera::other {

/// The device's addresses and the memory that each is mapped to.
class Addresses {
 public:
  ~Addresses();
  /// Takes over `memory`, of that many bytes. Returns the address that the host gets to see.
  void* add(void* memory, uint64_t num_bytes);
  /// Gives back the memory of an address.
  void* remove(void* address);
  bool is_on_device(const void* address) const { return find(address) != ranges_.end(); }
  /// The memory of an address of the device; the host's own addresses are themselves.
  void* real(const void* address) const;
  uint64_t num_bytes() const;

 private:
  struct Range {
    std::byte* memory;
    uint64_t num_bytes;  // of address space: whole pages, and one more
    uint64_t wanted_bytes;
  };
  using Ranges = std::map<std::byte*, Range>;
  Ranges::const_iterator find(const void* address) const;
  Ranges ranges_;
};

/// A host function that waits for its turn. Kept by the device: a captured one runs many times.
struct HostCall {
  std::mutex* turn;
  tsr_host_function function;
  void* user;
  static tsr_status run(void* self, tsr_error* err) noexcept;
};

/// tsr.device.semaphore/1.
class Semaphore {
 public:
  void wait(Stream& stream, uint32_t value);
  void signal(uint32_t value);

 private:
  struct Wait {
    Semaphore* semaphore;
    uint32_t value;
    static tsr_status run(void* self, tsr_error* err) noexcept;
  };
  std::mutex mutex_;
  std::condition_variable signaled_;
  uint32_t value_ = 0;
  std::deque<Wait> waits_;
};

class OtherDevice final : public Device {
 public:
  explicit OtherDevice(const tsr_device_open_args& args);

  void* allocate(uint32_t memory, uint64_t num_bytes) override;
  void release(uint32_t memory, void* pointer) noexcept override;
  std::unique_ptr<DeviceStream> create_stream(std::string_view name) override;
  std::unique_ptr<DeviceEvent> create_event() override;
  std::unique_ptr<DeviceKernel> prepare(const tsr_op& op, std::span<const tsr_slot_spec> slots) override;

  std::unique_ptr<Semaphore> create_semaphore() { return std::make_unique<Semaphore>(); }
  DeviceMemoryUse memory_use() const { return {uint64_t{1} << 32, addresses_.num_bytes()}; }

  const Addresses& addresses() const { return addresses_; }
  HostCall& host_call(tsr_host_function function, void* user);

  /// The capture in progress, if any.
  Recording* recording() const { return recording_.get(); }
  void begin_capture(Stream& lead);
  /// Throws when a stream of the capture has not joined its lead again, and with option fail-capture.
  std::unique_ptr<Recording> end_capture(Stream& lead);

 private:
  cpu::CpuDevice cpu_;
  Addresses addresses_;
  bool fails_to_capture_ = false;
  std::mutex turn_;
  std::map<std::pair<tsr_host_function, void*>, HostCall> host_calls_;
  std::unique_ptr<Recording> recording_;
};

struct Plugin {
  static constexpr std::string_view kName = TESSERA_OTHER_DEVICE "-device";
  static constexpr std::string_view kStreamKind = "other.queue";
  static std::vector<tsr_slot_spec> describe(const tsr_op& op) { return cpu::describe(op); }
  static std::unique_ptr<Device> open(const tsr_device_open_args& args) { return std::make_unique<OtherDevice>(args); }
  static const void* get_extension(std::string_view id) noexcept;
};

}  // namespace tessera::other
