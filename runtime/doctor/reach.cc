// Whether a machine answers at a port, and by how much its clock differs. The protocol, over TCP:
//
//     question    "tsrclock"
//     answer      "tsrclock" | nanoseconds since 1970, uint64, big-endian
//
// As in NTP (RFC 5905) the offset of the clocks is the time in the answer minus the midpoint of question and answer, to
// within half the round trip; the fastest of several questions counts, since it was delayed the least.
//
// Names are resolved in a thread of their own: if the resolver does not answer, the thread is abandoned.

#include "doctor/reach.h"

#include <arpa/inet.h>
#include <endian.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstring>
#include <future>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/concat.h"
#include "config/text_values.h"
#include "config/usage_error.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

using Clock = std::chrono::steady_clock;
using Level = Finding::Level;

constexpr std::array<char, 8> kQuestion = {'t', 's', 'r', 'c', 'l', 'o', 'c', 'k'};
constexpr int kConnectMs = 5'000, kAnswerMs = 2'000, kPollMs = 100, kLookUpMs = 5'000;
constexpr int kQuestions = 8;
constexpr double kFarApart = 1;  // seconds between clocks, at which logs and files confuse their readers

int64_t time_of_day_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// A socket, closed with it.
struct Socket {
  explicit Socket(int d) : descriptor(d) {}
  ~Socket() {
    if (descriptor >= 0) ::close(descriptor);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  const int descriptor;
};

bool wait_for(int descriptor, short events, int timeout_ms) {
  pollfd one{descriptor, events, 0};
  return ::poll(&one, 1, timeout_ms) > 0;
}

/// All bytes, or false.
bool receive_all(int descriptor, void* to, size_t num_bytes, int timeout_ms) {
  auto* at = static_cast<char*>(to);
  while (num_bytes > 0) {
    if (!wait_for(descriptor, POLLIN, timeout_ms)) return false;
    const ssize_t got = ::recv(descriptor, at, num_bytes, 0);
    if (got <= 0) return false;
    at += got;
    num_bytes -= static_cast<size_t>(got);
  }
  return true;
}

struct Answer {
  std::array<char, 8> question;
  uint64_t time_ns;
};

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
using Addresses = std::shared_ptr<addrinfo>;

/// Null with a reason.
Addresses look_up(const Peer& peer, std::string& reason) {
  auto promise = std::make_shared<std::promise<std::pair<int, Addresses>>>();
  auto result = promise->get_future();
  std::thread([promise, peer] {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* list = nullptr;
    const int error = ::getaddrinfo(peer.host.c_str(), std::to_string(peer.port).c_str(), &hints, &list);
    promise->set_value({error, error ? nullptr : Addresses(list, FreeAddresses())});
  }).detach();
  if (result.wait_for(std::chrono::milliseconds(kLookUpMs)) != std::future_status::ready) {
    reason = "the name was not resolved within 5 s";
    return nullptr;
  }
  auto [error, addresses] = result.get();
  if (error) reason = concat("the name is not resolved: ", ::gai_strerror(error));
  return addresses;
}

/// The errno of the attempt; 0: connected.
int connect_to(int descriptor, const addrinfo& address) {
  ::fcntl(descriptor, F_SETFL, O_NONBLOCK);
  if (::connect(descriptor, address.ai_addr, address.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  if (!wait_for(descriptor, POLLOUT, kConnectMs)) return ETIMEDOUT;
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &length);
  return error;
}

struct ClockDifference {
  double seconds = 0, round_trip = 1e9;
};

/// Nothing where no doctor answers. The round trip is timed by the steady clock, which nothing sets meanwhile.
std::optional<ClockDifference> compare_clocks(int descriptor) {
  ClockDifference best;
  for (int i = 0; i < kQuestions; ++i) {
    const int64_t asked = time_of_day_ns();
    const auto start = Clock::now();
    Answer answer{};
    if (::send(descriptor, kQuestion.data(), kQuestion.size(), MSG_NOSIGNAL) !=
            static_cast<ssize_t>(kQuestion.size()) ||
        !receive_all(descriptor, &answer, sizeof answer, kAnswerMs) || answer.question != kQuestion)
      return std::nullopt;
    const double round_trip = seconds_since(start);
    if (round_trip >= best.round_trip) continue;
    const auto theirs = static_cast<int64_t>(be64toh(answer.time_ns));
    best = {static_cast<double>(theirs - asked) * 1e-9 - round_trip / 2, round_trip};
  }
  return best;
}

/// As --peers takes it: the colons of an IPv6 address are in brackets.
std::string name_of(const Peer& peer) {
  const bool has_colons = peer.host.find(':') != std::string::npos;
  return concat(has_colons ? "[" : "", peer.host, has_colons ? "]" : "", ":", peer.port);
}

Finding connected(const Peer& peer, const std::string& section, int descriptor) {
  const std::string name = name_of(peer);
  const auto clocks = compare_clocks(descriptor);
  if (!clocks)
    return {section, name, Level::note, "reached; no tessera doctor answers there",
            concat("To compare clocks, run tessera doctor --listen ", peer.port, " on that machine.")};
  const bool is_far = std::abs(clocks->seconds) >= kFarApart;
  return {section, name, is_far ? Level::warning : Level::ok,
          format("reached, round trip %.0f us; clock %+.6f s, +- %.6f s", clocks->round_trip * 1e6, clocks->seconds,
                 clocks->round_trip / 2),
          is_far ? "Timestamps of the two machines cannot be compared; run an NTP client on both." : ""};
}

constexpr size_t kMaxAskers = 256;

/// A connection to an Answerer.
class Asker {
 public:
  explicit Asker(int descriptor) : socket_(descriptor) {}

  int descriptor() const { return socket_.descriptor; }
  bool is_late() const { return Clock::now() > until_; }

  /// Takes what has come, and answers if that is a whole question. Returns whether another may come.
  bool answer() {
    const ssize_t got =
        ::recv(descriptor(), answer_.question.data() + num_bytes_, answer_.question.size() - num_bytes_, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (got <= 0) return false;
    num_bytes_ += static_cast<size_t>(got);
    if (num_bytes_ < answer_.question.size()) return true;
    if (answer_.question != kQuestion) return false;
    answer_.time_ns = htobe64(static_cast<uint64_t>(time_of_day_ns()));
    num_bytes_ = 0;
    until_ = Clock::now() + std::chrono::milliseconds(kAnswerMs);
    return ::send(descriptor(), &answer_, sizeof answer_, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof answer_) &&
           --num_left_ > 0;
  }

 private:
  const Socket socket_;
  Answer answer_{};
  size_t num_bytes_ = 0;  // of the question
  int num_left_ = kQuestions;
  Clock::time_point until_ = Clock::now() + std::chrono::milliseconds(kAnswerMs);
};

}  // namespace

// A socket of IPv6 takes connections over IPv4 too. Where the kernel has no IPv6, it is a socket of IPv4.
Answerer::Answerer(uint16_t port) : socket_(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const int on = 1, off = 0;
  sockaddr_in6 all{};
  all.sin6_family = AF_INET6;
  all.sin6_port = htons(port);
  sockaddr_in only_v4{};
  only_v4.sin_family = AF_INET;
  only_v4.sin_port = htons(port);
  if (socket_ < 0) socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ::setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const bool is_v6 = ::setsockopt(socket_, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) == 0;
  const int bound = is_v6 ? ::bind(socket_, reinterpret_cast<sockaddr*>(&all), sizeof all)
                          : ::bind(socket_, reinterpret_cast<sockaddr*>(&only_v4), sizeof only_v4);
  sockaddr_storage name{};
  socklen_t length = sizeof name;
  if (bound != 0 || ::listen(socket_, SOMAXCONN) != 0 ||
      ::getsockname(socket_, reinterpret_cast<sockaddr*>(&name), &length) != 0) {
    const int error = errno;
    if (socket_ >= 0) ::close(socket_);
    throw Error(TSR_E_UNAVAILABLE,
                concat("cannot listen on port ", port, ": ", std::strerror(error), "; give --listen another port"));
  }
  port_ = ntohs(name.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(name).sin6_port
                                           : reinterpret_cast<sockaddr_in&>(name).sin_port);
  thread_ = std::thread([this] { answer_all(); });
}

Answerer::~Answerer() {
  is_over_ = true;
  thread_.join();
  ::close(socket_);
}

// All at once: strangers that ask nothing may be many, and each is dropped after a while.
void Answerer::answer_all() {
  std::list<Asker> askers;
  while (!is_over_) {
    const bool has_room = askers.size() < kMaxAskers;
    std::vector<pollfd> polled{{socket_, static_cast<short>(has_room ? POLLIN : 0), 0}};
    for (const Asker& asker : askers)
      polled.push_back({asker.descriptor(), POLLIN, 0});
    if (::poll(polled.data(), polled.size(), kPollMs) < 0) continue;
    size_t at = 0;
    std::erase_if(askers, [&](Asker& asker) { return polled[++at].revents ? !asker.answer() : asker.is_late(); });
    if (!polled[0].revents) continue;
    const int peer = ::accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (peer >= 0)
      askers.emplace_back(peer);
    else
      ::poll(nullptr, 0, kPollMs);  // no descriptor is left, and the connection still waits
  }
}

std::vector<Peer> parse_peers(const std::string& text) {
  std::vector<Peer> peers;
  for (const std::string_view part : split(text, ',')) {
    Peer peer;
    std::string one(part), port;
    if (one.starts_with("[") && one.find(']') != one.npos) {
      port = one.substr(one.find(']') + 1);
      peer.host = one.substr(1, one.find(']') - 1);
    } else if (std::ranges::count(one, ':') == 1) {
      port = one.substr(one.find(':'));
      peer.host = one.substr(0, one.find(':'));
    } else {
      peer.host = one;
    }
    int number = peer.port;
    if (!port.empty()) std::from_chars(port.data() + 1, port.data() + port.size(), number = 0);
    const bool is_port = port.empty() || (port[0] == ':' && port.substr(1) == std::to_string(number));
    if (peer.host.empty() || !is_port || number < 1 || number > 65535)
      throw UsageError(concat("--peers '", part, "' is not host, host:port or [address]:port"));
    peer.port = static_cast<uint16_t>(number);
    peers.push_back(std::move(peer));
  }
  return peers;
}

Finding examine_peer(const Peer& peer, const std::string& section) {
  const std::string name = name_of(peer);
  std::string reason;
  const Addresses addresses = look_up(peer, reason);
  if (!addresses)
    return {section, name, Level::failure, reason,
            "Correct the name, or add it to DNS or to /etc/hosts on this machine."};
  int error = 0;
  for (const addrinfo* address = addresses.get(); address; address = address->ai_next) {
    const Socket socket(::socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (socket.descriptor < 0) continue;
    error = connect_to(socket.descriptor, *address);
    if (error == 0) return connected(peer, section, socket.descriptor);
  }
  return {section, name, Level::failure, concat("not reached: ", std::strerror(error)),
          error == ECONNREFUSED
              ? concat("The machine answers, but nothing listens on that port; run tessera doctor --listen ", peer.port,
                       " there.")
              : "Check the routes and firewalls between the two machines: ranks connect to one another on any port."};
}

std::vector<std::string> own_addresses() {
  std::vector<std::string> addresses, loopback;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {};
  for (const ifaddrs* one = list; one; one = one->ifa_next) {
    if (!one->ifa_addr || one->ifa_addr->sa_family != AF_INET) continue;
    char text[INET_ADDRSTRLEN] = {};
    const auto& address = reinterpret_cast<const sockaddr_in&>(*one->ifa_addr);
    ::inet_ntop(AF_INET, &address.sin_addr, text, sizeof text);
    (std::string_view(text).starts_with("127.") ? loopback : addresses).emplace_back(text);
  }
  ::freeifaddrs(list);
  addresses.insert(addresses.end(), loopback.begin(), loopback.end());
  return addresses;
}

}  // namespace tessera::host
