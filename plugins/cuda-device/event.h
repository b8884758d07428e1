// Events: how one stream waits for another.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "cuda-device/error_tracker.h"
#include "tessera/device.hpp"

namespace tessera::cuda {

class Capture;

/// A CUDA event, and what was before its last record. [issue-thread], but for its making and end.
class Event final : public DeviceEvent {
 public:
  explicit Event(const Context& context);
  ~Event() override;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

 private:
  friend class Stream;

  const Context& context_;
  cudaEvent_t handle_ = nullptr;
  // Of the last record.
  bool is_recorded_ = false;
  Clock clock_;
  std::shared_ptr<Capture> capture_;  // if it was captured
};

}  // namespace tessera::cuda
