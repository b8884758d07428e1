// Lets a stream of one of a rank's two devices wait for a stream of the other.
#pragma once

#include <memory>

#include "exec/device.h"

namespace tessera::host {

/// A signal from an action to those on the other device that wait for it. Used once in each run.
class CrossDeviceSync {
 public:
  virtual ~CrossDeviceSync() = default;
  /// Enqueued after the awaited action, on its stream. [issue-thread]
  virtual void signal(const RankStream& stream) = 0;
  /// Enqueued before an action that waits, on its stream, also before the signal. [issue-thread]
  virtual void wait(const RankStream& stream) = 0;
  /// To be called before anything of a run is issued. [control-thread]
  virtual void begin_run() = 0;
  /// True after the signal, or a release, in this run. [any-thread]
  virtual bool is_signaled() const = 0;
  /// After an error: all waits of this run, present and future, end. A waiting stream of the host fails. [any-thread]
  virtual void release() = 0;
};

/// From a device's stream to the host's: a host function on the one signals a host function on the other, which blocks
/// its stream's thread.
std::unique_ptr<CrossDeviceSync> make_sync_to_host();

/// From the host's stream to one of `device`, which waits for a semaphore. Throws UNSUPPORTED when `device` has none.
std::unique_ptr<CrossDeviceSync> make_sync_to(const Device& device);

}  // namespace tessera::host
