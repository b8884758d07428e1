// One arena for operands that anything may be in, used by all ops in turn as a ring, so that a round over the ops of a
// large model touches as much memory as a step would between two uses, up to kRingBytes; and one for inputs and
// scalars, whose values must be valid: a token below the vocabulary, a step count above 0, a gradient that is not
// skipped.
//
//     ring    | op 0: x w y | op 1: y g | op 2: g w | rest |      op 3 does not fit into the rest: it begins at 0 again
//     fixed   | tokens | step count | clip | ...                  with a copy, from which it is restored

#include "rates/op_memory.h"

#include <algorithm>
#include <cstring>

#include "guard/plugin_calls.h"
#include "memory/footprint.h"
#include "tessera/error.hpp"
#include "tessera/ranges.hpp"

namespace tessera::host {
namespace {

constexpr uint64_t kRingBytes = uint64_t{1} << 30;
/// As float32 0.0115, as bf16 the same, as fp16 1.06.
constexpr uint32_t kFillByte = 0x3C;
constexpr int64_t kCopyMs = 60'000;

uint64_t aligned(uint64_t num_bytes) {
  return round_up<uint64_t>(num_bytes, kBufferAlignment);
}

uint64_t bytes_of(const Program& program, const Binding& binding) {
  return aligned(TSR_NUM_BYTES(program.buffer(binding.buffer).dtype, binding.num_elements));
}

/// Tokens and labels below this are valid in every op of the model.
int32_t smallest_vocabulary(const Model& model) {
  int64_t smallest = INT32_MAX;
  for (const Segment& segment : model.segments)
    for (const uint32_t dim : {TSR_DIM_VOCAB, TSR_DIM_CLASSES})
      if (segment.op.dims[dim] > 0) smallest = std::min(smallest, segment.op.dims[dim]);
  return static_cast<int32_t>(smallest);
}

template <class T>
std::vector<std::byte> repeated(uint64_t num_elements, T value) {
  const std::vector<T> values(num_elements, value);
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

}  // namespace

OpMemory::OpMemory(const Device& device, const Program& program, std::vector<uint32_t> actions)
    : device_(device), program_(program) {
  uint64_t all_bytes = 0, most_bytes = 0;
  for (const uint32_t index : actions) {
    uint64_t num_bytes = 0;
    for (const Binding& b : program.actions[index].bindings)
      if (!is_fixed(program.buffer(b.buffer))) num_bytes += bytes_of(program, b);
    all_bytes += num_bytes;
    most_bytes = std::max(most_bytes, num_bytes);
  }
  shared_bytes_ = std::max(most_bytes, std::min(all_bytes, kRingBytes));
  uint64_t next = 0;
  for (const uint32_t index : actions) {
    const Action& action = program.actions[index];
    uint64_t num_bytes = 0;
    for (const Binding& b : action.bindings) {
      const Buffer& buffer = program.buffer(b.buffer);
      if (is_fixed(buffer)) {
        place_fixed(buffer);
        continue;
      }
      shared_.emplace(Place(action.id, b.slot), num_bytes);
      num_bytes += bytes_of(program, b);
    }
    if (next + num_bytes > shared_bytes_) next = 0;
    for (const Binding& b : action.bindings)
      if (const auto place = shared_.find(Place(action.id, b.slot)); place != shared_.end()) place->second += next;
    next += num_bytes;
  }
  fixed_arena_.emplace(device, TSR_MEMORY_DEVICE, fixed_bytes_);
  fixed_copy_.emplace(device, TSR_MEMORY_DEVICE, fixed_bytes_);
  shared_arena_.emplace(device, TSR_MEMORY_DEVICE, shared_bytes_);
}

bool OpMemory::is_fixed(const Buffer& buffer) const {
  return buffer.kind == TSR_BUFFER_INPUT || buffer.kind == TSR_BUFFER_SCALAR || buffer.kind == TSR_BUFFER_ACCUMULATOR;
}

void OpMemory::place_fixed(const Buffer& buffer) {
  if (fixed_.try_emplace(buffer.id, fixed_bytes_).second) fixed_bytes_ += aligned(buffer.num_bytes());
}

std::vector<void*> OpMemory::operands(const Action& action) const {
  std::vector<void*> pointers;
  for (const Binding& b : action.bindings) {
    const Buffer& buffer = program_.buffer(b.buffer);
    pointers.push_back(is_fixed(buffer) ? fixed_arena_->at(fixed_.at(b.buffer) + TSR_NUM_BYTES(buffer.dtype, b.offset))
                                        : shared_arena_->at(shared_.at(Place(action.id, b.slot))));
  }
  return pointers;
}

std::vector<std::byte> OpMemory::contents(const Buffer& buffer) const {
  if (buffer.kind == TSR_BUFFER_ACCUMULATOR) return std::vector<std::byte>(buffer.num_bytes());
  if (buffer.dtype == TSR_F64) return repeated(buffer.num_elements, 1.0);  // rate, loss scale, clip: no clipping, ok
  if (buffer.dtype == TSR_I64) return repeated(buffer.num_elements, int64_t{1});  // the step count
  if (buffer.dtype != TSR_I32) return std::vector<std::byte>(buffer.num_bytes(), std::byte{kFillByte});
  std::vector<std::byte> bytes(buffer.num_bytes());
  const int32_t vocabulary = smallest_vocabulary(*program_.model);
  for (uint64_t i = 0; i < buffer.num_elements; ++i) {
    // Knuth's multiplier spreads the tokens over the vocabulary, as those of a text are.
    const auto token = static_cast<int32_t>(i * 2654435761u % static_cast<uint64_t>(vocabulary));
    std::memcpy(bytes.data() + i * sizeof token, &token, sizeof token);
  }
  return bytes;
}

void OpMemory::reset(tsr_stream* stream) const {
  call(device_.api().fill, stream, shared_arena_->at(0), kFillByte, shared_bytes_);
  for (const auto& [id, address] : fixed_) {
    const std::vector<std::byte> bytes = contents(program_.buffer(id));
    call(device_.api().copy, stream, fixed_arena_->at(address), bytes.data(), bytes.size());
    synchronize(device_, stream, kCopyMs);
  }
  if (fixed_bytes_ > 0) call(device_.api().copy, stream, fixed_copy_->at(0), fixed_arena_->at(0), fixed_bytes_);
  synchronize(device_, stream, kCopyMs);
}

void OpMemory::restore_fixed(tsr_stream* stream) const {
  if (fixed_bytes_ > 0) call(device_.api().copy, stream, fixed_arena_->at(0), fixed_copy_->at(0), fixed_bytes_);
}

}  // namespace tessera::host
