#include <openssl/crypto.h>
#include <poll.h>

#include <algorithm>
#include <array>

#include "config/sha256.h"
#include "launch/store_wire.h"
#include "launch/tcp_store.h"
#include "observe/text.h"
#include "tessera/error.hpp"

namespace tessera {
namespace {

constexpr size_t kMaxConnections = 8192;
// How long the server may take to notice that it stops, or that a waiting client is gone.
constexpr int64_t kSliceMs = 100;
constexpr int64_t kForeverMs = int64_t{1} << 40;

std::string read_text(const Socket& socket, uint64_t num_bytes) {
  std::string text(num_bytes, '\0');
  socket.read(text.data(), num_bytes, deadline_in(kReplyTimeoutMs));
  return text;
}

void reply(const Socket& socket, int64_t status, std::string_view payload) {
  const wire::Reply header{status, payload.size()};
  std::string frame(reinterpret_cast<const char*>(&header), sizeof header);
  frame += payload;
  socket.write(frame.data(), frame.size(), deadline_in(kReplyTimeoutMs));
}

}  // namespace

std::string wire::hello(const std::string& secret) {
  return "TSRSTOR1" + sha256_hex(secret);
}

TcpStoreServer::TcpStoreServer(const std::string& address, uint16_t port, const std::string& secret)
    : hello_(wire::hello(secret)),
      listener_(Socket::listen(address, port)),
      port_(listener_.local_port()),
      acceptor_([this] { accept_all(); }) {}

TcpStoreServer::~TcpStoreServer() {
  is_stopping_ = true;
  listener_.shut_down();
  acceptor_.join();
  for (Connection& connection : connections_)
    connection.socket.shut_down();
  for (Connection& connection : connections_)
    connection.thread.join();
}

void TcpStoreServer::accept_all() {
  while (!is_stopping_) {
    pollfd wanted{listener_.fd(), POLLIN, 0};
    ::poll(&wanted, 1, kSliceMs);
    reap();
    if ((wanted.revents & POLLIN) == 0 || is_stopping_) continue;
    Socket socket = listener_.accept();
    if (socket.fd() < 0 || connections_.size() >= kMaxConnections) continue;
    Connection& connection = connections_.emplace_back();
    connection.socket = std::move(socket);
    connection.thread = std::thread([this, &connection] { serve(connection); });
  }
}

void TcpStoreServer::reap() {
  for (auto connection = connections_.begin(); connection != connections_.end();) {
    if (!connection->is_done) {
      ++connection;
      continue;
    }
    connection->thread.join();
    connection = connections_.erase(connection);
  }
}

void TcpStoreServer::serve(Connection& connection) {
  try {
    std::array<char, wire::kHelloBytes> hello;
    connection.socket.read(hello.data(), hello.size(), deadline_in(kHelloTimeoutMs));
    if (CRYPTO_memcmp(hello.data(), hello_.data(), hello.size()) == 0) {
      connection.socket.write(&wire::kWelcome, 1, deadline_in(kReplyTimeoutMs));
      while (!is_stopping_ && answer_one(connection.socket)) {
      }
    }
  } catch (const std::exception&) {
    // A stranger, or a client that is gone: nobody is left to tell.
  }
  connection.socket.shut_down();
  connection.is_done = true;
}

// False when the connection cannot go on.
bool TcpStoreServer::answer_one(const Socket& socket) {
  wire::Request request;
  socket.read(&request, sizeof request, deadline_in(kForeverMs));
  if (request.key_num_bytes > kMaxKeyBytes || request.value_num_bytes > kMaxValueBytes) return false;
  const std::string key = read_text(socket, request.key_num_bytes);
  const std::string value = read_text(socket, request.value_num_bytes);
  try {
    if (request.operation == wire::kSet) {
      store_.set(key, value);
      reply(socket, TSR_OK, "");
    } else if (request.operation == wire::kAdd) {
      const int64_t sum = store_.add(key, request.argument);
      reply(socket, TSR_OK, {reinterpret_cast<const char*>(&sum), sizeof sum});
    } else if (request.operation == wire::kGet) {
      const Deadline deadline = deadline_in(std::clamp<int64_t>(request.argument, 0, kForeverMs));
      std::optional<std::string> found;
      do {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
        found = store_.try_get(key, std::clamp<int64_t>(left.count(), 0, kSliceMs));
        if (!found && (is_stopping_ || !socket.is_open())) return false;
      } while (!found && std::chrono::steady_clock::now() < deadline);
      reply(socket, found ? TSR_OK : TSR_E_DEADLINE, found.value_or(""));
    } else {
      return false;
    }
  } catch (const Error& error) {
    if (error.code() == TSR_E_UNAVAILABLE || error.code() == TSR_E_DEADLINE) throw;  // the connection itself
    reply(socket, error.code(), error.what());
  }
  return true;
}

}  // namespace tessera
