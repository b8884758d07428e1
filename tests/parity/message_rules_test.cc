// Messages, gathers and sums that other programs of these jobs do not have, put in by hand: what must be accepted has
// the bits of the job, what must be refused would have others, or hang.
#include "model_rule.h"

namespace tessera::testing {
namespace {

MutationJob job_of(int num_ranks, std::vector<std::string> more) {
  std::vector<std::string> flags = {"--model=" + source_dir("tests/golden/programs/two-blocks"), "--batch-size=1",
                                    "--seq-len=8", "--clip=0.01"};
  flags.insert(flags.end(), more.begin(), more.end());
  return {std::move(flags), num_ranks};
}
MutationJob zero3_of_three() {
  return job_of(3, {"--mesh=dp=3", "--strategy=dp=zero3"});
}

uint64_t add_staging(Program& p, const char* name, uint64_t num_elements, tsr_dtype dtype = TSR_F32) {
  Buffer buffer{0, name, TSR_BUFFER_STAGING};
  buffer.dtype = dtype;
  buffer.num_elements = num_elements;
  return p.add_buffer(buffer);
}

void insert_before(Program& p, size_t i, Action action) {
  action.id = p.next_id++;
  p.actions.insert(p.actions.begin() + static_cast<ptrdiff_t>(i), std::move(action));
}

Action on_test_stream(Program& p, uint32_t kind, int axis) {
  Action action;
  action.kind = kind;
  action.stream = p.comm_stream(axis, "test");
  action.group = p.group({axis, {}});
  return action;
}

constexpr uint32_t slot(uint32_t role, uint32_t index) {
  return TSR_SLOT(role, index);
}

void expect_accepted(const MutationJob& job, const Change& change) {
  EXPECT_EQ(job.findings(kEveryClass, change), Diagnostics{});
  EXPECT_EQ(job.run(kEveryClass, change), job.run(kEveryClass, kUnchanged));
}
void expect_refused(const MutationJob& job, const Change& change, const char* finding) {
  EXPECT_TRUE(has_diagnostic(job.findings(kEveryClass, change), finding));
}

/// h.0.ln_1 gets its weight and bias from the other two ranks: all hold the same.
Change exchanged_parameters(bool are_listed_in_order) {
  return [=](Program& p) {
    const size_t i = index_of(p, TSR_ACTION_FORWARD, "h.0.ln_1", 0);
    Binding& weight = binding_of(p.actions[i], slot(TSR_ROLE_PARAMETER, 0));
    Binding& bias = binding_of(p.actions[i], slot(TSR_ROLE_PARAMETER, 1));
    const uint64_t n = weight.num_elements, own = add_staging(p, "weight", n), other = add_staging(p, "bias", n);
    const int next = (p.coordinates[0] + 1) % 3, before = (p.coordinates[0] + 2) % 3;
    Action exchange = on_test_stream(p, TSR_ACTION_EXCHANGE, 0);
    exchange.peers = {next, before, before, next};
    exchange.bindings = {{weight.buffer, weight.offset, n, slot(TSR_ROLE_SOURCE, 0), TSR_MODE_READ},
                         {bias.buffer, bias.offset, n, slot(TSR_ROLE_SOURCE, 1), TSR_MODE_READ},
                         {own, 0, n, slot(TSR_ROLE_DESTINATION, 0), TSR_MODE_WRITE},
                         {other, 0, n, slot(TSR_ROLE_DESTINATION, 1), TSR_MODE_WRITE}};
    if (!are_listed_in_order) std::swap(exchange.bindings[0], exchange.bindings[1]);
    weight.buffer = own, weight.offset = 0;
    bias.buffer = other, bias.offset = 0;
    insert_before(p, i, std::move(exchange));
  };
}

TEST(Exchange, OfOperandsInAnyOrder) {
  const MutationJob job = zero3_of_three();
  expect_accepted(job, exchanged_parameters(true));
  expect_accepted(job, exchanged_parameters(false));
}

TEST(Exchange, HasOneDtype) {
  const auto change = [](tsr_dtype first) {
    return [first](Program& p) {
      const size_t i = index_of(p, TSR_ACTION_FORWARD, "h.0.ln_1", 0);
      Binding& weight = binding_of(p.actions[i], slot(TSR_ROLE_PARAMETER, 0));
      const Binding own = weight;
      const uint64_t n = own.num_elements;
      const uint64_t sent = add_staging(p, "sent", n, first), received = add_staging(p, "received", n, first);
      const uint64_t given = add_staging(p, "given", n);
      const int next = (p.coordinates[0] + 1) % 3, before = (p.coordinates[0] + 2) % 3;
      Action exchange = on_test_stream(p, TSR_ACTION_EXCHANGE, 0);
      exchange.peers = {next, next, before, before};
      exchange.bindings = {{sent, 0, n, slot(TSR_ROLE_SOURCE, 0), TSR_MODE_READ},
                           {own.buffer, own.offset, n, slot(TSR_ROLE_SOURCE, 1), TSR_MODE_READ},
                           {received, 0, n, slot(TSR_ROLE_DESTINATION, 0), TSR_MODE_WRITE},
                           {given, 0, n, slot(TSR_ROLE_DESTINATION, 1), TSR_MODE_WRITE}};
      weight.buffer = given, weight.offset = 0;
      insert_before(p, i, std::move(exchange));
      insert_copy(p, i, own, {sent, 0, n, 0, 0});
    };
  };
  const MutationJob job = zero3_of_three();
  expect_accepted(job, change(TSR_F32));
  expect_refused(job, change(TSR_BF16), "has messages of bf16 and of f32; those of an exchange have one dtype");
}

TEST(Group, HasNoMemberWithoutAnAction) {
  const MutationJob job = zero3_of_three();
  expect_refused(
      job,
      [](Program& p) {
        const int rank = p.coordinates[0];
        if (rank == 2) return;
        const size_t i = index_of(p, TSR_ACTION_FORWARD, "h.0.ln_1", 0);
        Binding& weight = binding_of(p.actions[i], slot(TSR_ROLE_PARAMETER, 0));
        Action message = on_test_stream(p, rank == 0 ? TSR_ACTION_SEND : TSR_ACTION_RECV, 0);
        message.peer = 1 - rank;
        if (rank == 0) {
          message.bindings = {{weight.buffer, weight.offset, weight.num_elements, kSource, TSR_MODE_READ}};
        } else {
          const uint64_t given = add_staging(p, "given", weight.num_elements);
          message.bindings = {{given, 0, weight.num_elements, kDestination, TSR_MODE_WRITE}};
          weight.buffer = given, weight.offset = 0;
        }
        insert_before(p, i, std::move(message));
      },
      "rank 2 has no action on comm.dp.test for group dp, where rank 0 has one");
}

// Of each row of a mesh: rank 5 is the last of the second row.
TEST(Group, OfALaterRowHasNoMemberWithoutAnAction) {
  const MutationJob job = job_of(6, {"--mesh=dp=3,tp=2", "--strategy=dp=zero3,tp=ring",
                                     "--plugin-dir=" + binary_dir("tests/mutation_strategies")});
  const auto broadcast = [](bool by_all) {
    return [by_all](Program& p) {
      if (!by_all && p.coordinates == Coordinates{2, 1}) return;
      const size_t i = index_of(p, TSR_ACTION_FORWARD, "h.0.ln_1", 0);
      Binding weight = binding_of(p.actions[i], slot(TSR_ROLE_PARAMETER, 0));
      Action action = on_test_stream(p, TSR_ACTION_BROADCAST, 0);
      action.peer = 0;
      weight.slot = kDestination;
      weight.mode = TSR_MODE_ADD;
      action.bindings = {weight};
      insert_before(p, i, std::move(action));
    };
  };
  EXPECT_EQ(job.findings(kEveryClass, broadcast(true)), Diagnostics{});
  expect_refused(job, broadcast(false), "rank 5 has no action on comm.dp.test for group dp, where rank 1 has one");
}

/// Rows and what attention saved, gathered together: the rows are of the whole value, the rest is its rank's alone.
Change gathered_with_rows(bool reads_own) {
  return [=](Program& p) {
    const Binding rows = binding_of(action_of(p, TSR_ACTION_FORWARD, "h.0.ln_1", 0), kInput);
    const size_t i = index_of(p, TSR_ACTION_BACKWARD, "h.0.attention", 0);
    Binding& use = binding_of(p.actions[i], kSaved);
    const Binding saved = use;
    const uint64_t n = rows.num_elements + saved.num_elements;
    const uint64_t packed = add_staging(p, "packed", n), all = add_staging(p, "all", 2 * n);
    const int giver = reads_own ? p.coordinates[1] : 1 - p.coordinates[1];
    use.buffer = all;
    use.offset = static_cast<uint64_t>(giver) * n + rows.num_elements;
    Action gather = on_test_stream(p, TSR_ACTION_ALL_GATHER, 1);
    gather.bindings = {{packed, 0, n, kSource, TSR_MODE_READ}, {all, 0, 2 * n, kDestination, TSR_MODE_WRITE}};
    insert_before(p, i, std::move(gather));
    insert_copy(p, i, saved, {packed, rows.num_elements, saved.num_elements, 0, 0});
    insert_copy(p, i, rows, {packed, 0, rows.num_elements, 0, 0});
  };
}

TEST(Rows, DoNotHideWhatIsOfOneRank) {
  expect_refused(job("rows"), gathered_with_rows(false), "backward h.0.attention mb=0");
}

// The rows of two halves are not those of the whole: rank 1's would be the second and the fourth quarter.
TEST(Rows, AreOfTheWholeValueThatIsScattered) {
  const MutationJob job = job_of(2, {"--mesh=tp=2", "--strategy=tp=tensor", "--tensor.sequence-parallel=true"});
  const Change change = [](Program& p) {
    const auto scatter = std::ranges::find(p.actions, uint32_t{TSR_ACTION_REDUCE_SCATTER}, &Action::kind);
    std::erase_if(scatter->bindings, [](const Binding& b) { return TSR_SLOT_ROLE(b.slot) == TSR_ROLE_WORKSPACE; });
    Action second = *scatter;
    second.id = p.next_id++;
    const auto take_half = [](Action& action, uint64_t quarter) {
      Binding &from = binding_of(action, kSource), &to = binding_of(action, kDestination);
      const uint64_t n = from.num_elements;
      from.offset += quarter * (n / 4), from.num_elements = n / 2;
      to.offset += quarter * (n / 4), to.num_elements = n / 4;
    };
    take_half(*scatter, 0), take_half(second, 1);
    p.actions.insert(scatter + 1, std::move(second));
  };
  EXPECT_NE(job.findings(kEveryClass, change), Diagnostics{});
}

TEST(MicroBatches, AreAddedInOrder) {
  const MutationJob job = job_of(1, {"--grad-accum=3", "--reduce-every=micro-batch"});
  expect_refused(
      job,
      [](Program& p) {
        std::vector<ptrdiff_t> adds;
        for (size_t i = 0; i < p.actions.size(); ++i)
          if (p.actions[i].kind == TSR_ACTION_ADD_INTO && p.actions[i].home == p.homes.front().id)
            adds.push_back(static_cast<ptrdiff_t>(i));
        ASSERT_EQ(adds.size(), 3u);
        const auto begin = p.actions.begin();
        std::rotate(begin + adds[1], begin + adds[1] + 1, begin + adds[2] + 1);
      },
      "micro-batches are added in ascending order");
}

TEST(Weights, AreNotScaledWhereTheyAreUsed) {
  const MutationJob job = job_of(2, {"--mesh=dp=2", "--strategy=dp=local-sgd", "--local-sgd.every=1",
                                     "--plugin-dir=" + binary_dir("tests/mutation_strategies")});
  expect_refused(
      job,
      [](Program& p) {
        const size_t update = index_of(p, TSR_ACTION_OPTIMIZER, kWeight);
        const Binding home = binding_of(p.actions[update], kDestination);
        insert_elementwise(p, update, TSR_ACTION_SCALE, home, 2.0);
        insert_elementwise(p, 0, TSR_ACTION_SCALE, home, 0.5);
      },
      "a segment computes with weights as they are");
}

TEST(Casts, AreThoseOfTheDevice) {
  expect_refused(
      job("one"),
      [](Program& p) {
        const size_t i = index_of(p, TSR_ACTION_FORWARD, "h.0.ln_1", 0);
        const Binding weight = binding_of(p.actions[i], slot(TSR_ROLE_PARAMETER, 0));
        insert_copy(p, i, weight, {add_staging(p, "small", weight.num_elements, TSR_I8), 0, weight.num_elements, 0, 0});
      },
      "cannot run on the device: [cpu-device] cast from float32 to int8");
}

TEST(Scaling, IsOfTheDtypesOfTheDevice) {
  expect_refused(
      job("one"),
      [](Program& p) {
        const uint64_t whole = add_staging(p, "whole numbers", 8, TSR_I64);
        insert_elementwise(p, 0, TSR_ACTION_SCALE, {whole, 0, 8, 0, 0}, 2.0);
        insert_elementwise(p, 0, TSR_ACTION_ZERO, {whole, 0, 8, 0, 0});
      },
      "cannot run on the device: [cpu-device] scale of int64");
}

TEST(Kernels, HaveTheOperandsOfTheDevice) {
  const auto workspace = [](Program& p) -> Binding& {
    return binding_of(action_of(p, TSR_ACTION_FORWARD, "h.0.attention", 0), slot(TSR_ROLE_WORKSPACE, 0));
  };
  expect_refused(
      job("one"), [&](Program& p) { --workspace(p).num_elements; }, " elements; the device's op has ");
  expect_refused(
      job("one"), [&](Program& p) { std::ranges::find(p.buffers, workspace(p).buffer, &Buffer::id)->dtype = TSR_I32; },
      "binds w0 to i32; the device's op has f32");
}

}  // namespace
}  // namespace tessera::testing
