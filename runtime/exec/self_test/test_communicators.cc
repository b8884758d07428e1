// The self-test of communicators at the start of a run, in two rounds. In the first, each sums a few numbers of each
// member: whole ones, whose sum has the same bits in every order of addition, and some whose sum reveals the order,
// which are compared if the communicator promises the canonical order. The second round tests the other kinds that the
// programs use. All members of a group use the same kinds, except for messages; so the sum also counts the members that
// use messages, and if any does, all take part in that test. In each round all communicators are tested at once, in the
// order of their creation, which is the same on all ranks. Cost: decision 0043.

#include "exec/self_test/test_communicators.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "base/concat.h"
#include "exec/self_test/probes.h"
#include "guard/known_functions.h"
#include "program/collective.h"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

/// A communicator, and what the programs use it for.
struct Use {
  Communicator& comm;
  const tsr_communicator_interface& api;
  RankStream stream;
  int member, num_members;
  std::set<uint32_t> kinds;             // TSR_COLL_*
  std::set<Reduction> reductions = {};  // of floats
  bool sums_integers = false;
  bool sends() const { return kinds.contains(TSR_COLL_SEND) || kinds.contains(TSR_COLL_RECV); }
  bool exchanges() const { return kinds.contains(TSR_COLL_EXCHANGE); }
};

/// One probe of one communicator. Its memory must outlive the stream's work.
class ProbeRun {
 public:
  ProbeRun(const Use& use, Probe probe) : use_(use), probe_(std::move(probe)), block_(probe_.before) {}

  void submit(int64_t timeout_ms) {
    const uint64_t num_bytes = block_.size() * sizeof(float);
    tsr_collective c = probe_.collective;
    if (!probe_.counts.empty()) c.counts = probe_.counts.data();
    data_.emplace(*use_.stream.device, TSR_MEMORY_DEVICE, num_bytes);
    c.send = at(probe_.send);
    c.recv = at(probe_.recv);
    const tsr_transfer ring[] = {{at(probe_.send), 2, (use_.member + 1) % use_.num_members, 0},
                                 {at(probe_.recv), 2, (use_.member + use_.num_members - 1) % use_.num_members, 1}};
    if (c.kind == TSR_COLL_EXCHANGE) {
      c.transfers = ring;
      c.num_transfers = 2;
    }
    uint64_t workspace_bytes = 0;
    call(use_.api.describe, &c, use_.num_members, &workspace_bytes);
    workspace_.emplace(*use_.stream.device, TSR_MEMORY_DEVICE, workspace_bytes);
    if (workspace_bytes) c.workspace = workspace_->at(0);
    c.stream = use_.stream.handle;
    c.timeout_ms = timeout_ms;
    c.label = str("self-test");
    const tsr_device_interface& device = use_.stream.api();
    call(device.copy, use_.stream.handle, data_->at(0), block_.data(), num_bytes);
    call(use_.api.submit, use_.comm.comm, &c);
    call(device.copy, use_.stream.handle, block_.data(), data_->at(0), num_bytes);
  }

  /// Waits for it, and compares the block.
  void check(int64_t timeout_ms) {
    wait(timeout_ms);
    call(use_.api.async_error, use_.comm.comm);
    for (uint64_t i = 0; i < block_.size(); ++i)
      if (!std::isnan(probe_.after[i]) && !(std::abs(block_[i] - probe_.after[i]) <= allowed(i)))
        throw Error(TSR_E_INTERNAL,
                    sentence(concat(difference(i), " over ", use_.num_members, " ranks, and reported no error")));
  }

  float result(uint64_t i) const { return block_[i]; }

 private:
  float allowed(uint64_t i) const { return probe_.tolerance * std::abs(probe_.after[i]); }
  void* at(int64_t element) {
    return element < 0 ? nullptr : data_->at(static_cast<uint64_t>(element) * sizeof(float));
  }

  /// The communicator has its own time-out, with a better message.
  void wait(int64_t timeout_ms) {
    constexpr int64_t kGraceMs = 1'000;
    tsr_error err{};
    const auto synchronize = use_.stream.api().stream_synchronize;
    const int64_t limit_ms = timeout_ms + kGraceMs;
    const tsr_status status = enter_for(limit_ms, synchronize, use_.stream.handle, limit_ms, &err);
    if (status == TSR_IN_PROGRESS)  // nothing that it uses can be closed
      end_run(sentence(concat("has not ended ", probe_.name, " over ", use_.num_members, " ranks within ", timeout_ms,
                              " ms, and reported no error")));
    if (status != TSR_OK) check_call(status, err, address_of(synchronize));
  }

  std::string difference(uint64_t i) const {
    const bool is_edge = !is_in(probe_.recv, i) && !is_in(probe_.send, i);
    if (is_edge) return concat("wrote beside the memory of ", probe_.name);
    if (probe_.collective.dtype != TSR_F32) return concat("gave a wrong result of ", probe_.name);
    return concat("gave ", format("%.9g", block_[i]), " instead of ", format("%.9g", probe_.after[i]), " as ", text(i));
  }

  /// Edges lie between ranges.
  bool is_in(int64_t begin, uint64_t element) const {
    const auto at = static_cast<int64_t>(element);
    if (begin < 0 || at < begin) return false;
    const auto edge = std::find(probe_.before.begin() + begin, probe_.before.end(), kProbeEdge);
    return probe_.before.begin() + at < edge;
  }

  std::string text(uint64_t element) const {
    const bool is_first = probe_.collective.kind == TSR_COLL_ALL_REDUCE && probe_.send == probe_.recv;
    if (is_first && element >= kSumFirstOrdered)
      return "a sum in the order of the canonical tree, which it claims,";
    return is_first ? "a sum" : concat("number ", element, " of the memory of ", probe_.name);
  }

  std::string sentence(const std::string& what) const {
    return concat(plugin_text(address_of(use_.api.submit)), " fails its self-test: ", use_.comm.name, " ", what,
                  "; use another --comm");
  }

  const Use& use_;
  const Probe probe_;
  std::vector<float> block_;
  std::optional<Arena> data_, workspace_;
};

/// In the order in which the communicators were created.
std::vector<Use> uses_of(ExecutionContext& context, std::span<const Program* const> programs) {
  std::map<Communicator*, Use> found;
  for (const Program* program : programs)
    for (const Action& action : program->actions) {
      Communicator* const comm = is_collective(action.kind) ? context.comms().find(*program, action) : nullptr;
      if (!comm) continue;
      const Group& group = program->groups[action.group];
      const auto [use, is_new] = found.try_emplace(comm, Use{*comm,
                                                             context.comms().api(),
                                                             context.stream(*program, action.stream),
                                                             program->mesh->position(group, program->coordinates),
                                                             program->mesh->num_members(group),
                                                             {}});
      const tsr_collective collective = collective_of(*program, action);
      use->second.kinds.insert(collective.kind);
      use->second.sums_integers |= collective.kind == TSR_COLL_ALL_REDUCE && collective.dtype == TSR_I64;
      const bool reduces = collective.kind == TSR_COLL_ALL_REDUCE || collective.kind == TSR_COLL_REDUCE_SCATTER;
      const bool is_narrow = collective.dtype == TSR_BF16 || collective.dtype == TSR_F16;
      if (reduces && (collective.dtype == TSR_F32 || (is_narrow && collective.reduce != TSR_REDUCE_AVG)))
        use->second.reductions.insert({collective.kind, collective.dtype, collective.reduce});
    }
  std::vector<Use> uses;
  for (Communicator* comm : context.comms().all())
    uses.push_back(found.at(comm));
  return uses;
}

std::vector<Probe> other_probes(const Use& use, bool sends, bool exchanges) {
  std::vector<Probe> probes;
  for (const uint32_t kind : use.kinds)
    if (kind != TSR_COLL_EXCHANGE)
      if (Probe probe = probe_of(kind, use.member, use.num_members); !probe.name.empty())
        probes.push_back(std::move(probe));
  if (sends)
    for (Probe probe : message_probes(use.member, use.num_members))
      probes.push_back(std::move(probe));
  for (const Reduction& reduction : use.reductions)
    probes.push_back(reduction_probe(reduction, use.member, use.num_members));
  if (use.sums_integers) probes.push_back(integer_sum_probe(use.member, use.num_members));
  if (exchanges) probes.push_back(probe_of(TSR_COLL_EXCHANGE, use.member, use.num_members));
  return probes;
}

using Runs = std::vector<std::unique_ptr<ProbeRun>>;

void add(Runs& runs, const Use& use, Probe probe, int64_t timeout_ms) {
  runs.push_back(std::make_unique<ProbeRun>(use, std::move(probe)));
  runs.back()->submit(timeout_ms);
}

}  // namespace

void test_communicators(ExecutionContext& context, std::span<const Program* const> programs, bool is_canonical,
                        int64_t timeout_ms) {
  const std::vector<Use> uses = uses_of(context, programs);
  Runs sums, others;
  try {
    for (const Use& use : uses)
      add(sums, use, sum_probe(use.member, use.num_members, use.sends(), use.exchanges(), is_canonical), timeout_ms);
    for (const auto& sum : sums)
      sum->check(timeout_ms);
    for (size_t i = 0; i < uses.size(); ++i)
      for (Probe probe : other_probes(uses[i], sums[i]->result(kSumSends) > 0, sums[i]->result(kSumExchanges) > 0))
        add(others, uses[i], std::move(probe), timeout_ms);
    for (const auto& other : others)
      other->check(timeout_ms);
  } catch (...) {  // the others may still touch their memory
    context.comms().abort();
    context.close_streams();
    throw;
  }
}

}  // namespace tessera::host
