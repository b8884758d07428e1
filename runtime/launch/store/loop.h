// The one thread of the key-value store's server. Implemented in loop.cc (connections and timers), loop_frames.cc (what
// they send).
//
// Every connection is a small state machine over a non-blocking socket:
//
//     hello -> claim -> request (repeated; a get whose key does not exist yet waits) -> leaving
//     |-- strangers --|-- members
//
// Invariants. A connection's input buffer holds at most the current frame, so a stranger costs some 300 bytes. Nothing
// is read while a reply is still being sent. Everything but the wait for a member's next request has a deadline. There
// are at most max_strangers strangers: beyond that, a newcomer replaces the one that has been silent for longest, else
// the oldest. An exception ends only the connection that caused it.
#pragma once

#include <sys/epoll.h>

#include <atomic>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>

#include "launch/store/members.h"
#include "launch/store/wire.h"
#include "launch/tcp_store.h"

namespace tessera::host {

class StoreLoop {
 public:
  /// `listener` and `wake` (an eventfd: `store` has changed or is_stopping was set) outlive the loop.
  StoreLoop(const Socket& listener, const Socket& wake, std::string secret, StoreEvents events, MemoryStore& store);

  /// Serves until `is_stopping`, and two seconds longer after two jobs met.
  void run(const std::atomic<bool>& is_stopping);

 private:
  enum class Stage { hello, claim, request, leaving };
  using Timers = std::multimap<Deadline, int>;      // to the descriptor
  using Waiting = std::multimap<std::string, int>;  // from a key to the descriptor whose get waits for it

  struct Peer {
    explicit Peer(Socket accepted) : socket(std::move(accepted)) {}

    Socket socket;
    Stage stage = Stage::hello;
    std::string in;   // the frame that is being received
    std::string out;  // the reply that is being sent; num_sent bytes of it are
    size_t num_sent = 0;
    bool is_writing = false;  // epoll waits until the socket is writable, not readable
    wire::Bytes32 client_nonce{}, server_nonce{};
    std::optional<Participant> member;  // after the handshake
    std::optional<Waiting::iterator> waiting;
    std::optional<Timers::iterator> timer;
  };

  // Descriptors and deadlines.
  void watch(int fd, int operation, uint32_t events) const;
  int next_timeout_ms() const;
  void set_timer(Peer& peer, int64_t timeout_ms);
  void clear_timer(Peer& peer);
  void expire();
  void handle(int fd, uint32_t events);
  Peer* find(int fd);

  // Connections.
  void accept_some();
  void admit(Socket socket);
  bool evict_stranger();
  void pause_accepting();
  void guarded(Peer& peer, const std::function<void()>& work);  // drops the peer when `work` throws
  void drop(Peer& peer);

  // Frames.
  void read(Peer& peer);
  void take_frame(Peer& peer);
  void take_hello(Peer& peer);
  void take_claim(Peer& peer);
  void take_request(Peer& peer);
  std::optional<std::string> answer(Peer& peer, const wire::Request& request, std::string_view key,
                                    std::string_view value);
  void send(Peer& peer, std::string_view bytes);
  void flush(Peer& peer);
  void end_job(const std::string& sentence);

  // Gets that wait.
  std::optional<std::string> look_up(const std::string& key);
  void start_waiting(Peer& peer, std::string_view key, int64_t timeout_ms);
  void stop_waiting(Peer& peer);
  void be_late(Peer& peer);
  void answer_waiting();

  const Socket& listener_;
  const Socket& wake_;
  const std::string secret_;
  const StoreEvents events_;
  MemoryStore& store_;
  const size_t max_strangers_;
  const Socket epoll_;
  std::unordered_map<int, Peer> peers_;  // by descriptor
  std::list<int> strangers_;             // oldest first
  Waiting waiting_;
  Timers timers_;
  StoreMembers members_;
  std::optional<Deadline> farewell_;  // two jobs met: serve until then, so that their ranks can read why
};

}  // namespace tessera::host
