// nccl-comm: ranks with a GPU each, over NCCL. A communicator with native streams: submit puts NCCL's kernels on the
// host's CUDA streams and returns, so collectives overlap with compute and may be captured into a graph.
#pragma once

#include "nccl-comm/watchdog.h"
#include "tessera/collective_check.hpp"
#include "tessera/communicator.hpp"

namespace tessera::nccl_comm {

/// One GPU per rank, over NCCL. The sums are NCCL's: the same bits for the same program on the same machines, but not
/// those of the canonical tree. NCCL does not check that the ranks submit the same collective.
///
/// Work on a CUDA stream cannot fail: after an error or an abort the stream continues with undefined data, so the host
/// calls check_async() after every wait for the stream.
class NcclCommunicator final : public Communicator {
 public:
  /// Throws as Library::open, Gpu, agree_on_unique_id and Session::join.
  NcclCommunicator(const tsr_comm_create_args& args, const Settings& settings);

  void submit(const tsr_collective& collective) override;
  void check_async() override { session_->check(); }
  void abort() noexcept override { session_->abort(); }
  void abort_after(Communicator& first) noexcept override {
    session_->abort_after(static_cast<NcclCommunicator&>(first).session_);
  }

 private:
  void run(Collective& collective);

  const Member member_;
  const tsr_device_interface* const device_interface_;
  const Gpu gpu_;
  const std::shared_ptr<Session> session_;
  const Watchdog watchdog_;

  // Touched by the issue thread only.
  OneStream stream_;
  Collective collective_;
  uint64_t num_collectives_ = 0;
};

}  // namespace tessera::nccl_comm
