// Not a ring: a ring adds partial sums in an order that depends on the slice, and the canonical sum needs all operands
// of an element at once. So the owner of a slice receives it from all ranks and reduces it in the order of the tree.
// The bytes are those of a ring, (n-1)/n of the data out and in for a reduce_scatter; a ring saves connections, but
// those exist already.
//
// Long slices, for one owner and three chunks (c0, c1, c2) of its slice, two stages per peer:
//
//     receive from each peer   c0  c1  c2
//     reduce                       c0  c1  c2           operands in rank order, into the result
//     send to each peer                c0  c1  c2       ALL_REDUCE: all ranks need every result
//
// Stages are the workspace: kStages chunks of each peer, at most kMaxWorkspaceBytes as long as that leaves chunks of
// kMinChunkBytes. Between ranks that read each other's memory the owner copies the chunk from the peer's operand
// instead of receiving it, and signals when it has read all, since only then may the peer write there.
//
// Short data, up to kInlineBytes, is one message between each pair, with the data in the header: one trip over the
// network, and every rank computes all of an all_reduce itself, with the same bits since the tree is the same.
#include "gloo-comm/collectives/reduce.h"

#include "tessera/canonical_sum.hpp"
#include "tessera/ranges.hpp"

namespace tessera::gloo_comm {
namespace {

constexpr uint64_t kMaxChunkBytes = 512 * 1024;
constexpr uint64_t kMinChunkBytes = 64 * 1024;
constexpr uint64_t kMaxWorkspaceBytes = 16 * 1024 * 1024;  // unless chunks would be too small
constexpr uint64_t kStages = 2;                            // chunks received ahead from each peer
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

/// Divides `num_bytes` into chunks as long as the workspace allows, and a shorter last one.
class Chunks {
 public:
  Chunks(uint64_t num_bytes, int num_ranks) : num_bytes_(num_bytes), limit_(limit(num_ranks)) {}

  /// Bytes of a chunk with that many ranks.
  static uint64_t limit(int num_ranks) {
    const uint64_t num_stages = kStages * static_cast<uint64_t>(num_ranks - 1);
    const uint64_t fair = kMaxWorkspaceBytes / std::max<uint64_t>(num_stages, 1) / kAlignment * kAlignment;
    return std::clamp(fair, kMinChunkBytes, kMaxChunkBytes);
  }

  uint64_t end() const { return divide_up(num_bytes_, limit_); }
  uint64_t offset(uint64_t chunk) const { return chunk * limit_; }
  uint64_t num_bytes(uint64_t chunk) const { return std::min(limit_, num_bytes_ - offset(chunk)); }

 private:
  uint64_t num_bytes_, limit_;
};

/// Bytes between two chunks in the workspace.
uint64_t stage_bytes(uint64_t largest_slice, int num_ranks) {
  return std::min(Chunks::limit(num_ranks), round_up(largest_slice, kAlignment));
}

/// All data in one message between each pair.
void reduce_inline(Operation& operation, const Slices& slices) {
  const Collective& c = operation.collective();
  const bool is_all = c.kind == TSR_COLL_ALL_REDUCE;
  const int rank = operation.rank();
  const auto begin = [&](int owner) { return is_all ? 0 : slices.begin(owner); };
  const auto num_bytes = [&](int owner) { return is_all ? slices.offsets.back() : slices.num_bytes(owner); };
  const std::vector<int> peers = operation.peers();
  for (const int peer : peers)
    operation.send_header(peer, make_header(c, peer, true), c.send + begin(peer), num_bytes(peer));
  std::vector<const void*> operands(static_cast<size_t>(operation.num_ranks()), c.send + begin(rank));
  for (const int peer : peers)
    operands[static_cast<size_t>(peer)] = operation.receive_header(peer, make_header(c, peer, false), num_bytes(rank));
  if (num_bytes(rank) > 0) reduce_range(c.dtype, c.reduce, operands, c.recv, num_bytes(rank) / c.element_bytes());
  operation.finish();
}

/// Reduces long slices, once all headers agree.
class ChunkReducer {
 public:
  ChunkReducer(Operation& operation, Slices slices)
      : operation_(operation), c_(operation.collective()), slices_(std::move(slices)), peers_(operation.peers()) {}

  void run() {
    exchange_headers();
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

  void exchange_headers() {
    if (std::ranges::any_of(peers_, [this](int peer) { return operation_.signals(peer); })) offer();
    for (const int peer : peers_) {
      if (operation_.signals(peer)) {
        operation_.expect_signal(peer, kReadPhase);
        if (gathers()) operation_.expect_signal(peer, kReadAllPhase);
      }
      Header header = make_header(c_, peer, true);
      header.address = reinterpret_cast<uint64_t>(c_.send + slices_.begin(peer));
      header.result = reinterpret_cast<uint64_t>(own_result());
      operation_.send_header(peer, header, nullptr, 0);
    }
    for (const int peer : peers_)
      operation_.receive_header(peer, make_header(c_, peer, false), 0);
  }

  void offer() {
    operation_.offer(c_.send, slices_.offsets.back());
    if (gathers()) operation_.offer(own_result(), own_bytes());
  }

  uint64_t scatter_slot() const { return data_slot(c_.ticket, 0); }
  uint64_t gather_slot() const { return data_slot(c_.ticket, 1); }
  Chunks chunks_of(int rank) const { return {slices_.num_bytes(rank), operation_.num_ranks()}; }

  void send_operands() {
    for (const int peer : peers_) {
      const Chunks chunks = chunks_of(peer);
      if (chunks.end() == 0 || operation_.reads(peer)) continue;
      Buffer& buffer = operation_.buffer(c_.send + slices_.begin(peer), slices_.num_bytes(peer));
      for (uint64_t chunk = 0; chunk < chunks.end(); ++chunk)
        operation_.send(buffer, peer, scatter_slot(), chunks.offset(chunk), chunks.num_bytes(chunk));
      sent_.push_back({&buffer, peer, chunks.end()});
    }
  }

  // In place, a result overwrites the operand that was sent for it, which its owner has received before.
  void receive_results() {
    for (const int peer : peers_) {
      const Chunks chunks = chunks_of(peer);
      if (chunks.end() == 0 || operation_.reads(peer)) continue;
      Buffer& buffer = operation_.buffer(c_.recv + slices_.begin(peer), slices_.num_bytes(peer));
      for (uint64_t chunk = 0; chunk < chunks.end(); ++chunk)
        operation_.receive(buffer, peer, gather_slot(), chunks.offset(chunk), chunks.num_bytes(chunk));
      received_.push_back({&buffer, peer, chunks.end()});
    }
  }

  Buffer& stage(uint64_t chunk, size_t peer) { return *stages_[chunk % kStages * peers_.size() + peer]; }

  void make_stages() {
    const uint64_t num_bytes = stage_bytes(slices_.largest(), operation_.num_ranks());
    auto* memory = static_cast<std::byte*>(c_.workspace);
    for (size_t i = 0; i < kStages * peers_.size(); ++i)
      stages_.push_back(&operation_.buffer(memory + i * num_bytes, num_bytes));
  }

  void post_stage(const Chunks& own, uint64_t chunk) {
    for (size_t i = 0; i < peers_.size(); ++i)
      if (!operation_.reads(peers_[i]))
        operation_.receive(stage(chunk, i), peers_[i], scatter_slot(), 0, own.num_bytes(chunk));
  }

  void reduce_own_slice() {
    const Chunks own = chunks_of(operation_.rank());
    if (own.end() > 0) make_stages();
    std::vector<Posted> results;
    for (const int peer : peers_)
      if (gathers() && own.end() > 0 && !operation_.reads(peer))
        results.push_back({&operation_.buffer(own_result(), own_bytes()), peer, own.end()});
    for (uint64_t chunk = 0; chunk < std::min(own.end(), kStages); ++chunk)
      post_stage(own, chunk);
    for (uint64_t chunk = 0; chunk < own.end(); ++chunk) {
      reduce_one(own, chunk);
      if (chunk + kStages < own.end()) post_stage(own, chunk + kStages);
      for (const Posted& result : results)
        operation_.send(*result.buffer, result.peer, gather_slot(), own.offset(chunk), own.num_bytes(chunk));
    }
    sent_.insert(sent_.end(), results.begin(), results.end());
    for (const int peer : peers_)
      if (operation_.signals(peer)) operation_.signal(peer, kReadPhase);
  }

  // An owner signals that its result is ready after it has read all operands, which may be overwritten then.
  void read_results() {
    for (const int peer : peers_) {
      if (!operation_.signals(peer)) continue;
      operation_.wait_signal(peer, kReadPhase);
      if (operation_.reads(peer))
        operation_.read(peer, operation_.received_header(peer).result, c_.recv + slices_.begin(peer),
                        slices_.num_bytes(peer));
      operation_.signal(peer, kReadAllPhase);
    }
  }

  void reduce_one(const Chunks& own, uint64_t chunk) {
    const std::byte* operand = c_.send + slices_.begin(operation_.rank()) + own.offset(chunk);
    std::vector<const void*> operands(static_cast<size_t>(operation_.num_ranks()), operand);
    for (size_t i = 0; i < peers_.size(); ++i) {
      if (operation_.reads(peers_[i]))
        operation_.read(peers_[i], operation_.received_header(peers_[i]).address + own.offset(chunk),
                        stage(chunk, i).ptr, own.num_bytes(chunk));
      else
        operation_.wait_received(stage(chunk, i), peers_[i]);
      operands[static_cast<size_t>(peers_[i])] = stage(chunk, i).ptr;
    }
    reduce_range(c_.dtype, c_.reduce, operands, own_result() + own.offset(chunk),
                 own.num_bytes(chunk) / c_.element_bytes());
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
    operation.refuse("has no workspace; pass as many bytes as describe() returns");
  ChunkReducer(operation, std::move(slices)).run();
}

uint64_t reduce_workspace(uint32_t kind, uint64_t total_bytes, uint64_t largest_slice, int num_ranks) {
  if (is_inline(kind, total_bytes, largest_slice)) return 0;
  return kStages * static_cast<uint64_t>(num_ranks - 1) * stage_bytes(largest_slice, num_ranks);
}

}  // namespace tessera::gloo_comm
