// Reads plain files as they are and gzip files through zlib. A gzip file (RFC 1952) is a sequence of members, each
// compressed on its own; their contents follow one another. Anything else after a member is an error, as is a file that
// ends within one: both are signs of a download that failed.

#include "data/examples/byte_stream.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/concat.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{256} << 10;
constexpr int kGzipOnly = 16 + MAX_WBITS;  // of inflateInit2

bool begins_as_gzip(const ReadOnlyFile& file) {
  std::array<std::byte, 2> start{};
  if (file.num_bytes() < start.size()) return false;
  file.read(0, start);
  return start == std::array{std::byte{0x1f}, std::byte{0x8b}};
}

}  // namespace

ByteStream::ByteStream(const std::string& path) : file_(path) {
  if (!begins_as_gzip(file_)) return;
  inflate_ = std::make_unique<z_stream>();
  if (inflateInit2(inflate_.get(), kGzipOnly) != Z_OK) throw std::bad_alloc();
}

ByteStream::~ByteStream() {
  if (inflate_) inflateEnd(inflate_.get());
}

std::size_t ByteStream::read(std::span<std::byte> out) {
  const std::size_t num_read = is_compressed() ? read_compressed(out) : read_plain(out);
  position_ += num_read;
  return num_read;
}

std::size_t ByteStream::read_plain(std::span<std::byte> out) {
  const auto part = out.first(std::min<uint64_t>(out.size(), file_.num_bytes() - position_));
  file_.read(position_, part);
  return part.size();
}

void ByteStream::refill() {
  buffer_.resize(std::min<uint64_t>(kBufferBytes, file_.num_bytes() - file_position_));
  file_.read(file_position_, buffer_);
  file_position_ += buffer_.size();
  inflate_->next_in = reinterpret_cast<Bytef*>(buffer_.data());
  inflate_->avail_in = static_cast<uInt>(buffer_.size());
}

void ByteStream::refuse(const std::string& what) const {
  throw Error(TSR_E_INVALID_ARGUMENT, concat(path(), ", byte ", file_position_ - inflate_->avail_in, ": ", what));
}

// Another member or the end of the file must follow.
void ByteStream::end_member() {
  is_between_members_ = true;
  inflateReset(inflate_.get());
}

std::size_t ByteStream::read_compressed(std::span<std::byte> out) {
  constexpr std::size_t kMaxBytesPerCall = std::size_t{1} << 30;  // zlib counts in 32 bits
  std::size_t num_read = 0;
  while (num_read < out.size()) {
    if (inflate_->avail_in == 0) {
      if (file_position_ == file_.num_bytes() && is_between_members_) break;
      if (file_position_ == file_.num_bytes())
        refuse("the gzip data ends before it is complete; was the file cut? Copy or download it again");
      refill();
    }
    const auto part = out.subspan(num_read, std::min(out.size() - num_read, kMaxBytesPerCall));
    inflate_->next_out = reinterpret_cast<Bytef*>(part.data());
    inflate_->avail_out = static_cast<uInt>(part.size());
    is_between_members_ = false;
    const int status = inflate(inflate_.get(), Z_NO_FLUSH);
    if (status == Z_MEM_ERROR) throw std::bad_alloc();
    if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
      refuse(concat("the gzip data is damaged (", inflate_->msg ? inflate_->msg : "no reason given",
                    "); copy or download the file again"));
    num_read += part.size() - inflate_->avail_out;
    if (status == Z_STREAM_END) end_member();
  }
  return num_read;
}

}  // namespace tessera::host
