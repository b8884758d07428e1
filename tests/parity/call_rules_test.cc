// What calls may not make: parameters outside of steps, frozen ones, what the host computes or reads. And what ranks
// whose parameters diverge may not take of one another.
#include "model_rule.h"

namespace tessera::testing {
namespace {

constexpr const char* kMade = "holds what a strategy made";

MutationJob job_of(std::vector<std::string> more) {
  std::vector<std::string> flags = {"--model=" + source_dir("tests/golden/programs/two-blocks"), "--batch-size=1",
                                    "--seq-len=8", "--clip=0.01"};
  flags.insert(flags.end(), more.begin(), more.end());
  return {std::move(flags), 2};
}
MutationJob ddp(std::vector<std::string> more = {}) {
  more.insert(more.end(), {"--mesh=dp=2", "--strategy=dp=ddp"});
  return job_of(std::move(more));
}
MutationJob local_sgd() {
  return job_of({"--mesh=dp=2", "--strategy=dp=local-sgd", "--local-sgd.every=1",
                 "--plugin-dir=" + binary_dir("tests/mutation_strategies")});
}

void change_at_end(Program& p, std::string_view buffer) {
  insert_changed_copy(p, p.actions.size(), whole(p, buffer));
}
Binding part_of(const Program& p, std::string_view buffer, uint64_t offset, uint64_t num_elements) {
  return {buffer_of(p, buffer), offset, num_elements, 0, 0};
}
size_t clip_of(const Program& p) {
  return index_of(p, TSR_ACTION_CLIP, "squares");
}

TEST(Calls, ChangeParametersInStepsAlone) {
  const MutationJob job = ddp();
  const auto change = [](Program& p) { change_at_end(p, "home wpe"); };
  EXPECT_TRUE(has_diagnostic({job.refusal_of_init(0, change)}, "calls change parameters in steps alone"));
  EXPECT_TRUE(has_diagnostic({job.refusal_of_eval(0, change)}, kMade));
  EXPECT_EQ(job.findings(0, change), Diagnostics{}) << "its own arithmetic";
}

TEST(Calls, LeaveFrozenParametersAlone) {
  const MutationJob job = ddp({"--freeze=wpe.*"});
  EXPECT_TRUE(has_diagnostic(job.findings(0, [](Program& p) { change_at_end(p, "home wpe frozen"); }), kMade));
}

TEST(Calls, MakeNoScalarsAndNoRunWords) {
  const MutationJob job = ddp();
  const auto words = [](Program& p) {
    insert_changed_copy(p, clip_of(p) + 1, part_of(p, "accumulator squares", TSR_WORD_STOP, 1));
  };
  EXPECT_TRUE(has_diagnostic(job.findings(0, words), "after the program accumulator squares[20:24] "));
  const auto rate = [](Program& p) {
    Binding& own = binding_of(action_of(p, TSR_ACTION_OPTIMIZER, "wpe.weight"), kRate);
    Buffer buffer{0, "rate", TSR_BUFFER_STAGING};
    buffer.dtype = TSR_F64;
    buffer.num_elements = 1;
    const Binding made{p.add_buffer(buffer), 0, 1, 0, 0}, given = own;
    own.buffer = made.buffer;
    const size_t clip = clip_of(p);
    insert_call(p, clip, made);
    insert_copy(p, clip, given, made);
  };
  EXPECT_TRUE(
      has_diagnostic(job.findings(0, rate), "which holds what a strategy made; the model needs the learning rate"));
}

TEST(Divergence, KeepsNormsApart) {
  const MutationJob job = local_sgd();
  EXPECT_EQ(job.findings(kEveryClass, kUnchanged), Diagnostics{});
  const auto largest = [](Program& p) {
    const size_t clip = clip_of(p);
    insert_broadcast(p, clip, p.actions[clip - 1], part_of(p, "accumulator squares", 1, TSR_ACCUMULATOR_LIMBS - 1));
    p.actions[clip].kind = TSR_ACTION_ALL_REDUCE;
    p.actions[clip].group = p.group({0, {}});
    p.actions[clip].stream = p.comm_stream(0, "test");
    p.actions[clip].reduce = TSR_REDUCE_MAX;
    p.actions[clip].peer = -1;
  };
  EXPECT_TRUE(has_diagnostic(job.findings(kEveryClass, largest),
                             "reduces the sum of squares from element 1 on by something other than a sum"));
  const auto of_rank_0 = [](Program& p) {
    const size_t after = clip_of(p) + 1;
    insert_broadcast(p, after, p.actions[after], whole(p, "scalar clip"));
    p.actions[after].group = p.group({0, {}});
    p.actions[after].stream = p.comm_stream(0, "test");
  };
  EXPECT_TRUE(has_diagnostic(job.findings(kEveryClass, of_rank_0), "takes x2"));
}

TEST(Divergence, ScalesParametersWithinFloat32) {
  const auto scale = [](double by) {
    return [by](Program& p) {
      const size_t after = index_of(p, TSR_ACTION_OPTIMIZER, "wpe.weight") + 1;
      insert_elementwise(p, after, TSR_ACTION_SCALE, whole(p, "home wpe"), 1 / by);
      insert_elementwise(p, after, TSR_ACTION_SCALE, whole(p, "home wpe"), by);
    };
  };
  const MutationJob job = local_sgd();
  EXPECT_EQ(job.findings(kEveryClass, scale(0x1p-10)), Diagnostics{});
  EXPECT_TRUE(has_diagnostic(job.findings(kEveryClass, scale(0x1p-100)), "lost beyond 2^-20 and 2^20"));
}

TEST(Gradients, AreNotScaledInFp16) {
  const auto scale = [](Program& p) {
    for (size_t i = 0; i < p.actions.size(); ++i) {
      const Binding* sum = p.actions[i].kind == TSR_ACTION_ALL_REDUCE ? p.actions[i].find(kDestination) : nullptr;
      if (!sum || p.buffer(sum->buffer).dtype != TSR_F16) continue;
      const Binding range = *sum;
      insert_elementwise(p, i + 1, TSR_ACTION_SCALE, range, 2);
      insert_elementwise(p, i, TSR_ACTION_SCALE, range, 0.5);
      return;
    }
    ADD_FAILURE() << "nothing is summed in fp16";
  };
  EXPECT_TRUE(has_diagnostic(ddp({"--reduce-dtype=fp16"}).findings(kEveryClass, scale), "in fp16, which loses"));
}

}  // namespace
}  // namespace tessera::testing
