// TcpStoreServer of tcp_store.h: owns the listener, the values and the thread that runs the loop (loop.h). A change of
// a value from outside the thread wakes the loop through an eventfd, so that waiting gets are answered.

#include <sys/eventfd.h>
#include <unistd.h>

#include <system_error>

#include "base/concat.h"
#include "launch/store/loop.h"
#include "launch/tcp_store.h"
#include "tessera/error.hpp"

namespace tessera::host {

TcpStoreServer::TcpStoreServer(const std::string& address, uint16_t port, const std::string& secret, StoreEvents events)
    : listener_(Socket::listen(address, port)),
      port_(listener_.local_port()),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      store_([this] { wake(); }),
      loop_(std::make_unique<StoreLoop>(listener_, wake_, secret, std::move(events), store_)) {
  try {
    thread_ = std::thread([this] { serve(); });
  } catch (const std::system_error& error) {
    throw Error(TSR_E_UNAVAILABLE, concat("cannot start the thread of the key-value store: ", error.what(),
                                          "; allow more processes (ulimit -u)"));
  }
}

TcpStoreServer::~TcpStoreServer() {
  is_stopping_ = true;
  wake();
  thread_.join();
}

void TcpStoreServer::wake() const noexcept {
  const uint64_t one = 1;
  // It fails only when the counter is full, and then the thread has been woken.
  [[maybe_unused]] const ssize_t put = ::write(wake_.fd(), &one, sizeof one);
}

void TcpStoreServer::serve() noexcept {
  try {
    loop_->run(is_stopping_);
  } catch (const std::exception& error) {
    store_.close(concat("the job's key-value store has failed: ", error.what()));
  }
  loop_.reset();  // closes all connections
}

}  // namespace tessera::host
