// The one thread of the key-value store's server.
//
// Every connection is a small state machine over a socket that never blocks:
//
//     hello -> claim -> request (again and again; a get whose key is not there yet waits) -> leaving
//     |-- strangers --|-- members
//
// Invariants. A connection's input holds at most the frame it is in, so a stranger costs some 300 bytes. While a reply
// is not taken, nothing more is read. Everything but the wait for a
// member's next request has a deadline. There are at most
// max_strangers strangers: a newcomer then takes the place of the one that has been silent for longest, else of the
// oldest. An exception ends the connection it came from.
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
  using Timers = std::multimap<Deadline, int>;  // and the descriptor they are for

  using Waiting = std::multimap<std::string, int>;  // keys that gets wait for

  struct Peer {
    explicit Peer(Socket accepted) : socket(std::move(accepted)) {}

    Socket socket;
    Stage stage = Stage::hello;
    std::string in;   // of the frame under way
    std::string out;  // what the socket has not taken yet, from num_sent on
    size_t num_sent = 0;
    bool is_writing = false;  // epoll waits for room, not for bytes
    wire::Bytes32 client_nonce{}, server_nonce{};
    std::optional<Participant> member;  // after the greeting
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

  // Coming and going.
  void accept_some();
  void admit(Socket socket);
  bool evict_stranger();
  void pause_accepting();
  void guarded(Peer& peer, const std::function<void()>& work);  // which may only throw to drop it
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
  std::optional<Deadline> farewell_;  // two jobs met: when those who came have had time to read so
};

}  // namespace tessera::host
