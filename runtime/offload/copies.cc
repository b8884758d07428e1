// How an item travels, by what its place is and whose memory the device has:
//
//     place          device memory          fetch                              evict
//     host           any                    fetch                              evict
//     file           the host's             file_in                            file_out
//     file           its own                file_in to a bounce, fetch         evict to a bounce, file_out
//     file           for the host           file_in                            -
//
// A bounce buffer lives from one copy to the other; like every buffer it is planned in advance. Cost: n log n in the
// copies, and one walk over the list of actions.

#include "offload/copies.h"

#include <algorithm>
#include <utility>

#include "passes/host_staging.h"

namespace tessera::host {

bool is_movement(const Program& program, const Action& action) {
  const std::string& stream = program.streams[action.stream].name;
  return stream == kFetchStream || stream == kEvictStream || stream == kFileInStream || stream == kFileOutStream;
}

void CopyList::copy(size_t position, Turn turn, size_t use, uint32_t stream, const Binding& from, const Binding& to) {
  insertions_.push_back({position, turn, use, copy_action(program_, stream, from, to)});
}

void CopyList::fetch(size_t position, size_t use, const Binding& from, const Binding& to) {
  const bool is_for_host = is_in(TSR_MEMORY_HOST, to);
  if (!is_in(TSR_MEMORY_FILE, from)) {
    const uint32_t stream = is_for_host ? program_.host_stream(kHostStream) : program_.device_stream(kFetchStream);
    return copy(position, Turn::fetch, use, stream, from, to);
  }
  const bool is_direct = device_memory_is_host_ || is_for_host;
  const Binding read = is_direct ? to : bounce_buffer(to);
  copy(position, Turn::fetch, use, program_.host_stream(kFileInStream), from, read);
  if (!is_direct) copy(position, Turn::fetch, use, program_.device_stream(kFetchStream), read, to);
}

void CopyList::evict(size_t position, size_t use, const Binding& from, const Binding& to) {
  if (!is_in(TSR_MEMORY_FILE, to))
    return copy(position, Turn::evict, use, program_.device_stream(kEvictStream), from, to);
  const Binding written = device_memory_is_host_ ? from : bounce_buffer(from);
  if (!device_memory_is_host_) copy(position, Turn::evict, use, program_.device_stream(kEvictStream), from, written);
  copy(position, Turn::evict, use, program_.host_stream(kFileOutStream), written, to);
}

void CopyList::advance(Turn turn, size_t action, size_t position) {
  if (position >= action) return;
  insertions_.push_back({position, turn, action, {}, true});
  advanced_.emplace(action, position);
}

size_t CopyList::position_of(size_t action) const {
  const auto found = advanced_.find(action);
  return found == advanced_.end() ? action : found->second;
}

void CopyList::add(Turn turn, size_t position, Action action) {
  insertions_.push_back({position, turn, 0, std::move(action)});
}

void CopyList::insert() {
  std::ranges::stable_sort(insertions_, {}, &Insertion::order);
  std::vector<Action> result;
  result.reserve(program_.actions.size() + insertions_.size());
  auto next = insertions_.begin();
  for (size_t i = 0; i <= program_.actions.size(); ++i) {
    for (; next != insertions_.end() && next->position == i; ++next)
      result.push_back(std::move(next->is_advanced ? program_.actions[next->use] : next->action));
    if (i < program_.actions.size() && !advanced_.contains(i)) result.push_back(std::move(program_.actions[i]));
  }
  program_.actions = std::move(result);
  insertions_.clear();
  advanced_.clear();
}

Binding CopyList::bounce_buffer(const Binding& like) {
  const Buffer buffer = program_.buffer(like.buffer);
  const uint64_t id = program_.add_buffer(
      {0, buffer.name, TSR_BUFFER_FETCHED, TSR_MEMORY_HOST, buffer.dtype, false, like.num_elements});
  return {id, 0, like.num_elements, 0, 0};
}

}  // namespace tessera::host
