// The bodies of storage.hpp. The part that takes thought is GatherPlanner; the rest looks things up in the view.
#pragma once

#include "tessera/storage.hpp"

namespace tessera::storage {
namespace detail {

inline const tsr_binding* find(const tsr_action& action, uint32_t slot) {
  const auto bindings = ProgramView::bindings(action);
  const auto found = std::ranges::find(bindings, slot, &tsr_binding::slot);
  return found == bindings.end() ? nullptr : &*found;
}

inline bool is_compute(const tsr_action& action) {
  return action.kind >= TSR_ACTION_FORWARD && action.kind <= TSR_ACTION_LOSS;
}

// Ids ascend in the view's arrays.
inline const tsr_buffer& buffer(const ProgramView& view, uint64_t id) {
  return *std::ranges::lower_bound(view.buffers(), id, {}, &tsr_buffer::id);
}

[[noreturn]] inline void refuse_split(const std::string& name) {
  throw Error(TSR_E_UNSUPPORTED, "the parameters of " + name +
                                     " are split by another strategy already; give one axis a strategy that splits "
                                     "them and the others ddp: --strategy replicate=ddp,shard=fsdp");
}

/// Notes the cast that makes the copy which is computed with (bf16, fp16), and refuses any other reader: once the
/// values are slices, an action that reads them whole would read past its slice. Compute actions are excepted, since
/// they will read gathered copies, and optimizers, which follow their home.
inline void find_copy(const ProgramView& view, Flat& flat) {
  for (const tsr_action& action : view.actions()) {
    if (is_compute(action) || action.kind == TSR_ACTION_OPTIMIZER) continue;
    for (const tsr_binding& b : ProgramView::bindings(action)) {
      if (b.buffer != flat.value->id) continue;
      const tsr_binding* to = find(action, kDestination);
      const bool is_whole_cast = action.kind == TSR_ACTION_CAST && b.slot == kSource && to &&
                                 b.num_elements == flat.num_elements() && !flat.copy;
      if (!is_whole_cast) refuse_split(to_string(flat.value->name));
      flat.copy = &buffer(view, to->buffer);
      flat.cast = action.id;
    }
  }
}

/// All roles of a home lie at its value's offset, so that one slice of the flat is the same elements in every role.
inline void add_home(Flat& flat, const tsr_home& home) {
  const auto note = [&](uint32_t role, uint64_t& id) {
    const tsr_home_role& place = home.roles[role];
    if (!place.buffer) return;
    if (place.offset != home.roles[TSR_HOME_VALUE].offset || (id && id != place.buffer))
      refuse_split(to_string(home.name));  // a strategy that has split it keeps roles at offsets of their own
    id = place.buffer;
  };
  note(TSR_HOME_GRADIENT, flat.gradient);
  note(TSR_HOME_M, flat.m);
  note(TSR_HOME_V, flat.v);
  flat.homes.push_back(&home);
}

/// Decides before which compute action each copy of a group is made, and how long it lives.
///
/// Only the actions that use some group count, numbered from 0: positions. Uses of one group with no other group's
/// between them are a span. With a prefetch of 1:
///
///     position    0     1     2     3     4          span       copy is made before
///     group      h.0   h.1   wte   h.1   h.0         h.0  0     0
///     phase       f     f    loss   b     b          h.1  1     0, one span ahead
///                                                    wte  2     1
///                                                    h.1  3     2: the copy of 1 is there still, and is used again
///                                                    h.0  4     3: gathered again
///
/// A copy is there until its last use; one that would be made no later than right after that is merged into it: this is
/// the gather that PyTorch's FSDP saves for the last block. With a limit a copy waits until no more than limit - 1
/// others are alive. With `keep` a group has one span, and so one copy, for the whole program.
///
/// Invariant: position <= first, a copy is made before its first use; a limit that breaks it is refused. Copies are
/// inserted in the order of their positions, which depend on the program alone, so the gathers of all ranks match.
class GatherPlanner {
 public:
  GatherPlanner(const ProgramView& view, std::span<const Group> groups, const GatherOptions& options)
      : view_(view), options_(options) {
    for (size_t g = 0; g < groups.size(); ++g)
      for (size_t i = 0; i < groups[g].flats.size(); ++i)
        places_[groups[g].flats[i].computed_with().id] = {g, groups[g].base[i]};
  }

  std::vector<Gathering> run() {
    collect_spans();
    for (size_t i = 0; i < spans_.size(); ++i)
      place(i);
    std::erase_if(spans_, [](const Span& span) { return span.is_merged; });
    std::ranges::stable_sort(spans_, {}, &Span::position);
    std::vector<Gathering> result;
    for (const Span& span : spans_)
      result.push_back({span.group, users_[span.position]->id, span.uses});
    return result;
  }

 private:
  struct Place {
    size_t group;
    uint64_t base;
  };
  /// Uses of one group with no other group's between them. Positions count the actions that use any group.
  struct Span {
    size_t group;
    bool is_forward;
    size_t first, last;
    size_t position = 0;     // before which action the copy is made
    bool is_merged = false;  // into an earlier one
    std::vector<Use> uses;
  };

  void collect_spans() {
    std::map<size_t, size_t> open;  // group -> its span
    for (const tsr_action& action : view_.actions()) {
      if (!is_compute(action)) continue;
      std::map<size_t, std::vector<Use>> uses;
      for (const tsr_binding& b : ProgramView::bindings(action))
        if (const auto place = places_.find(b.buffer); place != places_.end())
          uses[place->second.group].push_back({action.id, b, place->second.base + b.offset});
      if (uses.empty()) continue;
      if (!options_.keep) std::erase_if(open, [&](const auto& entry) { return !uses.contains(entry.first); });
      const size_t position = users_.size();
      users_.push_back(&action);
      for (auto& [group, of_group] : uses) {
        const auto [found, is_new] = open.try_emplace(group, spans_.size());
        if (is_new) spans_.push_back({group, action.kind == TSR_ACTION_FORWARD, position, position, 0, false, {}});
        Span& span = spans_[found->second];
        span.last = position;
        span.uses.insert(span.uses.end(), of_group.begin(), of_group.end());
      }
    }
  }

  /// The first position at which no more than limit - 1 of the earlier copies are left: one after the limit-th latest
  /// end among them.
  size_t earliest_within_limit(size_t index) const {
    if (options_.limit == 0) return 0;
    std::vector<size_t> lasts;
    for (size_t i = 0; i < index; ++i)
      if (!spans_[i].is_merged) lasts.push_back(spans_[i].last);
    if (lasts.size() < options_.limit) return 0;
    std::ranges::nth_element(lasts, lasts.begin() + static_cast<ptrdiff_t>(options_.limit) - 1, std::greater());
    return lasts[options_.limit - 1] + 1;
  }

  /// Where the copy is made: at the start of the span `prefetch` before this one. Backward::post makes it at that
  /// span's end instead, one copy less alive, with less time to arrive.
  void place(size_t index) {
    Span& span = spans_[index];
    using Backward = GatherOptions::Backward;
    const bool is_just_in_time = !span.is_forward && options_.backward == Backward::none;
    const uint64_t depth = is_just_in_time ? 0 : options_.prefetch;
    const Span& ahead = spans_[index - std::min<uint64_t>(index, depth)];
    span.position = ahead.first;
    if (!span.is_forward && options_.backward == Backward::post && depth > 0)
      span.position = std::min(ahead.last + 1, span.first);
    span.position = std::max(span.position, earliest_within_limit(index));
    if (span.position > span.first)
      throw Error(TSR_E_INVALID_ARGUMENT,
                  "a limit of " + std::to_string(options_.limit) +
                      " gathered units alive is too small: one action uses more of them at once; raise the limit");
    merge(index);
  }

  /// A copy that would be made while the last one of its group is still there is that one.
  void merge(size_t index) {
    Span& span = spans_[index];
    for (size_t i = index; i-- > 0;) {
      Span& earlier = spans_[i];
      if (earlier.group != span.group || earlier.is_merged) continue;
      if (span.position > earlier.last + 1) return;
      earlier.last = span.last;
      earlier.uses.insert(earlier.uses.end(), span.uses.begin(), span.uses.end());
      span.is_merged = true;
      return;
    }
  }

  const ProgramView& view_;
  const GatherOptions& options_;
  std::map<uint64_t, Place> places_;  // by the buffer that is computed with
  std::vector<const tsr_action*> users_;
  std::vector<Span> spans_;
};

}  // namespace detail

inline std::vector<Flat> flats_of(const ProgramView& view) {
  std::map<uint64_t, Flat> by_value;
  for (const tsr_home& home : view.homes()) {
    const uint64_t value = home.roles[TSR_HOME_VALUE].buffer;
    if (!value) continue;
    Flat& flat = by_value[value];
    flat.value = &detail::buffer(view, value);
    detail::add_home(flat, home);
  }
  std::vector<Flat> flats;
  for (auto& [id, flat] : by_value) {
    std::ranges::stable_sort(flat.homes, {}, [](const tsr_home* h) { return h->roles[TSR_HOME_VALUE].offset; });
    detail::find_copy(view, flat);
    flats.push_back(std::move(flat));
  }
  return flats;
}

// A parameter without an entry is replicated over all coordinates and does not count.
inline bool stands_on_several_stages(const ProgramView& view, const Flat& flat) {
  const auto is_of_flat = [&](int32_t parameter) {
    return std::ranges::any_of(flat.homes, [&](const tsr_home* home) {
      return std::ranges::any_of(std::span(home->pieces, home->num_pieces),
                                 [&](const tsr_piece& piece) { return piece.parameter == parameter; });
    });
  };
  return std::ranges::any_of(view.layout(), [&](const tsr_layout_entry& entry) {
    return entry.kind == TSR_LAYOUT_REPLICATED && entry.num_coordinates > 1 && is_of_flat(entry.parameter);
  });
}

inline void Group::add(const Flat& flat) {
  if (flats.empty()) name = to_string(flat.value->name);
  flats.push_back(flat);
  base.push_back(num_elements);
  num_elements += flat.num_elements();
  if (flats.size() > 1) name = to_string(flats.front().value->name) + ".." + to_string(flat.value->name);
}

inline std::vector<uint64_t> Group::home_ids() const {
  std::vector<uint64_t> ids;
  for (const Flat& flat : flats)
    for (const tsr_home* home : flat.homes)
      ids.push_back(home->id);
  return ids;
}

inline GatherOptions read_gather_options(std::span<const tsr_option_value> options) {
  const auto text = [&](const char* name) { return to_string(option(options, name).s); };
  GatherOptions result;
  result.prefetch = static_cast<uint64_t>(option(options, "prefetch").i);
  result.limit = static_cast<uint64_t>(option(options, "limit-all-gathers").i);
  const std::string backward = text("backward-prefetch"), reshard = text("reshard-after-forward");
  if (backward == "post") result.backward = GatherOptions::Backward::post;
  if (backward == "none") result.backward = GatherOptions::Backward::none;
  result.keep = reshard == "false";
  result.keep_in_pipeline = reshard == "auto";
  return result;
}

inline GatherOptions options_in_mesh(GatherOptions options, const ProgramView& view, std::string_view strategy) {
  const bool is_in_pipeline = std::ranges::any_of(
      view.axes(), [](const tsr_axis& a) { return a.splits == TSR_SPLITS_LAYERS && a.num_ranks > 1; });
  if (!is_in_pipeline || !options.keep_in_pipeline) return options;
  const std::string name(strategy);
  if (options.limit)
    throw Error(TSR_E_INVALID_ARGUMENT,
                name +
                    ".limit-all-gathers needs parameters that are given up after use, and under a pipeline they are " +
                    "kept unless " + name + ".reshard-after-forward=true");
  options.keep = true;
  return options;
}

inline std::vector<Gathering> plan_gatherings(const ProgramView& view, std::span<const Group> groups,
                                              const GatherOptions& options) {
  return detail::GatherPlanner(view, groups, options).run();
}

inline void move_writers(const ProgramView& view, const Edit& edit, uint64_t from, uint64_t to, uint64_t offset) {
  for (const tsr_action& action : view.actions())
    for (const tsr_binding& b : ProgramView::bindings(action))
      if (b.buffer == from && b.mode != TSR_MODE_READ)
        edit.bind(action.id, {to, b.offset + offset, b.num_elements, b.slot, b.mode});
}

inline std::string suffix_of(const GradientSum& sum) {
  return sum.micro_batch < 0 ? "" : " mb=" + std::to_string(sum.micro_batch);
}

// With float32 on the wire and one flat there is nothing to move: the sum is in place. Several flats are rebound into
// one buffer, so that one collective sums them. With another dtype writers move to a buffer of their own and readers
// get the sum: a transient range is written once, and the cast back would be the second time.
inline uint64_t sum_group_on_every_rank(const ProgramView& view, const Edit& edit, uint32_t stream, const Group& group,
                                        const GradientSum& sum) {
  const tsr_dtype dtype = view.raw.reduce_dtype;
  const std::string name = group.name + suffix_of(sum);
  const auto gradient = [&] { return edit.add_buffer(name, TSR_BUFFER_GRADIENT, TSR_F32, group.num_elements); };
  const uint64_t whole = group.flats.size() == 1 ? sum.buffers[0] : gradient();
  const uint64_t local = dtype == TSR_F32 ? whole : gradient();
  for (size_t i = 0; i < group.flats.size(); ++i) {
    if (local != whole) move_writers(view, edit, sum.buffers[i], local, group.base[i]);
    if (whole != sum.buffers[i]) edit.rebind(sum.buffers[i], whole, group.base[i]);
  }
  const Inserter after(edit, sum.last_writer, TSR_AFTER, sum.micro_batch);
  sum_on_every_rank(edit, after, dtype, stream, edit.group(view.raw.axis), name, {local, 0, group.num_elements},
                    {whole, 0, group.num_elements});
  return whole;
}

inline void broadcast_values(const ProgramView& view, const Edit& edit, uint32_t stream) {
  const Inserter end(edit, 0, TSR_AFTER);
  std::set<uint64_t> done;
  for (const tsr_home& home : view.homes()) {
    const uint64_t buffer = home.roles[TSR_HOME_VALUE].buffer;
    if (!buffer || !done.insert(buffer).second) continue;
    const tsr_binding whole = Range{buffer, 0, detail::buffer(view, buffer).num_elements}.in_place();
    end.collective(TSR_ACTION_BROADCAST, stream, edit.group(view.raw.axis), {&whole, 1}, 0);
  }
}

// Two shapes of program are told apart by whether anything adds into the home's gradient. reduce_every=step: backwards
// write it directly, and it is complete after its last writer. reduce_every=micro-batch: each micro-batch writes a
// buffer of its own, which an `add` then brings into the home, and each of them is a sum of its own.
inline GradientSums::GradientSums(const ProgramView& view) : view_(view) {
  for (size_t i = 0; i < view.actions().size(); ++i)
    for (const tsr_binding& b : ProgramView::bindings(view.actions()[i]))
      if (b.mode != TSR_MODE_READ) last_writer_[b.buffer] = i;
  for (size_t i = 0; i < view.actions().size(); ++i) {
    const tsr_action& action = view.actions()[i];
    const tsr_binding *from = detail::find(action, kSource), *to = detail::find(action, kDestination);
    if (action.kind == TSR_ACTION_ADD_INTO && from && to) adds_[to->buffer].push_back({i, from->buffer});
  }
}

inline std::vector<GradientSum> GradientSums::of(const Group& group) const {
  if (!group.first().gradient) return {};
  struct Found {
    std::vector<uint64_t> buffers;
    std::optional<size_t> last_writer;  // positions in the list
    std::vector<size_t> adds;
  };
  std::map<int, Found> by_micro_batch;
  const auto note = [&](int micro_batch, size_t flat, uint64_t buffer) -> Found& {
    Found& found = by_micro_batch[micro_batch];
    found.buffers.resize(group.flats.size());
    found.buffers[flat] = buffer;
    const auto writer = last_writer_.find(buffer);
    if (writer != last_writer_.end()) found.last_writer = std::max(found.last_writer.value_or(0), writer->second);
    return found;
  };
  for (size_t i = 0; i < group.flats.size(); ++i) {
    const auto adds = adds_.find(group.flats[i].gradient);
    if (adds == adds_.end())
      note(-1, i, group.flats[i].gradient);
    else
      for (const Add& add : adds->second)
        note(view_.actions()[add.position].micro_batch, i, add.source).adds.push_back(add.position);
  }
  std::vector<GradientSum> result;
  for (auto& [micro_batch, found] : by_micro_batch) {
    if (!found.last_writer) continue;  // the host's verifier will say that nothing writes it
    std::ranges::sort(found.adds);
    GradientSum sum{micro_batch, found.buffers, view_.actions()[*found.last_writer].id, {}};
    for (const size_t position : found.adds)
      sum.adds.push_back(&view_.actions()[position]);
    result.push_back(std::move(sum));
  }
  return result;
}

}  // namespace tessera::storage
