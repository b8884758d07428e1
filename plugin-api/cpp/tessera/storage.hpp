// What passes that split the storage of parameters share: which homes share one buffer, when a whole copy of it has to
// be there, and when its gradient is complete. Where the copy comes from and where the sum goes is the strategy's own.
//
// fsdp over two ranks, from tests/golden/programs/two-blocks-fsdp-full-shard.txt. In the base program buffer h.0 is
// whole, f32[13312], and compute actions read it. Afterwards each rank has a slice and gathers a copy before its use:
//     %10 = home h.0 persistent f32[6656]
//     %26 = gathered h.0 f32[13312]
//     4     comm.dp.gather      all_gather group=dp  r %10 src  w %26 dst  # 3
//     8     compute             forward h.0.qkv mb=0  r %26+256:3072 p:attn.c_attn.weight  ...
//     52    comm.dp.gradient    reduce_scatter group=dp reduce=sum  r %90 src  w %101 dst  w %102 w:0  # 51
//
// The order of use: flats_of, sorted into Groups by the strategy; plan_gatherings for where copies are made (PyTorch's
// FSDP calls that unshard and reshard); GradientSums for where gradients are complete. All of it reads the view as it
// was at the start of the pass, and writes through Edit. Time and memory are linear in the actions, but for the
// planner, which looks back over the copies made before: quadratic in the number of gathers of a program.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/strategy.hpp"

namespace tessera::storage {

inline constexpr uint32_t kSource = TSR_SLOT(TSR_ROLE_SOURCE, 0);
inline constexpr uint32_t kDestination = TSR_SLOT(TSR_ROLE_DESTINATION, 0);

/// A range of a buffer, in elements.
struct Range {
  uint64_t buffer = 0;
  uint64_t offset = 0;
  uint64_t num_elements = 0;

  tsr_binding source() const { return {buffer, offset, num_elements, kSource, TSR_MODE_READ}; }
  tsr_binding destination() const { return {buffer, offset, num_elements, kDestination, TSR_MODE_WRITE}; }
  tsr_binding in_place() const { return {buffer, offset, num_elements, kDestination, TSR_MODE_ADD}; }
  tsr_home_role role() const { return buffer ? tsr_home_role{buffer, offset, num_elements} : tsr_home_role{}; }
};

/// Inserts actions one after another at one place; they are for `micro_batch`, or for the step.
class Inserter {
 public:
  Inserter(const Edit& edit, uint64_t anchor, uint32_t where, int micro_batch = -1)
      : edit_(edit), anchor_(anchor), where_(where), micro_batch_(micro_batch) {}

  void collective(uint32_t kind, uint32_t stream, int32_t group, std::span<const tsr_binding> bindings,
                  int32_t root = -1) const {
    tsr_action action = make_action(kind, stream);
    action.micro_batch = micro_batch_;
    action.group = group;
    action.peer = root;
    const bool reduces =
        kind == TSR_ACTION_ALL_REDUCE || kind == TSR_ACTION_REDUCE_SCATTER || kind == TSR_ACTION_REDUCE;
    action.reduce = reduces ? TSR_REDUCE_SUM : 0;
    edit_.insert(anchor_, where_, action, bindings);
  }
  void cast(const Range& from, const Range& to) const {
    const tsr_binding bindings[] = {from.source(), to.destination()};
    tsr_action action = make_action(TSR_ACTION_CAST, TSR_STREAM_COMPUTE);
    action.micro_batch = micro_batch_;
    edit_.insert(anchor_, where_, action, bindings);
  }

 private:
  const Edit& edit_;
  uint64_t anchor_;
  uint32_t where_;
  int micro_batch_;
};

/// The homes whose values share one buffer: what the host laid out as one flat range. Every role has its own buffer,
/// laid out alike.
struct Flat {
  const tsr_buffer* value = nullptr;
  const tsr_buffer* copy = nullptr;  ///< what is computed with instead, cast from `value` by the action `cast`
  uint64_t cast = 0;
  uint64_t gradient = 0, m = 0, v = 0;  ///< buffers; 0: there is none
  std::vector<const tsr_home*> homes;   ///< ascending offsets

  uint64_t num_elements() const { return value->num_elements; }
  /// What compute actions read.
  const tsr_buffer& computed_with() const { return copy ? *copy : *value; }
};

/// The flats of a program, in order of their buffers. Throws UNSUPPORTED when another pass has split them already.
std::vector<Flat> flats_of(const ProgramView& view);

/// Whether some of it is replicated on listed coordinates of an axis (a tied embedding on two stages): ranks there
/// complete its gradient together, so it may not be mixed with what is on one of them only.
bool stands_on_several_stages(const ProgramView& view, const Flat& flat);

/// Flats that are gathered and reduced together, one after another: `base[i]` is where flat i starts. Larger groups
/// mean fewer, larger collectives and more memory at once.
struct Group {
  std::string name;
  std::vector<Flat> flats;
  std::vector<uint64_t> base;
  uint64_t num_elements = 0;

  void add(const Flat& flat);
  const Flat& first() const { return flats.front(); }
  bool trains() const { return first().m != 0 || first().gradient != 0; }
  std::vector<uint64_t> home_ids() const;
};

/// When whole copies are made and how long they are kept.
struct GatherOptions {
  enum class Backward {
    pre,   ///< before the compute of the unit that is `prefetch` ahead
    post,  ///< after it
    none,  ///< just in time
  };
  bool keep = false;      ///< one copy for all of the program
  uint64_t prefetch = 1;  ///< how many units ahead
  Backward backward = Backward::pre;
  uint64_t limit = 0;             ///< most copies alive at once; 0: what prefetch needs
  bool keep_in_pipeline = false;  ///< reshard-after-forward=auto
};
/// From the options prefetch, backward-prefetch, limit-all-gathers, reshard-after-forward (auto|true|false).
GatherOptions read_gather_options(std::span<const tsr_option_value> options);
/// With pipelining each unit is used once per micro-batch, far apart, so resharding after forward multiplies the
/// all-gathers, and a stage's part of the model is small already. So parameters are kept gathered there, unless the
/// options say otherwise. Throws INVALID_ARGUMENT, naming `strategy`, for a limit on what is kept.
GatherOptions options_in_mesh(GatherOptions options, const ProgramView& view, std::string_view strategy);

/// An operand that reads a group's parameters; `offset` is into the group.
struct Use {
  uint64_t action;
  tsr_binding binding;
  uint64_t offset;
};

/// One whole copy of a group: made before the action `anchor`, for `uses`.
struct Gathering {
  size_t group;
  uint64_t anchor;
  std::vector<Use> uses;
};

/// The copies that the program's compute actions need, in the order in which they are made. A copy serves uses that no
/// use of another group comes between, and later ones if it is still there when the next copy would be made. Throws
/// INVALID_ARGUMENT when the limit is below what one action needs.
std::vector<Gathering> plan_gatherings(const ProgramView& view, std::span<const Group> groups,
                                       const GatherOptions& options);

/// Takes out the casts of whole flats: what is gathered has been cast before it was sent, which halves the bytes.
inline void remove_casts(const Edit& edit, std::span<const Group> groups) {
  for (const Group& group : groups)
    for (const Flat& flat : group.flats)
      if (flat.cast) edit.remove(flat.cast);
}

/// A group's gradient that waits to be summed over ranks: that of the step, or of one micro-batch.
struct GradientSum {
  int micro_batch = -1;
  std::vector<uint64_t> buffers;  ///< by flat
  uint64_t last_writer = 0;       ///< action
  /// The actions that add it to the homes, in list order; none: the homes keep the sum itself.
  std::vector<const tsr_action*> adds;
};

/// Finds the sums of a program's groups. Borrows the view.
class GradientSums {
 public:
  explicit GradientSums(const ProgramView& view);
  /// One of the step, or one of each micro-batch when `add` actions bring them into the home; none for a group that is
  /// frozen or a program that does not train.
  std::vector<GradientSum> of(const Group& group) const;

 private:
  struct Add {
    size_t position;  // in the list
    uint64_t source;
  };
  const ProgramView& view_;
  std::map<uint64_t, size_t> last_writer_;     // by buffer: position in the list
  std::map<uint64_t, std::vector<Add>> adds_;  // by the buffer that is added to
};

/// The sum of `local` over all ranks, on every rank, into `sum`: the same range, summed in place, when float32 is sent.
/// Otherwise a cast, the sum in 16 bits, and a cast back: rounded before the sum and after it, never accumulated so.
inline void sum_on_every_rank(const Edit& edit, const Inserter& inserter, tsr_dtype dtype, uint32_t stream,
                              int32_t group, std::string_view name, const Range& local, const Range& sum) {
  Range sent = sum;
  if (dtype != TSR_F32) {
    sent = {edit.add_buffer(name, TSR_BUFFER_STAGING, dtype, sum.num_elements), 0, sum.num_elements};
    inserter.cast(local, sent);
  }
  const tsr_binding whole = sent.in_place();
  inserter.collective(TSR_ACTION_ALL_REDUCE, stream, group, {&whole, 1});
  if (dtype != TSR_F32) inserter.cast(sent, sum);
}

/// Actions that write or add to `from` do so to `to` instead, `offset` elements later; readers and homes stay.
void move_writers(const ProgramView& view, const Edit& edit, uint64_t from, uint64_t to, uint64_t offset);

/// The gradients of a group in one buffer, summed over all ranks on every rank once the last of them is there. Returns
/// the buffer.
uint64_t sum_group_on_every_rank(const ProgramView& view, const Edit& edit, uint32_t stream, const Group& group,
                                 const GradientSum& sum);

/// "" or " mb=2": what is added to the names of buffers.
std::string suffix_of(const GradientSum& sum);

/// Every rank starts from coordinate 0's values, one broadcast a buffer: for homes that are whole on every rank.
void broadcast_values(const ProgramView& view, const Edit& edit, uint32_t stream);

}  // namespace tessera::storage

#include "tessera/storage_impl.hpp"
