#pragma once

#include "gloo-comm/operation.h"
#include "gloo-comm/ticker.h"
#include "tessera/queued_communicator.hpp"

namespace tessera::gloo_comm {

/// Processes over TCP, on gloo's transport; every collective and the order of every sum are ours. Two threads a
/// communicator: gloo's, which moves the bytes, and one that minds deadlines, aborts and lost peers. Collectives of one
/// communicator run one at a time.
class GlooCommunicator final : public QueuedCommunicator {
 public:
  /// `interface`: the network interface to use; empty: see choose_address(). `reads_directly`: members on this machine
  /// read one another's memory where they can. Throws as Mesh, ABORTED soon after `aborted` is set.
  GlooCommunicator(const tsr_comm_create_args& args, std::string interface, bool reads_directly,
                   const std::atomic<bool>& aborted);
  ~GlooCommunicator() override;

 private:
  void run(const Collective& collective) override;
  void interrupt() noexcept override;
  std::unique_ptr<Communicator> join(const tsr_comm_create_args& args) override;

  void meet_all(const Deadline& deadline);
  void run_locked(const Collective& collective);
  void stop(const Error& error);
  void hang_up(const Fault& fault, int64_t timeout_ms);
  void hang_up_aborted();
  void tick();

  const std::string interface_;
  const bool reads_directly_;
  std::mutex mutex_;            // one operation at a time
  std::optional<Error> error_;  // guarded by mutex_: the first, which ended the communicator
  std::unique_ptr<Endpoint> endpoint_;
  std::unique_ptr<Ticker> ticker_;
};

}  // namespace tessera::gloo_comm
