// How a stream of one device waits for a stream of the other: the host's threads may block, the device's streams have
// none.
#pragma once

#include <memory>

#include "exec/device.h"

namespace tessera::host {

/// A signal from an action to those on the other device that wait for it. Used once a run.
class CrossDeviceSync {
 public:
  virtual ~CrossDeviceSync() = default;
  /// Behind the awaited action, on its stream. [issue-thread]
  virtual void signal(const RankStream& stream) = 0;
  /// Before an action that waits, on its stream; may come before the signal has happened. [issue-thread]
  virtual void wait(const RankStream& stream) = 0;
  /// Before anything of a run is issued. [control-thread]
  virtual void begin_run() = 0;
  /// True when the signal, or a release, has come in this run. [any-thread]
  virtual bool is_open() const = 0;
  /// After an error: all waits, now or later in this run, go on. A waiting stream of the host fails. [any-thread]
  virtual void release() = 0;
};

/// From a device's stream to the host's: a host function on the one tells a host function on the other, which blocks
/// its stream's thread.
std::unique_ptr<CrossDeviceSync> make_sync_to_host();

/// From the host's stream to one of `device`, which waits for a gate. Throws UNSUPPORTED when `device` has none.
std::unique_ptr<CrossDeviceSync> make_sync_to(const Device& device);

}  // namespace tessera::host
