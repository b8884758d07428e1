// local-comm: ranks that are threads of one process, for tests and runs on one machine (`--comm local`): no sockets, no
// copies through a buffer, and a debugger sees all ranks at once. Its sums are canonical, so its bits are those of
// every other canonical communicator.
#pragma once

#include "local-comm/shared_state.h"
#include "tessera/queued_communicator.hpp"

namespace tessera::local {

/// Ranks as threads of one process: a collective reads and writes the ranks' memory directly, without workspace.
/// Reductions are canonical: each rank reduces its own slice from all ranks' operands.
class LocalCommunicator final : public QueuedCommunicator {
 public:
  explicit LocalCommunicator(const tsr_comm_create_args& args);

 private:
  void run(const Collective& collective) override;
  void interrupt() noexcept override;

  void work(PendingCollective& pending, const Collective& collective);
  void all_reduce(PendingCollective& pending, const Collective& collective);
  void reduce_own_slice(PendingCollective& pending, const Collective& collective, std::span<std::byte* const> outs);
  void copy_slices(const PendingCollective& pending, const Collective& collective);

  const std::shared_ptr<const Failure> abort_;  // made in advance: interrupt() allocates nothing
  SharedStateRef shared_;
  std::vector<std::byte*> outs_;  // of an ALL_REDUCE, with room for all ranks; of the stream's worker
};

}  // namespace tessera::local
