#include "gloo-comm/reduce.h"

#include "tessera/canonical_sum.hpp"

namespace tessera::gloo_comm {
namespace {

constexpr uint64_t kPieceBytes = 256 * 1024;
constexpr uint64_t kStages = 2;  // pieces received ahead from each peer
constexpr uint64_t kAlignment = 64;

constexpr uint64_t kScatterPhase = 0;
constexpr uint64_t kGatherPhase = 1;

/// Of each member's slice: where it stands in the send buffer, in bytes.
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

uint64_t num_pieces(uint64_t num_bytes) {
  return (num_bytes + kPieceBytes - 1) / kPieceBytes;
}
uint64_t piece_bytes(uint64_t num_bytes, uint64_t piece) {
  return std::min(kPieceBytes, num_bytes - piece * kPieceBytes);
}
/// Bytes between two pieces in the workspace.
uint64_t stage_bytes(uint64_t largest_slice) {
  return std::min(kPieceBytes, (largest_slice + kAlignment - 1) / kAlignment * kAlignment);
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
    for (const int peer : peers_)
      operation_.greet(peer, make_header(c_, peer, true), nullptr, 0);
    for (const int peer : peers_)
      operation_.meet(peer, make_header(c_, peer, false), 0);
  }

  void send_operands() {
    for (const int peer : peers_) {
      const uint64_t num_bytes = slices_.num_bytes(peer);
      if (num_bytes == 0) continue;
      Buffer& buffer = operation_.buffer(c_.send + slices_.begin(peer), num_bytes);
      for (uint64_t piece = 0; piece < num_pieces(num_bytes); ++piece)
        operation_.send(buffer, peer, data_slot(c_.ticket, kScatterPhase), piece * kPieceBytes,
                        piece_bytes(num_bytes, piece));
      sent_.push_back({&buffer, peer, num_pieces(num_bytes)});
    }
  }

  // In place, a result lands where the operand stood that was sent for it: its owner reduced it after it had received
  // it.
  void receive_results() {
    for (const int peer : peers_) {
      const uint64_t num_bytes = slices_.num_bytes(peer);
      if (num_bytes == 0) continue;
      Buffer& buffer = operation_.buffer(c_.recv + slices_.begin(peer), num_bytes);
      for (uint64_t piece = 0; piece < num_pieces(num_bytes); ++piece)
        operation_.receive(buffer, peer, data_slot(c_.ticket, kGatherPhase), piece * kPieceBytes,
                           piece_bytes(num_bytes, piece));
      received_.push_back({&buffer, peer, num_pieces(num_bytes)});
    }
  }

  Buffer& stage(uint64_t piece, size_t peer) { return *stages_[piece % kStages * peers_.size() + peer]; }

  void post_stage(uint64_t piece) {
    for (size_t i = 0; i < peers_.size(); ++i)
      operation_.receive(stage(piece, i), peers_[i], data_slot(c_.ticket, kScatterPhase), 0,
                         piece_bytes(own_bytes(), piece));
  }

  void make_stages() {
    const uint64_t num_bytes = stage_bytes(slices_.largest());
    auto* memory = static_cast<std::byte*>(c_.workspace);
    for (size_t i = 0; i < kStages * peers_.size(); ++i)
      stages_.push_back(&operation_.buffer(memory + i * num_bytes, num_bytes));
    if (!gathers()) return;
    for (const int peer : peers_)
      sent_.push_back({&operation_.buffer(own_result(), own_bytes()), peer, num_pieces(own_bytes())});
  }

  void reduce_own_slice() {
    if (own_bytes() == 0) return;
    const size_t first_result = sent_.size();
    make_stages();
    const uint64_t end = num_pieces(own_bytes());
    for (uint64_t piece = 0; piece < std::min(end, kStages); ++piece)
      post_stage(piece);
    for (uint64_t piece = 0; piece < end; ++piece) {
      reduce_one(piece);
      if (piece + kStages < end) post_stage(piece + kStages);
      for (size_t i = first_result; i < sent_.size(); ++i)
        operation_.send(*sent_[i].buffer, sent_[i].peer, data_slot(c_.ticket, kGatherPhase), piece * kPieceBytes,
                        piece_bytes(own_bytes(), piece));
    }
  }

  void reduce_one(uint64_t piece) {
    std::vector<const void*> operands(static_cast<size_t>(operation_.num_ranks()),
                                      c_.send + slices_.begin(operation_.rank()) + piece * kPieceBytes);
    for (size_t i = 0; i < peers_.size(); ++i) {
      operation_.wait_received(stage(piece, i), peers_[i]);
      operands[static_cast<size_t>(peers_[i])] = stage(piece, i).ptr;
    }
    reduce_piece(c_.dtype, c_.reduce, operands, own_result() + piece * kPieceBytes,
                 piece_bytes(own_bytes(), piece) / c_.element_bytes());
  }

  void wait() {
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
  return kStages * static_cast<uint64_t>(num_ranks - 1) * stage_bytes(largest_slice);
}

}  // namespace tessera::gloo_comm
