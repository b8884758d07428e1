// What the ranks of one communicator share: threads of one process.
#pragma once

#include <nccl.h>

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

namespace nccl_on_cpu {

enum class Kind { all_reduce, reduce_scatter, all_gather, broadcast, reduce, send, recv };

/// One call, as it was given.
struct Task {
  Kind kind;
  const void* send;
  void* recv;
  size_t num_elements;
  ncclDataType_t dtype;
  ncclRedOp_t op;
  int peer;  // or root

  bool is_message() const { return kind >= Kind::send; }
};

/// Every wait ends when all have come, or when the rank that waits is aborted: then what it does is left undone, as by
/// a kernel that was told to quit. What does not match is never done. [any-thread]
class Clique {
 public:
  explicit Clique(int num_ranks) : num_ranks_(num_ranks), devices_(static_cast<size_t>(num_ranks), -1) {}

  /// Waits for all ranks; ncclInvalidUsage when two have one device, ncclSystemError when aborted. `duplicate` is the
  /// other rank then.
  ncclResult_t join(int rank, int device, const bool& is_aborted, int& duplicate);
  /// The first collective of a rank waits for that of all others, and so does the first message of a pair for its
  /// other side, before any of it is on a stream: this is where NCCL connects. False when aborted.
  bool connect(int rank, const std::vector<Task>& tasks, const bool& is_aborted);
  /// Does what was launched together; collectives have the numbers from `ticket` on.
  void run(int rank, const std::vector<Task>& tasks, uint64_t ticket, const bool& is_aborted);
  /// Sets a flag that waits look at, and wakes them.
  void raise(bool& flag);

 private:
  struct PostedCollective {
    std::vector<const Task*> tasks;  // of each rank
    int num_posted = 0, num_computed = 0, num_left = 0;
  };
  struct Message {
    int source, destination;
    const Task* task;
    bool is_taken, is_done;
  };
  using Lock = std::unique_lock<std::mutex>;

  void collective(int rank, const Task& task, uint64_t ticket, const bool& is_aborted);
  void messages(int rank, const std::vector<const Task*>& tasks, const bool& is_aborted);
  Message* find_match(int rank, const Task& receive);

  const int num_ranks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_:
  std::vector<int> devices_;  // of ranks that have joined
  std::set<int> connected_;
  std::set<std::pair<int, int>> senders_, receivers_;  // {source, destination} that have come
  std::map<uint64_t, PostedCollective> posted_;
  std::deque<Message> messages_;
};

}  // namespace nccl_on_cpu
