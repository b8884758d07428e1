// SPDX-License-Identifier: Apache-2.0
// shm: collectives between processes of one machine, through memory that they share: a whole Tessera communicator in
// C++20. QueuedCommunicator checks and numbers what is submitted and runs it on the stream's thread; what is left to
// write is how ranks find each other (the constructor), how they move data (run) and how a wait is cut short
// (interrupt).
//
//     the shared memory     [member 0: arrived, header] ... [member n-1: arrived, header]  [slot 0] ... [slot n-1]
//     a collective          wait for its turn; write the header; barrier; compare all headers
//                           for each part that fits into a slot: write the own slot; barrier; read all slots; barrier
//
// At a barrier a member raises its own `arrived` and waits for those of the others, so a time-out can name the ranks
// that are missing. Collectives of several streams take their turns by ticket, which is the order of submission and the
// same on all ranks. Sums are canonical (canonical_sum.hpp), so runs have the bits of every other canonical
// communicator. Cost: each rank writes its operand once and reads all n. A rank that was killed is found at the
// time-out. ALL_TO_ALL and messages are left out, and caps says so: data-parallel strategies need neither, pipelines
// do.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <tessera/canonical_sum.hpp>
#include <tessera/plugin.hpp>
#include <tessera/queued_communicator.hpp>
#include <thread>

namespace {

using namespace tessera;

constexpr uint64_t kSlotBytes = uint64_t{1} << 20;
constexpr uint64_t kCollectives = 1u << TSR_COLL_ALL_REDUCE | 1u << TSR_COLL_REDUCE_SCATTER |
                                  1u << TSR_COLL_ALL_GATHER | 1u << TSR_COLL_BROADCAST | 1u << TSR_COLL_REDUCE |
                                  1u << TSR_COLL_BARRIER;

/// What a member is about to do; all must be about to do the same.
struct Header {
  uint32_t kind, reduce, dtype;
  int32_t peer;
  uint64_t num_elements;
  uint64_t slices;  ///< a hash of where they begin
};

/// What of two headers differs, or NULL.
const char* difference(const Header& a, const Header& b) {
  if (a.kind != b.kind) return "kind";
  if (a.dtype != b.dtype) return "dtype";
  if (a.reduce != b.reduce) return "reduction";
  if (a.peer != b.peer) return "root";
  return a.num_elements != b.num_elements ? "number of elements" : a.slices != b.slices ? "counts" : nullptr;
}

/// A member's part of the shared memory, beside its slot.
struct alignas(64) Shared {
  std::atomic<uint64_t> arrived;  ///< at how many barriers
  std::atomic<int32_t> failed;    ///< TSR_E_*: this member has given up
  Header header;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<int32_t>::is_always_lock_free);

/// Memory without a name: the first member makes it, the others open it through the first one's process.
class SharedMemory {
 public:
  SharedMemory(const Member& member, const KeyValue& store, const std::string& key, const Deadline& deadline,
               const CancelFlag& cancel)
      : num_bytes_(static_cast<uint64_t>(member.num_ranks) * (sizeof(Shared) + kSlotBytes)) {
    file_ = member.rank == 0 ? make(store, key) : open(member, store, key, deadline, cancel);
    if (file_ >= 0) data_ = ::mmap(nullptr, num_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
    if (data_ != MAP_FAILED) return;
    const std::string reason = std::generic_category().message(errno);
    close_file();
    throw Error(TSR_E_UNAVAILABLE, member.where() + ": create cannot share memory with rank " +
                                       std::to_string(member.world_rank(0)) + ": " + reason);
  }
  ~SharedMemory() {
    ::munmap(data_, num_bytes_);
    close_file();
  }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  /// To be called when all members have opened it.
  void close_file() {
    if (file_ >= 0) ::close(file_);
    file_ = -1;
  }
  Shared* members() const { return static_cast<Shared*>(data_); }

 private:
  int make(const KeyValue& store, const std::string& key) const {
    const int file = ::memfd_create("tessera-shm", MFD_CLOEXEC);
    if (file < 0 || ::ftruncate(file, static_cast<off_t>(num_bytes_)) != 0) return -1;
    store.set(key + "/0", "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(file));
    return file;
  }
  static int open(const Member& member, const KeyValue& store, const std::string& key, const Deadline& deadline,
                  const CancelFlag& cancel) {
    const std::string path = wait_for_rank(store, key, member, 0, deadline, cancel, "create");
    return ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  }

  const uint64_t num_bytes_;
  int file_ = -1;
  void* data_ = MAP_FAILED;
};

class ShmCommunicator final : public QueuedCommunicator {
 public:
  explicit ShmCommunicator(const tsr_comm_create_args& args)
      : QueuedCommunicator("shm-comm", args),
        deadline_(member().timeout_ms),
        memory_(member(), KeyValue(args.host), rendezvous(), deadline_, CancelFlag(args.cancel)) {
    const CancelFlag cancel(args.cancel);
    const std::vector<int> missing = meet(deadline_, cancel);
    cancel.check(member());
    if (!missing.empty())
      throw Error(TSR_E_DEADLINE,
                  member().where() + ": create timed out after " + std::to_string(member().timeout_ms) +
                      " ms waiting for rank " + std::to_string(member().world_rank(missing.front())),
                  member().world_rank(missing.front()));
    memory_.close_file();
  }

 private:
  void run(const Collective& c) override {
    try {
      const Deadline deadline(c.timeout_ms);
      if (!wait(deadline, [&] { return turn_.load() == c.ticket; })) give_up(c, {member().rank});
      compare_headers(c, deadline);
      move(c, deadline);
      turn_.store(c.ticket + 1);
    } catch (const Error& error) {
      own().failed.store(error.code());  // the others need not wait for their time-outs
      throw;
    }
  }
  void interrupt() noexcept override { own().failed.store(TSR_E_ABORTED); }

  void compare_headers(const Collective& c, const Deadline& deadline) {
    uint64_t slices = 0;
    for (const uint64_t begin : c.offsets)
      slices = slices * 31 + begin;
    own().header = {c.kind, c.reduce, c.dtype, c.peer, c.total_elements(), slices};
    barrier(c, deadline);
    for (int rank = 1; rank < member().num_ranks; ++rank)
      if (const char* what = difference(memory_.members()[0].header, memory_.members()[rank].header))
        throw collective_error(TSR_E_INVALID_ARGUMENT, member(), c,
                               std::string("does not match between ranks in ") + what + ": " + world_rank_text(rank) +
                                   " differs from " + world_rank_text(0),
                               member().world_rank(rank));
    barrier(c, deadline);
  }

  /// All slots of a part at a time. `longest` is the longest operand that goes through a slot.
  void move(const Collective& c, const Deadline& deadline) {
    if (c.kind == TSR_COLL_BARRIER) return;
    const bool gathers = c.kind == TSR_COLL_ALL_GATHER;
    uint64_t longest = gathers ? 0 : c.total_elements();
    for (int rank = 0; gathers && rank < member().num_ranks; ++rank)
      longest = std::max(longest, c.slice_elements(rank));
    const uint64_t step = kSlotBytes / c.element_bytes();
    for (uint64_t begin = 0; begin < longest; begin += step) {
      const uint64_t end = std::min(begin + step, longest);
      const bool sends = c.kind != TSR_COLL_BROADCAST || member().rank == c.peer;
      const uint64_t own_end = gathers ? std::min(end, c.slice_elements(member().rank)) : end;
      if (sends && own_end > begin) copy(c, slot(member().rank), c.send, begin, own_end - begin);
      barrier(c, deadline);
      receive(c, begin, end);
      barrier(c, deadline);
    }
  }

  /// Elements [begin, end) of every operand are in the slots.
  void receive(const Collective& c, uint64_t begin, uint64_t end) {
    if (c.kind == TSR_COLL_BROADCAST) return copy(c, c.recv + begin * c.element_bytes(), slot(c.peer), 0, end - begin);
    if (c.kind == TSR_COLL_ALL_GATHER) {
      for (int rank = 0; rank < member().num_ranks; ++rank)
        if (const uint64_t slice_end = std::min(end, c.slice_elements(rank)); slice_end > begin)
          copy(c, c.recv + (c.slice_begin(rank) + begin) * c.element_bytes(), slot(rank), 0, slice_end - begin);
      return;
    }
    uint64_t first = begin, last = end, recv_begin = 0;
    if (c.kind == TSR_COLL_REDUCE && member().rank != c.peer) return;
    if (c.kind == TSR_COLL_REDUCE_SCATTER) {
      recv_begin = c.slice_begin(member().rank);
      first = std::max(begin, recv_begin);
      last = std::min(end, recv_begin + c.slice_elements(member().rank));
    }
    if (first >= last) return;
    std::vector<const void*> operands;
    for (int rank = 0; rank < member().num_ranks; ++rank)
      operands.push_back(slot(rank) + (first - begin) * c.element_bytes());
    reduce_range(c.dtype, c.reduce, operands, c.recv + (first - recv_begin) * c.element_bytes(), last - first);
  }

  static void copy(const Collective& c, std::byte* to, const std::byte* from, uint64_t begin, uint64_t num_elements) {
    std::memcpy(to, from + begin * c.element_bytes(), num_elements * c.element_bytes());
  }

  // ---- waiting --------------------------------------------------------------------------------------------------

  void barrier(const Collective& c, const Deadline& deadline) {
    if (const std::vector<int> missing = meet(deadline); !missing.empty()) give_up(c, missing);
  }
  /// A barrier; returns the members that have not arrived, at the deadline or after a failure.
  std::vector<int> meet(const Deadline& deadline, const CancelFlag& cancel = CancelFlag()) const {
    const uint64_t target = own().arrived.fetch_add(1) + 1;
    std::vector<int> missing;
    wait(deadline, [&] {
      missing.clear();
      for (int rank = 0; rank < member().num_ranks; ++rank)
        if (memory_.members()[rank].arrived.load() < target) missing.push_back(rank);
      return missing.empty() || cancel.is_set();
    });
    return missing;
  }
  /// Waits until ready(), a failure of any member, or the deadline; returns ready().
  template <class Ready>
  bool wait(const Deadline& deadline, Ready ready) const {
    for (int spins = 0; !ready(); ++spins) {
      if (deadline.passed() || first_failure() >= 0) return ready();
      if (spins < 100)
        std::this_thread::yield();
      else
        std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    return true;
  }
  /// A member that has given up, or -1.
  int first_failure() const {
    for (int rank = 0; rank < member().num_ranks; ++rank)
      if (memory_.members()[rank].failed.load() != TSR_OK) return rank;
    return -1;
  }
  [[noreturn]] void give_up(const Collective& c, const std::vector<int>& missing) const {
    if (is_aborted()) throw aborted_error(c);
    const int failed = first_failure();
    if (failed < 0 || memory_.members()[failed].failed.load() == TSR_E_DEADLINE)
      throw timeout_error(member(), c, missing);
    const tsr_status code = memory_.members()[failed].failed.load();
    throw collective_error(code, member(), c,
                           (code == TSR_E_ABORTED ? "was aborted by " : "failed on ") + world_rank_text(failed),
                           member().world_rank(failed));
  }
  std::string world_rank_text(int rank) const { return "rank " + std::to_string(member().world_rank(rank)); }

  Shared& own() const { return memory_.members()[member().rank]; }
  std::byte* slot(int rank) const {
    auto* slots = reinterpret_cast<std::byte*>(memory_.members() + member().num_ranks);
    return slots + static_cast<uint64_t>(rank) * kSlotBytes;
  }

  const Deadline deadline_;  // of create
  SharedMemory memory_;
  std::atomic<uint64_t> turn_{0};  // the ticket whose turn it is
};

struct Plugin {
  static constexpr const char* kName = "shm-comm";
  static constexpr tsr_str kStreamKinds[] = {literal("cpu.queue")};

  static void caps(std::string_view stream_kind, tsr_comm_caps& caps) {
    if (stream_kind != view(kStreamKinds[0]))
      throw Error(TSR_E_UNSUPPORTED, "it takes streams of the kind cpu.queue, not " + std::string(stream_kind));
    caps.flags = TSR_COMM_CANONICAL_SUM;
    caps.collectives = kCollectives;
    caps.reduces = 1u << TSR_REDUCE_SUM | 1u << TSR_REDUCE_AVG | 1u << TSR_REDUCE_MIN | 1u << TSR_REDUCE_MAX;
    caps.dtypes = kAllDtypes;
    caps.num_dtypes = std::size(kAllDtypes);
    caps.stream_kinds = kStreamKinds;
    caps.num_stream_kinds = std::size(kStreamKinds);
  }
  static uint64_t describe(const tsr_collective&, int) { return 0; }
  static std::unique_ptr<Communicator> create(const tsr_comm_create_args& args) {
    if (!args.is_local) throw Error(TSR_E_FAILED_PRECONDITION, "shm works on one machine; use --comm gloo");
    return std::make_unique<ShmCommunicator>(args);
  }
};

constexpr tsr_communicator_interface kTable = communicator_table<Plugin>();
constexpr tsr_descriptor kDescriptor = descriptor("shm", TSR_KIND_COMMUNICATOR, "com.example.shm-comm", "1.0.0",
                                                  "collectives between processes of one machine", {}, "Example");

}  // namespace

TESSERA_PLUGIN(kDescriptor, TSR_COMMUNICATOR_INTERFACE, kTable)
