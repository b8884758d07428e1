#include "support/device_runner.h"

#include <sanitizer/asan_interface.h>

#include <algorithm>

#include "support/operand_layout.h"
#include "support/patience.h"
#include "tessera/error.hpp"
#include "tessera/operands.hpp"

namespace tessera::testing {
namespace {

// The address sanitizer, where it is on, ends a program that even reads what lies between operands while this lives.
class ForbiddenGuards {
 public:
  ForbiddenGuards(const OperandLayout& layout, const std::byte* memory) : layout_(layout), memory_(memory) {
    for (const auto& [start, num_bytes] : layout.guards())
      ASAN_POISON_MEMORY_REGION(memory + start, num_bytes);
  }
  ~ForbiddenGuards() { ASAN_UNPOISON_MEMORY_REGION(memory_, layout_.num_bytes()); }
  ForbiddenGuards(const ForbiddenGuards&) = delete;
  ForbiddenGuards& operator=(const ForbiddenGuards&) = delete;

 private:
  const OperandLayout& layout_;
  const std::byte* const memory_;
};

}  // namespace

// An open device with a stream, and memory that grows to what the largest op needed.
struct DeviceRunner::Opened {
  Opened(const tsr_device_interface& device_table, const std::vector<tsr_option_value>& options, int num_threads)
      : table(device_table) {
    host.struct_size = sizeof host;
    host.abi_minor = TSR_ABI_MINOR;
    host.log = [](void*, int32_t, tsr_str) noexcept {};
    host.get_service = [](void*, tsr_str) noexcept -> const void* { return nullptr; };
    tsr_device_open_args args{};
    args.struct_size = sizeof args;
    args.num_threads = static_cast<uint32_t>(num_threads);
    args.host = &host;
    args.options = options.data();
    args.num_options = options.size();
    call(table.open, &args, &device);
    try {
      call(table.stream_create, device, str("test"), &stream);
    } catch (...) {
      table.close(device);
      throw;
    }
  }
  ~Opened() {
    table.stream_destroy(stream);
    table.release(device, TSR_MEMORY_DEVICE, memory);
    table.close(device);
  }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;

  std::byte* reserve(size_t num_bytes) {
    if (num_bytes > capacity) {
      table.release(device, TSR_MEMORY_DEVICE, std::exchange(memory, nullptr));
      capacity = 0;
      call(table.allocate, device, TSR_MEMORY_DEVICE, uint64_t{num_bytes}, &memory);
      capacity = num_bytes;
    }
    return static_cast<std::byte*>(memory);
  }
  void copy(void* dst, const void* src, size_t num_bytes) {
    if (num_bytes > 0) call(table.copy, stream, dst, src, uint64_t{num_bytes});
  }
  void synchronize() {
    tsr_error err{};
    const tsr_status status = table.stream_synchronize(stream, kPatienceMs, &err);
    if (status == TSR_IN_PROGRESS)
      throw Error(TSR_E_DEADLINE, "the op is not done after " + std::to_string(kPatienceMs) + " ms");
    check(status, err);
  }
  void launch(const tsr_op& op, const std::vector<tsr_slot_spec>& slots, const std::vector<void*>& pointers,
              const tsr_device_capture* capture) {
    tsr_kernel* kernel = nullptr;
    call(table.prepare, device, &op, slots.data(), uint64_t{slots.size()}, &kernel);
    const std::unique_ptr<tsr_kernel, void (*)(tsr_kernel*)> owned(kernel, table.kernel_destroy);
    if (!capture) {
      call(table.launch, kernel, stream, pointers.data(), uint64_t{pointers.size()});
      return synchronize();
    }
    call(capture->begin, stream);
    call(table.launch, kernel, stream, pointers.data(), uint64_t{pointers.size()});
    tsr_graph* graph = nullptr;
    call(capture->end, stream, &graph);
    const std::unique_ptr<tsr_graph, void (*)(tsr_graph*)> owned_graph(graph, capture->destroy);
    call(capture->launch, graph, stream);
    synchronize();
  }

  const tsr_device_interface& table;
  tsr_host host{};
  tsr_device* device = nullptr;
  tsr_stream* stream = nullptr;
  void* memory = nullptr;
  size_t capacity = 0;
};

DeviceRunner::DeviceRunner(const tsr_device_interface& table, std::vector<tsr_option_value> options)
    : table_(table), options_(std::move(options)) {}
DeviceRunner::~DeviceRunner() = default;

bool DeviceRunner::is_cuda() const {
  return view(table_.stream_kind) == "cuda.stream";
}

bool DeviceRunner::has_graphs() const {
  return table_.get_extension(str(TSR_DEVICE_CAPTURE)) != nullptr;
}

std::vector<tsr_slot_spec> DeviceRunner::describe(const tsr_op& op) const {
  std::vector<tsr_slot_spec> slots(64);
  uint64_t num_slots = slots.size();
  call(table_.describe, &op, slots.data(), &num_slots);
  slots.resize(num_slots);
  return slots;
}

DeviceRunner::Opened& DeviceRunner::opened(int num_threads) {
  std::unique_ptr<Opened>& device = opened_[num_threads];
  if (!device) device = std::make_unique<Opened>(table_, options_, num_threads);
  return *device;
}

void DeviceRunner::run(const tsr_op& op, std::vector<BoundOperand>& operands, const Placement& placement) {
  Opened& device = opened(placement.num_threads);
  const auto* capture = placement.in_graph
                            ? static_cast<const tsr_device_capture*>(table_.get_extension(str(TSR_DEVICE_CAPTURE)))
                            : nullptr;
  std::vector<std::byte> before, after, around_workspaces;  // read and written until the stream has ended
  try {
    const OperandLayout layout(operands, placement.offset);
    std::byte* memory = device.reserve(layout.num_bytes());
    before = layout.image(operands);
    device.copy(memory, before.data(), before.size());
    if (const uint64_t num_bytes = layout.num_bytes() - before.size(); num_bytes > 0)
      call(table_.fill, device.stream, memory + before.size(), uint32_t{OperandLayout::kGuard}, num_bytes);
    std::vector<tsr_slot_spec> slots;
    std::vector<void*> pointers;
    for (size_t i = 0; i < operands.size(); ++i) {
      slots.push_back(operands[i].slot);
      pointers.push_back(memory + layout.start(i));
    }
    device.synchronize();
    {
      const ForbiddenGuards forbidden(layout, memory);
      device.launch(op, slots, pointers, capture);
    }
    after.resize(before.size());
    around_workspaces.resize(layout.num_guard_bytes_of_workspaces());
    device.copy(after.data(), memory, after.size());
    size_t done = 0;
    for (const auto& [at, num_bytes] : layout.guards_of_workspaces()) {
      device.copy(around_workspaces.data() + done, memory + at, num_bytes);
      done += num_bytes;
    }
    device.synchronize();
    layout.check(operands, before, after, around_workspaces);
    layout.take(after, operands);
  } catch (...) {
    opened_.erase(placement.num_threads);
    throw;
  }
}

}  // namespace tessera::testing
