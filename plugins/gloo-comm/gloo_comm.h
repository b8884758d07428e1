// The communicator of the plugin gloo-comm: its thread of collectives, and how it ends after a failure.
#pragma once

#include "gloo-comm/collectives/operation.h"
#include "gloo-comm/failure/periodic_task.h"
#include "tessera/queued_communicator.hpp"

namespace tessera::gloo_comm {

/// Ranks as processes, over gloo's TCP transport; the collectives and the order of every sum are implemented here. Two
/// threads per communicator: gloo's, which moves the bytes, and one that checks for deadlines, aborts and lost peers.
/// Collectives of one communicator run one at a time.
class GlooCommunicator final : public QueuedCommunicator {
 public:
  /// `interface`: the network interface to use; empty: see choose_address(). `uses_cma`: members on this machine
  /// read one another's memory where they can. Throws as Connections, ABORTED soon after `args.cancel` is set.
  GlooCommunicator(const tsr_comm_create_args& args, std::string interface, bool uses_cma);
  ~GlooCommunicator() override;

 private:
  void run(const Collective& collective) override;
  void interrupt() noexcept override;

  void create_barrier(const Deadline& deadline, CancelFlag cancel);
  void run_locked(const Collective& collective);
  void stop(const Error& error);
  void close_with_notice(const Fault& fault, int64_t timeout_ms);
  void close_aborted();
  void check_for_failures();

  std::mutex mutex_;            // one operation at a time
  std::optional<Error> error_;  // guarded by mutex_: the first, which ended the communicator
  std::unique_ptr<Endpoint> endpoint_;
  std::unique_ptr<PeriodicTask> failure_check_;
};

}  // namespace tessera::gloo_comm
