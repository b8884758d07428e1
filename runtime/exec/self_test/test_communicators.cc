// The self-test of communicators at the start of a run: each sums eight numbers of each member in place. Four are
// whole, so that every order of addition gives the same bits; in four the order shows, and these are compared where the
// communicator says that its order is the canonical one. All communicators are tested at once, in the order in which
// they were created, which is the same on all ranks. Cost: decision 0041.

#include "exec/self_test/test_communicators.h"

#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/concat.h"
#include "guard/known_functions.h"
#include "tessera/canonical_sum.hpp"
#include "tessera/error.hpp"

namespace tessera::host {
namespace {

constexpr uint64_t kNumWhole = 4, kNumElements = 8;

/// What a member has: whole numbers, then such whose sum depends on the order.
std::array<float, kNumElements> numbers_of(int member) {
  std::array<float, kNumElements> numbers{};
  const auto m = static_cast<float>(member % 97);
  for (uint64_t i = 0; i < kNumElements; ++i) {
    const auto k = static_cast<float>(i);
    numbers[i] = i < kNumWhole ? (m + 1) * (k + 1) : std::ldexp(1 + m / 97, (member * 7 + static_cast<int>(i)) % 24);
  }
  return numbers;
}

std::array<float, kNumElements> sum_of(int num_members) {
  std::vector<std::array<float, kNumElements>> all;
  std::vector<const void*> operands;
  for (int member = 0; member < num_members; ++member)
    all.push_back(numbers_of(member));
  for (const auto& one : all)
    operands.push_back(one.data());
  std::array<float, kNumElements> sum{};
  reduce_range(TSR_F32, TSR_REDUCE_SUM, operands, sum.data(), kNumElements);
  return sum;
}

/// The sum of one communicator.
class CommunicatorTest {
 public:
  CommunicatorTest(Communicator& comm, const tsr_communicator_interface& api, RankStream stream, int member,
                   int num_members)
      : comm_(comm), api_(api), stream_(stream), num_members_(num_members), numbers_(numbers_of(member)) {}

  void submit(int64_t timeout_ms) {
    tsr_collective c{};
    c.struct_size = sizeof c;
    c.kind = TSR_COLL_ALL_REDUCE;
    c.reduce = TSR_REDUCE_SUM;
    c.dtype = TSR_F32;
    c.peer = -1;
    c.num_elements = kNumElements;
    uint64_t num_bytes = 0;
    call(api_.describe, &c, num_members_, &num_bytes);
    data_.emplace(*stream_.device, TSR_MEMORY_DEVICE, sizeof numbers_);
    workspace_.emplace(*stream_.device, TSR_MEMORY_DEVICE, num_bytes);
    c.send = c.recv = data_->at(0);
    if (num_bytes) c.workspace = workspace_->at(0);
    c.stream = stream_.handle;
    c.timeout_ms = timeout_ms;
    c.label = str("self-test");
    call(stream_.api().copy, stream_.handle, data_->at(0), numbers_.data(), sizeof numbers_);
    call(api_.submit, comm_.comm, &c);
    call(stream_.api().copy, stream_.handle, numbers_.data(), data_->at(0), sizeof numbers_);
  }

  void check(bool is_canonical, int64_t timeout_ms) const {
    call_for(timeout_ms, stream_.api().stream_synchronize, stream_.handle, timeout_ms);
    call(api_.async_error, comm_.comm);
    const auto expected = sum_of(num_members_);
    for (uint64_t i = 0; i < (is_canonical ? kNumElements : kNumWhole); ++i)
      if (numbers_[i] != expected[i])
        throw Error(TSR_E_INTERNAL, concat(plugin_text(address_of(api_.submit)), " fails its self-test: ", comm_.name,
                                           " gave ", numbers_[i], " instead of ", expected[i], " as a sum over ",
                                           num_members_, " ranks, and reported no error; use another --comm"));
  }

 private:
  Communicator& comm_;
  const tsr_communicator_interface& api_;
  const RankStream stream_;
  const int num_members_;
  std::array<float, kNumElements> numbers_;
  std::optional<Arena> data_, workspace_;
};

}  // namespace

void test_communicators(ExecutionContext& context, std::span<const Program* const> programs, bool is_canonical,
                        int64_t timeout_ms) {
  std::map<Communicator*, std::pair<const Program*, const Action*>> uses;
  for (const Program* program : programs)
    for (const Action& action : program->actions)
      if (Communicator* comm = is_collective(action.kind) ? context.comms().find(*program, action) : nullptr)
        uses.try_emplace(comm, program, &action);
  std::vector<std::unique_ptr<CommunicatorTest>> tests;
  try {
    for (Communicator* comm : context.comms().all()) {
      const auto& [program, action] = uses.at(comm);
      const Group& group = program->groups[action->group];
      tests.push_back(std::make_unique<CommunicatorTest>(
          *comm, context.comms().api(), context.stream(*program, action->stream),
          program->mesh->position(group, program->coordinates), program->mesh->num_members(group)));
      tests.back()->submit(timeout_ms);
    }
    for (const auto& test : tests)
      test->check(is_canonical, timeout_ms);
  } catch (...) {  // the others may still touch their memory
    context.comms().abort();
    context.close_streams();
    throw;
  }
}

}  // namespace tessera::host
