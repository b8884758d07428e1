// TcpStoreClient of tcp_store.h. A request takes an idle connection, or opens one, and returns it after the reply; so
// threads never share a connection, and a thread that waits in a get blocks no other. A connection whose request failed
// is closed.

#include <algorithm>
#include <cstring>

#include "base/concat.h"
#include "launch/store/join.h"
#include "launch/store/wire.h"
#include "launch/tcp_store.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

// The key of requests about the whole job, since keys may not be empty.
constexpr std::string_view kNoKey = "job";

Error error_of(const wire::Reply& header, const std::string& sentence) {
  const bool has_one = *sentence.c_str() != '\0';
  return {static_cast<tsr_status>(header.status),
          has_one ? sentence : "the key-value store refused a request without a reason"};
}

}  // namespace

std::string random_secret() {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : wire::random_bytes())
    text += {kDigits[byte >> 4], kDigits[byte & 15]};
  return text.substr(0, 32);
}

TcpStoreClient::TcpStoreClient(std::string host, uint16_t port, const std::string& secret, Participant who,
                               int64_t timeout_ms, int64_t reply_ms, const OnRetry& on_retry)
    : host_(std::move(host)),
      port_(port),
      secret_(secret),
      who_(std::move(who)),
      reply_ms_(std::clamp(reply_ms, kShortestReplyMs, kReplyTimeoutMs)) {
  idle_.push_back(join_store(host_, port_, secret_, who_, timeout_ms, Refused::not_yet, on_retry));
}

TcpStoreClient::~TcpStoreClient() {
  if (idle_.empty()) return;
  try {
    const std::string frame = wire::request(wire::kGoodbye, kNoKey, "", 0);
    idle_.back().write(frame.data(), frame.size(), deadline_in(0));
  } catch (const Error&) {
    // The store is already gone.
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
  return join_store(host_, port_, secret_, who_, reply_ms_, Refused::no_more);
}

std::string TcpStoreClient::request(uint64_t operation, std::string_view key, std::string_view value, int64_t argument,
                                    int64_t timeout_ms) {
  check_key(key);
  check_value(key, value);
  Socket socket;
  wire::Reply header{};
  std::string payload;
  const Deadline late = deadline_in(kShortestReplyMs), at_once = deadline_in(reply_ms_);
  try {
    // Only a timeout shows that the serving machine is unreachable. A get is answered at its deadline at the latest,
    // all other requests at once.
    socket = take();
    const std::string frame = wire::request(operation, key, value, argument);
    socket.write(frame.data(), frame.size(), deadline_in(reply_ms_));
    socket.read(&header, sizeof header, timeout_ms > 0 ? deadline_in(timeout_ms + kShortestReplyMs) : at_once);
    if (header.num_bytes > kMaxValueBytes) throw Error(TSR_E_UNAVAILABLE, "the reply is longer than any value may be");
    payload.resize(header.num_bytes);
    socket.read(payload.data(), payload.size(), deadline_in(reply_ms_));
  } catch (const Error& error) {
    if (error.code() == TSR_E_DEADLINE && remaining_ms(late) == 0) is_silent_ = true;  // not refused
    throw Error(TSR_E_UNAVAILABLE, concat("the job's key-value store at ", host_, ":", port_, " is gone (key '", key,
                                          "': ", error.what(), "); the launcher or rank 0 has ended: see its log"));
  }
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(socket));
  if (header.status == TSR_E_DEADLINE) throw_missing(key, argument);
  if (header.status != TSR_OK) throw error_of(header, payload);
  return payload;
}

void TcpStoreClient::set(std::string_view key, std::string_view value) {
  request(wire::kSet, key, value, 0, 0);
}

std::string TcpStoreClient::get(std::string_view key, int64_t timeout_ms) {
  const int64_t most_ms = std::min(timeout_ms, kLongestGetMs);
  return request(wire::kGet, key, "", most_ms, most_ms);
}

void TcpStoreClient::close(std::string_view reason) {
  request(wire::kClose, kNoKey, reason, 0, 0);
}

int64_t TcpStoreClient::add(std::string_view key, int64_t delta) {
  const std::string sum = request(wire::kAdd, key, "", delta, 0);
  int64_t value = 0;
  if (sum.size() != sizeof value) throw Error(TSR_E_UNAVAILABLE, "the key-value store answered add without a number");
  // Eight bytes, little-endian, like all numbers of wire.h.
  std::memcpy(&value, sum.data(), sizeof value);
  return value;
}

}  // namespace tessera::host
