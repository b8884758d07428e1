// Which machines can reach one another, and how much their clocks differ.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "doctor/finding.h"

namespace tessera::host {

inline constexpr uint16_t kDoctorPort = 29400;

/// Answers other doctors: each question gets the time of day.
class Answerer {
 public:
  /// Listens on all interfaces; port 0: any free one. Throws UNAVAILABLE.
  explicit Answerer(uint16_t port);
  ~Answerer();
  Answerer(const Answerer&) = delete;
  Answerer& operator=(const Answerer&) = delete;

  uint16_t port() const { return port_; }

 private:
  void answer_all();

  int socket_ = -1;
  uint16_t port_ = 0;
  std::atomic<bool> is_over_{false};
  std::thread thread_;  // last: it uses the members above
};

/// "host", "host:port", "[address]:port"; without a port kDoctorPort.
struct Peer {
  std::string host;
  uint16_t port = kDoctorPort;
};
/// Throws UsageError.
std::vector<Peer> parse_peers(const std::string& text);

/// Connects to the peer, with a time limit of some seconds, and compares the clocks if a doctor answers.
Finding examine_peer(const Peer& peer, const std::string& section);

/// The addresses of this machine by which others may reach it, those of loopback last.
std::vector<std::string> own_addresses();

}  // namespace tessera::host
