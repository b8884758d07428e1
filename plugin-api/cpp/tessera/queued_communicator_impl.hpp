// Included by queued_communicator.hpp.
#pragma once

#include "tessera/queued_communicator.hpp"

namespace tessera {

inline std::string wait_for_rank(const KeyValue& store, const std::string& prefix, const Member& member, int rank,
                                 const Deadline& deadline, const std::atomic<bool>& aborted, std::string_view what) {
  constexpr int64_t kPollMs = 200;  // how soon an abort is seen
  const std::string where = member.where() + ": " + std::string(what);
  for (;;) {
    if (aborted.load(std::memory_order_acquire))
      throw Error(TSR_E_ABORTED, where + " was aborted", member.world_rank());
    const int64_t left_ms = deadline.left_ms();
    try {
      return store.get(prefix + "/" + std::to_string(rank), std::min(left_ms, kPollMs));
    } catch (const Error& error) {
      if (error.code() != TSR_E_DEADLINE) throw;
      if (left_ms > kPollMs) continue;
    }
    throw Error(TSR_E_DEADLINE,
                where + " timed out after " + std::to_string(member.timeout_ms) + " ms waiting for rank " +
                    std::to_string(member.world_rank(rank)),
                member.world_rank(rank));
  }
}

inline QueuedCommunicator::Job& QueuedCommunicator::take_job() {
  const std::lock_guard lock(mutex_);
  if (idle_.empty()) {
    jobs_.push_back({this, {}});
    idle_.reserve(jobs_.size());  // so that give_back never allocates
    return jobs_.back();
  }
  Job& job = *idle_.back();
  idle_.pop_back();
  return job;
}

inline void QueuedCommunicator::give_back(Job& job) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(&job);
}

inline tsr_status QueuedCommunicator::run_job(void* user, tsr_error* err) noexcept {
  Job& job = *static_cast<Job*>(user);
  QueuedCommunicator& owner = *job.owner;
  tsr_error error{};
  const tsr_status status = guard(&error, owner.member_.plugin, [&] {
    if (owner.is_aborted()) throw owner.aborted_error(job.collective);
    owner.run(job.collective);
  });
  if (status != TSR_OK) {
    const std::lock_guard lock(owner.mutex_);
    if (owner.first_error_.code == TSR_OK) owner.first_error_ = error;
    if (err) *err = error;
  }
  owner.give_back(job);  // the last touch of the communicator: it may be destroyed once the stream is idle
  return status;
}

inline void QueuedCommunicator::number(Collective& collective) {
  const size_t n = static_cast<size_t>(member_.num_ranks);
  if (!collective.is_messages()) collective.ticket = num_collectives_++;
  for (Transfer& transfer : collective.transfers)
    transfer.index = messages_[static_cast<size_t>(transfer.peer) + (transfer.is_receive ? n : 0)]++;
}

inline void QueuedCommunicator::enqueue(Job& job) {
  number(job.collective);
  tsr_error err{};
  const tsr_status status = device_interface_->host_function(job.collective.stream, &run_job, &job, &err);
  if (status == TSR_OK) return;
  give_back(job);
  check(status, err);
}

inline void QueuedCommunicator::submit(const tsr_collective& source) {
  Job& job = take_job();
  try {
    read_collective(source, member_, job.collective);
    if (is_aborted()) throw aborted_error(job.collective);
    if (group_ && (source.kind == TSR_COLL_SEND || source.kind == TSR_COLL_RECV)) {
      gather(job);
      give_back(job);
      return;
    }
    if (group_)
      throw collective_error(TSR_E_FAILED_PRECONDITION, member_, job.collective,
                             "stands between group_begin and group_end, where only send and recv may");
  } catch (...) {
    give_back(job);
    throw;
  }
  enqueue(job);
}

inline void QueuedCommunicator::gather(Job& job) {
  Collective& group = group_->collective;
  const Collective& added = job.collective;
  if (group.transfers.empty()) {
    group = added;
    group.kind = TSR_COLL_EXCHANGE;
    return;
  }
  if (group.stream != added.stream)
    throw collective_error(TSR_E_INVALID_ARGUMENT, member_, added, "is on another stream than the rest of its group");
  group.timeout_ms = std::max(group.timeout_ms, added.timeout_ms);
  group.transfers.push_back(added.transfers.front());
}

inline void QueuedCommunicator::group_begin() {
  if (group_) throw Error(TSR_E_FAILED_PRECONDITION, member_.where() + ": group_begin inside a group");
  group_ = &take_job();
  group_->collective.transfers.clear();
}

inline void QueuedCommunicator::group_end() {
  if (!group_) throw Error(TSR_E_FAILED_PRECONDITION, member_.where() + ": group_end without group_begin");
  Job& job = *std::exchange(group_, nullptr);
  if (job.collective.transfers.empty()) return give_back(job);
  enqueue(job);
}

inline void QueuedCommunicator::check_async() {
  const std::lock_guard lock(mutex_);
  check(first_error_.code, first_error_);
}

inline void QueuedCommunicator::abort() noexcept {
  aborted_.store(true, std::memory_order_release);
  interrupt();
}

inline std::unique_ptr<Communicator> QueuedCommunicator::split(int color, int key, std::string_view name) {
  struct Choice {
    int32_t color, key;
  };
  const KeyValue store(host_);
  const Deadline deadline(member_.timeout_ms);
  const std::string prefix = rendezvous_ + "/split/" + std::to_string(num_splits_++);
  store.set(prefix + "/" + std::to_string(member_.rank), to_bytes(Choice{color, key}));
  std::vector<std::pair<int32_t, int>> chosen;  // {key, coordinate} of those of our color
  for (int rank = 0; rank < member_.num_ranks; ++rank) {
    const auto choice = from_bytes<Choice>(wait_for_rank(store, prefix, member_, rank, deadline, aborted_, "split"));
    if (color >= 0 && choice.color == color) chosen.emplace_back(choice.key, rank);
  }
  if (color < 0) return nullptr;
  std::sort(chosen.begin(), chosen.end());
  std::vector<int32_t> world_ranks;
  tsr_comm_create args{};
  for (const auto& [order, rank] : chosen) {
    if (rank == member_.rank) args.rank = static_cast<int32_t>(world_ranks.size());
    world_ranks.push_back(member_.world_rank(rank));
  }
  const std::string rendezvous = prefix + "/color/" + std::to_string(color);
  args.struct_size = sizeof args;
  args.size = static_cast<int32_t>(world_ranks.size());
  args.is_local = is_local_;
  args.name = str(name);
  args.rendezvous = str(rendezvous);
  args.world_ranks = world_ranks.data();
  args.host = host_;
  args.device_interface = device_interface_;
  args.device = device_;
  args.timeout_ms = member_.timeout_ms;
  return join(args);
}

}  // namespace tessera
