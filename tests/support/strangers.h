// Connections that belong to no rank, to every port on which some processes listen.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace tessera::testing {

struct Listener {
  std::string address;  ///< as /proc/net/tcp has it: "0100007F"
  uint16_t port = 0;
};

/// A socket that begins to connect to a port of loopback; -1 when that is refused at once.
int connect_to(uint16_t port);

/// The TCP sockets on which a process listens; none when it has ended.
std::vector<Listener> listeners_of(pid_t process);
/// A process and its children.
std::vector<pid_t> family_of(pid_t process);

/// What a stranger does once it is connected (over loopback).
enum class StrangerKind { kClose, kReset, kHold, kHttp, kGarbage, kZeros, kGlooFrame, kHalfGreeting, kFlood };
constexpr int kNumPoliteKinds = 8;  ///< all but the flood

/// While it lives, a thread throws strangers at every port on which one of `processes()` listens.
class Strangers {
 public:
  Strangers(std::function<std::vector<pid_t>()> processes, unsigned seed, int num_kinds = kNumPoliteKinds);
  ~Strangers();
  Strangers(const Strangers&) = delete;
  Strangers& operator=(const Strangers&) = delete;

  /// Connections that were made until now.
  int num_made() const { return num_made_; }

 private:
  void run();
  void visit(uint16_t port, StrangerKind kind);
  void keep(int socket);

  const std::function<std::vector<pid_t>()> processes_;
  const int num_kinds_;
  std::mt19937 random_;
  std::vector<int> held_;  // sockets, oldest first
  std::atomic<int> num_made_{0};
  std::atomic<bool> stops_{false};
  std::thread thread_;  // last: it uses the members above
};

}  // namespace tessera::testing
