// What a stream's queue holds.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "cpu-device/event.h"
#include "cpu-device/kernel.h"

namespace tessera::cpu {

/// The operands of one launch, copied; without an allocation up to kInline of them.
class Pointers {
 public:
  static constexpr size_t kInline = 24;

  explicit Pointers(std::span<void* const> pointers) {
    if (pointers.size() <= kInline)
      std::copy(pointers.begin(), pointers.end(), inline_.begin());
    else
      many_.assign(pointers.begin(), pointers.end());
  }
  void* const* data() const noexcept { return many_.empty() ? inline_.data() : many_.data(); }

 private:
  std::array<void*, kInline> inline_;
  std::vector<void*> many_;
};

struct Copy {
  void* dst;
  const void* src;
  uint64_t num_bytes;
};
struct Fill {
  void* dst;
  uint8_t byte;
  uint64_t num_bytes;
};
struct HostCallback {
  tsr_host_function function;
  void* user;
};
struct Launch {
  std::shared_ptr<Kernel> kernel;
  Pointers pointers;
};
struct Record {
  std::shared_ptr<EventState> event;
  uint64_t record;
};
struct Wait {
  std::shared_ptr<EventState> event;
  uint64_t record;
};
using Work = std::variant<Copy, Fill, HostCallback, Launch, Record, Wait>;

/// First in, first out; a ring that doubles when it is full, so a step that was queued once allocates no more.
class WorkQueue {
 public:
  bool empty() const noexcept { return num_works_ == 0; }
  void push(Work work) {
    if (num_works_ == ring_.size()) grow();
    ring_[(first_ + num_works_++) % ring_.size()] = std::move(work);
  }
  Work pop() {
    Work work = std::move(ring_[first_]);
    first_ = (first_ + 1) % ring_.size();
    --num_works_;
    return work;
  }

 private:
  void grow() {
    std::vector<Work> larger(std::max<size_t>(64, 2 * ring_.size()));
    for (size_t i = 0; i < num_works_; ++i)
      larger[i] = std::move(ring_[(first_ + i) % ring_.size()]);
    ring_ = std::move(larger);
    first_ = 0;
  }

  std::vector<Work> ring_;
  size_t first_ = 0;
  size_t num_works_ = 0;
};

}  // namespace tessera::cpu
