// Faults that are race-free, or matched, or well ordered, and wrong: planted in the programs of real strategies, each
// must be reported with the action that it concerns. Tensor, pipeline and message faults are in
// verify_placement_test and verify_ranks_test, on programs made by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string_view>

#include "compile/declared_layout.h"
#include "config/parse_flags.h"
#include "job/job.h"
#include "passes/dce.h"
#include "passes/dependencies.h"
#include "passes/finalize.h"
#include "passes/recompute.h"
#include "passes/zero_pads.h"
#include "plugins/host_services.h"
#include "support/expect_diagnostic.h"
#include "support/expect_error.h"
#include "support/paths.h"

namespace tessera::testing {
using namespace host;
namespace {

using Programs = std::vector<Program>;

/// The step programs of all ranks of a job, before anything is planned.
class JobPlan {
 public:
  JobPlan(std::vector<std::string> flags, int num_ranks)
      : job_(make_job(parse_flags(FlagSet::plan, with_model(std::move(flags))), num_ranks, log_)),
        strategies_(job_, host_),
        input_(compile_input(job_, strategies_.all(), {})) {}

  const Mesh& mesh() const { return job_.mesh; }
  std::vector<StrategyOnAxis> order() const { return pass_order(input_.strategies); }

  Programs programs(const std::vector<StrategyOnAxis>& order) const {
    Programs result;
    for (int rank = 0; rank < mesh().num_ranks(); ++rank)
      result.push_back(program(mesh().coordinates(rank), order));
    return result;
  }

  Diagnostics verify(Programs& programs) const {
    Diagnostics diagnostics;
    const auto append = [&](const Diagnostics& more) {
      diagnostics.insert(diagnostics.end(), more.begin(), more.end());
    };
    for (Program& program : programs) {
      derive_dependencies(program);
      Program* one[] = {&program};
      const MemoryPlan memory = plan_memory(one)[0];
      append(verify_rank(program, &memory));
      append(verify_placement(program));
    }
    append(verify_ranks(mesh(), RankClasses(mesh()),
                        [&](int rank) -> const Program& { return programs[static_cast<size_t>(rank)]; }));
    return diagnostics;
  }

 private:
  static std::vector<std::string> with_model(std::vector<std::string> flags) {
    flags.insert(flags.end(), {"--model=" + source_dir("tests/golden/gpt2-nano"), "--seq-len=16", "--batch-size=1",
                               "--comm=local", "--plugin-dir=" + plugin_dir()});
    return flags;
  }

  Program program(const Coordinates& coordinates, const std::vector<StrategyOnAxis>& order) const {
    const Layout layout = DeclaredLayout(job_.model, job_.mesh, job_.step_config, order, order).at(coordinates);
    Program program = build_program(job_.model, job_.mesh, coordinates, job_.step_config, layout, TSR_PURPOSE_STEP,
                                    input_.describe_op);
    eliminate_dead_code(program);
    recompute_forward(program, input_.describe_op);
    for (const StrategyOnAxis& strategy : order)
      run_pass(program, strategy, input_.describe_op);
    finalize_program(program);
    zero_pads(program);
    return program;
  }

  const Log log_{LogLevel::off};
  const HostServices host_{log_};
  const Job job_;
  const JobStrategies strategies_;
  const CompileInput input_;
};

size_t nth(const Program& program, uint32_t kind, std::string_view stream, size_t n = 0) {
  for (size_t i = 0; i < program.actions.size(); ++i)
    if (program.actions[i].kind == kind && program.streams[program.actions[i].stream].name.starts_with(stream) &&
        n-- == 0)
      return i;
  ADD_FAILURE() << action_name(kind) << " is missing on " << stream;
  return 0;
}

void remove(Program& program, uint32_t kind, std::string_view stream, size_t n = 0) {
  program.actions.erase(program.actions.begin() + static_cast<ptrdiff_t>(nth(program, kind, stream, n)));
}

struct Fault {
  const char* name;
  int num_ranks;
  std::vector<std::string> flags;
  std::function<void(Programs&)> plant;
  std::vector<std::string> said;  ///< all in one of the diagnostics
};

class PrototypeFault : public ::testing::TestWithParam<Fault> {};

TEST_P(PrototypeFault, IsReported) {
  const Fault& fault = GetParam();
  const JobPlan job(fault.flags, fault.num_ranks);
  Programs programs = job.programs(job.order());
  EXPECT_TRUE(is_clean(job.verify(programs)));
  fault.plant(programs);
  const Diagnostics diagnostics = job.verify(programs);
  const bool found = std::ranges::any_of(diagnostics, [&](const std::string& diagnostic) {
    return std::ranges::all_of(fault.said,
                               [&](const std::string& part) { return diagnostic.find(part) != std::string::npos; });
  });
  EXPECT_TRUE(found) << fault.said[0] << " is not in\n" << ::testing::PrintToString(diagnostics);
}

std::function<void(Programs&)> on_all(std::function<void(Program&)> plant) {
  return [plant](Programs& programs) {
    for (Program& program : programs)
      plant(program);
  };
}

void sum_twice(Program& program) {
  const size_t index = nth(program, TSR_ACTION_ALL_REDUCE, "comm.dp.");
  Action twice = program.actions[index];
  twice.id = program.next_id++;
  program.actions.insert(program.actions.begin() + static_cast<ptrdiff_t>(index), twice);
}

void swap_scatters(Program& program) {
  std::swap(program.actions[nth(program, TSR_ACTION_REDUCE_SCATTER, "comm.dp.", 0)],
            program.actions[nth(program, TSR_ACTION_REDUCE_SCATTER, "comm.dp.", 3)]);
}

void gather_late(Program& program) {
  const auto gather =
      program.actions.begin() + static_cast<ptrdiff_t>(nth(program, TSR_ACTION_ALL_GATHER, "comm.dp.", 2));
  std::rotate(gather, gather + 1, program.actions.end());
}

const std::vector<std::string> kDdp = {"--strategy=ddp"}, kFsdp = {"--strategy=fsdp"}, kZero3 = {"--strategy=zero3"},
                               kHybrid = {"--mesh=replicate=2,shard=2", "--strategy=replicate=ddp,shard=fsdp"};

INSTANTIATE_TEST_SUITE_P(
    Faults, PrototypeFault,
    ::testing::Values(Fault{"ddp_without_its_all_reduce",
                            2,
                            kDdp,
                            on_all([](Program& p) { remove(p, TSR_ACTION_ALL_REDUCE, "comm.dp."); }),
                            {"sum_squares", "which is an unreduced partial sum over dp"}},
                      Fault{"ddp_reduces_twice",
                            2,
                            kDdp,
                            on_all(sum_twice),
                            {"all_reduce", "the same on all ranks of dp: its sum over the axis has no meaning"}},
                      Fault{"norm_not_summed_over_dp",
                            2,
                            kFsdp,
                            on_all([](Program& p) { remove(p, TSR_ACTION_ALL_REDUCE, "comm.world.", 1); }),
                            {"clip", "accumulator squares, which is an unreduced partial sum over dp"}},
                      Fault{"hybrid_without_the_replicate_all_reduce",
                            4,
                            kHybrid,
                            on_all([](Program& p) { remove(p, TSR_ACTION_ALL_REDUCE, "comm.replicate."); }),
                            {"sum_squares", "which is an unreduced partial sum over replicate"}},
                      Fault{"one_rank_lacks_an_all_gather",
                            2,
                            kFsdp,
                            [](Programs& all) { remove(all[0], TSR_ACTION_ALL_GATHER, "comm.dp."); },
                            {"comm.dp.gather does not match", "rank 0", "all_gather", "meets rank 1"}},
                      Fault{"all_ranks_lack_an_all_gather",
                            2,
                            kFsdp,
                            on_all([](Program& p) { remove(p, TSR_ACTION_ALL_GATHER, "comm.dp."); }),
                            {"rank 1", "forward", "reads gathered", "which nothing has written"}},
                      Fault{"one_rank_lacks_a_broadcast",
                            3,
                            kZero3,
                            [](Programs& all) { remove(all[2], TSR_ACTION_BROADCAST, "comm.dp."); },
                            {"comm.dp.gather does not match", "broadcast wte", "meets rank 2"}},
                      Fault{"all_ranks_lack_a_reduce",
                            3,
                            kZero3,
                            on_all([](Program& p) { remove(p, TSR_ACTION_REDUCE, "comm.dp."); }),
                            {"sum_squares", "which nothing has written"}},
                      Fault{"one_rank_swaps_two_reduce_scatters",
                            2,
                            kFsdp,
                            [](Programs& all) { swap_scatters(all[0]); },
                            {"reduce_scatter", "meets rank 1"}},
                      Fault{"gather_moved_after_its_use",
                            2,
                            kFsdp,
                            on_all(gather_late),
                            {"forward", "reads gathered", "which nothing has written"}}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(PrototypeFaults, NoStrategyOnDp) {
  const JobPlan job({"--strategy=ddp"}, 2);
  Programs programs = job.programs({});
  EXPECT_TRUE(has_diagnostic(job.verify(programs), "which is an unreduced partial sum over dp"));
}

// Tensor before pipeline, storage before compute: the host decides, not the mesh.
TEST(PrototypeFaults, PassesInAWrongOrder) {
  const auto interface = [](uint32_t role, uint32_t flags = 0) {
    tsr_strategy_interface table{};
    table.role = role;
    table.flags = flags;
    return table;
  };
  const auto ddp = interface(TSR_STRATEGY_SPLIT_STORAGE),
             fsdp = interface(TSR_STRATEGY_SPLIT_STORAGE, TSR_STRATEGY_SHARDS_HOMES),
             tensor = interface(TSR_STRATEGY_SPLIT_COMPUTE), pipeline = interface(TSR_STRATEGY_SCHEDULE);
  const StrategyOnAxis mesh[] = {{"tensor", 0, &tensor, nullptr},
                                 {"fsdp", 1, &fsdp, nullptr},
                                 {"outer ddp", 2, &ddp, nullptr},
                                 {"inner ddp", 3, &ddp, nullptr},
                                 {"pipeline", 4, &pipeline, nullptr}};
  std::vector<std::string> order;
  for (const StrategyOnAxis& strategy : pass_order(mesh))
    order.push_back(strategy.name);
  EXPECT_EQ(order, (std::vector<std::string>{"pipeline", "tensor", "fsdp", "inner ddp", "outer ddp"}));
}

TEST(PrototypeFaults, ReplicatedBeforeSharded) {
  const JobPlan job(kHybrid, 4);
  auto order = job.order();
  EXPECT_EQ(order[0].name, "fsdp");  // the host's own order, whatever the mesh says
  std::swap(order[0], order[1]);
  expect_error([&] { job.programs(order); },
               {"strategy fsdp on axis shard", "are already split by the strategy of another axis"});
}

/// Drops each dependency in turn; the verifier must miss every one. Returns how many there are.
size_t expect_all_needed(Program& program, const MemoryPlan* memory) {
  EXPECT_TRUE(is_clean(verify_rank(program, memory)));
  size_t num_dropped = 0;
  for (size_t i = 0; i < program.actions.size(); ++i) {
    std::vector<uint32_t>& dependencies = program.actions[i].dependencies;
    const std::vector<uint32_t> all = dependencies;
    for (const uint32_t dropped : all) {
      std::erase(dependencies, dropped);
      EXPECT_TRUE(has_diagnostic(verify_rank(program, memory), "nothing orders them"))
          << "#" << i << " on #" << dropped;
      dependencies = all;
      ++num_dropped;
    }
  }
  return num_dropped;
}

TEST(PrototypeFaults, EveryDroppedDependency) {
  for (const std::vector<std::string>& strategy : {kFsdp, kZero3}) {
    auto flags = strategy;
    flags.insert(flags.end(), {"--recompute=full", "--grad-accum=2"});
    const JobPlan job(flags, 3);
    Program program = job.programs(job.order())[1];
    derive_dependencies(program);
    EXPECT_GE(expect_all_needed(program, nullptr), 20u);
    if (strategy == kZero3) continue;  // waits for whole buffers, of which the last use may touch another part
    Program* one[] = {&program};
    const MemoryPlan memory = plan_memory(one)[0];
    EXPECT_GE(expect_all_needed(program, &memory), 40u);
  }
}

}  // namespace
}  // namespace tessera::testing
