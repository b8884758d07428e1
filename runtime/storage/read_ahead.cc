// A checkpoint is read once, and by ranks that need other parts of it, so the page cache only costs: a page of memory
// and a copy for each page of the file (see write_behind.cc).
//
//     caller   expect a b c d | read a, use it | expect e | read b, use it | ...
//     disk            a  b  c  d                     e
//
// A direct read begins and ends at blocks: it reads those around the part. Whatever goes wrong with it, the part is
// read once more through the page cache, which has the error to report.

#include "storage/read_ahead.h"

#include <unistd.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "storage/block_sums.h"
#include "storage/thread_queue.h"

namespace tessera::host {
namespace {

constexpr uint64_t kMinBytes = 64 << 10;  // a smaller part costs a system call either way
constexpr uint64_t kRoom = ReadAhead::kMaxBytes + 2 * kBlockBytes;
constexpr uint64_t kForgottenAfter = 4 * ReadAhead::kParts;  // reads

uint64_t first_block(uint64_t offset) {
  return offset / kBlockBytes * kBlockBytes;
}

}  // namespace

ReadAhead::~ReadAhead() {
  queue_.reset();
  for (const auto& [file, descriptor] : direct_)
    if (descriptor >= 0) ::close(descriptor);
}

void ReadAhead::expect(const ReadOnlyFile& file, uint64_t offset, uint64_t num_bytes) {
  if (find(file, offset, num_bytes)) return;
  const int descriptor = num_bytes < kMinBytes ? -1 : direct_descriptor(file);
  if (descriptor < 0) return file.expect(offset, num_bytes);
  Part* const part = take_empty();
  if (!part) return;
  if (!part->memory) part->memory = allocate_blocks(kRoom);
  part->state = Part::State::under_way;
  part->file = &file;
  part->offset = offset;
  part->num_bytes = num_bytes;
  part->num_reads = num_reads_;
  const uint64_t begin = first_block(offset);
  queue_->start(static_cast<unsigned>(part - parts_.data()),
                {descriptor, begin, part->memory.get(), whole_blocks(offset + num_bytes) - begin, false});
}

void ReadAhead::read(const ReadOnlyFile& file, uint64_t offset, uint64_t num_bytes, FileBytes& out) {
  expect(file, offset, num_bytes);
  ++num_reads_;
  if (take(file, offset, num_bytes, out)) return;
  if (!out.memory) out.memory = allocate_blocks(kRoom);
  const std::span<std::byte> bytes(out.memory.get(), num_bytes);
  file.read(offset, bytes);
  out.bytes = bytes;
}

/// Whether it was announced, and was read whole.
bool ReadAhead::take(const ReadOnlyFile& file, uint64_t offset, uint64_t num_bytes, FileBytes& out) {
  Part* const part = find(file, offset, num_bytes);
  if (!part) return false;
  while (part->state == Part::State::under_way)
    settle_one(IoQueue::Clock::time_point::max());
  part->state = Part::State::empty;
  const uint64_t before = offset - first_block(offset);
  if (part->result < static_cast<int64_t>(before + num_bytes)) return false;
  std::swap(out.memory, part->memory);
  out.bytes = std::span(out.memory.get(), kRoom).subspan(before, num_bytes);
  return true;
}

ReadAhead::Part* ReadAhead::find(const ReadOnlyFile& file, uint64_t offset, uint64_t num_bytes) {
  const auto found = std::ranges::find_if(parts_, [&](const Part& part) {
    return part.state != Part::State::empty && part.file == &file && part.offset == offset &&
           part.num_bytes == num_bytes;
  });
  return found == parts_.end() ? nullptr : &*found;
}

/// Nothing when there is none.
ReadAhead::Part* ReadAhead::take_empty() {
  while (settle_one(IoQueue::Clock::now())) {
  }
  const auto can_be_taken = [&](const Part& part) {
    const bool is_forgotten = part.state == Part::State::ready && num_reads_ - part.num_reads > kForgottenAfter;
    return part.state == Part::State::empty || is_forgotten;
  };
  const auto found = std::ranges::find_if(parts_, can_be_taken);
  return found == parts_.end() ? nullptr : &*found;
}

int ReadAhead::direct_descriptor(const ReadOnlyFile& file) {
  const auto [found, is_new] = direct_.emplace(&file, -1);
  if (!is_new) return found->second;
  try {
    if (!queue_) queue_ = make_thread_queue();
    found->second = file.open_direct();
  } catch (const std::system_error&) {  // no thread
  }
  return found->second;
}

/// Whether one has come back before the deadline.
bool ReadAhead::settle_one(IoQueue::Clock::time_point deadline) {
  if (std::ranges::none_of(parts_, [](const Part& part) { return part.state == Part::State::under_way; })) return false;
  const auto completion = queue_->wait_until(deadline);
  if (!completion) return false;
  Part& part = parts_[completion->slot];
  part.state = Part::State::ready;
  part.result = completion->result;
  return true;
}

}  // namespace tessera::host
