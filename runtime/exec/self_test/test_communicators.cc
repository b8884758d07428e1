// The self-test of communicators at the start of a run, in two rounds. In the first, each sums a few numbers of each
// member: whole ones, whose sum has the same bits in every order of addition, and some whose sum reveals the order,
// which are compared if the communicator promises the canonical order. The second round tests the forms of collectives
// that the programs use. All members of a group use the same forms, except for messages; so the sum also counts the
// members that use messages, and if any does, all take part in that test. In each round all communicators are tested at
// once, in the order of their creation, which is the same on all ranks. Cost: decision 0043.

#include "exec/self_test/test_communicators.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/concat.h"
#include "exec/self_test/forms.h"
#include "exec/self_test/probes.h"
#include "guard/known_functions.h"
#include "program/collective.h"
#include "tessera/error.hpp"
#include "tessera/ranges.hpp"

namespace tessera::host {
namespace {

/// Of int64: the words of a step's squares, and a bound on what a strategy may add to that.
constexpr uint64_t kMinIntegers = TSR_SQUARES_WORDS, kMaxIntegers = 1024;

/// A communicator, and what the programs use it for.
struct Use {
  Communicator& comm;
  const tsr_communicator_interface& api;
  RankStream stream;
  ProbedGroup group;
  std::set<uint32_t> kinds = {};  // TSR_COLL_*
  std::set<CollectiveForm> forms = {};
  uint64_t num_integers = 0;  // in the largest sum of int64
  bool sends() const { return kinds.contains(TSR_COLL_SEND) || kinds.contains(TSR_COLL_RECV); }
  bool exchanges() const { return kinds.contains(TSR_COLL_EXCHANGE); }
};

/// The probes of one round of one communicator, one after another. Their blocks are one allocation and one copy in each
/// direction, which must outlive the stream's work.
class ProbeRun {
 public:
  ProbeRun(const Use& use, std::vector<Probe> probes) : use_(use), probes_(std::move(probes)) {
    for (const Probe& probe : probes_) {
      begins_.push_back(round_up<uint64_t>(blocks_.size(), kBlockAlignment));
      blocks_.resize(begins_.back());
      blocks_.insert(blocks_.end(), probe.before.begin(), probe.before.end());
    }
  }

  void submit(int64_t timeout_ms) {
    data_.emplace(*use_.stream.device, TSR_MEMORY_DEVICE, blocks_.size());
    reserve_workspace();
    const tsr_device_interface& device = use_.stream.api();
    call(device.copy, use_.stream.handle, data_->at(0), blocks_.data(), blocks_.size());
    for (size_t i = 0; i < probes_.size(); ++i)
      submit(i, timeout_ms);
    call(device.copy, use_.stream.handle, blocks_.data(), data_->at(0), blocks_.size());
  }

  /// Waits for them, and compares the blocks.
  void check(int64_t timeout_ms) {
    wait(timeout_ms);
    call(use_.api.async_error, use_.comm.comm);
    for (size_t i = 0; i < probes_.size(); ++i)
      compare(probes_[i], block(i));
  }

  /// Gives its memory back, which no plan knows of. May wait for all work of the device.
  void release() {
    data_.reset();
    workspace_.reset();
  }

  /// A float32 number of the first block.
  float result(uint64_t index) const { return number_at(blocks_, index); }

 private:
  using Block = std::vector<std::byte>;
  static constexpr uint64_t kBlockAlignment = 64;

  Block block(size_t i) const {
    const auto begin = blocks_.begin() + static_cast<ptrdiff_t>(begins_[i]);
    return {begin, begin + static_cast<ptrdiff_t>(probes_[i].before.size())};
  }

  /// Without pointers to data. Borrows the probe's counts.
  static tsr_collective collective_of(const Probe& probe) {
    tsr_collective c = probe.collective;
    if (!probe.counts.empty()) c.counts = probe.counts.data();
    if (!probe.recv_counts.empty()) c.recv_counts = probe.recv_counts.data();
    return c;
  }

  std::byte* at(size_t i, int64_t offset) const {
    return offset < 0 ? nullptr : data_->at(begins_[i] + static_cast<uint64_t>(offset));
  }

  /// The ring of an EXCHANGE.
  std::array<tsr_transfer, 2> ring(size_t i) const {
    const int own = use_.group.own, n = use_.group.count();
    return {{{at(i, probes_[i].send), 2, (own + 1) % n, 0, {}}, {at(i, probes_[i].recv), 2, (own + n - 1) % n, 1, {}}}};
  }

  /// As much as any of them needs, since they run one after another.
  void reserve_workspace() {
    uint64_t most = 0;
    for (size_t i = 0; i < probes_.size(); ++i) {
      tsr_collective c = collective_of(probes_[i]);
      const auto transfers = ring(i);
      if (c.kind == TSR_COLL_EXCHANGE) c.transfers = transfers.data(), c.num_transfers = transfers.size();
      uint64_t num_bytes = 0;
      call(use_.api.describe, &c, use_.group.count(), &num_bytes);
      most = std::max(most, num_bytes);
    }
    workspace_.emplace(*use_.stream.device, TSR_MEMORY_DEVICE, most);
  }

  void submit(size_t i, int64_t timeout_ms) {
    tsr_collective c = collective_of(probes_[i]);
    const auto transfers = ring(i);
    if (c.kind == TSR_COLL_EXCHANGE) c.transfers = transfers.data(), c.num_transfers = transfers.size();
    c.send = at(i, probes_[i].send);
    c.recv = at(i, probes_[i].recv);
    if (workspace_->num_bytes()) c.workspace = workspace_->at(0);
    c.stream = use_.stream.handle;
    c.timeout_ms = timeout_ms;
    c.label = str("self-test");
    call(use_.api.submit, use_.comm.comm, &c);
  }

  /// The communicator has its own time-out, with a better message.
  void wait(int64_t timeout_ms) {
    constexpr int64_t kGraceMs = 1'000;
    tsr_error err{};
    const auto synchronize = use_.stream.api().stream_synchronize;
    const int64_t limit_ms = timeout_ms + kGraceMs;
    const tsr_status status = enter_for(limit_ms, synchronize, use_.stream.handle, limit_ms, &err);
    if (status == TSR_IN_PROGRESS)  // nothing that it uses can be closed
      end_run(sentence(concat("has not ended ", names(), " over ", use_.group.count(), " ranks within ", timeout_ms,
                              " ms, and reported no error")));
    if (status != TSR_OK) check_call(status, err, address_of(synchronize));
  }

  std::string names() const {
    const size_t num_others = probes_.size() - 1;
    return num_others ? concat(probes_[0].name, " and ", num_others, " more") : probes_[0].name;
  }

  void compare(const Probe& probe, const Block& got) const {
    for (uint64_t i = 0; i < got.size(); ++i)
      if (probe.is_defined[i] && got[i] != probe.after[i] && !is_near(probe, got, i))
        throw Error(TSR_E_INTERNAL, sentence(concat(difference(probe, got, i), " over ", use_.group.count(),
                                                    " ranks, and reported no error")));
  }

  static bool is_near(const Probe& probe, const Block& got, uint64_t byte) {
    const float expected = number_at(probe.after, byte / sizeof(float));
    const float allowed = probe.tolerance * std::abs(expected);
    return is_operand(probe, byte) && allowed > 0 &&
           std::abs(number_at(got, byte / sizeof(float)) - expected) <= allowed;
  }
  static bool is_operand(const Probe& probe, uint64_t byte) {
    return std::ranges::any_of(probe.ranges,
                               [&](const auto& range) { return range.begin <= byte && byte < range.end; });
  }

  static std::string difference(const Probe& probe, const Block& got, uint64_t byte) {
    if (!is_operand(probe, byte)) return concat("wrote beside the memory of ", probe.name);
    if (probe.collective.dtype != TSR_F32) return concat("gave a wrong result of ", probe.name);
    const uint64_t index = byte / sizeof(float);
    return concat("gave ", format("%.9g", number_at(got, index)), " instead of ",
                  format("%.9g", number_at(probe.after, index)), " as ", text(probe, index));
  }

  static std::string text(const Probe& probe, uint64_t index) {
    if (!probe.is_first_sum) return concat("number ", index, " of the memory of ", probe.name);
    return index < kSumFirstOrdered ? "a sum" : "a sum in the order of the canonical tree, which it claims,";
  }

  std::string sentence(const std::string& what) const {
    return concat(plugin_text(address_of(use_.api.submit)), " fails its self-test: ", use_.comm.name, " ", what,
                  "; use another --comm");
  }

  const Use& use_;
  const std::vector<Probe> probes_;
  std::vector<uint64_t> begins_;  // of each probe's block
  Block blocks_;
  std::optional<Arena> data_, workspace_;
};

ProbedGroup group_of(const Program& program, const Action& action) {
  const Group& group = program.groups[action.group];
  return {program.mesh->members(group, program.coordinates), program.mesh->position(group, program.coordinates)};
}

void add_to(Use& use, const tsr_collective& collective) {
  use.kinds.insert(collective.kind);
  const bool sums = collective.kind == TSR_COLL_ALL_REDUCE && collective.reduce == TSR_REDUCE_SUM;
  if (sums && collective.dtype == TSR_I64) use.num_integers = std::max(use.num_integers, collective.num_elements);
  use.forms.insert(form_of(collective));
}

/// In the order in which the communicators were created.
std::vector<Use> uses_of(ExecutionContext& context, std::span<const Program* const> programs) {
  std::map<Communicator*, Use> found;
  for (const Program* program : programs)
    for (const Action& action : program->actions) {
      Communicator* const comm = is_collective(action.kind) ? context.comms().find(*program, action) : nullptr;
      if (!comm) continue;
      auto use = found.find(comm);
      if (use == found.end())
        use = found
                  .emplace(comm, Use{*comm, context.comms().api(), context.stream(*program, action.stream),
                                     group_of(*program, action)})
                  .first;
      add_to(use->second, collective_of(*program, action));
    }
  std::vector<Use> uses;
  for (Communicator* comm : context.comms().all())
    uses.push_back(found.at(comm));
  return uses;
}

std::vector<Probe> other_probes(const Use& use, bool sends, bool exchanges) {
  std::vector<Probe> probes;
  const auto add = [&](std::vector<Probe> more) { std::ranges::move(more, std::back_inserter(probes)); };
  for (const CollectiveForm& form : tested_forms(use.forms, use.group.count()))
    add(form_probes(form, use.group));
  if (sends) add(message_probes(use.group));
  if (use.num_integers > 0)
    probes.push_back(integer_sum_probe(use.group, std::clamp(use.num_integers, kMinIntegers, kMaxIntegers)));
  if (exchanges) probes.push_back(exchange_probe(use.group));
  return probes;
}

using Runs = std::vector<std::unique_ptr<ProbeRun>>;

void add(Runs& runs, const Use& use, std::vector<Probe> probes, int64_t timeout_ms) {
  if (probes.empty()) return;
  runs.push_back(std::make_unique<ProbeRun>(use, std::move(probes)));
  runs.back()->submit(timeout_ms);
}

}  // namespace

void test_communicators(ExecutionContext& context, std::span<const Program* const> programs, bool is_canonical,
                        int64_t timeout_ms) {
  const std::vector<Use> uses = uses_of(context, programs);
  Runs sums, others;
  try {
    for (const Use& use : uses)
      add(sums, use, {sum_probe(use.group, use.sends(), use.exchanges(), is_canonical)}, timeout_ms);
    for (const auto& sum : sums)
      sum->check(timeout_ms);
    for (const auto& sum : sums)
      sum->release();
    for (size_t i = 0; i < uses.size(); ++i)
      add(others, uses[i], other_probes(uses[i], sums[i]->result(kSumSends) > 0, sums[i]->result(kSumExchanges) > 0),
          timeout_ms);
    for (const auto& other : others)
      other->check(timeout_ms);
  } catch (const std::exception& error) {  // the others may still touch their memory
    note_error(error.what());
    context.comms().abort();
    context.close_streams();
    throw;
  }
}

}  // namespace tessera::host
