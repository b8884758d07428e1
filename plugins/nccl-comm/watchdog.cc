// Looking costs an event query and a call of NCCL every 20 ms, which is how late an error may be seen, well under the
// two seconds that abort has. At the end the thread is waited for kEndLimit; an NCCL that does not come back from an
// abort keeps its thread and its session, which the process can do without, instead of hanging the process.
#include "nccl-comm/watchdog.h"

namespace tessera::nccl_comm {
namespace {

constexpr std::chrono::milliseconds kPeriod(20);
constexpr std::chrono::seconds kEndLimit(15);

}  // namespace

Watchdog::Watchdog(std::shared_ptr<Session> session)
    : session_(std::move(session)), thread_([session = session_] { run(session); }) {}

Watchdog::~Watchdog() {
  session_->fate().wish_end();
  if (session_->fate().wait_for_end(kEndLimit))
    thread_.join();
  else
    thread_.detach();
}

void Watchdog::run(const std::shared_ptr<Session>& session) noexcept {
  cudaSetDevice(session->gpu());
  // Querying an event must not invalidate a graph that another thread may be capturing.
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  cudaThreadExchangeStreamCaptureMode(&mode);
  while (!session->fate().wait_for_wish(kPeriod))
    session->look();
  session->end();
}

}  // namespace tessera::nccl_comm
