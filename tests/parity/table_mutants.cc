#include "base/concat.h"
#include "mutants.h"
#include "verify/diagnostics.h"

namespace tessera::testing {
namespace {

class TableMutator {
 public:
  TableMutator(const Program& program, std::vector<Mutant>& mutants) : program_(program), mutants_(mutants) {}

  void run() {
    change_config();
    for (size_t i = 0; i < program_.inputs.size(); ++i)
      exchange_input(i);
    for (size_t b = 0; b < program_.buffers.size(); ++b)
      change_buffer(b);
    for (size_t h = 0; h < program_.homes.size(); ++h) {
      for (const auto& [role, place] : program_.homes[h].roles)
        move_role(h, role);
      for (size_t p = 0; p < program_.homes[h].pieces.size(); ++p)
        change_piece(h, p);
    }
    for (size_t e = 0; e < program_.layout.size(); ++e)
      change_layout(e);
  }

 private:
  void add(const std::string& kind, const std::string& what, std::function<void(Program&)> change) {
    mutants_.push_back({kind, what, std::move(change)});
  }

  template <class T>
  void set_config(const char* name, T StepConfig::*field, T value) {
    add("config", concat(name, " -> ", value), [=](Program& p) { p.step_config.*field = value; });
  }
  void change_config() {
    const StepConfig& own = program_.step_config;
    set_config("beta1", &StepConfig::beta1, 0.5 * own.beta1);
    set_config("beta2", &StepConfig::beta2, 0.5 * own.beta2);
    set_config("epsilon", &StepConfig::epsilon, 1e3 * own.epsilon);
    set_config("weight_decay", &StepConfig::weight_decay, own.weight_decay + 0.5);
    set_config("max_norm", &StepConfig::max_norm, 0.5 * own.max_norm);
    set_config("optimizer", &StepConfig::optimizer, uint32_t{own.optimizer == TSR_OP_SGD ? TSR_OP_ADAMW : TSR_OP_SGD});
    set_config("num_micro_batches", &StepConfig::num_micro_batches, own.num_micro_batches + 1);
    set_config("reduce_every", &StepConfig::reduce_every,
               uint32_t{own.reduce_every == TSR_EVERY_STEP ? TSR_EVERY_MICRO_BATCH : TSR_EVERY_STEP});
  }

  void exchange_input(size_t i) {
    for (size_t other = i + 1; other < program_.inputs.size(); ++other)
      add("input", concat(i, " exchanged with ", other),
          [=](Program& p) { std::swap(p.inputs[i].buffer, p.inputs[other].buffer); });
  }

  template <class T>
  void set_buffer(size_t b, const char* name, T Buffer::*field, T value) {
    add("buffer", concat(name, " of ", buffer_text(program_.buffers[b]), " -> ", value),
        [=](Program& p) { p.buffers[b].*field = value; });
  }
  void change_buffer(size_t b) {
    const Buffer& own = program_.buffers[b];
    for (const tsr_dtype dtype : {tsr_dtype{TSR_F32}, tsr_dtype{TSR_BF16}, tsr_dtype{TSR_F16}, tsr_dtype{TSR_I32}})
      if (dtype != own.dtype) set_buffer(b, "dtype", &Buffer::dtype, dtype);
    set_buffer(b, "persistent", &Buffer::persistent, !own.persistent);
    set_buffer(b, "size", &Buffer::num_elements, own.num_elements - 1);
    set_buffer(b, "kind", &Buffer::kind,
               uint32_t{own.kind == TSR_BUFFER_GRADIENT ? TSR_BUFFER_HOME : TSR_BUFFER_GRADIENT});
    set_buffer(b, "kind", &Buffer::kind, uint32_t{TSR_BUFFER_PLUGIN});
  }

  void move_role(size_t h, uint32_t role) {
    const Home& home = program_.homes[h];
    const std::string what = concat(home_role_name(role), " of ", home.name, " -> ");
    const HomeRole& own = home.roles[role];
    if (own.buffer == 0) return;
    add("home role", concat(what, "an element before"), [=](Program& p) { --p.homes[h].roles[role].offset; });
    for (const Buffer& other : program_.buffers)
      if (other.id != own.buffer && other.num_elements == program_.buffer(own.buffer).num_elements && other.persistent)
        add("home role", concat(what, buffer_text(other)),
            [=, id = other.id](Program& p) { p.homes[h].roles[role].buffer = id; });
  }

  void change_piece(size_t h, size_t piece) {
    const auto change = [&](const char* what, void (*by)(tsr_piece&)) {
      add("piece", concat(what, " of piece ", piece, " of home ", program_.homes[h].name),
          [=](Program& p) { by(p.homes[h].pieces[piece]); });
    };
    change("parameter", [](tsr_piece& p) { ++p.parameter; });
    change("parameter", [](tsr_piece& p) { --p.parameter; });
    change("element", [](tsr_piece& p) { ++p.parameter_offset; });
    change("element", [](tsr_piece& p) { --p.parameter_offset; });
    change("place", [](tsr_piece& p) { ++p.home_offset; });
    change("length", [](tsr_piece& p) { --p.num_elements; });
    add("piece", concat("left out: ", piece, " of home ", program_.homes[h].name),
        [=](Program& p) { p.homes[h].pieces.erase(p.homes[h].pieces.begin() + static_cast<ptrdiff_t>(piece)); });
  }

  void change_layout(size_t e) {
    const LayoutEntry& own = program_.layout[e];
    const std::string of = concat("entry ", e, ": ");
    for (uint32_t kind = TSR_LAYOUT_REPLICATED; kind <= TSR_LAYOUT_DIVERGENT; ++kind)
      if (kind != own.kind) add("layout", concat(of, "kind -> ", kind), [=](Program& p) { p.layout[e].kind = kind; });
    for (const uint32_t role : {TSR_HOME_VALUE, TSR_HOME_GRADIENT, TSR_HOME_M, TSR_HOME_V})
      if (own.roles & (1u << role))
        add("layout", concat(of, "without ", home_role_name(role)),
            [=](Program& p) { p.layout[e].roles &= ~(1u << role); });
    add("layout", concat(of, "dim"), [=](Program& p) { p.layout[e].dim = p.layout[e].dim == 0 ? 1 : 0; });
    add("layout", concat(of, "left out"),
        [=](Program& p) { p.layout.erase(p.layout.begin() + static_cast<ptrdiff_t>(e)); });
  }

  const Program& program_;
  std::vector<Mutant>& mutants_;
};

}  // namespace

void add_table_mutants(const Program& program, std::vector<Mutant>& mutants) {
  TableMutator(program, mutants).run();
}

}  // namespace tessera::testing
