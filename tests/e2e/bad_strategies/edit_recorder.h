// What a real strategy inserts, noted and if need be changed: faults are planted in what it does.
#pragma once

#include <functional>
#include <vector>

#include "tessera/strategy.hpp"

namespace tessera::testing {

/// Passes every edit on. Not movable: the table points to it.
class EditRecorder {
 public:
  struct Inserted {
    uint64_t id = 0;
    tsr_action action{};  // without its lists
    std::vector<tsr_binding> bindings;
  };

  /// `change` may alter what is inserted.
  explicit EditRecorder(const Edit& edit, std::function<void(tsr_action&)> change = {})
      : inner_(edit.raw()), change_(std::move(change)), table_(edit.raw()) {
    table_.ctx = this;
    pass_on<&tsr_edit::add_stream>(&tsr_edit::add_stream);
    pass_on<&tsr_edit::add_group>(&tsr_edit::add_group);
    pass_on<&tsr_edit::add_buffer>(&tsr_edit::add_buffer);
    pass_on<&tsr_edit::remove>(&tsr_edit::remove);
    pass_on<&tsr_edit::bind>(&tsr_edit::bind);
    pass_on<&tsr_edit::rebind>(&tsr_edit::rebind);
    pass_on<&tsr_edit::set_role>(&tsr_edit::set_role);
    pass_on<&tsr_edit::replace_homes>(&tsr_edit::replace_homes);
    pass_on<&tsr_edit::split_backward>(&tsr_edit::split_backward);
    pass_on<&tsr_edit::order>(&tsr_edit::order);
    pass_on<&tsr_edit::wait_for>(&tsr_edit::wait_for);
    pass_on<&tsr_edit::collect_garbage>(&tsr_edit::collect_garbage);
    table_.insert = &insert;
  }
  EditRecorder(const EditRecorder&) = delete;

  Edit edit() const { return Edit(table_); }

  /// Those of a kind, in the order of the calls.
  std::vector<Inserted> of_kind(uint32_t kind) const {
    std::vector<Inserted> found;
    for (const Inserted& one : inserted_)
      if (one.action.kind == kind) found.push_back(one);
    return found;
  }

 private:
  template <auto kMember, class... Args>
  static tsr_status passed_on(void* ctx, Args... args) noexcept {
    const tsr_edit& inner = static_cast<EditRecorder*>(ctx)->inner_;
    return (inner.*kMember)(inner.ctx, args...);
  }
  template <auto kMember, class... Args>
  void pass_on(tsr_status (*tsr_edit::*)(void*, Args...) noexcept) {
    table_.*kMember = &passed_on<kMember, Args...>;
  }

  static tsr_status insert(void* ctx, uint64_t anchor, uint32_t where, const tsr_action* action, uint64_t* id,
                           tsr_error* err) noexcept {
    auto& self = *static_cast<EditRecorder*>(ctx);
    tsr_action changed = *action;
    if (self.change_) self.change_(changed);
    const tsr_status status = self.inner_.insert(self.inner_.ctx, anchor, where, &changed, id, err);
    if (status == TSR_OK)
      self.inserted_.push_back({*id, changed, {changed.bindings, changed.bindings + changed.num_bindings}});
    return status;
  }

  const tsr_edit& inner_;
  std::function<void(tsr_action&)> change_;
  tsr_edit table_;
  std::vector<Inserted> inserted_;
};

}  // namespace tessera::testing
