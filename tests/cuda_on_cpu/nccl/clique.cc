#include "clique.h"

#include <algorithm>
#include <cstring>

#include "arithmetic.h"

namespace nccl_on_cpu {
namespace {

std::byte* at(void* data, size_t element, ncclDataType_t dtype) {
  return static_cast<std::byte*>(data) + element * bytes_of(dtype);
}

bool match(const Task& a, const Task& b) {
  return a.kind == b.kind && a.num_elements == b.num_elements && a.dtype == b.dtype && a.op == b.op && a.peer == b.peer;
}

/// What `rank` gets, into memory of its own: the operands may be where the result goes.
std::vector<std::byte> compute(int rank, const std::vector<const Task*>& tasks) {
  const Task& own = *tasks[static_cast<size_t>(rank)];
  const size_t n = tasks.size(), r = static_cast<size_t>(rank), count = own.num_elements;
  const bool is_gather = own.kind == Kind::all_gather;
  std::vector<std::byte> result((is_gather ? n : 1) * count * bytes_of(own.dtype));
  const auto operands_at = [&](size_t element) {
    std::vector<const void*> operands;
    for (const Task* task : tasks)
      operands.push_back(at(const_cast<void*>(task->send), element, own.dtype));
    return operands;
  };
  switch (own.kind) {
    case Kind::all_reduce:
      for (size_t part = 0; part < n; ++part) {
        const size_t begin = count * part / n, end = count * (part + 1) / n;
        reduce(own.dtype, own.op, operands_at(begin), part + 1, end - begin, at(result.data(), begin, own.dtype));
      }
      break;
    case Kind::reduce_scatter:
      reduce(own.dtype, own.op, operands_at(r * count), r + 1, count, result.data());
      break;
    case Kind::reduce:
      reduce(own.dtype, own.op, operands_at(0), static_cast<size_t>(own.peer) + 1, count, result.data());
      break;
    case Kind::broadcast:
      std::memcpy(result.data(), tasks[static_cast<size_t>(own.peer)]->send, result.size());
      break;
    default:
      for (size_t part = 0; part < n; ++part)
        std::memcpy(at(result.data(), part * count, own.dtype), tasks[part]->send, result.size() / n);
  }
  return result;
}

}  // namespace

void Clique::raise(bool& flag) {
  const std::lock_guard lock(mutex_);
  flag = true;
  changed_.notify_all();
}

ncclResult_t Clique::join(int rank, int device, const bool& is_aborted, int& duplicate) {
  Lock lock(mutex_);
  devices_[static_cast<size_t>(rank)] = device;
  changed_.notify_all();
  changed_.wait(lock, [&] { return is_aborted || std::find(devices_.begin(), devices_.end(), -1) == devices_.end(); });
  if (is_aborted) return ncclSystemError;
  for (int other = 0; other < num_ranks_; ++other)
    if (other != rank && devices_[static_cast<size_t>(other)] == device) {
      duplicate = other;
      return ncclInvalidUsage;
    }
  return ncclSuccess;
}

bool Clique::connect(int rank, const std::vector<Task>& tasks, const bool& is_aborted) {
  Lock lock(mutex_);
  std::set<std::pair<int, int>> needed;
  bool has_collective = false;
  for (const Task& task : tasks) {
    if (task.kind == Kind::send && task.peer != rank)
      needed.emplace(rank, task.peer), senders_.emplace(rank, task.peer);
    if (task.kind == Kind::recv && task.peer != rank)
      needed.emplace(task.peer, rank), receivers_.emplace(task.peer, rank);
    has_collective |= !task.is_message();
  }
  if (has_collective) connected_.insert(rank);
  changed_.notify_all();
  const auto are_there = [&] {
    if (has_collective && connected_.size() < static_cast<size_t>(num_ranks_)) return false;
    return std::all_of(needed.begin(), needed.end(),
                       [&](const auto& pair) { return senders_.count(pair) && receivers_.count(pair); });
  };
  changed_.wait(lock, [&] { return is_aborted || are_there(); });
  return !is_aborted;
}

void Clique::run(int rank, const std::vector<Task>& tasks, uint64_t ticket, const bool& is_aborted) {
  std::vector<const Task*> sent_and_received;
  for (const Task& task : tasks) {
    if (task.is_message())
      sent_and_received.push_back(&task);
    else
      collective(rank, task, ticket++, is_aborted);
  }
  if (!sent_and_received.empty()) messages(rank, sent_and_received, is_aborted);
}

void Clique::collective(int rank, const Task& task, uint64_t ticket, const bool& is_aborted) {
  Lock lock(mutex_);
  if (is_aborted) return;
  PostedCollective& posted = posted_[ticket];
  posted.tasks.resize(static_cast<size_t>(num_ranks_));
  posted.tasks[static_cast<size_t>(rank)] = &task;
  ++posted.num_posted;
  changed_.notify_all();
  const auto agree = [&] {
    return posted.num_posted == num_ranks_ &&
           std::all_of(posted.tasks.begin(), posted.tasks.end(), [&](const Task* t) { return match(*t, task); });
  };
  changed_.wait(lock, [&] { return is_aborted || agree(); });
  if (!agree()) {  // the others wait until they are aborted too
    posted.tasks[static_cast<size_t>(rank)] = nullptr;
    --posted.num_posted;
    return;
  }
  const std::vector<const Task*> tasks = posted.tasks;
  lock.unlock();
  const std::vector<std::byte> result = compute(rank, tasks);
  lock.lock();
  ++posted.num_computed;
  changed_.notify_all();
  // No rank writes or leaves its memory while others may read it; all that agreed come here, aborted or not.
  changed_.wait(lock, [&] { return posted.num_computed == num_ranks_; });
  const bool gets_result = task.kind != Kind::reduce || task.peer == rank;
  if (gets_result) std::memcpy(task.recv, result.data(), result.size());
  if (++posted.num_left == num_ranks_) posted_.erase(ticket);
}

Clique::Message* Clique::find_match(int rank, const Task& receive) {
  for (Message& message : messages_)
    if (message.source == receive.peer && message.destination == rank && !message.is_taken) {
      const Task& sent = *message.task;
      return sent.num_elements == receive.num_elements && sent.dtype == receive.dtype ? &message : nullptr;
    }
  return nullptr;
}

void Clique::messages(int rank, const std::vector<const Task*>& tasks, const bool& is_aborted) {
  Lock lock(mutex_);
  if (is_aborted) return;
  std::deque<const Task*> receives;
  for (const Task* task : tasks) {
    if (task->kind == Kind::recv)
      receives.push_back(task);
    else
      messages_.push_back({rank, task->peer, task, false, false});
  }
  changed_.notify_all();
  const auto is_own = [&](const Message& m) { return std::find(tasks.begin(), tasks.end(), m.task) != tasks.end(); };
  const auto take = [&] {
    for (auto receive = receives.begin(); receive != receives.end(); ++receive)
      if (Message* message = find_match(rank, **receive)) {
        message->is_taken = true;
        std::memcpy((*receive)->recv, message->task->send, (*receive)->num_elements * bytes_of((*receive)->dtype));
        message->is_done = true;
        receives.erase(receive);
        changed_.notify_all();
        return true;
      }
    return false;
  };
  const auto all_read = [&] {
    return std::none_of(messages_.begin(), messages_.end(), [&](const Message& m) { return is_own(m) && !m.is_done; });
  };
  while (!is_aborted && !(receives.empty() && all_read()))
    if (!take()) changed_.wait(lock);
  std::erase_if(messages_, is_own);
}

}  // namespace nccl_on_cpu
