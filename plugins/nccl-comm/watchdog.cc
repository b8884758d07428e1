// A poll costs an event query and a call of NCCL every 20 ms, the delay within which an error is noticed: well under
// the two seconds that abort has. The destructor waits kEndLimit for the thread; if NCCL does not return from an abort,
// the thread and its session are leaked rather than hanging the process.
#include "nccl-comm/watchdog.h"

namespace tessera::nccl_comm {
namespace {

constexpr std::chrono::milliseconds kPeriod(20);
constexpr std::chrono::seconds kEndLimit(15);

}  // namespace

Watchdog::Watchdog(std::shared_ptr<Session> session)
    : session_(std::move(session)), thread_([session = session_] { run(session); }) {}

Watchdog::~Watchdog() {
  session_->shutdown().request();
  if (session_->shutdown().wait_until_done(kEndLimit))
    thread_.join();
  else
    thread_.detach();
}

void Watchdog::run(const std::shared_ptr<Session>& session) noexcept {
  cudaSetDevice(session->gpu());
  // Querying an event must not invalidate a graph that another thread is capturing.
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  cudaThreadExchangeStreamCaptureMode(&mode);
  while (!session->shutdown().wait_for_request(kPeriod))
    session->poll();
  session->end();
}

}  // namespace tessera::nccl_comm
