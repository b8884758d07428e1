// Owners of a device plugin's objects. call() turns a plugin's error into an exception with its message.

#include "exec/device.h"

#include <utility>

#include "tessera/error.hpp"

namespace tessera::host {

Device::Device(const DeviceSetup& setup, const tsr_host* host) : api_(setup.api) {
  const tsr_device_open_args args{sizeof args, setup.index,          setup.num_threads,   0,
                                  host,        setup.options.data(), setup.options.size()};
  call(api_->open, &args, &device_);
}
Device::~Device() {
  api_->close(device_);
}

StreamHandle make_stream(const Device& device, std::string_view name) {
  tsr_stream* stream = nullptr;
  call(device.api().stream_create, device.handle(), str(name), &stream);
  return {stream, {&device.api()}};
}

EventHandle make_event(const Device& device) {
  tsr_event* event = nullptr;
  call(device.api().event_create, device.handle(), &event);
  return {event, {&device.api()}};
}

std::vector<tsr_slot_spec> describe(const tsr_device_interface& device, const tsr_op& op) {
  // Enough for every existing op; a device that needs more returns how many, and is called again.
  std::vector<tsr_slot_spec> slots(32);
  uint64_t num_slots = slots.size();
  tsr_error err{};
  tsr_status status = device.describe(&op, slots.data(), &num_slots, &err);
  if (status == TSR_E_RESOURCE_EXHAUSTED && num_slots > slots.size()) {
    slots.resize(num_slots);
    status = device.describe(&op, slots.data(), &num_slots, &err);
  }
  check(status, err);
  if (num_slots > slots.size())
    throw Error(TSR_E_INTERNAL, "the device returned more slots than it was given room for");
  slots.resize(num_slots);
  for (const tsr_slot_spec& slot : slots)
    check_spare(slot, "tsr_slot_spec");
  return slots;
}

KernelHandle make_kernel(const Device& device, const tsr_op& op, std::span<const tsr_slot_spec> slots) {
  tsr_kernel* kernel = nullptr;
  call(device.api().prepare, device.handle(), &op, slots.data(), slots.size(), &kernel);
  return {kernel, {&device.api()}};
}

Arena::Arena(const Device& device, uint32_t memory, uint64_t num_bytes)
    : device_(device), memory_(memory), num_bytes_(num_bytes) {
  if (num_bytes) call(device.api().allocate, device.handle(), memory, num_bytes, &base_);
}
Arena::Arena(Arena&& other) noexcept
    : device_(other.device_),
      memory_(other.memory_),
      num_bytes_(other.num_bytes_),
      base_(std::exchange(other.base_, nullptr)) {}
Arena::~Arena() {
  if (base_) device_.api().release(device_.handle(), memory_, base_);
}

}  // namespace tessera::host
