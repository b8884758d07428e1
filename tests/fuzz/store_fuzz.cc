// The protocol of the key-value store, with anybody at the other end. The first byte of an input says which end that
// is:
//
//     0  a stranger, whose bytes the server gets as they are
//     1  one that has said hello: the bytes are its claim
//     2  a member: the bytes are requests
//     3  a server that has let a client in: the bytes are its replies
//
// The server ends the connection when the bytes do, and serves others as before; the client has its answer, or says why
// not. Connections are reset when they close, so that no ports are left waiting.
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <thread>

#include "fuzz/fuzz_target.h"
#include "launch/store/wire.h"
#include "launch/tcp_store.h"

namespace tessera::testing {
using namespace host;
namespace {

constexpr const char* kSecret = "secret";
constexpr const char* kAddress = "127.0.0.1";
constexpr int64_t kLongestMs = 30'000;
const Participant kStranger{5, 50, "elsewhere"}, kRank{0, 10, "here"};

/// False if it takes too long. libFuzzer's own clock interrupts waits.
bool becomes_readable(const Socket& socket) {
  pollfd readable{socket.fd(), POLLIN, 0};
  int result = 0;
  do {
    result = ::poll(&readable, 1, kLongestMs);
  } while (result < 0 && errno == EINTR);
  return result == 1;
}

void reset_at_the_end(const Socket& socket) {
  const linger at_once{1, 0};
  require(::setsockopt(socket.fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once) == 0, "SO_LINGER");
}

template <class Frame>
Frame read_frame(const Socket& socket) {
  Frame frame;
  socket.read(&frame, sizeof frame, deadline_in(kLongestMs));
  return frame;
}

void write_bytes(const Socket& socket, std::string_view bytes) {
  socket.write(bytes.data(), bytes.size(), deadline_in(kLongestMs));
}

/// The handshake of a client, up to what the input leaves out.
void greet(const Socket& socket, bool claims) {
  const wire::Hello ours{wire::kMagic, {1, 2, 3}};
  write_bytes(socket, wire::bytes_of(ours));
  const auto theirs = read_frame<wire::Hello>(socket);
  if (!claims) return;
  wire::Claim claim = wire::claim_of(kStranger);
  claim.proof = wire::Proofs{kSecret, ours.nonce, theirs.nonce}.client(claim);
  write_bytes(socket, wire::bytes_of(claim));
  require(read_frame<wire::Answer>(socket).kind == wire::kWelcome, "a member was not let in");
}

/// Reads whatever comes until the server ends the connection.
void read_to_the_end(const Socket& socket) {
  char bytes[4096];
  for (;;) {
    require(becomes_readable(socket), "the server does not end a connection whose bytes have ended");
    if (::recv(socket.fd(), bytes, sizeof bytes, 0) <= 0) return;
  }
}

/// One for many inputs, until one has closed its job.
TcpStoreServer& server() {
  constexpr int kMaxInputs = 500;  // whose values it keeps
  // Before the server: what libcrypto keeps must outlive its thread.
  [[maybe_unused]] static const wire::Bytes32 any_proof =
      wire::Proofs{kSecret, {}, {}}.client(wire::claim_of(kStranger));
  static std::optional<TcpStoreServer> server;
  static int num_inputs = 0;
  if (server && (server->store().is_closed() || ++num_inputs == kMaxInputs)) server.reset();
  if (!server) server.emplace(kAddress, 0, kSecret), num_inputs = 0;
  return *server;
}

void attack_server(std::string_view bytes, int stage) {
  TcpStoreServer& attacked = server();
  {
    const Socket socket = Socket::connect(kAddress, attacked.port(), deadline_in(kLongestMs));
    reset_at_the_end(socket);
    if (stage > 0) greet(socket, stage > 1);
    succeeds([&] { write_bytes(socket, bytes); });  // it may end the connection before it has read all
    ::shutdown(socket.fd(), SHUT_WR);
    read_to_the_end(socket);
  }
  MemoryStore& store = attacked.store();
  store.set("after", "served");
  const bool is_closed = store.is_closed();
  require(succeeds([&] { require(store.get("after", 0) == "served", "a value is another"); }) || is_closed,
          "the store has lost a value");
}

/// A server that lets one client in, and then sends the bytes.
void impersonate_server(const Socket& listener, std::string_view bytes) {
  require(becomes_readable(listener), "no client comes");
  const Socket socket = listener.accept();
  reset_at_the_end(socket);
  const auto theirs = read_frame<wire::Hello>(socket);
  const wire::Hello ours{wire::kMagic, {4, 5, 6}};
  write_bytes(socket, wire::bytes_of(ours));
  const auto claim = read_frame<wire::Claim>(socket);
  const wire::Proofs proofs{kSecret, theirs.nonce, ours.nonce};
  write_bytes(socket, wire::bytes_of(wire::Answer{proofs.server(claim, wire::kWelcome), wire::kWelcome}));
  write_bytes(socket, bytes);
  ::shutdown(socket.fd(), SHUT_WR);
  read_to_the_end(socket);
}

void attack_client(std::string_view bytes) {
  static const Socket listener = Socket::listen(kAddress, 0);
  std::thread server([&] { succeeds([&] { impersonate_server(listener, bytes); }); });
  {
    std::optional<TcpStoreClient> client;
    require(succeeds([&] { client.emplace(kAddress, listener.local_port(), kSecret, kRank, kLongestMs); }),
            "a client was not let in");
    // After an error the connection may be closed, and no server would accept another one.
    if (succeeds([&] { client->get("key", 1); })) succeeds([&] { client->add("key", 1); });
  }
  server.join();
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  const std::string requests = wire::request(wire::kSet, "key", "value", 0) + wire::request(wire::kGet, "key", "", 10) +
                               wire::request(wire::kAdd, "count", "", -3) + wire::request(wire::kGet, "none", "", 0) +
                               wire::request(wire::kGoodbye, "job", "", 0);
  return {std::string(1, '\0') + std::string(wire::bytes_of(wire::Hello{})) +
              std::string(wire::bytes_of(wire::claim_of(kStranger))),
          "\1" + std::string(wire::bytes_of(wire::claim_of(kStranger))),
          "\2" + requests,
          "\2" + wire::request(wire::kClose, "job", "it ends", 0) + requests,
          "\3" + wire::reply(TSR_OK, "value") + wire::reply(TSR_OK, std::string(8, '\1')),
          "\3" + wire::reply(TSR_E_DEADLINE, "") + wire::reply(TSR_E_INVALID_ARGUMENT, "it would not fit")};
}

}  // namespace tessera::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera::testing;
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  data[0] % 4 == 3 ? attack_client(bytes) : attack_server(bytes, data[0] % 4);
  return 0;
}
