// An NVIDIA GPU as a device.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "cuda-device/cuda_error.h"
#include "cuda-device/error_tracker.h"
#include "cuda-device/memory.h"
#include "cuda-device/semaphore.h"
#include "cuda-device/stream.h"
#include "cuda-device/timestamps.h"
#include "tessera/device.hpp"

namespace tessera::cuda {

inline constexpr std::string_view kShareOption = "share";
inline constexpr std::string_view kTf32Option = "tf32";
inline constexpr std::string_view kDeterministicOption = "deterministic";
inline constexpr std::string_view kAttentionOption = "attention";
inline constexpr std::string_view kDebugPartBytesOption = "debug-part-bytes";
inline constexpr std::string_view kDefaultPartBytes = "536870912";
static_assert(kMaxPartBytes == 536870912);

/// The op's slots in launch order; UNSUPPORTED for an op that this device does not compute. Pure.
std::vector<tsr_slot_spec> describe(const tsr_op& op);

class CudaDevice final : public Device {
 public:
  CudaDevice(int index, Context::Options options, const tsr_host* host)
      : context_(index, options, host), errors_(context_.fault()), memory_(context_) {}

  void* allocate(uint32_t memory, uint64_t num_bytes) override { return memory_.allocate(memory, num_bytes); }
  void release(uint32_t, void* pointer) noexcept override { memory_.release(pointer); }
  std::unique_ptr<DeviceStream> create_stream(std::string_view name) override;
  std::unique_ptr<DeviceEvent> create_event() override;
  /// INVALID_ARGUMENT when `slots` are not those of describe(op).
  std::unique_ptr<DeviceKernel> prepare(const tsr_op& op, std::span<const tsr_slot_spec> slots) override;

  // The optional tables.
  std::unique_ptr<Semaphore> create_semaphore() { return std::make_unique<Semaphore>(context_); }
  std::unique_ptr<Timestamps> create_timestamps(uint64_t count) {
    return std::make_unique<Timestamps>(context_, count);
  }
  DeviceMemoryUse memory_use() const {
    const MemoryInfo info = memory_info(context_);
    return {info.total, info.total - info.free};
  }

 private:
  Context context_;
  ErrorTracker errors_;
  Memory memory_;
};

/// What the plugin's table is made of.
struct Plugin {
  static constexpr std::string_view kName = cuda::kName;
  static constexpr std::string_view kStreamKind = cuda::kStreamKind;
  static std::vector<tsr_slot_spec> describe(const tsr_op& op) { return cuda::describe(op); }
  /// Throws UNAVAILABLE without a driver, a GPU, or a GPU for the rank.
  static std::unique_ptr<Device> open(const tsr_device_open_args& args);
  static const void* get_extension(std::string_view id) noexcept;
};

}  // namespace tessera::cuda
