// Waits between a rank's two devices (decision 0018). Events order streams of one device; between devices the host
// forwards the signal, differently in each direction:
//
//     device -> host    a host function on the device's stream sets a flag; one on the CPU stream waits for it. The CPU
//                       stream has a thread of its own, which may block.
//     host -> device    a host function on the CPU stream signals a semaphore, a counter on which the device's stream
//                       waits. A host function there would block a callback thread of the driver, which must not block.
//
// Semaphores count runs: a wait for run n passes once the counter is n, so nothing has to be reset between runs.

#include "exec/cross_device_sync.h"

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "base/concat.h"
#include "guard/known_functions.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

class SyncToHost final : public CrossDeviceSync {
 public:
  void signal(const RankStream& stream) override { call(stream.api().host_function, stream.handle, &tell, this); }
  void wait(const RankStream& stream) override { call(stream.api().host_function, stream.handle, &await, this); }

  void begin_run() override {
    const std::lock_guard lock(mutex_);
    has_happened_ = false;
  }
  bool is_signaled() const override {
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
  static tsr_status tell(void* self, tsr_error*) noexcept {
    auto& sync = *static_cast<SyncToHost*>(self);
    {
      const std::lock_guard lock(sync.mutex_);
      sync.has_happened_ = true;
    }
    sync.changed_.notify_all();
    return TSR_OK;
  }

  static tsr_status await(void* self, tsr_error* err) noexcept {
    auto& sync = *static_cast<SyncToHost*>(self);
    std::unique_lock lock(sync.mutex_);
    sync.changed_.wait(lock, [&] { return sync.has_happened_ || sync.is_released_; });
    // Released without a signal: the awaited action has failed, and those that wait for it must not run.
    if (sync.has_happened_) return TSR_OK;
    fill_error(err, TSR_E_ABORTED, "host", "the device's work that this action waits for has failed");
    return TSR_E_ABORTED;
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool has_happened_ = false;
  bool is_released_ = false;
};

class SyncToDevice final : public CrossDeviceSync {
 public:
  explicit SyncToDevice(const Device& device) : api_(device.table<tsr_device_semaphore>(TSR_DEVICE_SEMAPHORE)) {
    if (!api_)
      throw Error(TSR_E_UNSUPPORTED, concat(plugin_text(address_of(device.api().open)),
                                            " has no semaphores (" TSR_DEVICE_SEMAPHORE
                                            "), which its streams need to wait for the host; give another --device"));
    semaphore_ = made_by<tsr_semaphore>(api_->create, device.handle());
  }
  ~SyncToDevice() override { end_with(api_->destroy, semaphore_); }

  void signal(const RankStream& stream) override { call(stream.api().host_function, stream.handle, &on_signal, this); }
  void wait(const RankStream& stream) override { call(api_->wait, stream.handle, semaphore_, run_); }
  void begin_run() override { ++run_; }
  bool is_signaled() const override { return signaled_ == run_; }
  void release() override {
    end_with(api_->signal, semaphore_, run_);
    signaled_ = run_;
  }

 private:
  static tsr_status on_signal(void* self, tsr_error*) noexcept {
    static_cast<SyncToDevice*>(self)->release();
    return TSR_OK;
  }

  const tsr_device_semaphore* const api_;
  tsr_semaphore* semaphore_ = nullptr;
  uint32_t run_ = 0;
  std::atomic<uint32_t> signaled_{0};
};

}  // namespace

std::unique_ptr<CrossDeviceSync> make_sync_to_host() {
  return std::make_unique<SyncToHost>();
}

std::unique_ptr<CrossDeviceSync> make_sync_to(const Device& device) {
  return std::make_unique<SyncToDevice>(device);
}

}  // namespace tessera::host
