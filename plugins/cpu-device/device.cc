// The CPU as a device: its memory and its handles of kernels. One kernel object is shared by the handle and by the
// work that is queued, so the handle may be destroyed before the stream runs it.
#include "cpu-device/device.h"

#include <sys/mman.h>

#include <cstdlib>
#include <string>

#include "cpu-device/event.h"
#include "cpu-device/kernels/ops.h"
#include "cpu-device/stream.h"
#include "cpu-device/threads.h"
#include "tessera/error.hpp"
#include "tessera/operands.hpp"

namespace tessera::cpu {
namespace {

constexpr uint64_t kAlignment = 4096;
/// From this size on an allocation is an arena, all of which will be used.
constexpr uint64_t kPopulatedBytes = 16 << 20;

// Room for oneDNN's kernels, their code and the stacks of a team. Without it oneDNN ends the process.
constexpr uint64_t kHeadroomBytes = 96 << 20;

/// False if a limit on address space (ulimit -v) leaves less than that.
bool has_headroom() {
  void* probe = ::mmap(nullptr, kHeadroomBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (probe == MAP_FAILED) return false;
  ::munmap(probe, kHeadroomBytes);
  return true;
}

class PreparedKernel final : public DeviceKernel {
 public:
  PreparedKernel(std::unique_ptr<Kernel> kernel, size_t num_slots)
      : kernel_(std::move(kernel)), num_slots_(num_slots) {}

  void launch(DeviceStream& stream, std::span<void* const> pointers) override {
    if (pointers.size() != num_slots_)
      throw Error(TSR_E_INVALID_ARGUMENT, "launch: " + std::to_string(pointers.size()) + " pointers for a kernel of " +
                                              std::to_string(num_slots_) + " slots");
    static_cast<Stream&>(stream).launch(kernel_, pointers);
  }

 private:
  const std::shared_ptr<Kernel> kernel_;
  const size_t num_slots_;
};

void check_memory(uint32_t memory) {
  if (memory != TSR_MEMORY_DEVICE && memory != TSR_MEMORY_HOST)
    throw Error(TSR_E_INVALID_ARGUMENT,
                "memory kind " + std::to_string(memory) + " is neither device (1) nor host (2)");
}

}  // namespace

op::SlotList describe(const tsr_op& op) {
  return describe_op(op);
}

// Too little memory must be an error here: in a kernel, oneDNN and OpenMP end the process. Linux gives out addresses it
// has no memory for, so only limits on addresses (ulimit -v) are caught.
void* CpuDevice::allocate(uint32_t memory, uint64_t num_bytes) {
  check_memory(memory);
  void* pointer = nullptr;
  if (posix_memalign(&pointer, kAlignment, num_bytes > 0 ? num_bytes : 1) != 0)
    throw Error(TSR_E_RESOURCE_EXHAUSTED, "the host cannot allocate " + std::to_string(num_bytes) +
                                              " bytes; use a smaller model or batch, or raise ulimit -v");
  if (has_headroom()) {
    // Its pages are there before step 1, not one by one during it; before Linux 5.14 that is not to be had.
    if (num_bytes >= kPopulatedBytes) ::madvise(pointer, num_bytes, MADV_POPULATE_WRITE);
    return pointer;
  }
  std::free(pointer);
  throw Error(TSR_E_RESOURCE_EXHAUSTED, "the host cannot allocate " + std::to_string(kHeadroomBytes) +
                                            " bytes of memory for kernels to work in, beside the " +
                                            std::to_string(num_bytes) + " of buffers; raise ulimit -v");
}

void CpuDevice::release(uint32_t, void* pointer) noexcept {
  std::free(pointer);
}

std::unique_ptr<DeviceStream> CpuDevice::create_stream(std::string_view name) {
  return std::make_unique<Stream>(name, num_threads_);
}

std::unique_ptr<DeviceEvent> CpuDevice::create_event() {
  return std::make_unique<Event>();
}

std::unique_ptr<DeviceKernel> CpuDevice::prepare(const tsr_op& op, std::span<const tsr_slot_spec> slots) {
  const op::SlotList described = describe_op(op);
  if (op.kind != TSR_OP_ZERO) op::check_slots(described, slots);
  return std::make_unique<PreparedKernel>(prepare_op(op, slots, num_threads_), slots.size());
}

// The team is tried before the first step, since OpenMP ends the process when the system grants it no thread.
std::unique_ptr<Device> Plugin::open(const tsr_device_open_args& args) {
  if (args.num_threads < 1) throw Error(TSR_E_INVALID_ARGUMENT, "open: num_threads is 0; a rank has at least 1 thread");
  require_threads(args.num_threads);
  return std::make_unique<CpuDevice>(static_cast<int>(args.num_threads));
}

}  // namespace tessera::cpu
