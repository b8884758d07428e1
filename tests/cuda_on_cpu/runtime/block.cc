#include "block.h"

#include <algorithm>
#include <bit>
#include <random>
#include <utility>

constinit thread_local uint3 threadIdx{}, blockIdx{};
constinit thread_local dim3 blockDim, gridDim;

namespace cuda_on_cpu {
namespace {

#ifdef TESSERA_CHECKS_ADDRESSES
constexpr size_t kRedZoneBytes = 0;  // the sanitizer has one of its own, which may not be read either
#else
constexpr size_t kRedZoneBytes = 64;
#endif
constexpr unsigned char kPoison = 0xFF;  // NaN in every floating type
constexpr unsigned char kRedZone = 0xA5;

thread_local BlockRunner* runner = nullptr;
thread_local std::vector<std::unique_ptr<Fibre>> all_fibres;
thread_local std::vector<Fibre*> free_fibres;

}  // namespace

BlockRunner::BlockRunner(const LaunchShape& shape, const std::function<void()>& kernel, uint64_t seed)
    : shape_(shape), kernel_(kernel), shared_(shape.shared_bytes + kRedZoneBytes, kRedZone) {
  for (unsigned z = 0; z < shape.block.z; ++z)
    for (unsigned y = 0; y < shape.block.y; ++y)
      for (unsigned x = 0; x < shape.block.x; ++x)
        threads_.push_back({{x, y, z}, static_cast<unsigned>(threads_.size())});
  for (BlockThread& thread : threads_)
    order_.push_back(&thread);
  if (seed != 0) std::shuffle(order_.begin(), order_.end(), std::mt19937_64(seed));
  blockDim = shape.block;
  gridDim = shape.grid;
  runner = this;
}

BlockRunner::~BlockRunner() {
  runner = nullptr;
}

std::string BlockRunner::run(uint3 block) {
  blockIdx = block;
  num_started_ = num_ended_ = 0;
  std::fill_n(shared_.begin(), shape_.shared_bytes, kPoison);
  while (num_started_ < order_.size()) {
    if (free_fibres.empty()) {
      all_fibres.push_back(std::make_unique<Fibre>([] { runner->start_threads(); }));
      free_fibres.push_back(all_fibres.back().get());
    }
    Fibre& fibre = *free_fibres.back();
    free_fibres.pop_back();
    resume(fibre);
  }
  while (num_ended_ < order_.size()) {
    if (resume_ready()) continue;
    const std::string text = divergence();
    all_fibres.clear();
    free_fibres.clear();
    return text;
  }
  return shared_memory_is_whole() ? "" : "it writes beyond its dynamic shared memory";
}

// On a fibre. Threads that wait for nothing are only calls, one after the other.
void BlockRunner::start_threads() {
  while (num_started_ < order_.size()) {
    running_ = order_[num_started_++];
    threadIdx = running_->index;
    kernel_();
    ++num_ended_;
  }
}

void BlockRunner::resume(Fibre& fibre) {
  fibre_ = &fibre;
  if (fibre.resume()) free_fibres.push_back(&fibre);
}

// False if no thread could be resumed.
bool BlockRunner::resume_ready() {
  bool any = false;
  for (BlockThread* thread : order_) {
    if (!thread->paused || *thread->awaited == thread->seen) continue;
    any = true;
    running_ = thread;
    threadIdx = thread->index;
    resume(*std::exchange(thread->paused, nullptr));
  }
  return any;
}

void BlockRunner::wait(const uint64_t& awaited) {
  BlockThread& thread = *running_;
  thread.awaited = &awaited;
  thread.seen = awaited;
  thread.paused = fibre_;
  fibre_->pause();
}

void BlockRunner::meet_block() {
  if (++num_at_barrier_ < threads_.size()) return wait(num_barriers_);
  num_at_barrier_ = 0;
  ++num_barriers_;
}

WarpAnswer BlockRunner::meet_warp(uint32_t mask, const WarpOffer& offer) {
  BlockThread& thread = *running_;
  const unsigned first = thread.number - lane();
  const auto num_lanes = static_cast<unsigned>(std::min<size_t>(kWarpSize, threads_.size() - first));
  if (num_lanes < kWarpSize) mask &= (1u << num_lanes) - 1;
  thread.mask = mask;
  thread.offer = offer;
  bool is_last = (mask >> lane() & 1) != 0;
  for (uint32_t rest = mask; is_last && rest != 0; rest &= rest - 1) {
    const BlockThread& other = threads_[first + static_cast<unsigned>(std::countr_zero(rest))];
    is_last = other.mask == mask && other.offer.operation == offer.operation;
  }
  if (is_last)
    answer_all(first, mask);
  else
    wait(thread.num_operations);
  return thread.answer;
}

void BlockRunner::answer_all(unsigned first, uint32_t mask) {
  uint32_t votes = 0;
  for (unsigned i = 0; i < kWarpSize; ++i)
    if ((mask >> i & 1) != 0 && threads_[first + i].offer.vote) votes |= 1u << i;
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    BlockThread& thread = threads_[first + static_cast<unsigned>(std::countr_zero(rest))];
    const unsigned source = thread.offer.source % kWarpSize;
    const bool has_source = (mask >> source & 1) != 0;
    thread.answer = {has_source ? threads_[first + source].offer.bits : ~uint64_t{0}, votes};
    thread.mask = 0;
    ++thread.num_operations;
  }
}

bool BlockRunner::shared_memory_is_whole() const {
  return std::all_of(shared_.begin() + static_cast<std::ptrdiff_t>(shape_.shared_bytes), shared_.end(),
                     [](unsigned char byte) { return byte == kRedZone; });
}

std::string BlockRunner::divergence() const {
  const auto num_at_warp = std::count_if(threads_.begin(), threads_.end(), [](const auto& t) { return t.mask != 0; });
  return std::to_string(num_at_barrier_) + " of " + std::to_string(threads_.size()) +
         " threads wait at a barrier of the block, " + std::to_string(num_at_warp) + " for lanes of their warp, and " +
         std::to_string(num_ended_) + " have ended";
}

BlockRunner* current_runner() {
  return runner;
}
void meet_block() {
  runner->meet_block();
}
WarpAnswer meet_warp(uint32_t mask, const WarpOffer& offer) {
  return runner->meet_warp(mask, offer);
}
unsigned lane() {
  return runner->lane();
}
void* dynamic_shared_memory() {
  return runner->shared_memory();
}

}  // namespace cuda_on_cpu
