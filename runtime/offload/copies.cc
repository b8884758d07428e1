// How an item travels, by what its place is and whose memory the device has:
//
//     place          device memory          fetch                              evict
//     host           any                    fetch                              evict
//     file           the host's             file_in                            file_out
//     file           its own                file_in to a bounce, fetch         evict to a bounce, file_out
//
// A bounce buffer lives from one copy to the other; like every buffer it is planned in advance.

#include "offload/copies.h"

#include <algorithm>
#include <utility>

#include "passes/host_staging.h"

namespace tessera::host {

bool is_movement(const Program& program, const Action& action) {
  const std::string& stream = program.streams[action.stream].name;
  return stream == kFetchStream || stream == kEvictStream || stream == kFileInStream || stream == kFileOutStream;
}

void CopyList::fetch(size_t position, size_t use, const Binding& from, const Binding& to) {
  if (!is_in_file(from)) {
    copies_.push_back({position, true, use, copy_action(program_, program_.device_stream(kFetchStream), from, to)});
    return;
  }
  const Binding read = device_memory_is_host_ ? to : bounce_buffer(to);
  copies_.push_back({position, true, use, copy_action(program_, program_.host_stream(kFileInStream), from, read)});
  if (!device_memory_is_host_)
    copies_.push_back({position, true, use, copy_action(program_, program_.device_stream(kFetchStream), read, to)});
}

void CopyList::evict(size_t position, size_t use, const Binding& from, const Binding& to) {
  if (!is_in_file(to)) {
    copies_.push_back({position, false, use, copy_action(program_, program_.device_stream(kEvictStream), from, to)});
    return;
  }
  const Binding written = device_memory_is_host_ ? from : bounce_buffer(from);
  if (!device_memory_is_host_)
    copies_.push_back(
        {position, false, use, copy_action(program_, program_.device_stream(kEvictStream), from, written)});
  copies_.push_back({position, false, use, copy_action(program_, program_.host_stream(kFileOutStream), written, to)});
}

void CopyList::advance(size_t action, size_t position) {
  if (position < action) advanced_[action] = position;
}

void CopyList::insert() {
  std::ranges::stable_sort(copies_, {}, &Copy::order);
  std::multimap<size_t, Action> advanced;  // by position
  for (const auto& [action, position] : advanced_)
    advanced.emplace(position, std::move(program_.actions[action]));
  std::vector<Action> result;
  result.reserve(program_.actions.size() + copies_.size());
  auto copy = copies_.begin();
  for (size_t i = 0; i <= program_.actions.size(); ++i) {
    for (auto [next, end] = advanced.equal_range(i); next != end; ++next)
      result.push_back(std::move(next->second));
    for (; copy != copies_.end() && copy->position == i; ++copy)
      result.push_back(std::move(copy->action));
    if (i < program_.actions.size() && !advanced_.contains(i)) result.push_back(std::move(program_.actions[i]));
  }
  program_.actions = std::move(result);
  copies_.clear();
  advanced_.clear();
}

Binding CopyList::bounce_buffer(const Binding& like) {
  const Buffer buffer = program_.buffer(like.buffer);
  const uint64_t id = program_.add_buffer(
      {0, buffer.name, TSR_BUFFER_FETCHED, TSR_MEMORY_HOST, buffer.dtype, false, like.num_elements});
  return {id, 0, like.num_elements, 0, 0};
}

}  // namespace tessera::host
