// Why not a ring: its partial sums are added in an order that depends on the slice, and the canonical sum needs all
// operands of an element at once. So the owner of a slice receives it from everybody and reduces it in the order of the
// tree. The bytes are those of a ring, (n-1)/n of the data out and in for a reduce_scatter; what a ring saves is
// connections, and those are there already.
//
// The long way, for one owner and three pieces of its slice, two stages a peer:
//
//     receive from each peer   p0  p1  p2
//     reduce                       p0  p1  p2           operands in rank order, into the result
//     send to each peer                p0  p1  p2       ALL_REDUCE: everybody needs every result
//
// Stages are the workspace: kStages pieces of each peer, at most kMaxWorkspaceBytes as long as that leaves pieces of
// kMinPieceBytes. Where two ranks read one another's memory the owner copies the piece out of the peer's operand
// instead of receiving it, and signals when it has read all, since only then may the peer write there.
//
// The short way, up to kInlineBytes, is one message from each to each, with the data in the header: one trip over the
// network, and every rank computes all of an all_reduce itself, with the same bits since the tree is the same.
#include "gloo-comm/reduce.h"

#include "tessera/canonical_sum.hpp"

namespace tessera::gloo_comm {
namespace {

constexpr uint64_t kMaxPieceBytes = 512 * 1024;
constexpr uint64_t kMinPieceBytes = 64 * 1024;
constexpr uint64_t kMaxWorkspaceBytes = 16 * 1024 * 1024;  // as long as pieces are not too small
constexpr uint64_t kStages = 2;                            // pieces received ahead from each peer
constexpr uint64_t kAlignment = 64;

/// Where each member's slice lies in the send buffer, in bytes.
struct Slices {
  std::vector<uint64_t> offsets;  // [num_ranks + 1]

  uint64_t begin(int rank) const { return offsets[static_cast<size_t>(rank)]; }
  uint64_t num_bytes(int rank) const { return offsets[static_cast<size_t>(rank) + 1] - begin(rank); }
  uint64_t largest() const {
    uint64_t largest = 0;
    for (size_t i = 1; i < offsets.size(); ++i)
      largest = std::max(largest, offsets[i] - offsets[i - 1]);
    return largest;
  }
};

/// REDUCE is a REDUCE_SCATTER in which the root owns everything.
Slices slices_of(const Collective& c, int num_ranks) {
  Slices slices;
  if (c.kind == TSR_COLL_REDUCE) {
    slices.offsets.assign(static_cast<size_t>(num_ranks) + 1, 0);
    std::fill(slices.offsets.begin() + c.peer + 1, slices.offsets.end(), c.num_elements * c.element_bytes());
    return slices;
  }
  for (const uint64_t offset : c.offsets)
    slices.offsets.push_back(offset * c.element_bytes());
  return slices;
}

/// How `num_bytes` are cut: into pieces as long as the workspace allows, and a shorter last one.
class Pieces {
 public:
  Pieces(uint64_t num_bytes, int num_ranks) : num_bytes_(num_bytes), limit_(limit(num_ranks)) {}

  /// Length of a piece among so many ranks.
  static uint64_t limit(int num_ranks) {
    const uint64_t num_stages = kStages * static_cast<uint64_t>(num_ranks - 1);
    const uint64_t fair = kMaxWorkspaceBytes / std::max<uint64_t>(num_stages, 1) / kAlignment * kAlignment;
    return std::clamp(fair, kMinPieceBytes, kMaxPieceBytes);
  }

  uint64_t end() const { return (num_bytes_ + limit_ - 1) / limit_; }
  uint64_t offset(uint64_t piece) const { return piece * limit_; }
  uint64_t num_bytes(uint64_t piece) const { return std::min(limit_, num_bytes_ - offset(piece)); }

 private:
  uint64_t num_bytes_, limit_;
};

/// Bytes between two pieces in the workspace.
uint64_t stage_bytes(uint64_t largest_slice, int num_ranks) {
  return std::min(Pieces::limit(num_ranks), (largest_slice + kAlignment - 1) / kAlignment * kAlignment);
}

/// Everything in one message from each to each.
void reduce_inline(Operation& operation, const Slices& slices) {
  const Collective& c = operation.collective();
  const bool is_all = c.kind == TSR_COLL_ALL_REDUCE;
  const int rank = operation.rank();
  const auto begin = [&](int owner) { return is_all ? 0 : slices.begin(owner); };
  const auto num_bytes = [&](int owner) { return is_all ? slices.offsets.back() : slices.num_bytes(owner); };
  const std::vector<int> peers = operation.peers();
  for (const int peer : peers)
    operation.greet(peer, make_header(c, peer, true), c.send + begin(peer), num_bytes(peer));
  std::vector<const void*> operands(static_cast<size_t>(operation.num_ranks()), c.send + begin(rank));
  for (const int peer : peers)
    operands[static_cast<size_t>(peer)] = operation.meet(peer, make_header(c, peer, false), num_bytes(rank));
  if (num_bytes(rank) > 0) reduce_piece(c.dtype, c.reduce, operands, c.recv, num_bytes(rank) / c.element_bytes());
  operation.finish();
}

/// The work on long slices, once all headers agree.
class PieceReducer {
 public:
  PieceReducer(Operation& operation, Slices slices)
      : operation_(operation), c_(operation.collective()), slices_(std::move(slices)), peers_(operation.peers()) {}

  void run() {
    meet();
    send_operands();
    if (gathers()) receive_results();
    reduce_own_slice();
    if (gathers()) read_results();
    wait();
  }

 private:
  struct Posted {
    Buffer* buffer;
    int peer;
    uint64_t num_messages;
  };

  bool gathers() const { return c_.kind == TSR_COLL_ALL_REDUCE; }
  uint64_t own_bytes() const { return slices_.num_bytes(operation_.rank()); }
  std::byte* own_result() const { return c_.recv + (gathers() ? slices_.begin(operation_.rank()) : 0); }

  void meet() {
    for (const int peer : peers_) {
      if (operation_.reads(peer)) {
        operation_.expect_signal(peer, kReadPhase);
        if (gathers()) operation_.expect_signal(peer, kReadAllPhase);
      }
      Header header = make_header(c_, peer, true);
      header.address = reinterpret_cast<uint64_t>(c_.send + slices_.begin(peer));
      header.result = reinterpret_cast<uint64_t>(own_result());
      operation_.greet(peer, header, nullptr, 0);
    }
    for (const int peer : peers_)
      operation_.meet(peer, make_header(c_, peer, false), 0);
  }

  uint64_t scatter_slot() const { return data_slot(c_.ticket, 0); }
  uint64_t gather_slot() const { return data_slot(c_.ticket, 1); }
  Pieces pieces_of(int rank) const { return {slices_.num_bytes(rank), operation_.num_ranks()}; }

  void send_operands() {
    for (const int peer : peers_) {
      const Pieces pieces = pieces_of(peer);
      if (pieces.end() == 0 || operation_.reads(peer)) continue;
      Buffer& buffer = operation_.buffer(c_.send + slices_.begin(peer), slices_.num_bytes(peer));
      for (uint64_t piece = 0; piece < pieces.end(); ++piece)
        operation_.send(buffer, peer, scatter_slot(), pieces.offset(piece), pieces.num_bytes(piece));
      sent_.push_back({&buffer, peer, pieces.end()});
    }
  }

  // In place, a result overwrites the operand that was sent for it: its owner reduced it after it had received it.
  void receive_results() {
    for (const int peer : peers_) {
      const Pieces pieces = pieces_of(peer);
      if (pieces.end() == 0 || operation_.reads(peer)) continue;
      Buffer& buffer = operation_.buffer(c_.recv + slices_.begin(peer), slices_.num_bytes(peer));
      for (uint64_t piece = 0; piece < pieces.end(); ++piece)
        operation_.receive(buffer, peer, gather_slot(), pieces.offset(piece), pieces.num_bytes(piece));
      received_.push_back({&buffer, peer, pieces.end()});
    }
  }

  Buffer& stage(uint64_t piece, size_t peer) { return *stages_[piece % kStages * peers_.size() + peer]; }

  void make_stages() {
    const uint64_t num_bytes = stage_bytes(slices_.largest(), operation_.num_ranks());
    auto* memory = static_cast<std::byte*>(c_.workspace);
    for (size_t i = 0; i < kStages * peers_.size(); ++i)
      stages_.push_back(&operation_.buffer(memory + i * num_bytes, num_bytes));
  }

  void post_stage(const Pieces& own, uint64_t piece) {
    for (size_t i = 0; i < peers_.size(); ++i)
      if (!operation_.reads(peers_[i]))
        operation_.receive(stage(piece, i), peers_[i], scatter_slot(), 0, own.num_bytes(piece));
  }

  void reduce_own_slice() {
    const Pieces own = pieces_of(operation_.rank());
    if (own.end() > 0) make_stages();
    std::vector<Posted> results;
    for (const int peer : peers_)
      if (gathers() && own.end() > 0 && !operation_.reads(peer))
        results.push_back({&operation_.buffer(own_result(), own_bytes()), peer, own.end()});
    for (uint64_t piece = 0; piece < std::min(own.end(), kStages); ++piece)
      post_stage(own, piece);
    for (uint64_t piece = 0; piece < own.end(); ++piece) {
      reduce_one(own, piece);
      if (piece + kStages < own.end()) post_stage(own, piece + kStages);
      for (const Posted& result : results)
        operation_.send(*result.buffer, result.peer, gather_slot(), own.offset(piece), own.num_bytes(piece));
    }
    sent_.insert(sent_.end(), results.begin(), results.end());
    for (const int peer : peers_)
      if (operation_.reads(peer)) operation_.signal(peer, kReadPhase);
  }

  // An owner says that its result is there once it has read all operands: what it left may be written then.
  void read_results() {
    for (const int peer : peers_) {
      if (!operation_.reads(peer)) continue;
      operation_.wait_signal(peer, kReadPhase);
      operation_.read(peer, operation_.met_header(peer).result, c_.recv + slices_.begin(peer), slices_.num_bytes(peer));
      operation_.signal(peer, kReadAllPhase);
    }
  }

  void reduce_one(const Pieces& own, uint64_t piece) {
    const std::byte* operand = c_.send + slices_.begin(operation_.rank()) + own.offset(piece);
    std::vector<const void*> operands(static_cast<size_t>(operation_.num_ranks()), operand);
    for (size_t i = 0; i < peers_.size(); ++i) {
      if (operation_.reads(peers_[i]))
        operation_.read(peers_[i], operation_.met_header(peers_[i]).address + own.offset(piece), stage(piece, i).ptr,
                        own.num_bytes(piece));
      else
        operation_.wait_received(stage(piece, i), peers_[i]);
      operands[static_cast<size_t>(peers_[i])] = stage(piece, i).ptr;
    }
    reduce_piece(c_.dtype, c_.reduce, operands, own_result() + own.offset(piece),
                 own.num_bytes(piece) / c_.element_bytes());
  }

  void wait() {
    for (const int peer : peers_)
      operation_.wait_signal(peer, gathers() ? kReadAllPhase : kReadPhase);
    for (const Posted& posted : received_)
      operation_.wait_received(*posted.buffer, posted.peer, posted.num_messages);
    for (const Posted& posted : sent_)
      operation_.wait_sent(*posted.buffer, posted.peer, posted.num_messages);
    operation_.finish();
  }

  Operation& operation_;
  const Collective& c_;
  const Slices slices_;
  const std::vector<int> peers_;
  std::vector<Buffer*> stages_;  // [kStages, peers]
  std::vector<Posted> sent_;
  std::vector<Posted> received_;
};

bool is_inline(uint32_t kind, uint64_t total_bytes, uint64_t largest_slice) {
  return (kind == TSR_COLL_ALL_REDUCE ? total_bytes : largest_slice) <= kInlineBytes;
}

}  // namespace

void reduce_slices(Operation& operation) {
  const Collective& c = operation.collective();
  Slices slices = slices_of(c, operation.num_ranks());
  if (is_inline(c.kind, slices.offsets.back(), slices.largest())) return reduce_inline(operation, slices);
  if (!c.workspace && operation.num_ranks() > 1)
    operation.refuse("has no workspace; describe() tells how much it needs");
  PieceReducer(operation, std::move(slices)).run();
}

uint64_t reduce_workspace(uint32_t kind, uint64_t total_bytes, uint64_t largest_slice, int num_ranks) {
  if (is_inline(kind, total_bytes, largest_slice)) return 0;
  return kStages * static_cast<uint64_t>(num_ranks - 1) * stage_bytes(largest_slice, num_ranks);
}

}  // namespace tessera::gloo_comm
