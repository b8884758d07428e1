// local-comm: ranks that are threads of one process. What tests and single-machine runs use (`--comm local`): no
// sockets, no copies through a buffer, and a debugger that sees all ranks at once. Its sums are the canonical ones, and
// so the bits of every other canonical communicator.
#pragma once

#include "local-comm/rendezvous.h"
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
  std::unique_ptr<Communicator> join(const tsr_comm_create_args& args) override;

  void work(Meeting& meeting, const Collective& collective);
  void all_reduce(Meeting& meeting, const Collective& collective);
  void reduce_own_slice(Meeting& meeting, const Collective& collective, std::byte* out);
  void copy_slices(const Meeting& meeting, const Collective& collective);

  const std::shared_ptr<const Failure> abort_;  // made in advance: interrupt() allocates nothing
  HubReference hub_;
};

}  // namespace tessera::local
