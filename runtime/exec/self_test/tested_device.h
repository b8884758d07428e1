// An open device under test: one stream that works and one that reads the results, and ops whose results are known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "exec/device.h"

namespace tessera::host {

/// An operand of an op: what it is before the kernel, and what it must be after it. Float32, float64, bf16 or int64.
struct TestedOperand {
  uint32_t slot, mode;
  tsr_dtype dtype;
  std::vector<double> before, after;
};

class TestedDevice {
 public:
  static constexpr uint64_t kOperandBytes = 256, kBytes = 8 * kOperandBytes;

  TestedDevice(const Device& device, int64_t timeout_ms);

  /// Runs the op and compares its operands, at most 8 of kOperandBytes each. Does nothing if the device does not have
  /// the op.
  void op(const char* name, const tsr_op& op, const std::vector<TestedOperand>& operands);

  // For what is not an op. Memory of kBytes in the host and on the device:
  std::byte* host(uint64_t offset = 0) const { return host_.at(offset); }
  std::byte* memory(uint64_t offset = 0) const { return memory_.at(offset); }
  /// More of it, until the end.
  std::byte* allocate(uint32_t memory, uint64_t num_bytes);
  const Device& device() const { return device_; }
  const tsr_device_interface& api() const { return device_.api(); }
  tsr_stream* works() const { return works_.get(); }
  tsr_stream* reads() const { return reads_.get(); }
  tsr_event* done() const { return done_.get(); }
  void wait(tsr_stream* stream) const;
  /// False after `timeout_ms`.
  bool has_ended(tsr_stream* stream, int64_t timeout_ms) const;
  /// The memory to the host, through the other stream.
  void read() const;
  std::string refusal(const std::string& what, const std::string& problem) const;
  [[noreturn]] void refuse(const std::string& what, const std::string& problem) const;

 private:
  void write(const std::vector<TestedOperand>& operands) const;
  void compare(const char* name, const TestedOperand& operand, const std::byte* got) const;

  const Device& device_;
  const int64_t timeout_ms_;
  const Arena host_, memory_;
  std::vector<Arena> allocations_;
  std::vector<KernelHandle> kernels_;
  const EventHandle done_;
  const StreamHandle works_, reads_;  // last: destroyed first, which waits for the work that uses the other members
};

}  // namespace tessera::host
