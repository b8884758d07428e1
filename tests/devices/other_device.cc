#include "devices/other_device.h"

#include <sys/mman.h>

#include "tessera/device_table.hpp"

namespace tessera::other {
namespace {

constexpr uint64_t kPage = 4096;

/// The streams of the process, whichever rank's, that wait at an unsignaled semaphore. Allocating and loading wait
/// until there is none, as they may in CUDA.
class WaitingStreams {
 public:
  void add(int change) {
    {
      const std::lock_guard lock(mutex_);
      count_ += change;
    }
    changed_.notify_all();
  }
  void wait_for_none() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return count_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int count_ = 0;
};
WaitingStreams standing_streams;

class Kernel final : public DeviceKernel {
 public:
  explicit Kernel(std::unique_ptr<DeviceKernel> inner) : inner_(std::move(inner)) {}

  void launch(DeviceStream& given, std::span<void* const> pointers) override {
    auto& stream = static_cast<Stream&>(given);
    const Addresses& addresses = stream.device().addresses();
    std::vector<void*> real;
    for (void* pointer : pointers) {
      if (!addresses.is_on_device(pointer))
        throw Error(TSR_E_INVALID_ARGUMENT, "a kernel was given an operand that is not in device memory");
      real.push_back(addresses.real(pointer));
    }
    if (!is_loaded_ && !stream.is_captured()) standing_streams.wait_for_none();
    is_loaded_ = true;
    stream.submit([this, real](DeviceStream& below) { inner_->launch(below, real); });
  }

 private:
  const std::unique_ptr<DeviceKernel> inner_;
  bool is_loaded_ = false;
};

}  // namespace

Addresses::~Addresses() {
  for (const auto& [address, range] : ranges_)
    ::munmap(address, range.num_bytes);
}

// One page more, so that the address past the last byte is the device's too.
void* Addresses::add(void* memory, uint64_t num_bytes) {
  const uint64_t reserved = (num_bytes + kPage - 1) / kPage * kPage + kPage;
  void* address = ::mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) throw Error(TSR_E_RESOURCE_EXHAUSTED, "no addresses are left for device memory");
  ranges_[static_cast<std::byte*>(address)] = {static_cast<std::byte*>(memory), reserved, num_bytes};
  return address;
}

void* Addresses::remove(void* address) {
  const auto range = ranges_.find(static_cast<std::byte*>(address));
  void* memory = range->second.memory;
  ::munmap(address, range->second.num_bytes);
  ranges_.erase(range);
  return memory;
}

Addresses::Ranges::const_iterator Addresses::find(const void* address) const {
  const auto* wanted = static_cast<const std::byte*>(address);
  auto range = ranges_.upper_bound(const_cast<std::byte*>(wanted));
  if (range == ranges_.begin()) return ranges_.end();
  --range;
  return wanted < range->first + range->second.num_bytes ? range : ranges_.end();
}

void* Addresses::real(const void* address) const {
  const auto range = find(address);
  if (range == ranges_.end()) return const_cast<void*>(address);
  return range->second.memory + (static_cast<const std::byte*>(address) - range->first);
}

uint64_t Addresses::num_bytes() const {
  uint64_t num_bytes = 0;
  for (const auto& [address, range] : ranges_)
    num_bytes += range.wanted_bytes;
  return num_bytes;
}

tsr_status HostCall::run(void* self, tsr_error* err) noexcept {
  const HostCall& call = *static_cast<HostCall*>(self);
  const std::lock_guard lock(*call.turn);
  return call.function(call.user, err);
}

void Semaphore::wait(Stream& stream, uint32_t value) {
  if (stream.is_captured()) throw Error(TSR_E_FAILED_PRECONDITION, "a captured stream waits for a semaphore");
  waits_.push_back({this, value});
  stream.inner().host_function(&Wait::run, &waits_.back());
}

tsr_status Semaphore::Wait::run(void* self, tsr_error*) noexcept {
  const Wait& wait = *static_cast<Wait*>(self);
  standing_streams.add(1);
  {
    std::unique_lock lock(wait.semaphore->mutex_);
    wait.semaphore->signaled_.wait(lock,
                                   [&] { return static_cast<int32_t>(wait.semaphore->value_ - wait.value) >= 0; });
  }
  standing_streams.add(-1);
  return TSR_OK;
}

void Semaphore::signal(uint32_t value) {
  {
    const std::lock_guard lock(mutex_);
    value_ = value;
  }
  signaled_.notify_all();
}

OtherDevice::OtherDevice(const tsr_device_open_args& args) : cpu_(static_cast<int>(args.num_threads)) {
  for (uint64_t i = 0; i < args.num_options; ++i)
    if (view(args.options[i].name) == "fail-capture") fails_to_capture_ = args.options[i].i != 0;
}

void* OtherDevice::allocate(uint32_t memory, uint64_t num_bytes) {
  standing_streams.wait_for_none();
  void* pointer = cpu_.allocate(memory, num_bytes);
  return memory == TSR_MEMORY_DEVICE ? addresses_.add(pointer, num_bytes) : pointer;
}

void OtherDevice::release(uint32_t memory, void* pointer) noexcept {
  cpu_.release(memory, memory == TSR_MEMORY_DEVICE ? addresses_.remove(pointer) : pointer);
}

std::unique_ptr<DeviceStream> OtherDevice::create_stream(std::string_view name) {
  standing_streams.wait_for_none();
  return std::make_unique<Stream>(*this, cpu_.create_stream(name));
}

std::unique_ptr<DeviceEvent> OtherDevice::create_event() {
  return std::make_unique<Event>(cpu_.create_event());
}

std::unique_ptr<DeviceKernel> OtherDevice::prepare(const tsr_op& op, std::span<const tsr_slot_spec> slots) {
  standing_streams.wait_for_none();
  return std::make_unique<Kernel>(cpu_.prepare(op, slots));
}

HostCall& OtherDevice::host_call(tsr_host_function function, void* user) {
  return host_calls_.try_emplace({function, user}, HostCall{&turn_, function, user}).first->second;
}

void OtherDevice::begin_capture(Stream& lead) {
  if (recording_) throw Error(TSR_E_FAILED_PRECONDITION, "a capture is in progress");
  recording_ = std::make_unique<Recording>(lead);
}

std::unique_ptr<Recording> OtherDevice::end_capture(Stream& lead) {
  auto recording = std::move(recording_);
  if (!recording) throw Error(TSR_E_FAILED_PRECONDITION, "no capture was begun");
  recording->check_end(lead);
  if (fails_to_capture_) throw Error(TSR_E_RESOURCE_EXHAUSTED, "no memory is left for a graph");
  return recording;
}

const void* Plugin::get_extension(std::string_view id) noexcept {
  if (kName == "bare-device") return nullptr;
  if (id == TSR_DEVICE_CAPTURE) return &kDeviceCapture<Plugin, Stream>;
  if (id == TSR_DEVICE_SEMAPHORE) return &kDeviceSemaphore<Plugin, OtherDevice, Stream>;
  return id == TSR_DEVICE_MEMORY_INFO ? &kDeviceMemoryInfo<Plugin, OtherDevice> : nullptr;
}

}  // namespace tessera::other
