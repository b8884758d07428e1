// The store moves whole blocks. What programs copy begins on a block and ends on one or where its buffer ends, except
// when a part of a transient item is fetched; and parameters are read and written in pieces when no program runs.

#include "exec/file_transfer.h"

#include <cstring>
#include <vector>

namespace tessera::host {
namespace {

/// The whole blocks around a range, which is at `skipped` of them.
struct Blocks {
  uint64_t offset, skipped;
  std::vector<std::byte> bytes;
};

Blocks blocks_around(uint64_t offset, uint64_t num_bytes) {
  const uint64_t begin = offset / kBlockBytes * kBlockBytes;
  const uint64_t end = whole_blocks(offset + num_bytes);
  return {begin, offset - begin, std::vector<std::byte>(end - begin)};
}

}  // namespace

void read_range(FileStore& store, uint64_t offset, std::span<std::byte> data, const std::string& label) {
  if (offset % kBlockBytes == 0) return store.read(offset, data, label);
  Blocks blocks = blocks_around(offset, data.size());
  store.read(blocks.offset, blocks.bytes, label);
  std::memcpy(data.data(), blocks.bytes.data() + blocks.skipped, data.size());
}

void write_range(FileStore& store, uint64_t offset, std::span<const std::byte> data, const std::string& label) {
  if (offset % kBlockBytes == 0 && data.size() % kBlockBytes == 0) return store.write(offset, data, label);
  Blocks blocks = blocks_around(offset, data.size());
  store.read(blocks.offset, blocks.bytes, label);
  std::memcpy(blocks.bytes.data() + blocks.skipped, data.data(), data.size());
  store.write(blocks.offset, blocks.bytes, label);
}

tsr_status FileCopy::run(void* self, tsr_error* err) noexcept {
  const FileCopy& transfer = *static_cast<const FileCopy*>(self);
  return guard(err, "host", [&] {
    if (transfer.is_write)
      transfer.store->write(transfer.offset, transfer.memory, transfer.label);
    else
      read_range(*transfer.store, transfer.offset, transfer.memory, transfer.label);
  });
}

}  // namespace tessera::host
