// gzip (RFC 1952) by zlib, from memory to memory. Written is one member; read are any number, as `cat a.gz b.gz` and
// tools that compress in parallel make them. Reading stops at `max_bytes`, since a small file can hold a text of any
// size; it grows the result in pieces, so that what is not there takes no memory.

#include "trace/gzip.h"

#include <zlib.h>

#include <algorithm>

#include "tessera/error.hpp"

namespace tessera::host {
namespace {

constexpr int kGzip = 15 + 16;  // zlib's largest window, and gzip's header
constexpr size_t kPieceBytes = 1 << 20;

Bytef* bytes_of(std::string_view text) {
  return reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
}

}  // namespace

std::string gzip(std::string_view text) {
  z_stream stream{};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzip, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    throw Error(TSR_E_RESOURCE_EXHAUSTED, "zlib has no memory to compress a trace");
  std::string bytes;
  stream.next_in = bytes_of(text);
  size_t left = text.size();  // zlib counts in 32 bits
  for (int result = Z_OK; result != Z_STREAM_END;) {
    const size_t more = stream.avail_in == 0 ? std::min(left, kPieceBytes) : 0;
    stream.avail_in += static_cast<uInt>(more);
    left -= more;
    const size_t done = bytes.size();
    bytes.resize(done + kPieceBytes);
    stream.next_out = bytes_of(bytes) + done;
    stream.avail_out = static_cast<uInt>(kPieceBytes);
    result = deflate(&stream, left == 0 ? Z_FINISH : Z_NO_FLUSH);
    bytes.resize(bytes.size() - stream.avail_out);
  }
  deflateEnd(&stream);
  return bytes;
}

bool is_gzip(std::string_view bytes) {
  return bytes.starts_with("\x1f\x8b");
}

std::string gunzip(std::string_view bytes, size_t max_bytes, bool& is_whole) {
  z_stream stream{};
  if (inflateInit2(&stream, kGzip) != Z_OK)
    throw Error(TSR_E_RESOURCE_EXHAUSTED, "zlib has no memory to read a compressed trace");
  stream.next_in = bytes_of(bytes);
  stream.avail_in = static_cast<uInt>(bytes.size());
  std::string text;
  int result = Z_OK;
  while (result == Z_OK && text.size() < max_bytes) {
    const size_t done = text.size();
    text.resize(std::min(max_bytes, done + kPieceBytes));
    stream.next_out = bytes_of(text) + done;
    stream.avail_out = static_cast<uInt>(text.size() - done);
    result = inflate(&stream, Z_NO_FLUSH);
    text.resize(text.size() - stream.avail_out);
    if (result == Z_STREAM_END && stream.avail_in > 0) result = inflateReset(&stream);  // the next member
  }
  is_whole = result == Z_STREAM_END;
  inflateEnd(&stream);
  return text;
}

}  // namespace tessera::host
