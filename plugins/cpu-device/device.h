// The CPU as a device: ordinary memory, streams that are threads, and kernels.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "cpu-device/kernel.h"
#include "tessera/device.hpp"

namespace tessera::cpu {

inline constexpr std::string_view kStreamKind = "cpu.queue";

/// The op's slots in launch order; UNSUPPORTED for an op that this device does not compute. Pure.
std::vector<tsr_slot_spec> describe(const tsr_op& op);

class CpuDevice final : public Device {
 public:
  /// `num_threads` >= 1: the team of one rank.
  explicit CpuDevice(int num_threads) : num_threads_(num_threads) {}

  /// Both memories are the host's. RESOURCE_EXHAUSTED if there is not enough, with room for what kernels work in.
  void* allocate(uint32_t memory, uint64_t num_bytes) override;
  void release(uint32_t memory, void* pointer) noexcept override;
  std::unique_ptr<DeviceStream> create_stream(std::string_view name) override;
  std::unique_ptr<DeviceEvent> create_event() override;
  /// INVALID_ARGUMENT when `slots` are not those of describe(op).
  std::unique_ptr<DeviceKernel> prepare(const tsr_op& op, std::span<const tsr_slot_spec> slots) override;

 private:
  const int num_threads_;
};

/// What the plugin's table is made of.
struct Plugin {
  static constexpr std::string_view kName = cpu::kName;
  static constexpr std::string_view kStreamKind = cpu::kStreamKind;
  static std::vector<tsr_slot_spec> describe(const tsr_op& op) { return cpu::describe(op); }
  static std::unique_ptr<Device> open(const tsr_device_open_args& args);
};

}  // namespace tessera::cpu
