// A server of the key-value store, and its clients.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>

#include "launch/tcp_store.h"
#include "support/patience.h"
#include "tessera/error.hpp"

namespace tessera::testing {
using namespace host;

class TcpStore : public ::testing::Test {
 protected:
  std::unique_ptr<TcpStoreClient> join(const Participant& who = {}, int64_t timeout_ms = kPatienceMs) const {
    return std::make_unique<TcpStoreClient>("127.0.0.1", server_->port(), secret_, who, timeout_ms);
  }
  Socket stranger() const { return Socket::connect("127.0.0.1", server_->port(), deadline_in(kPatienceMs)); }

  std::string secret_ = random_secret();
  std::unique_ptr<TcpStoreServer> server_ = std::make_unique<TcpStoreServer>("127.0.0.1", 0, secret_);
};

/// Sends what the other side takes.
inline void shout(const Socket& socket, const std::string& noise) {
  try {
    socket.write(noise.data(), noise.size(), deadline_in(kPatienceMs));
  } catch (const Error&) {  // disconnected while it wrote
  }
}

/// Whether the other side closes within the time, whatever it sends before.
inline bool is_dropped(const Socket& socket, int64_t within_ms) {
  const Deadline deadline = deadline_in(within_ms);
  try {
    for (char byte;;)
      socket.read(&byte, 1, deadline);
  } catch (const Error& error) {
    return error.code() == TSR_E_UNAVAILABLE;
  }
}

inline size_t num_entries(const std::string& folder) {
  const std::filesystem::directory_iterator entries(folder);
  return static_cast<size_t>(std::distance(begin(entries), end(entries)));
}

}  // namespace tessera::testing
