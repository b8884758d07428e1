// Assigns an address to every buffer, ahead of time: static buffer assignment, as in XLA. Persistent buffers come
// first, one after another, at the same addresses in all programs of the rank. Transient ones follow, by first fit
// (first_fit.cc), where buffers that are never alive together share addresses:
//
//     0           persistent_bytes                                    arena_bytes
//     | homes, m, v, inputs, scalars | activations, gradients, gathered parameters, workspaces |
//
// Streams order the uses of two buffers less strictly than the list does. The planner may then add a wait from the last
// use of one to the first use of the other. Waits cost overlap, so addresses that need none are preferred as long as
// the arena stays within a budget over the live peak. Without added waits, arenas were 1.36 to 2.25 times the ideal in
// the prototype, with them 1.00 (interleaved pipelines 1.08).
//
// No wait is added that could close a cycle over several ranks with a send (AddableWaits in passes/dependencies.h).
//
// An allocator at run time was not an option: with addresses known before step 1 the peak is exact, there is no
// fragmentation and no out-of-memory at step 300, `plan` needs no GPU, and a captured graph stays valid.
//
// verify_addresses checks the result independently of this file.

#include "memory/memory_plan.h"

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "base/concat.h"
#include "memory/first_fit.h"
#include "memory/live_ranges.h"
#include "passes/dependencies.h"
#include "program/range_map.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

using Waits = std::vector<std::pair<uint32_t, uint32_t>>;

// Parts of an arena's transient bytes up to which addresses without a wait are tried, one after another. Of twelve
// parts from 1 to 0, the first of these that succeeds gave nearly the fewest waits, over ddp, fsdp, zero3, pipeline and
// tensor of gpt2 and gpt2_xl. For gpt2_xl under fsdp only 0.3 and less succeed: 53 waits instead of 196, and a
// simulated step of 0.44 instead of 0.49 s.
constexpr double kLimits[] = {1.0, 0.6, 0.3, 0.1};

// Of one memory, for what persists and again for what does not: with it, sums of bytes stay far below 2^64.
constexpr uint64_t kMaxBytes = uint64_t{1} << 60;

void refuse_beyond_limit(const Program& program, const char* which, uint32_t memory, uint64_t num_bytes) {
  if (num_bytes > kMaxBytes)
    throw Error(TSR_E_INVALID_ARGUMENT,
                concat("the ", which, " buffers in ", memory_name(memory), " memory under ",
                       strategies_text(*program.mesh, program.strategies), " have more than ", kMaxBytes,
                       " bytes together, which is the limit; add fewer or smaller ones"));
}

// The persistent buffers of all programs, one after another in order of appearance.
class PersistentPart {
 public:
  PersistentPart(std::span<Program* const> programs, uint64_t guard_bytes) {
    for (size_t i = 0; i < programs.size(); ++i)
      for (const Buffer& buffer : programs[i]->buffers)
        if (buffer.persistent) add(*programs[i], buffer, i, guard_bytes);
  }

  uint64_t address(const Buffer& buffer) const { return places_.at(identity_of(buffer)).address; }

  /// The bytes of the persistent part in each memory.
  const std::map<uint32_t, MemoryUse>& use() const { return use_; }

 private:
  struct Place {
    const Buffer* buffer;
    const Program* first;  // whose buffer that is
    size_t program;        // the last one that has it
    uint64_t address;
  };

  using Identity = std::tuple<uint32_t, int, std::string>;

  /// By which a buffer is the same in several programs: two strategies may each have a "state".
  static Identity identity_of(const Buffer& buffer) { return {buffer.kind, buffer.strategy, buffer.name}; }

  void add(const Program& of, const Buffer& buffer, size_t program, uint64_t guard_bytes) {
    MemoryUse& use = use_[buffer.memory];
    const auto [found, is_new] =
        places_.try_emplace(identity_of(buffer), Place{&buffer, &of, program, use.persistent_bytes});
    if (is_new) {
      use.persistent_bytes += footprint_bytes(buffer, guard_bytes);
      refuse_beyond_limit(of, "persistent", buffer.memory, use.persistent_bytes);
      use.arena_bytes = use.persistent_bytes;
      use.peak_bytes_by_kind[buffer.kind] += footprint_bytes(buffer, 0);
      return;
    }
    require_same(found->second, of, buffer, program);
    found->second.program = program;
  }

  static void require_same(const Place& place, const Program& of, const Buffer& buffer, size_t program) {
    const Buffer& known = *place.buffer;
    const bool is_twice = place.program == program, is_described_alike = known.state == buffer.state;
    if (!is_twice && is_described_alike &&
        std::tie(known.num_elements, known.dtype, known.memory) ==
            std::tie(buffer.num_elements, buffer.dtype, buffer.memory))
      return;
    std::string what = concat("persistent ", buffer_kind_name(buffer.kind), " buffer ", buffer.name);
    if (buffer.strategy >= 0)
      what += concat(" of ", strategies_text(*of.mesh, {&of.strategies[static_cast<size_t>(buffer.strategy)], 1}));
    const std::string both = concat("the ", program_name(*place.first), " and ", program_name(of), " programs");
    throw Error(TSR_E_INVALID_ARGUMENT,
                is_twice ? concat("the ", program_name(of), " program has the ", what, " twice; add it once")
                : is_described_alike ? concat(both, " disagree on the ", what, ": ", describe(known), " and ",
                                              describe(buffer), "; add it alike in all of them")
                                     : concat(both, " describe the ", what,
                                              " differently (describe_state); describe it alike in all of them"));
  }

  static std::string describe(const Buffer& buffer) {
    return concat(dtype_name(buffer.dtype), "[", buffer.num_elements, "] in ", memory_name(buffer.memory), " memory");
  }

  std::map<Identity, Place> places_;
  std::map<uint32_t, MemoryUse> use_;
};

void describe_peak(const Program& program, std::span<const LiveRange> live_ranges, MemoryUse& use) {
  const std::vector<uint64_t> live = live_bytes(program, live_ranges);
  const auto peak = std::ranges::max_element(live);
  use.live_peak_bytes = *peak;
  use.peak_action = static_cast<uint64_t>(peak - live.begin());
  for (const LiveRange& live_range : live_ranges)
    if (live_range.first <= use.peak_action && use.peak_action <= live_range.last)
      use.peak_bytes_by_kind[live_range.buffer->kind] += footprint_bytes(*live_range.buffer, 0);
}

// With as few waits as fit below `top`: addresses without a wait are allowed up to a limit only. If they leave gaps too
// small for the rest, so that the top is exceeded, a lower limit may succeed.
std::optional<Addresses> place_below(FirstFit& first_fit, uint64_t top) {
  for (const double share : kLimits) {
    const auto limit = first_fit.base + static_cast<uint64_t>(share * static_cast<double>(top - first_fit.base));
    Addresses addresses = first_fit(limit, top);
    if (addresses.top <= top) return addresses;
  }
  return std::nullopt;
}

// Where the budget is too small, the smallest arena that waits allow takes its place.
Addresses place(FirstFit first_fit, double budget) {
  const auto live = live_bytes(first_fit.program, first_fit.live_ranges, first_fit.guard_bytes);
  const uint64_t top = first_fit.base + static_cast<uint64_t>(budget * static_cast<double>(std::ranges::max(live)));
  if (auto addresses = place_below(first_fit, top)) return *std::move(addresses);
  Addresses smallest = first_fit(first_fit.base, UINT64_MAX);
  if (smallest.top > top)
    if (auto addresses = place_below(first_fit, smallest.top)) return *std::move(addresses);
  return smallest;
}

// Waiting for the last owner of an address is enough: it has waited for the one before it.
void add_waits(const VectorClocks& clocks, std::span<const LiveRange> live_ranges, const Addresses& addresses,
               uint64_t guard_bytes, Waits& waits) {
  RangeMap<const LiveRange*> owners(addresses.top);
  for (size_t i = 0; i < live_ranges.size(); ++i) {
    const LiveRange& live_range = live_ranges[i];
    const uint64_t begin = addresses.address[i], end = begin + footprint_bytes(*live_range.buffer, guard_bytes);
    for (const auto& [from, part] : owners.parts(begin, end)) {
      if (!part.value) continue;
      for (const uint32_t last : part.value->last_uses)
        for (const uint32_t first : live_range.first_uses)
          if (!clocks.ordered(last, first)) waits.emplace_back(last, first);
    }
    owners.assign(begin, end, &live_range);
  }
}

// One program in one memory: adds the addresses to `plan` and the waits that they need to `waits`.
void plan_transient(const Program& program, const VectorClocks& clocks, uint32_t memory, double budget,
                    uint64_t guard_bytes, MemoryPlan& plan, Waits& waits) {
  const std::vector<LiveRange> live_ranges = live_ranges_in(program, memory);
  if (live_ranges.empty()) return;
  uint64_t num_bytes = 0;
  for (const LiveRange& live_range : live_ranges)
    refuse_beyond_limit(program, "transient", memory, num_bytes += footprint_bytes(*live_range.buffer, guard_bytes));
  MemoryUse& use = plan.use[memory];
  describe_peak(program, live_ranges, use);
  const Addresses addresses = place({program, clocks, live_ranges, use.persistent_bytes, guard_bytes}, budget);
  use.arena_bytes = addresses.top;
  for (size_t i = 0; i < live_ranges.size(); ++i)
    plan.address[live_ranges[i].buffer->id] = addresses.address[i];
  add_waits(clocks, live_ranges, addresses, guard_bytes, waits);
}

}  // namespace

std::vector<MemoryPlan> plan_memory(std::span<Program* const> programs, double budget, uint64_t guard_bytes) {
  const PersistentPart persistent(programs, guard_bytes);
  std::vector<MemoryPlan> plans;
  for (Program* program : programs) {
    MemoryPlan& plan = plans.emplace_back();
    plan.use = persistent.use();
    for (const Buffer& buffer : program->buffers)
      if (buffer.persistent) plan.address[buffer.id] = persistent.address(buffer);
    const VectorClocks clocks(*program);
    Waits waits;
    plan_transient(*program, clocks, TSR_MEMORY_DEVICE, budget, guard_bytes, plan, waits);
    for (const uint32_t memory : {TSR_MEMORY_HOST, TSR_MEMORY_FILE})
      plan_transient(*program, clocks, memory, std::max(budget, kHostBudget), guard_bytes, plan, waits);
    add_dependencies(*program, waits);
  }
  return plans;
}

}  // namespace tessera::host
