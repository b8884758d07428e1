// Streams of the test device, and what they remember while they are captured.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "tessera/device.hpp"

namespace tessera::other {

class OtherDevice;
class Recording;
class Stream;

/// How much of each stream's recorded work comes before a point.
using Clock = std::map<const Stream*, size_t>;

class Event final : public DeviceEvent {
 public:
  explicit Event(std::unique_ptr<DeviceEvent> inner) : inner_(std::move(inner)) {}
  DeviceEvent& inner() { return *inner_; }

  const Recording* recording = nullptr;  ///< in which it was last recorded
  Clock clock;                           ///< there

 private:
  std::unique_ptr<DeviceEvent> inner_;
};

class Stream final : public DeviceStream {
 public:
  Stream(OtherDevice& device, std::unique_ptr<DeviceStream> inner) : device_(device), inner_(std::move(inner)) {}

  std::optional<tsr_error> synchronize(int64_t timeout_ms) override;
  void record(DeviceEvent& event) override;
  void wait(DeviceEvent& event) override;
  void copy(void* dst, const void* src, uint64_t num_bytes) override;
  void fill(void* dst, uint8_t byte, uint64_t num_bytes) override;
  void host_function(tsr_host_function function, void* user) override;

  // tsr.device.capture/1
  void begin_capture();
  std::unique_ptr<Recording> end_capture();
  void launch(Recording& recording);

  /// Does `work` on the stream below, now or, when the stream is captured, in every launch. Blocks while there is as
  /// much work as a driver's queue takes.
  void submit(std::function<void(DeviceStream&)> work);
  bool is_captured() const;
  OtherDevice& device() { return device_; }
  DeviceStream& inner() { return *inner_; }

 private:
  static tsr_status count_done(void* self, tsr_error*) noexcept;
  void wait_for_room();

  OtherDevice& device_;
  std::atomic<int> num_pending_{0};
  std::unique_ptr<DeviceStream> inner_;
};

/// One capture: its work in order, and how far each stream knows of the others.
class Recording {
 public:
  explicit Recording(Stream& lead) : lead_(lead) { clocks_[&lead]; }

  bool has(const Stream& stream) const { return clocks_.count(&stream) > 0; }
  void add(Stream& stream, std::function<void(DeviceStream&)> work);
  /// An event recorded in this capture. A stream that waits for one takes part from then on.
  void record(Stream& stream, Event& event);
  void wait(Stream& stream, Event& event);
  /// Throws unless `stream` began it and waits for all that was recorded on others.
  void check_end(const Stream& stream) const;
  /// Runs everything as one piece of work on `stream`.
  void launch(Stream& stream);

 private:
  struct Work {
    Stream* stream;
    std::function<void(DeviceStream&)> run;
  };
  Stream& lead_;
  std::vector<Work> works_;
  std::map<const Stream*, Clock> clocks_;  // of each stream that takes part
};

}  // namespace tessera::other
