// Layout, local model, base program, then the passes by role. Under fsdp the line of the base program
//
//     compute           forward wpe mb=0  r %4 p:weight  ...        %4 = home wpe persistent f32[2048]
//
// is lowered to
//
//     comm.dp.gather    all_gather group=dp  r %9 src  w %24 dst    %9 = home wpe persistent f32[1024]
//     compute           forward wpe mb=0  r %24 p:weight  ...       %24 = gathered wpe f32[2048]
//
// Invariant: the later stages (compile.cc) give the same result for ranks whose programs are equal here, so only one of
// them is finished: under zero3 that saves the ranks that own nothing, 973 of 1,024 for gpt2_xl.
//
// Cost: a base program for each part of the model and purpose; the passes, each with a copy, for each rank and variant.

#include "compile/lower.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/concat.h"
#include "base/sha256.h"
#include "config/default_plugins.h"
#include "config/usage_error.h"
#include "guard/known_functions.h"
#include "guard/plugin_calls.h"
#include "guard/process_state.h"
#include "passes/dce.h"
#include "passes/divergence.h"
#include "passes/recompute.h"
#include "passes/shard_model.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

/// Each variant is a program of its own, which is planned, checked and kept.
constexpr uint32_t kMaxVariants = 4096;

/// Two strategies with periods of their own would need a program for each pair of variants, so only one may alternate.
uint32_t num_variants(const Mesh& mesh, std::span<const StrategyOnAxis> order) {
  uint32_t variants = 1;
  const StrategyOnAxis* alternating = nullptr;
  for (const StrategyOnAxis& strategy : order) {
    if (!TSR_HAS_FN(strategy.interface, tsr_strategy_interface, num_variants)) continue;
    ProcessState before;
    const uint32_t own = enter(strategy.interface->num_variants, strategy.instance);
    if (const std::string change = before.restore(); !change.empty())
      throw_change(address_of(strategy.interface->num_variants), change, "");
    if (own > kMaxVariants)
      throw Error(TSR_E_INVALID_ARGUMENT, concat(strategies_text(mesh, {&strategy, 1}), " asks for ", own,
                                                 " variants of a step; the limit is ", kMaxVariants));
    if (own <= 1) continue;
    const auto named = [&](const StrategyOnAxis& s) { return mesh.axes()[s.axis].name + "=" + s.name; };
    if (alternating)
      throw UsageError(concat("--strategy ", named(*alternating), ",", named(strategy),
                              ": both alternate between step programs, and only one axis may; give the other one ",
                              kDefaultStrategy));
    alternating = &strategy;
    variants = own;
  }
  return variants;
}

/// A hash of the fields of programs in a fixed order, as words. Left out is what all ranks of a job share (mesh, shape,
/// strategies). The model differs only over axes that split tensors, so the coordinates there identify it.
class ProgramHash {
 public:
  void add(const Program& program) {
    add_all({program.purpose, program.variant, program.next_id});
    for (size_t axis = 0; axis < program.coordinates.size(); ++axis)
      if (program.mesh->axes()[axis].splits == TSR_SPLITS_TENSORS) add_number(program.coordinates[axis]);
    add_each(program.buffers, [&](const Buffer& b) {
      add_all({b.id, b.kind, b.memory, b.dtype, b.persistent, b.num_elements});
      add_number(b.strategy);
      add_text(b.name);
    });
    add_each(program.inputs, [&](const InputBuffer& i) {
      add_all({i.buffer});
      add_number(i.input), add_number(i.micro_batch);
    });
    add_each(program.homes, [&](const Home& home) { add_home(home); });
    add_each(program.streams, [&](const Stream& s) {
      add_text(s.name);
      add_number(s.axis), add_all({s.kind});
    });
    add_each(program.groups, [&](const Group& g) {
      add_number(g.axis);
      add_each(g.coordinates, [&](int c) { add_number(c); });
    });
    add_each(program.actions, [&](const Action& action) { add_action(action); });
  }

  /// Equal for all ranks, or verify_common says so of those that are planned.
  void add(const Layout& layout) {
    add_each(layout, [&](const LayoutEntry& e) {
      for (const int number : {e.parameter, e.axis, e.dim})
        add_number(number);
      add_all({e.roles, e.kind, e.parts, e.blocks, e.name, e.padded_size});
      add_each(e.coordinates, [&](int c) { add_number(c); });
    });
  }

  /// As Sha256::hex().
  std::string hex() {
    pass_on();
    return hash_.hex();
  }

 private:
  static constexpr size_t kMaxWords = 4096;  // few enough to stay in a cache

  void pass_on() {
    hash_.add(std::as_bytes(std::span(words_)));
    words_.clear();
  }

  void add_number(int64_t number) { words_.push_back(static_cast<uint64_t>(number)); }
  void add_all(std::initializer_list<uint64_t> words) { words_.insert(words_.end(), words); }
  void add_text(std::string_view text) {
    words_.push_back(text.size());
    const size_t begin = words_.size();
    words_.resize(begin + (text.size() + sizeof(uint64_t) - 1) / sizeof(uint64_t));
    text.copy(reinterpret_cast<char*>(words_.data() + begin), text.size());
  }
  template <class All, class Add>
  void add_each(const All& all, Add&& add) {
    words_.push_back(all.size());
    for (const auto& one : all)
      add(one);
    if (words_.size() > kMaxWords) pass_on();
  }

  void add_home(const Home& home) {
    add_all({home.id, home.num_elements});
    add_number(home.unit);
    add_text(home.name);
    add_each(home.pieces, [&](const tsr_piece& p) {
      add_number(p.parameter);
      add_all({p.parameter_offset, p.home_offset, p.num_elements});
    });
    for (const auto& [number, role] : home.roles)
      add_all({number, role.buffer, role.offset, role.num_elements});
    words_.push_back(UINT64_MAX);  // no role has this number
  }

  void add_action(const Action& a) {
    add_all({a.id, a.kind, a.stream, a.reduce, a.flags, a.home, a.tag, a.code, std::bit_cast<uint64_t>(a.scale)});
    for (const int number : {a.segment, a.micro_batch, a.group, a.peer, a.strategy})
      add_number(number);
    add_each(a.bindings, [&](const Binding& b) {
      add_all({b.buffer, b.offset, b.num_elements, uint64_t{b.slot} << 32 | b.mode});
    });
    add_each(a.counts, [&](uint64_t count) { words_.push_back(count); });
    add_each(a.peers, [&](int32_t peer) { add_number(peer); });
    add_each(a.waits_for, [&](uint64_t id) { words_.push_back(id); });
  }

  std::vector<uint64_t> words_;  // that are not in the hash yet
  Sha256 hash_;
};

}  // namespace

Lowering::Part& Lowering::part_at(const Coordinates& coordinates, const Layout& layout) {
  Part& part = parts_[input_.mesh.on_axes_that_split(TSR_SPLITS_TENSORS, coordinates)];
  if (part.model) return part;
  Model local = shard_model(input_.model, input_.mesh, coordinates, layout);
  scale_loss_of_own_tokens(local, input_.mesh, divergent_axes(input_.model, input_.mesh, layout));
  part.model = std::make_shared<const Model>(std::move(local));
  return part;
}

Program Lowering::lower(Part& part, const Coordinates& coordinates, const Layout& layout, uint32_t purpose,
                        uint32_t variant) {
  auto base = part.base.find(purpose);
  if (base == part.base.end()) {
    Program program =
        build_program(*part.model, input_.mesh, coordinates, input_.step_config, {}, purpose, input_.describe_op);
    program.strategies.assign(input_.strategies.begin(), input_.strategies.end());
    eliminate_dead_code(program);
    base = part.base.try_emplace(purpose, std::move(program)).first;
  }
  base->second.move_to(coordinates, layout, variant);
  const std::span order(order_);
  const auto num_schedules = static_cast<size_t>(
      std::ranges::count_if(order, [](const StrategyOnAxis& s) { return s.interface->role == TSR_STRATEGY_SCHEDULE; }));
  if (num_schedules == 0 && !recomputes(base->second.program()))
    return base->second.after_passes(order, input_.describe_op);
  Program program = base->second.after_passes(order.first(num_schedules), input_.describe_op);
  recompute_forward(program, input_.describe_op);
  for (const StrategyOnAxis& strategy : order.subspan(num_schedules))
    run_pass(program, strategy, input_.describe_op);
  return program;
}

LoweredPrograms Lowering::lower(const Coordinates& coordinates) {
  const Layout layout = layout_.at(coordinates);
  Part& part = part_at(coordinates, layout);
  LoweredPrograms result;
  result.model = part.model;
  const auto lowered = [&](uint32_t purpose, uint32_t variant) {
    return lower(part, coordinates, layout, purpose, variant);
  };
  if (!num_steps_) num_steps_ = input_.trains ? num_variants(input_.mesh, order_) : 0;
  for (uint32_t variant = 0; variant < *num_steps_; ++variant)
    result.steps.push_back(lowered(TSR_PURPOSE_STEP, variant));
  result.init = lowered(TSR_PURPOSE_INIT, 0);
  if (input_.evaluates) result.eval = lowered(TSR_PURPOSE_EVAL, 0);
  return result;
}

std::vector<const Program*> LoweredPrograms::all() const {
  return programs_of(*this);
}

std::string digest_of(const LoweredPrograms& programs) {
  ProgramHash hash;
  hash.add(programs.init.layout);
  for (const Program* program : programs.all())
    hash.add(*program);
  return hash.hex();
}

}  // namespace tessera::host
