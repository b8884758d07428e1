// Waits between a rank's two devices (decision 0018). Events order streams of one device; between devices the host
// passes the signal on, in a different way for each direction:
//
//     device -> host    a host function on the device's stream sets a flag; one on the CPU stream waits for it. The CPU
//                       stream has a thread of its own, which may block.
//     host -> device    a host function on the CPU stream opens a gate, a counter on which the device's stream waits.
//                       A host function there would block a callback thread of the driver, which must not block.
//
// Gates count runs: a wait for run n passes once the counter is n, so nothing has to be reset between runs.

#include "exec/cross_device_sync.h"

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "tessera/error.hpp"

namespace tessera::host {
namespace {

class CrossingToHost final : public CrossDeviceSync {
 public:
  void signal(const RankStream& stream) override { call(stream.api().host_function, stream.handle, &tell, this); }
  void wait(const RankStream& stream) override { call(stream.api().host_function, stream.handle, &await, this); }

  void begin_run() override {
    const std::lock_guard lock(mutex_);
    has_happened_ = false;
  }
  bool is_open() const override {
    const std::lock_guard lock(mutex_);
    return has_happened_ || is_released_;
  }
  void release() override {
    {
      const std::lock_guard lock(mutex_);
      is_released_ = true;
    }
    changed_.notify_all();
  }

 private:
  static tsr_status tell(void* self, tsr_error*) {
    auto& crossing = *static_cast<CrossingToHost*>(self);
    {
      const std::lock_guard lock(crossing.mutex_);
      crossing.has_happened_ = true;
    }
    crossing.changed_.notify_all();
    return TSR_OK;
  }

  static tsr_status await(void* self, tsr_error* err) {
    auto& crossing = *static_cast<CrossingToHost*>(self);
    std::unique_lock lock(crossing.mutex_);
    crossing.changed_.wait(lock, [&] { return crossing.has_happened_ || crossing.is_released_; });
    // Released without a signal: what would have signalled has failed, and what waits must not run.
    if (crossing.has_happened_) return TSR_OK;
    fill_error(err, TSR_E_ABORTED, "host", "the device's work that this waits for has failed");
    return TSR_E_ABORTED;
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool has_happened_ = false;
  bool is_released_ = false;
};

class CrossingToDevice final : public CrossDeviceSync {
 public:
  explicit CrossingToDevice(const Device& device) : api_(device.table<tsr_device_semaphore>(TSR_DEVICE_SEMAPHORE)) {
    if (!api_)
      throw Error(TSR_E_UNSUPPORTED, "the device has no gates (" TSR_DEVICE_SEMAPHORE ") to wait for the host with");
    call(api_->create, device.handle(), &gate_);
  }
  ~CrossingToDevice() override { api_->destroy(gate_); }

  void signal(const RankStream& stream) override { call(stream.api().host_function, stream.handle, &open, this); }
  void wait(const RankStream& stream) override { call(api_->wait, stream.handle, gate_, run_); }
  void begin_run() override { ++run_; }
  bool is_open() const override { return opened_ == run_; }
  void release() override {
    api_->open(gate_, run_);
    opened_ = run_;
  }

 private:
  static tsr_status open(void* self, tsr_error*) {
    static_cast<CrossingToDevice*>(self)->release();
    return TSR_OK;
  }

  const tsr_device_semaphore* const api_;
  tsr_semaphore* gate_ = nullptr;
  uint32_t run_ = 0;
  std::atomic<uint32_t> opened_{0};
};

}  // namespace

std::unique_ptr<CrossDeviceSync> make_sync_to_host() {
  return std::make_unique<CrossingToHost>();
}

std::unique_ptr<CrossDeviceSync> make_sync_to(const Device& device) {
  return std::make_unique<CrossingToDevice>(device);
}

}  // namespace tessera::host
