#include <sys/random.h>

#include <array>
#include <cstring>

#include "launch/store_wire.h"
#include "launch/tcp_store.h"
#include "observe/text.h"
#include "tessera/error.hpp"

namespace tessera {

std::string random_secret() {
  std::array<unsigned char, 16> bits;
  if (::getrandom(bits.data(), bits.size(), 0) != static_cast<ssize_t>(bits.size()))
    throw Error(TSR_E_UNAVAILABLE, concat("the system gave no random numbers: ", std::strerror(errno)));
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : bits)
    text += {kDigits[byte >> 4], kDigits[byte & 15]};
  return text;
}

TcpStoreClient::TcpStoreClient(std::string host, uint16_t port, const std::string& secret, int64_t timeout_ms)
    : host_(std::move(host)), port_(port), hello_(wire::hello(secret)) {
  idle_.push_back(connect(timeout_ms));
}

Socket TcpStoreClient::connect(int64_t timeout_ms) const {
  try {
    Socket socket = Socket::connect(host_, port_, deadline_in(timeout_ms));
    socket.write(hello_.data(), hello_.size(), deadline_in(kHelloTimeoutMs));
    char welcome = 0;
    try {
      socket.read(&welcome, 1, deadline_in(2 * kHelloTimeoutMs));
    } catch (const Error&) {
      throw Error(TSR_E_UNAVAILABLE, "what listens there does not know this job's secret");
    }
    if (welcome != wire::kWelcome) throw Error(TSR_E_UNAVAILABLE, "what listens there is no store of this version");
    return socket;
  } catch (const Error& error) {
    throw Error(error.code(), concat("cannot join the job's key-value store at ", host_, ":", port_, ": ", error.what(),
                                     "; check TESSERA_STORE_ADDR and TESSERA_JOB_SECRET, and that rank 0 runs"));
  }
}

Socket TcpStoreClient::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      Socket socket = std::move(idle_.back());
      idle_.pop_back();
      return socket;
    }
  }
  return connect(kReplyTimeoutMs);
}

std::string TcpStoreClient::request(uint64_t operation, std::string_view key, std::string_view value, int64_t argument,
                                    int64_t timeout_ms) {
  check_key(key);
  check_value(key, value);
  Socket socket = take();
  wire::Reply header{};
  std::string payload;
  try {
    const wire::Request request{operation, key.size(), value.size(), argument};
    std::string frame(reinterpret_cast<const char*>(&request), sizeof request);
    frame.append(key).append(value);
    socket.write(frame.data(), frame.size(), deadline_in(kReplyTimeoutMs));
    socket.read(&header, sizeof header, deadline_in(timeout_ms + kReplyTimeoutMs));
    if (header.num_bytes > kMaxValueBytes) throw Error(TSR_E_UNAVAILABLE, "the reply is longer than any value may be");
    payload.resize(header.num_bytes);
    socket.read(payload.data(), payload.size(), deadline_in(kReplyTimeoutMs));
  } catch (const Error& error) {
    throw Error(TSR_E_UNAVAILABLE, concat("the job's key-value store at ", host_, ":", port_, " is gone (key '", key,
                                          "': ", error.what(), "); the launcher or rank 0 has ended, see its log"));
  }
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(socket));
  if (header.status == TSR_E_DEADLINE) throw_missing(key, argument);
  if (header.status != TSR_OK) throw Error(static_cast<tsr_status>(header.status), payload);
  return payload;
}

void TcpStoreClient::set(std::string_view key, std::string_view value) {
  request(wire::kSet, key, value, 0, 0);
}

std::string TcpStoreClient::get(std::string_view key, int64_t timeout_ms) {
  return request(wire::kGet, key, "", timeout_ms, timeout_ms);
}

int64_t TcpStoreClient::add(std::string_view key, int64_t delta) {
  const std::string sum = request(wire::kAdd, key, "", delta, 0);
  int64_t value = 0;
  if (sum.size() != sizeof value) throw Error(TSR_E_UNAVAILABLE, "the key-value store answered add without a number");
  std::memcpy(&value, sum.data(), sizeof value);
  return value;
}

}  // namespace tessera
