// Edits a private copy of a program, as the entries of the edit table ask. Internal to compile/. Implemented in
// rewriter.cc; edits that replace homes in rewriter_homes.cc, those that split a backward in rewriter_split.cc.
#pragma once

#include <list>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "passes/build_program.h"
#include "program/program.h"
#include "tessera/strategy.h"

namespace tessera::host {

/// The functions are those of tsr_edit (tessera/program.h); all throw INVALID_ARGUMENT for an edit that is not valid.
class Rewriter {
 public:
  /// `strategy`: index of the one that edits, which its own buffers are for; -1: none.
  Rewriter(Program program, const DescribeOp& describe, int strategy);
  /// The edited program, to be called once.
  Program take();

  uint32_t add_stream(int32_t axis, std::string_view lane);
  int32_t add_group(const tsr_group& group);
  uint64_t add_buffer(const tsr_buffer& buffer);
  uint64_t insert(uint64_t anchor, uint32_t where, const tsr_action& action);
  void remove(uint64_t action);
  void bind(uint64_t action, const tsr_binding& binding);
  void rebind(uint64_t from, uint64_t to, uint64_t offset);
  void set_role(uint64_t home, const tsr_home_role& role);
  uint64_t replace_homes(const std::vector<uint64_t>& homes, const tsr_home* replacement);
  std::pair<uint64_t, uint64_t> split_backward(uint64_t action);
  void order(const std::vector<uint64_t>& actions);
  void wait_for(uint64_t action, uint64_t earlier);
  void collect_garbage();
  uint64_t complete(uint64_t home);
  void describe_state(uint64_t buffer, const tsr_state_description& state);

 private:
  using Position = std::list<Action>::iterator;
  struct Anchored {
    Position position;
    Position last_after;      // the next insert after this anchor goes after it
    uint64_t inserted_after;  // the anchor it was inserted after, or 0
  };

  Action& action(uint64_t id);
  Buffer& buffer(uint64_t id);
  Home& home(uint64_t id);
  void check_binding(const tsr_binding& binding);
  void check_binding(const Action& action, const tsr_binding& b);
  HomeRole place_of(const tsr_home_role& role);
  Home copy_of(const tsr_home& home);
  void check_is_member(const tsr_action& action);
  Action copy_of(const tsr_action& action);
  void index(Position position, uint64_t inserted_after = 0);
  std::vector<uint64_t> actions_on(const std::vector<uint64_t>& homes);
  void number_actions();
  void erase_replaced_homes();
  void bind_home_action(Action& action, const Home& from, const Home& to);
  uint64_t half_of(const Action& whole, uint32_t kind, std::vector<uint64_t>& contexts);

  Program program_;  // its action list is empty until take()
  const DescribeOp& describe_;
  const int strategy_;
  std::list<Action> actions_;
  std::unordered_map<uint64_t, Anchored> by_id_;
  std::unordered_map<uint64_t, std::vector<uint64_t>> on_home_;  // the actions that name a home
  std::unordered_set<uint64_t> replaced_homes_;                  // that program_ still has
  std::vector<uint32_t> turns_;  // by id: the order of those actions that number_actions() has seen; 0: not seen
  Position first_;               // inserts at the start of the program go before this
};

}  // namespace tessera::host
