// Edits of programs by hand, for tests that plant one fault. Actions and buffers go by the texts that name them in
// findings; one that is missing fails the test.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>

#include "program/program.h"
#include "program/program_text.h"
#include "verify/diagnostics.h"

namespace tessera::testing {

using namespace host;

/// The index of the action of that kind that works on `object`: a segment, a home or a buffer.
inline size_t index_of(const Program& p, uint32_t kind, std::string_view object, int micro_batch = -1) {
  for (size_t i = 0; i < p.actions.size(); ++i)
    if (p.actions[i].kind == kind && object_text(p, p.actions[i]) == " " + std::string(object) &&
        (micro_batch < 0 || p.actions[i].micro_batch == micro_batch))
      return i;
  ADD_FAILURE() << "missing action: " << action_name(kind) << " " << object;
  return 0;
}
inline Action& action_of(Program& p, uint32_t kind, std::string_view object, int micro_batch = -1) {
  return p.actions[index_of(p, kind, object, micro_batch)];
}

inline uint64_t buffer_of(const Program& p, std::string_view text) {
  for (const Buffer& buffer : p.buffers)
    if (buffer_text(buffer) == text) return buffer.id;
  ADD_FAILURE() << "missing buffer: " << text;
  return 0;
}

inline Binding& binding_of(Action& action, uint32_t slot) {
  for (Binding& binding : action.bindings)
    if (binding.slot == slot) return binding;
  ADD_FAILURE() << "slot " << slot << " is not bound";
  return action.bindings.front();
}

/// An action that binds nothing.
inline void insert(Program& p, size_t before, uint32_t kind, int segment, int micro_batch = 0) {
  Action action;
  action.id = p.next_id++;
  action.kind = kind;
  action.segment = segment;
  action.micro_batch = micro_batch;
  p.actions.insert(p.actions.begin() + static_cast<ptrdiff_t>(before), std::move(action));
}

inline void insert_elementwise(Program& p, size_t before, uint32_t kind, Binding range, double scale = 0) {
  Action action;
  action.id = p.next_id++;
  action.kind = kind;
  action.scale = scale;
  range.slot = TSR_SLOT(TSR_ROLE_DESTINATION, 0);
  range.mode = kind == TSR_ACTION_ZERO ? TSR_MODE_WRITE : TSR_MODE_ADD;
  action.bindings = {range};
  p.actions.insert(p.actions.begin() + static_cast<ptrdiff_t>(before), std::move(action));
}

/// Of the first strategy.
inline void insert_call(Program& p, size_t before, Binding range) {
  insert_elementwise(p, before, TSR_ACTION_CALL, range);
  p.actions[before].strategy = 0;
}

inline void insert_copy(Program& p, size_t before, Binding from, Binding to) {
  insert_elementwise(p, before, TSR_ACTION_COPY, to);
  Action& copy = p.actions[before];
  if (p.buffer(from.buffer).dtype != p.buffer(to.buffer).dtype) copy.kind = TSR_ACTION_CAST;
  from.slot = TSR_SLOT(TSR_ROLE_SOURCE, 0);
  from.mode = TSR_MODE_READ;
  copy.bindings.front().mode = TSR_MODE_WRITE;
  copy.bindings.push_back(from);
}

/// Two casts, to bfloat16 and back, before an action that then reads the result, or for a persistent range one more
/// copy to where it was.
inline void insert_rounding(Program& p, size_t before, Binding& range) {
  const Buffer own = p.buffer(range.buffer);
  const auto scratch = [&](tsr_dtype dtype) {
    Buffer buffer;
    buffer.name = "rounded";
    buffer.kind = TSR_BUFFER_PLUGIN;
    buffer.dtype = dtype;
    buffer.num_elements = range.num_elements;
    return Binding{p.add_buffer(buffer), 0, range.num_elements, 0, 0};
  };
  const Binding shorter = scratch(TSR_BF16), back = scratch(own.dtype);
  if (own.persistent) insert_copy(p, before, back, range);
  insert_copy(p, before, shorter, back);
  insert_copy(p, before, range, shorter);
  if (!own.persistent) range.buffer = back.buffer, range.offset = 0;
}
inline Binding whole(const Program& p, std::string_view buffer) {
  const uint64_t id = buffer_of(p, buffer);
  return {id, 0, p.buffer(id).num_elements, 0, 0};
}

/// Copies it out, has a call change the copy, and copies that back.
inline void insert_changed_copy(Program& p, size_t before, Binding range) {
  Buffer buffer = p.buffer(range.buffer);
  buffer.id = 0;
  buffer.name = "changed";
  buffer.kind = TSR_BUFFER_STAGING;
  buffer.persistent = false;
  buffer.num_elements = range.num_elements;
  const Binding copy{p.add_buffer(buffer), 0, range.num_elements, 0, 0};
  insert_copy(p, before, copy, range);
  insert_call(p, before, copy);
  insert_copy(p, before, range, copy);
}

/// Rank 0's contents for all ranks of the group of an action that is there.
inline void insert_broadcast(Program& p, size_t before, const Action& like, Binding range) {
  Action broadcast;
  broadcast.id = p.next_id++;
  broadcast.kind = TSR_ACTION_BROADCAST;
  broadcast.stream = like.stream;
  broadcast.group = like.group;
  broadcast.peer = 0;
  range.slot = TSR_SLOT(TSR_ROLE_DESTINATION, 0);
  range.mode = TSR_MODE_ADD;
  broadcast.bindings = {range};
  p.actions.insert(p.actions.begin() + static_cast<ptrdiff_t>(before), std::move(broadcast));
}

inline void unbind(Action& action, uint32_t slot) {
  ASSERT_EQ(std::erase_if(action.bindings, [&](const Binding& binding) { return binding.slot == slot; }), 1u);
}

inline void remove(Program& p, uint32_t kind, std::string_view object, int micro_batch = -1) {
  p.actions.erase(p.actions.begin() + static_cast<ptrdiff_t>(index_of(p, kind, object, micro_batch)));
}

inline void repeat(Program& p, uint32_t kind, std::string_view object, int micro_batch = -1) {
  const size_t i = index_of(p, kind, object, micro_batch);
  Action again = p.actions[i];
  again.id = p.next_id++;
  p.actions.insert(p.actions.begin() + static_cast<ptrdiff_t>(i) + 1, std::move(again));
}

inline int segment_of(const Program& p, std::string_view name) {
  const auto& all = p.model->segments;
  return static_cast<int>(std::ranges::find(all, name, &Segment::name) - all.begin());
}

}  // namespace tessera::testing
