// A step of one action a visit, from a table of uses, and what movement makes of it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "offload/copies.h"
#include "offload/movement.h"
#include "support/program_builder.h"

namespace tessera::testing {

inline const Mesh kOneRank({{"dp", 1}});

/// "compute", or "evict t host" and the like, of each action.
inline std::vector<std::string> words(const Program& program) {
  std::vector<std::string> result;
  for (const Action& action : program.actions) {
    const bool sums_squares = action.kind == TSR_ACTION_SUM_SQUARES;
    std::string word = sums_squares ? "squares" : program.streams[action.stream].name;
    if (sums_squares || is_movement(program, action)) word += " " + program.buffer(action.bindings[0].buffer).name;
    result.push_back(word);
  }
  return result;
}

/// One action a visit; each binds the whole of the buffers it names, in modes of "r", "w" and "a", or sums its squares,
/// "s". Names that begin with 'p' are of persistent buffers.
class SmallStep {
 public:
  explicit SmallStep(std::vector<std::map<std::string, char>> actions) {
    for (const auto& uses : actions) {
      std::vector<Use> bound;
      bool sums_squares = false;
      for (const auto& [name, mode] : uses) {
        if (!ids_[name]) ids_[name] = name[0] == 'p' ? persistent(program, name, 64) : transient(program, name, 64);
        sums_squares |= mode == 's';
        bound.push_back(mode == 'w' ? write(ids_[name]) : mode == 'a' ? add(ids_[name]) : read(ids_[name]));
      }
      visits.push_back({visits.size(), visits.size(), TSR_VISIT_FORWARD, -1, 0, 0, 0, 0, 0});
      add_action(program, sums_squares ? TSR_ACTION_SUM_SQUARES : TSR_ACTION_ZERO, TSR_STREAM_COMPUTE, bound);
    }
  }

  SmallStep& leave(const std::string& name, uint32_t after, uint32_t ahead, uint32_t linger) {
    leaves_.push_back(answer(name, after, ahead, linger));
    return *this;
  }
  tsr_leave answer(const std::string& name, uint32_t after, uint32_t ahead, uint32_t linger) const {
    return {ids_.at(name), after, TSR_MEMORY_HOST, ahead, linger};
  }
  const std::vector<tsr_leave>& leaves() const { return leaves_; }
  const Buffer& buffer(const std::string& name) const { return program.buffer(ids_.at(name)); }
  std::vector<std::string> moved() {
    move_items(program, visits, leaves_);
    return words(program);
  }

  const Model model = toy_model();
  Program program = empty_program(model, kOneRank);
  std::vector<tsr_visit> visits;

 private:
  std::map<std::string, uint64_t> ids_;
  std::vector<tsr_leave> leaves_;
};

using Words = std::vector<std::string>;

}  // namespace tessera::testing
