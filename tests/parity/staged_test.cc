// Runs on a device whose memory and streams are not the host's, over communicators that work on the host: the bits are
// those of the same runs on the CPU, whatever is split, delayed, checked or captured.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "parity/mesh_run.h"
#include "plan/memory_report.h"
#include "plan/pipeline_schedule.h"
#include "plan/traffic.h"
#include "support/compiled_job.h"
#include "support/expect_diagnostic.h"
#include "support/paths.h"
#include "support/program_parser/parse_program.h"

namespace tessera::testing {
using namespace host;
namespace {

using Flags = std::vector<std::string>;

Flags on_other_device(Flags flags) {
  flags.insert(flags.end(), {"--device=other", "--plugin-dir=" + binary_dir("tests/devices")});
  return flags;
}

Flags operator+(Flags a, const Flags& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// A few steps of the golden model; the first ones after a step is captured among them.
Flags few_steps() {
  return {"--model=" + golden_folder(),
          "--data=" + golden_folder() + "/tokens.bin",
          "--batch-size=1",
          "--seq-len=32",
          "--lr=0.003",
          "--steps=4"};
}

class Staged : public ::testing::TestWithParam<MeshRun> {
 protected:
  const Flags flags_ = few_steps() + Flags{"--grad-accum=2"};
};

TEST_P(Staged, HasTheBitsOfTheCpu) {
  const RunResult cpu = GetParam().run(flags_);
  for (const std::string comm : {"local", "gloo"})
    EXPECT_EQ(first_difference(cpu, GetParam().run(on_other_device(flags_), comm)), "") << comm;
}

TEST_P(Staged, DelaysAndMemoryChecksChangeNoBit) {
  const RunResult cpu = GetParam().run(flags_);
  const Flags more = {"--stream-delay=5", "--debug-memory"};
  EXPECT_EQ(first_difference(cpu, GetParam().run(on_other_device(flags_ + more))), "");
}

INSTANTIATE_TEST_SUITE_P(
    Meshes, Staged,
    ::testing::Values(MeshRun{"dp=2", "dp=ddp", 2, 2}, MeshRun{"dp=4", "dp=ddp", 4, 4, {"--ddp.bucket-mb=0.05"}},
                      MeshRun{"dp=2", "dp=fsdp", 2, 2}, MeshRun{"dp=4", "dp=fsdp", 4, 4, {"--fsdp.prefetch=2"}},
                      MeshRun{"dp=3", "dp=fsdp", 3, 1, {"--fsdp.sharding=optimizer_only"}},
                      MeshRun{"dp=2", "dp=zero3", 2, 2}, MeshRun{"dp=4", "dp=zero3", 4, 4},
                      MeshRun{"dp=2", "dp=fsdp", 2, 2, {"--dtype=bf16", "--reduce-dtype=bf16", "--recompute=full"}},
                      MeshRun{"dp=2", "dp=zero3", 2, 2, {"--dtype=fp16"}}, MeshRun{"pp=2", "pp=pipeline", 2, 1},
                      MeshRun{"pp=4", "pp=pipeline", 4, 1, {"--pipeline.schedule=gpipe"}},
                      MeshRun{"tp=2", "tp=tensor", 2, 1},
                      MeshRun{"tp=4", "tp=tensor", 4, 1, {"--tensor.sequence-parallel=true"}},
                      MeshRun{"replicate=2,shard=2", "replicate=ddp,shard=fsdp", 4, 4},
                      MeshRun{"pp=2,dp=2", "pp=pipeline,dp=fsdp", 4, 2},
                      MeshRun{"dp=2,tp=2", "dp=zero3,tp=tensor", 4, 2},
                      MeshRun{"dp=1,tp=2", "dp=fsdp,tp=tensor", 2, 1}),
    mesh_name);

/// Streams of a run of one rank: comm streams with copies only, which are the device's.
TEST(Graphs, ChangeNoBit) {
  for (const Flags& mode : {Flags{"--strategy=ddp"}, Flags{"--strategy=fsdp", "--dtype=bf16"}}) {
    const Flags flags = few_steps() + mode;
    const auto run = [&](const Flags& more) { return run_local(on_other_device(flags + more), 1, "gloo"); };
    const RunResult cpu = run_local(flags, 1);
    EXPECT_EQ(first_difference(cpu, run({"--cuda-graph=auto"})), "");
    EXPECT_EQ(first_difference(cpu, run({"--cuda-graph=off"})), "");
    EXPECT_EQ(first_difference(cpu, run({"--other.fail-capture=true"})), "");
  }
}

// Checks find in a staged program what they find in one that is not, and reports say the same of it.
TEST(StagedPrograms, AreCheckedAndReportedAsOthersAre) {
  for (const Flags& mode :
       {Flags{"--strategy=ddp"}, Flags{"--strategy=fsdp"}, Flags{"--strategy=fsdp", "--dtype=bf16"},
        Flags{"--strategy=zero3"}, Flags{"--mesh=pp=2,dp=2", "--strategy=pp=pipeline,dp=fsdp", "--grad-accum=4"},
        Flags{"--mesh=dp=2,tp=2", "--strategy=dp=zero3,tp=tensor"}}) {
    const Flags flags = Flags{"--model=" + golden_folder(), "--seq-len=16"} + mode;
    const CompiledJob cpu(flags, 4), staged(on_other_device(flags), 4);
    EXPECT_TRUE(is_clean(staged.diagnostics()));
    const Program &a = cpu.step(0), &b = staged.step(0);
    EXPECT_LT(a.actions.size(), b.actions.size());
    EXPECT_GT(staged.of(0).arena_bytes(TSR_MEMORY_HOST), 0u);
    EXPECT_EQ(cpu.of(0).arena_bytes(TSR_MEMORY_HOST), 0u);
    const auto gathers_a = gathers_of(a), gathers_b = gathers_of(b);
    ASSERT_EQ(gathers_a.size(), gathers_b.size());
    for (size_t i = 0; i < gathers_a.size(); ++i) {
      EXPECT_EQ(gathers_a[i].num_times, gathers_b[i].num_times) << gathers_a[i].unit;
      EXPECT_EQ(gathers_a[i].num_collectives, gathers_b[i].num_collectives) << gathers_a[i].unit;
    }
    const MemoryReport report = memory_report(b, staged.of(0).memory[1]);
    EXPECT_EQ(report.states.total(), memory_report(a, cpu.of(0).memory[1]).states.total());
    if (mode == Flags{"--strategy=fsdp"}) {
      EXPECT_EQ(report.most[MemoryClass::compute_copies], 0u);
      EXPECT_GT(report.most[MemoryClass::gathered], 0u);
    }
    const Program parsed = parse_program(print_program(b), *staged.of(0).model, staged.job().mesh);
    EXPECT_EQ(print_program(parsed), print_program(b));
  }
}

TEST(StagedPrograms, APipelineKeepsItsSchedule) {
  for (const Flags& schedule : {Flags{"--pipeline.schedule=1f1b"}, Flags{"--pipeline.schedule=gpipe"},
                                Flags{"--pipeline.schedule=interleaved_1f1b", "--pipeline.virtual-stages=2"}}) {
    const Flags flags = Flags{"--model=" + golden_folder(), "--seq-len=16", "--mesh=pp=2,dp=2,tp=2", "--grad-accum=4",
                              "--strategy=pp=pipeline,dp=fsdp,tp=tensor"} +
                        schedule;
    const auto bubble = [](const CompiledJob& job) {
      const RankClasses classes(job.job().mesh);
      return pipeline_schedule(job.job().mesh, classes, [&](int rank) -> const Program& { return job.step(rank); })
          ->bubble();
    };
    EXPECT_DOUBLE_EQ(bubble(CompiledJob(on_other_device(flags), 8)), bubble(CompiledJob(flags, 8))) << schedule[0];
  }
}

}  // namespace
}  // namespace tessera::testing
