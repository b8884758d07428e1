// The handshake of wire.h, as the client sees it, and what can be told of a server that fails it:
//
//     no server listens              not started yet: retry
//     it disconnects                 a crowded store, or another program: retry
//     it is silent                   stopped, or another program: an error after kSilenceMs
//     it speaks another protocol     another program: an error at once
//     its secret differs             another job's store: an error at once

#include "launch/store/join.h"

#include <algorithm>
#include <thread>

#include "base/concat.h"
#include "launch/key_value_store.h"
#include "launch/store/wire.h"
#include "launch/tcp_store.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

using std::chrono::milliseconds;

// A store answers at once; this allows for a loaded machine.
constexpr int64_t kSilenceMs = 2 * kGreetingTimeoutMs;
constexpr milliseconds kFirstPause(2);
constexpr milliseconds kLongestPause(200);

// The connection ended before the answer: a crowded store, or another program. Another attempt may succeed.
struct Dropped {
  std::string how;
};

// The handshake of one connection.
class Greeting {
 public:
  Greeting(const Socket& socket, const std::string& place, const std::string& secret, Deadline deadline)
      : socket_(socket), place_(place), secret_(secret), deadline_(deadline) {}

  void run(const Participant& who) const {
    const wire::Hello ours{wire::kMagic, wire::random_bytes()};
    write(ours);
    const auto theirs = read<wire::Hello>();
    if (theirs.magic != wire::kMagic) throw not_a_store("it speaks another protocol");
    const wire::Proofs proofs{secret_, ours.nonce, theirs.nonce};
    wire::Claim claim = wire::claim_of(who);
    claim.proof = proofs.client(claim);
    write(claim);
    const auto answer = read<wire::Answer>();
    if (answer.kind == wire::kOtherSecret)
      throw Error(TSR_E_FAILED_PRECONDITION,
                  concat("the store at ", place_, " has another secret: it belongs to another job, or ",
                         "TESSERA_JOB_SECRET differs between the ranks; give each job its own MASTER_PORT (or ",
                         "TESSERA_STORE_ADDR), and all ranks of a job the same TESSERA_JOB_SECRET"));
    if (!wire::is_equal(answer.proof, proofs.server(claim, answer.kind)))
      throw not_a_store("it does not know this job's secret");
    if (answer.kind != wire::kWelcome) throw refusal();
  }

 private:
  template <class Frame>
  void write(const Frame& frame) const {
    transfer([&] { socket_.write(&frame, sizeof frame, deadline_); });
  }

  template <class Frame>
  Frame read() const {
    Frame frame;
    transfer([&] { socket_.read(&frame, sizeof frame, deadline_); });
    return frame;
  }

  template <class Move>
  void transfer(const Move& move) const {
    try {
      move();
    } catch (const Error& error) {
      if (error.code() == TSR_E_DEADLINE) throw no_answer();
      throw Dropped{error.what()};
    }
  }

  Error refusal() const {
    const auto header = read<wire::Reply>();
    std::string sentence(std::min<uint64_t>(header.num_bytes, kMaxKeyBytes), '\0');
    transfer([&] { socket_.read(sentence.data(), sentence.size(), deadline_); });
    return Error(static_cast<tsr_status>(header.status), sentence);
  }

  // A silent server may still be the store, on a stopped rank 0.
  Error no_answer() const {
    return Error(TSR_E_DEADLINE,
                 concat("the server at ", place_, " does not answer: another program has the port, or rank 0 is ",
                        "stopped or overloaded; check that rank 0 runs, or give all ranks a free MASTER_PORT (the ",
                        "store is at MASTER_PORT + 1) or TESSERA_STORE_ADDR"));
  }

  Error not_a_store(std::string_view why) const {
    return Error(TSR_E_UNAVAILABLE, concat("the server at ", place_, " is not this job's key-value store (", why,
                                           "): another program has the port; give all ranks a free MASTER_PORT (the "
                                           "store is at MASTER_PORT + 1) or TESSERA_STORE_ADDR"));
  }

  const Socket& socket_;
  const std::string& place_;
  const std::string& secret_;
  const Deadline deadline_;
};

Socket connect(const std::string& host, uint16_t port, Deadline deadline, Refused refused, const OnRetry& on_retry) {
  try {
    return Socket::connect(host, port, deadline, refused, on_retry);
  } catch (const Error& error) {
    if (refused == Refused::no_more || error.code() == TSR_E_FAILED_PRECONDITION) throw;
    throw Error(error.code(), concat("cannot join the job's key-value store: ", error.what(),
                                     "; check that rank 0 runs, and that all ranks have the same MASTER_ADDR and ",
                                     "MASTER_PORT (or TESSERA_STORE_ADDR)"));
  }
}

}  // namespace

Socket join_store(const std::string& host, uint16_t port, const std::string& secret, const Participant& who,
                  int64_t timeout_ms, Refused refused, const OnRetry& on_retry) {
  const std::string place = concat(host, ":", port);
  const Deadline deadline = deadline_in(timeout_ms);
  milliseconds pause = kFirstPause;
  for (int tries = 1;; ++tries) {
    Socket socket = connect(host, port, deadline, refused, on_retry);
    try {
      Greeting(socket, place, secret, std::min(deadline, deadline_in(kSilenceMs))).run(who);
      return socket;
    } catch (const Dropped& dropped) {
      if (std::chrono::steady_clock::now() + pause >= deadline)
        throw Error(TSR_E_UNAVAILABLE,
                    concat("the server at ", place, " closed ", tries, " connections before it identified itself as a ",
                           "key-value store (", dropped.how, "): another program has the port, or the store has more ",
                           "connections than it can serve; give all ranks another MASTER_PORT or TESSERA_STORE_ADDR"));
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kLongestPause);
  }
}

}  // namespace tessera::host
