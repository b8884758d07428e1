// What no action shows: numbers that kernels take from the configuration, the layout that homes were held against, and
// buffers that the host knows by name. For example
//
//     rank 0: its step program has max_norm 0.005, where the job has 0.01
//
// Cost: linear in the buffers, the pieces of homes (times their logarithm) and the entries of the layout.

#include "verify/verify_common.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "base/concat.h"
#include "program/text_words.h"

namespace tessera::host {
namespace {

bool equal(const LayoutEntry& a, const LayoutEntry& b) {
  const auto fields = [](const LayoutEntry& e) {
    return std::tie(e.parameter, e.axis, e.roles, e.kind, e.dim, e.parts, e.blocks, e.coordinates, e.padded_size,
                    e.name);
  };
  return fields(a) == fields(b);
}

class CommonChecker {
 public:
  CommonChecker(const Program& program, DiagnosticList& diagnostics) : program_(program), diagnostics_(diagnostics) {}

  void check_config(const StepConfig& job) {
    const StepConfig& own = program_.step_config;
    const auto expect = [&](const char* name, auto has, auto wanted) {
      if (has != wanted) report(concat("has ", name, " ", has, ", where the job has ", wanted));
    };
    expect("micro_batches", own.num_micro_batches, job.num_micro_batches);
    expect("reduce_every", own.reduce_every, job.reduce_every);
    expect("dtype", dtype_name(own.dtype), dtype_name(job.dtype));
    expect("reduce_dtype", dtype_name(own.reduce_dtype), dtype_name(job.reduce_dtype));
    expect("optimizer", own.optimizer, job.optimizer);
    expect("beta1", own.beta1, job.beta1);
    expect("beta2", own.beta2, job.beta2);
    expect("epsilon", own.epsilon, job.epsilon);
    expect("weight_decay", own.weight_decay, job.weight_decay);
    expect("max_norm", own.max_norm, job.max_norm);
  }

  void check_layout(const Layout& first) {
    if (!std::ranges::equal(program_.layout, first, equal))
      report("has another layout than the init program of rank 0");
  }

  void check_persistent(const Program& init) {
    std::map<Key, const Buffer*> own;
    for (const Buffer& buffer : program_.buffers)
      own.emplace(key_of(buffer), &buffer);
    for (const Buffer& buffer : init.buffers) {
      if (!buffer.persistent || buffer.kind == TSR_BUFFER_PLUGIN) continue;
      const auto found = own.find(key_of(buffer));
      const Buffer* same = found == own.end() ? nullptr : found->second;
      if (!same || !same->persistent || same->dtype != buffer.dtype || same->memory != buffer.memory ||
          same->num_elements != buffer.num_elements)
        report(concat("does not keep ", buffer_text(buffer), " as the init program does"));
    }
  }

  /// In the same order: the model check knows homes by their number. Policies cut the homes of some programs.
  void check_pieces(const Program& init) {
    if (!std::ranges::equal(program_.homes, init.homes, has_same_pieces))
      report("has other homes than the init program, or has them in another order; give all programs the same");
  }

  void check_places(const Program& step) {
    const auto is_alike = [&](const Home& a, const Home& b) { return has_same_places(program_, a, step, b); };
    if (&program_ == &step || std::ranges::equal(program_.homes, step.homes, is_alike)) return;
    const KeptRanges filled = kept_ranges(step);
    std::pair<uint32_t, int> reported{};
    for (const auto& [from, range] : kept_ranges(program_)) {
      const auto& [role, parameter, element] = from;
      const auto after = filled.upper_bound(from);
      const bool is_there = after != filled.begin() && has(*std::prev(after), {from, range});
      if (is_there || std::exchange(reported, {role, parameter}) == std::pair(role, parameter)) continue;
      report(concat("has the ", home_role_name(role), " of ",
                    program_.model->parameters[static_cast<size_t>(parameter)].name,
                    " in another place than the program whose homes the host fills"));
    }
  }

 private:
  /// Elements of a parameter that are next to one another in a buffer that outlives the program.
  struct KeptRange {
    uint64_t num_elements = 0, offset = 0;
    const Buffer* buffer = nullptr;
  };
  using KeptRanges = std::map<std::tuple<uint32_t, int, uint64_t>, KeptRange>;  // by role, parameter, first element

  static bool is_same(const Buffer& a, const Buffer& b) {
    return a.kind == b.kind && a.strategy == b.strategy && a.name == b.name;
  }

  static bool has_same_pieces(const Home& a, const Home& b) {
    return std::ranges::equal(a.pieces, b.pieces, [](const tsr_piece& p, const tsr_piece& q) {
      return std::tie(p.parameter, p.parameter_offset, p.home_offset, p.num_elements) ==
             std::tie(q.parameter, q.parameter_offset, q.home_offset, q.num_elements);
    });
  }
  static bool has_same_places(const Program& program, const Home& home, const Program& step, const Home& other) {
    return has_same_pieces(home, other) && std::ranges::all_of(home.roles, [&](const auto& role) {
             const HomeRole &own = role.second, &filled = other.roles[role.first];
             if (own.buffer == 0 || filled.buffer == 0) return own.buffer == filled.buffer;
             return own.offset == filled.offset && is_same(program.buffer(own.buffer), step.buffer(filled.buffer));
           });
  }

  /// Whether `whole` has all of `part`, in the same place.
  static bool has(const KeptRanges::value_type& whole, const KeptRanges::value_type& part) {
    const auto& [role, parameter, begin] = whole.first;
    const auto& [part_role, part_parameter, part_begin] = part.first;
    return role == part_role && parameter == part_parameter && begin <= part_begin &&
           part_begin + part.second.num_elements <= begin + whole.second.num_elements &&
           part.second.offset - whole.second.offset == part_begin - begin &&
           is_same(*whole.second.buffer, *part.second.buffer);
  }

  /// What is cut into several homes, one after another, is one.
  static KeptRanges kept_ranges(const Program& program) {
    KeptRanges ranges;
    for (const Home& home : program.homes)
      for (const auto& [role, place] : home.roles) {
        const Buffer* const buffer = place.buffer == 0 ? nullptr : &program.buffer(place.buffer);
        if (!buffer || !buffer->persistent) continue;
        for (const tsr_piece& piece : home.pieces)
          ranges[{role, piece.parameter, piece.parameter_offset}] = {piece.num_elements,
                                                                     place.offset + piece.home_offset, buffer};
      }
    for (auto range = ranges.begin(); range != ranges.end();) {
      const auto next = std::next(range);
      const auto end = std::get<2>(range->first) + range->second.num_elements;
      const bool goes_on = next != ranges.end() && std::get<0>(next->first) == std::get<0>(range->first) &&
                           std::get<1>(next->first) == std::get<1>(range->first) && std::get<2>(next->first) == end &&
                           next->second.buffer == range->second.buffer &&
                           next->second.offset == range->second.offset + range->second.num_elements;
      if (!goes_on) {
        range = next;
        continue;
      }
      range->second.num_elements += next->second.num_elements;
      ranges.erase(next);
    }
    return ranges;
  }

  using Key = std::pair<uint32_t, std::string_view>;
  static Key key_of(const Buffer& buffer) { return {buffer.kind, buffer.name}; }
  void report(const std::string& what) {
    diagnostics_.add(concat("rank ", program_.mesh->rank(program_.coordinates), ": its ",
                            text_of(kPurposeNames, program_.purpose, "purpose"), " program ", what));
  }

  const Program& program_;
  DiagnosticList& diagnostics_;
};

}  // namespace

void verify_pieces(const Program& program, const Program& init, DiagnosticList& diagnostics) {
  CommonChecker(program, diagnostics).check_pieces(init);
}

void verify_common(const Program& program, const Program& init, const Program& step, const Program& first,
                   const StepConfig& config, bool has_policies, DiagnosticList& diagnostics) {
  CommonChecker checker(program, diagnostics);
  checker.check_config(config);
  checker.check_layout(first.layout);
  checker.check_persistent(init);
  if (!has_policies) checker.check_pieces(init);
  if (program.purpose != TSR_PURPOSE_INIT) checker.check_places(step);
}

}  // namespace tessera::host
