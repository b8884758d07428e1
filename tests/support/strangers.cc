#include "support/strangers.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace tessera::testing {
namespace {

constexpr size_t kMaxHeld = 64;
constexpr int kFloodSize = 300;

std::vector<std::string> socket_inodes(pid_t process) {
  std::vector<std::string> inodes;
  std::error_code gone;
  for (std::filesystem::directory_iterator entry("/proc/" + std::to_string(process) + "/fd", gone), end;
       !gone && entry != end; entry.increment(gone)) {
    std::error_code closed;
    const std::string target = std::filesystem::read_symlink(*entry, closed).string();
    if (target.rfind("socket:[", 0) == 0) inodes.push_back(target.substr(8, target.size() - 9));
  }
  return inodes;
}

/// The 48 bytes with which a message of gloo's begins, for a buffer that no rank has.
std::string gloo_frame() {
  const uint64_t preamble[6] = {48 + 16, 1, 1, 0, 16, 0};
  std::string text(sizeof preamble + 16, 'x');
  std::memcpy(text.data(), preamble, sizeof preamble);
  return text;
}

std::string words_of(StrangerKind kind, std::mt19937& random) {
  switch (kind) {
    case StrangerKind::kHttp:
      return "GET /index.html HTTP/1.1\r\nHost: a.server.that.is.none\r\nAccept: */*\r\n\r\n" + std::string(64, ' ');
    case StrangerKind::kGarbage: {
      std::string text(4096, '\0');
      for (char& c : text)
        c = static_cast<char>(random());
      return text;
    }
    case StrangerKind::kZeros:
      return std::string(4096, '\0');
    case StrangerKind::kGlooFrame:
      return gloo_frame();
    case StrangerKind::kHalfGreeting:
      return "tsrgllo1";
    default:
      return "";
  }
}

}  // namespace

int connect_to(uint16_t port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 || errno == EINPROGRESS)
    return socket;
  ::close(socket);
  return -1;
}

std::vector<Listener> listeners_of(pid_t process) {
  const auto inodes = socket_inodes(process);
  std::vector<Listener> listeners;
  for (const char* table : {"/net/tcp", "/net/tcp6"}) {
    std::ifstream in("/proc/" + std::to_string(process) + table);
    for (std::string line; std::getline(in, line);) {
      std::istringstream fields(line);
      std::string number, local, remote, state, queues, timer, retransmits, user, timeout, inode;
      fields >> number >> local >> remote >> state >> queues >> timer >> retransmits >> user >> timeout >> inode;
      if (state != "0A" || std::find(inodes.begin(), inodes.end(), inode) == inodes.end()) continue;
      const size_t colon = local.find(':');
      listeners.push_back(
          {local.substr(0, colon), static_cast<uint16_t>(std::stoul(local.substr(colon + 1), nullptr, 16))});
    }
  }
  return listeners;
}

std::vector<pid_t> family_of(pid_t process) {
  std::vector<pid_t> family{process};
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", gone)) {
    std::ifstream in(entry.path() / "stat");
    std::string text;
    if (!std::isdigit(static_cast<unsigned char>(entry.path().filename().string()[0])) || !std::getline(in, text))
      continue;
    std::istringstream fields(text.substr(text.rfind(')') + 1));
    std::string state;
    pid_t parent = 0;
    fields >> state >> parent;
    if (parent == process) family.push_back(std::stoi(entry.path().filename()));
  }
  return family;
}

Strangers::Strangers(std::function<std::vector<pid_t>()> processes, unsigned seed, int num_kinds)
    : processes_(std::move(processes)), num_kinds_(num_kinds), random_(seed), thread_([this] { run(); }) {}

Strangers::~Strangers() {
  stops_ = true;
  thread_.join();
  for (const int socket : held_)
    ::close(socket);
}

void Strangers::keep(int socket) {
  held_.push_back(socket);
  if (held_.size() <= kMaxHeld) return;
  ::close(held_.front());
  held_.erase(held_.begin());
}

void Strangers::visit(uint16_t port, StrangerKind kind) {
  const int socket = connect_to(port);
  if (socket < 0) return;
  ++num_made_;
  const std::string words = words_of(kind, random_);
  if (!words.empty()) ::send(socket, words.data(), words.size(), MSG_NOSIGNAL);
  if (kind == StrangerKind::kReset) {
    const linger now{1, 0};
    setsockopt(socket, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  }
  if (kind == StrangerKind::kClose || kind == StrangerKind::kReset)
    ::close(socket);
  else
    keep(socket);
}

void Strangers::run() {
  while (!stops_) {
    for (const pid_t process : processes_()) {
      for (const Listener& listener : listeners_of(process)) {
        const auto kind = static_cast<StrangerKind>(random_() % static_cast<unsigned>(num_kinds_));
        const int num_visits = kind == StrangerKind::kFlood ? kFloodSize : 1;
        for (int i = 0; i < num_visits; ++i)
          visit(listener.port, kind == StrangerKind::kFlood ? StrangerKind::kHold : kind);
      }
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random_() % 1000));
  }
}

}  // namespace tessera::testing
