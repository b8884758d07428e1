#include "storage/file_store.h"

#include <array>
#include <system_error>
#include <utility>

#include "base/concat.h"
#include "storage/thread_queue.h"
#include "storage/uring_queue.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

struct Queues {
  IoEngine engine;
  std::array<std::unique_ptr<IoQueue>, 2> of;  // one for each direction
};

Queues make_queues(IoEngine wanted, const Log& log) {
  if (wanted != IoEngine::threads) try {
      return {IoEngine::uring, {make_uring_queue(), make_uring_queue()}};
    } catch (const std::system_error& refused) {
      const std::string reason = refused.code().message();
      if (wanted == IoEngine::uring)
        throw Error(TSR_E_UNAVAILABLE, concat("--offload-io uring: the system refuses io_uring (", reason,
                                              "); let the container's seccomp filter and kernel.io_uring_disabled ",
                                              "allow it, or give --offload-io threads"));
      log.info("offload file: the system refuses io_uring (", reason, "); four threads a direction read and write");
    }
  return {IoEngine::threads, {make_thread_queue(), make_thread_queue()}};
}

}  // namespace

FileStore::FileStore(const FileStoreOptions& options, const Log& log)
    : num_bytes_(whole_blocks(options.num_bytes)), files_(options.folders, num_bytes_, log, options.flag) {
  Queues queues = make_queues(options.engine, log);
  engine_ = queues.engine;
  if (options.check) sums_ = std::make_unique<BlockSums>(num_bytes_);
  const auto make = [&](bool is_write) {
    return std::make_unique<Direction>(Direction::Options{is_write, options.timeout_ms, options.max_bytes_per_call},
                                       files_, sums_.get(), std::move(queues.of[is_write]));
  };
  reader_ = make(false);
  writer_ = make(true);
}

FileStore::~FileStore() = default;

void FileStore::write(uint64_t offset, std::span<const std::byte> data, std::string_view label) {
  check_range(offset, data.size(), label);
  // A request has one kind of pointer; that of a write is only read.
  writer_->move({offset, const_cast<std::byte*>(data.data()), data.size(), label});
}

void FileStore::read(uint64_t offset, std::span<std::byte> data, std::string_view label) {
  check_range(offset, data.size(), label);
  reader_->move({offset, data.data(), data.size(), label});
}

void FileStore::check_range(uint64_t offset, uint64_t num_bytes, std::string_view label) const {
  if (offset % kBlockBytes != 0)
    throw Error(TSR_E_INVALID_ARGUMENT,
                concat("offload file: ", label, " begins at ", offset, ", which is not a multiple of ", kBlockBytes));
  if (offset > num_bytes_ || num_bytes > num_bytes_ - offset)
    throw Error(TSR_E_INVALID_ARGUMENT, concat("offload file: ", num_bytes, " bytes of ", label, " at ", offset,
                                               " end beyond the ", num_bytes_, " bytes of the store"));
}

}  // namespace tessera::host
