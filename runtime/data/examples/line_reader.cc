// Lines from a buffer that grows only while a line does not fit in it, and never beyond the longest line allowed.

#include "data/examples/line_reader.h"

#include <algorithm>
#include <span>

#include "base/concat.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

constexpr std::size_t kReadBytes = std::size_t{64} << 10;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

}  // namespace

// Appends to the bytes not used yet; false at the end of the file.
bool LineReader::fill() {
  buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(begin_));
  begin_ = 0;
  const std::size_t num_kept = buffer_.size();
  buffer_.resize(num_kept + kReadBytes);
  const std::size_t num_read = stream_.read(std::as_writable_bytes(std::span(buffer_).subspan(num_kept)));
  buffer_.resize(num_kept + num_read);
  return num_read > 0;
}

// The end of the current line in the buffer, which is filled as needed; npos: the rest is the last line.
std::size_t LineReader::find_end() {
  std::size_t searched = 0;
  while (true) {
    const std::size_t end = rest().find('\n', searched);
    if (std::min(end, rest().size()) > max_bytes_)
      throw Error(TSR_E_INVALID_ARGUMENT, concat(stream_.path(), ", line ", number_ + 1, " has more than ", max_bytes_,
                                                 " bytes, too many for the features of the model; is it a CSV file?"));
    searched = rest().size();
    if (end != std::string_view::npos || !fill()) return end;
  }
}

bool LineReader::next() {
  const std::size_t end = find_end();
  if (rest().empty()) return false;
  line_ = rest().substr(0, end);
  begin_ += std::min(line_.size() + 1, rest().size());
  if (line_.ends_with('\r')) line_.remove_suffix(1);
  if (++number_ == 1 && line_.starts_with(kByteOrderMark)) line_.remove_prefix(kByteOrderMark.size());
  return true;
}

}  // namespace tessera::host
