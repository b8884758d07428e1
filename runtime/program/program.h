// The program of a step: buffers, actions, homes, streams, groups. Its semantics are those of the list of actions, run
// from top to bottom; streams and dependencies only let actions overlap.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "config/recompute_option.h"
#include "mesh/mesh.h"
#include "model/model.h"
#include "program/strategy_on_axis.h"
#include "tessera/program.h"

namespace tessera::host {

/// What a strategy says of its own state (tsr_state_description).
struct StateDescription {
  uint32_t version = 0;
  uint32_t on_change = TSR_ON_CHANGE_RESET;
  bool operator==(const StateDescription&) const = default;
};

struct Buffer {
  uint64_t id = 0;
  std::string name;  ///< for printing
  uint32_t kind = 0;
  uint32_t memory = TSR_MEMORY_DEVICE;
  tsr_dtype dtype = TSR_F32;
  bool persistent = false;
  uint64_t num_elements = 0;
  int strategy = -1;            ///< TSR_BUFFER_PLUGIN: index in Program::strategies of the one whose it is
  StateDescription state = {};  ///< of a persistent one of a strategy

  uint64_t num_bytes() const { return TSR_NUM_BYTES(dtype, num_elements); }
};

using Binding = tsr_binding;

/// The slots of copies, casts, adds and zeros.
inline constexpr uint32_t kSource = TSR_SLOT(TSR_ROLE_SOURCE, 0), kDestination = TSR_SLOT(TSR_ROLE_DESTINATION, 0);

/// Whether two ranges have elements in common.
inline bool overlap(const Binding& a, const Binding& b) {
  return a.buffer == b.buffer && a.offset < b.offset + b.num_elements && b.offset < a.offset + a.num_elements;
}

struct Action {
  uint64_t id = 0;
  uint32_t kind = 0;
  uint32_t stream = TSR_STREAM_COMPUTE;
  int segment = -1;
  int micro_batch = -1;
  int group = -1;
  int peer = -1;
  uint32_t reduce = 0;
  uint32_t flags = 0;
  uint64_t home = 0;
  uint64_t tag = 0;
  double scale = 0;
  int strategy = -1;  ///< of a call: index in Program::strategies
  uint32_t code = 0;  ///< of a call: the code of addends that it makes or takes
  std::vector<Binding> bindings;
  std::vector<uint64_t> counts;
  std::vector<int32_t> peers;
  /// Indices (< own) of the actions this one must wait for beyond its stream's order; written by derive_dependencies
  /// and the memory planner, never by a pass.
  std::vector<uint32_t> dependencies;
  /// Ids of actions before this one that a pass wants it to wait for beyond what their bindings ask for.
  std::vector<uint64_t> waits_for;

  const Binding* find(uint32_t slot) const;
};

struct Stream {
  std::string name;
  int axis = TSR_WORLD_AXIS;
  uint32_t kind = TSR_STREAM_KIND_DEVICE;
};

/// The range in which a home keeps one role; buffer 0: it has no such role.
struct HomeRole {
  uint64_t buffer = 0, offset = 0, num_elements = 0;
};

/// Numbers of roles are below this: a layout entry has a bit for each.
inline constexpr uint32_t kMaxHomeRoles = 32;

/// The roles of a home by number (TSR_HOME_*), ascending. A vector, since programs with hundreds of homes are copied.
class HomeRoles {
 public:
  HomeRole& operator[](uint32_t number);  ///< made when it is not there, which moves the others
  const HomeRole& operator[](uint32_t number) const;
  auto begin() { return roles_.begin(); }
  auto end() { return roles_.end(); }
  auto begin() const { return roles_.begin(); }
  auto end() const { return roles_.end(); }

 private:
  std::vector<std::pair<uint32_t, HomeRole>> roles_;
};

/// "value", "gradient", "m", "v", "state 2"; "role 7" for one without a name.
std::string home_role_name(uint32_t number);

/// A home: the local shard of some parameters with its gradient and optimizer state. `unit` is the first one's.
struct Home {
  uint64_t id = 0;
  std::string name;
  int unit = -1;
  std::vector<tsr_piece> pieces;
  uint64_t num_elements = 0;
  HomeRoles roles;
};

/// The `parameter` of a layout entry that splits a dim of values by its name: TSR_DIM_ROWS (sequence parallelism).
inline constexpr int kNamedDim = -1;

/// A range of a home that holds elements of one parameter. One of a split tensor joins many pieces.
struct HomeRange {
  int parameter = -1;
  uint64_t home_offset = 0, num_elements = 0;
};
std::vector<HomeRange> ranges_of(const Home& home);

/// The role with the float32 values that training changes: beside a MASTER the VALUE is a copy of 16 bits.
const HomeRole& role_of_values(const Home& home);

/// One entry of a parameter's layout; see tsr_layout_entry.
struct LayoutEntry {
  int parameter = -1;
  int axis = -1;
  uint32_t roles = TSR_ALL_HOME_ROLES;
  uint32_t kind = TSR_LAYOUT_REPLICATED;
  int dim = -1;
  uint32_t parts = 1;
  uint32_t blocks = 1;
  std::vector<int> coordinates;
  uint64_t padded_size = 0;
  uint32_t name = 0;  ///< of kNamedDim: TSR_DIM_*
};

/// The layout of every parameter, in order of application; equal on all ranks.
using Layout = std::vector<LayoutEntry>;

/// How a step is computed, besides model and mesh.
struct StepConfig {
  uint32_t num_micro_batches = 1;
  uint32_t reduce_every = TSR_EVERY_STEP;
  tsr_dtype dtype = TSR_F32;
  tsr_dtype reduce_dtype = TSR_F32;
  uint32_t optimizer = TSR_OP_ADAMW;  ///< TSR_OP_ADAMW or TSR_OP_SGD
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;
  double weight_decay = 0;  ///< on tensors with two or more dims
  double max_norm = 0;      ///< gradient clipping; 0 = off
  Recompute recompute;      ///< what the backward computes again
};

/// A buffer that is filled from outside before each run: one input of the model, of one micro-batch.
struct InputBuffer {
  uint64_t buffer = 0;
  int input = -1;  ///< index in Model::inputs()
  int micro_batch = -1;
};

/// One program of one rank. Copyable; model and mesh are borrowed and outlive it.
struct Program {
  const Model* model = nullptr;
  const Mesh* mesh = nullptr;
  Coordinates coordinates;
  StepConfig step_config;
  std::vector<StrategyOnAxis> strategies;  ///< of the job, equal in all programs
  uint32_t purpose = TSR_PURPOSE_STEP;
  uint32_t variant = 0;
  Layout layout;
  std::vector<Buffer> buffers;      ///< ascending ids
  std::vector<InputBuffer> inputs;  ///< by micro-batch, then input; every rank has all
  std::vector<Home> homes;
  std::vector<Stream> streams = {{"compute"}, {"copy_in"}, {"copy_out"}};  ///< then those that passes add
  std::vector<Group> groups;
  std::vector<Action> actions;
  uint64_t next_id = 1;
  std::string host_flag;  ///< the flag that makes actions run on the host; empty: none do

  /// Throws INTERNAL for an unknown id: passes are checked before.
  const Buffer& buffer(uint64_t id) const;
  const Home& home(uint64_t id) const;
  uint64_t add_buffer(Buffer buffer);  ///< assigns the next id
  /// Index of the comm stream "comm.<axis or world>.<lane>", made on first use.
  uint32_t comm_stream(int axis, std::string_view lane);
  /// Index of the stream of that name, made on first use.
  uint32_t device_stream(std::string_view name);
  uint32_t host_stream(std::string_view name);
  int group(const Group& group);  ///< index, made on first use
  /// Erases the buffers, transient or of homes, that neither `actions` nor homes use.
  template <class Actions>
  void erase_unused_buffers(const Actions& actions);

 private:
  uint32_t stream(Stream wanted);  // by name
};

template <class Actions>
void Program::erase_unused_buffers(const Actions& all) {
  std::unordered_set<uint64_t> used;
  for (const Action& action : all)
    for (const Binding& b : action.bindings)
      used.insert(b.buffer);
  for (const Home& home : homes)
    for (const auto& [number, role] : home.roles)
      used.insert(role.buffer);
  std::erase_if(buffers, [&](const Buffer& b) {
    const bool is_of_homes = b.kind == TSR_BUFFER_HOME || b.kind == TSR_BUFFER_OPTIMIZER;
    return (!b.persistent || is_of_homes) && !used.contains(b.id);
  });
}

inline bool is_compute(uint32_t kind) {
  return kind >= TSR_ACTION_FORWARD && kind <= TSR_ACTION_LOSS;
}
inline bool is_backward(uint32_t kind) {
  return kind >= TSR_ACTION_BACKWARD && kind <= TSR_ACTION_BACKWARD_WEIGHT;
}
inline bool is_collective(uint32_t kind) {
  return kind >= TSR_ACTION_ALL_REDUCE && kind <= TSR_ACTION_BARRIER;
}
inline bool is_elementwise(uint32_t kind) {
  return kind >= TSR_ACTION_COPY && kind <= TSR_ACTION_ZERO;
}

/// Whether actions of this kind have the same results on every device (TSR-DEVICE-011), so that the host may run them.
inline bool has_equal_bits_everywhere(uint32_t kind) {
  return is_elementwise(kind) || kind == TSR_ACTION_SUM_SQUARES || kind == TSR_ACTION_OPTIMIZER;
}

/// "strategy fsdp on axis dp"; of several "strategies pipeline on axis pp and fsdp on axis dp"; "no strategy".
std::string strategies_text(const Mesh& mesh, std::span<const StrategyOnAxis> strategies);

/// "init", "step", "step 1" (the second variant), "eval".
std::string program_name(const Program& program);

/// "device", "host", "file"; "memory 7" for one without a name.
std::string memory_name(uint32_t memory);

/// "all_reduce", "home", "f32", ...; all throw INVALID_ARGUMENT for an unknown number.
std::string_view action_name(uint32_t kind);
std::string_view buffer_kind_name(uint32_t kind);
std::string_view dtype_name(tsr_dtype dtype);

/// The state of a parameter's role (TSR_HOME_*) on an axis: its last layout entry, or null when it is replicated over
/// all of the axis.
const LayoutEntry* entry_on(const Program& program, int parameter, int axis, uint32_t role);
/// Whether ranks of its axis have slices by an entry; where an axis splits tensors, a rank's part counts as whole.
bool is_sliced_by(const LayoutEntry& entry, const Mesh& mesh);

/// The names by which a step's scalar buffers are found. Every step has all but the last two.
inline constexpr std::string_view kLossAccumulator = "loss";
inline constexpr std::string_view kSquaresAccumulator = "squares";
inline constexpr std::string_view kClipResult = "clip";
inline constexpr std::string_view kOptimizerStep = "optimizer_step";
inline constexpr std::string_view kLearningRate = "lr";
inline constexpr std::string_view kCorrectCount = "correct";  ///< int64[1], of classifiers
inline constexpr std::string_view kLossScale = "loss_scale";  ///< float64[1], in steps with dynamic loss scaling
/// Id of the buffer of that kind and name, 0 if there is none.
uint64_t find_buffer(const Program& program, uint32_t kind, std::string_view name);

}  // namespace tessera::host
