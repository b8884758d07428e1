// Ops of a device, run one at a time through its C table: operands copied in, the kernel launched, results copied back.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tessera/device.h"

namespace tessera::testing {

/// An operand, and its bytes before the run, then after it. Workspaces have none: they hold NaN before.
struct BoundOperand {
  tsr_slot_spec slot;
  std::vector<std::byte> bytes;
};

/// How an op is run; no result may depend on it, unless a check says so.
struct Placement {
  int num_threads = 1;
  /// Every operand starts this many times 4 bytes after a multiple of 256 bytes; -1: operand i, i % 4 times. Those of 8
  /// bytes an element start at the multiple.
  int offset = 0;
  /// Launched from a graph, where the device has graphs.
  bool in_graph = false;
};

/// A device plugin, opened when it is first needed and again after every error: a device may fail for good then.
class DeviceRunner {
 public:
  /// `options`: as open takes them; what they point to outlives this.
  explicit DeviceRunner(const tsr_device_interface& table, std::vector<tsr_option_value> options = {});
  ~DeviceRunner();

  /// Throws what open reports.
  void open() { opened(1); }
  /// Whether it is a GPU, or imitates one.
  bool is_cuda() const;
  bool has_graphs() const;
  std::vector<tsr_slot_spec> describe(const tsr_op& op) const;
  /// Runs `op` once. Throws what the device reports; INTERNAL when bytes around an operand changed, or a byte of an
  /// operand that is only read.
  void run(const tsr_op& op, std::vector<BoundOperand>& operands, const Placement& placement = {});

 private:
  struct Opened;
  Opened& opened(int num_threads);

  const tsr_device_interface& table_;
  const std::vector<tsr_option_value> options_;
  std::map<int, std::unique_ptr<Opened>> opened_;  // by num_threads
};

/// "LINEAR backward bf16 {BATCH 2, SEQ 5, IN 7, OUT 33, HAS_BIAS 1}"
std::string op_text(const tsr_op& op);

}  // namespace tessera::testing
