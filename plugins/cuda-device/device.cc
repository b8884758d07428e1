// The GPU as a device, and its handles of kernels, which know their device. Launching and freeing a
// kernel may be on different threads, so both make the GPU current.
#include "cuda-device/device.h"

#include <string>

#include "cuda-device/event.h"
#include "cuda-device/kernels/op_table.h"
#include "cuda-device/select_device.h"
#include "tessera/operands.hpp"
#include "tessera/plugin.hpp"

namespace tessera::cuda {
namespace {

Context::Options context_options(std::span<const tsr_option_value> options) {
  const std::string_view attention = view(option(options, kAttentionOption).s);
  return {.allow_tf32 = option(options, kTf32Option).i != 0,
          .is_deterministic = option(options, kDeterministicOption).i != 0,
          .attention = attention == "cudnn"   ? AttentionChoice::cudnn
                       : attention == "plain" ? AttentionChoice::plain
                                              : AttentionChoice::automatic,
          .part_bytes = option(options, kDebugPartBytesOption).i};
}

class PreparedKernel final : public DeviceKernel {
 public:
  PreparedKernel(const Context& context, std::unique_ptr<Kernel> kernel, size_t num_slots)
      : context_(context), kernel_(std::move(kernel)), num_slots_(num_slots) {}
  ~PreparedKernel() override { context_.try_make_current(); }  // the kernel may free tables

  void launch(DeviceStream& stream, std::span<void* const> pointers) override {
    if (pointers.size() != num_slots_)
      throw Error(TSR_E_INVALID_ARGUMENT, "launch: " + std::to_string(pointers.size()) + " pointers for a kernel of " +
                                              std::to_string(num_slots_) + " slots");
    context_.make_current();
    kernel_->launch(static_cast<Stream&>(stream).handle(), pointers.data());
  }

 private:
  const Context& context_;
  const std::unique_ptr<Kernel> kernel_;
  const size_t num_slots_;
};

}  // namespace

std::vector<tsr_slot_spec> describe(const tsr_op& op) {
  return implementation_of(op).describe(op);
}

std::unique_ptr<DeviceStream> CudaDevice::create_stream(std::string_view name) {
  return std::make_unique<Stream>(context_, errors_, name);
}

std::unique_ptr<DeviceEvent> CudaDevice::create_event() {
  return std::make_unique<Event>(context_);
}

std::unique_ptr<DeviceKernel> CudaDevice::prepare(const tsr_op& op, std::span<const tsr_slot_spec> slots) {
  const OpImpl& impl = implementation_of(op);
  const op::SlotList described = impl.describe(op);
  if (op.kind != TSR_OP_ZERO) op::check_slots(described, slots);
  context_.make_current();
  return std::make_unique<PreparedKernel>(context_, impl.prepare(op, slots, context_), slots.size());
}

// num_threads matters to the CPU only, and is checked all the same, so that a mistake shows on every device.
std::unique_ptr<Device> Plugin::open(const tsr_device_open_args& args) {
  if (args.num_threads < 1) throw Error(TSR_E_INVALID_ARGUMENT, "open: num_threads is 0; a rank has at least 1 thread");
  const std::span options(args.options, args.num_options);
  const int index = select_device(args.index, option(options, kShareOption).i != 0);
  return std::make_unique<CudaDevice>(index, context_options(options), args.host);
}

}  // namespace tessera::cuda
