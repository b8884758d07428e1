// What a strategy keeps for itself goes on with the run on the same mesh, rank by rank, and begins anew on another.
#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "parity/checkpoint_layouts.h"
#include "support/paths.h"

namespace tessera::testing {
namespace {

using Flags = std::vector<std::string>;
/// The strategies' own buffers as bytes, by rank and name, and of all but the first strategy " of" its number.
using OwnState = std::map<std::string, std::string>;

struct KeptRun {
  RunResult result;
  OwnState state;
};

KeptRun run(int num_ranks, Flags more) {
  more.insert(more.end(), {"--model=" + golden_folder(), "--data=" + golden_folder() + "/tokens.bin", "--batch-size=1",
                           "--seq-len=12", "--lr=0.003", "--plugin-dir=" + binary_dir("tests/keeper_strategy")});
  if (std::ranges::none_of(more, [](const std::string& flag) { return flag.starts_with("--strategy="); }))
    more.push_back("--strategy=keeper");
  KeptRun run;
  std::mutex mutex;
  run.result = run_local(more, num_ranks, "local", [&](const Job&, const Dataset&, int rank, RankRuntime& runtime) {
    for (const Buffer& buffer : runtime.programs().first().buffers) {
      if (buffer.kind != TSR_BUFFER_PLUGIN) continue;
      std::string bytes(buffer.num_bytes(), '\0');
      runtime.read_state(buffer, 0, std::as_writable_bytes(std::span(bytes)));
      const std::lock_guard lock(mutex);
      const std::string of = buffer.strategy > 0 ? " of " + std::to_string(buffer.strategy) : "";
      run.state[std::to_string(rank) + " " + buffer.name + of] = std::move(bytes);
    }
  });
  return run;
}

int64_t num_steps(const KeptRun& run) {
  int64_t steps = 0;
  std::memcpy(&steps, run.state.at("0 count").data(), sizeof steps);
  return steps;
}

TEST(OwnState, GoesOnOnTheSameMesh) {
  const TempFolder folder;
  for (const Flags& more : {Flags{}, Flags{"--reduce-every=micro-batch", "--grad-accum=2", "--dtype=bf16"}}) {
    const auto with = [&](Flags flags) {
      flags.insert(flags.end(), more.begin(), more.end());
      return flags;
    };
    const std::string path = folder.path("run" + std::to_string(more.size()));
    const KeptRun whole = run(2, with({"--steps=6"}));
    EXPECT_NE(whole.state.at("0 sums"), whole.state.at("1 sums"));
    EXPECT_EQ(num_steps(whole), 6);
    run(2, with({"--steps=3", "--save=" + path}));
    EXPECT_TRUE(Checkpoint(path + "/step-00000003").verify().empty());
    const KeptRun rest = run(2, with({"--steps=6", "--resume=" + path}));
    EXPECT_EQ(first_difference(without_steps(whole.result, 3), rest.result), "");
    EXPECT_TRUE(rest.state == whole.state);
  }
}

TEST(OwnState, IsSavedByRankAndName) {
  const TempFolder folder;
  run(2, {"--steps=1", "--save=" + folder.path()});
  const Checkpoint saved(folder.path("step-00000001"));
  for (const char* name : {"state.0.dp.keeper.sums", "state.1.dp.keeper.sums"})
    EXPECT_EQ(saved.index().tensors.at(name).dtype, "F32");
  for (const char* name : {"state.0.dp.keeper.count", "state.1.dp.keeper.count"}) {
    EXPECT_EQ(saved.index().tensors.at(name).dtype, "I64");
    int64_t steps = 0;
    saved.read_bytes(name, 0, std::as_writable_bytes(std::span(&steps, 1)));
    EXPECT_EQ(steps, 1);
  }
}

/// A buffer of a strategy is its axis and the name.
TEST(OwnState, OfTwoInstancesOfAPluginIsKeptApart) {
  const TempFolder folder;
  const auto on_two_axes = [](Flags flags) {
    flags.insert(flags.end(), {"--mesh=a=2,b=2", "--strategy=a=keeper,b=keeper"});
    return flags;
  };
  const KeptRun whole = run(4, on_two_axes({"--steps=4"}));
  EXPECT_EQ(whole.state.size(), 4 * 4u);
  EXPECT_NE(whole.state.at("0 sums"), whole.state.at("0 sums of 1"));
  run(4, on_two_axes({"--steps=2", "--save=" + folder.path()}));
  const Checkpoint saved(folder.path("step-00000002"));
  for (const char* name : {"state.3.a.keeper.sums", "state.3.b.keeper.sums"})
    EXPECT_TRUE(saved.index().tensors.contains(name)) << name;
  const KeptRun rest = run(4, on_two_axes({"--steps=4", "--resume=" + folder.path()}));
  EXPECT_EQ(first_difference(without_steps(whole.result, 2), rest.result), "");
  EXPECT_TRUE(rest.state == whole.state);
}

/// The parameters go on all the same.
TEST(OwnState, BeginsAnewOnAnotherMesh) {
  const TempFolder folder;
  run(2, {"--steps=3", "--save=" + folder.path("two"), "--grad-accum=3"});
  const KeptRun three = run(3, {"--steps=5", "--resume=" + folder.path("two"), "--grad-accum=2"});
  EXPECT_EQ(three.result.steps.front().step, 4);
  EXPECT_EQ(num_steps(three), 2);
  const KeptRun ddp = run(2, {"--steps=5", "--resume=" + folder.path("two"), "--grad-accum=3", "--strategy=ddp"});
  EXPECT_TRUE(ddp.state.empty());
  const KeptRun keeper = run(2, {"--steps=5", "--resume=" + folder.path("two"), "--grad-accum=3"});
  EXPECT_EQ(first_difference(ddp.result, keeper.result), "");
  EXPECT_EQ(num_steps(keeper), 5);
}

/// Error of resuming with these flags what was saved after three steps of two ranks; "" if there is none.
std::string refusal(const Flags& more, int num_ranks, KeptRun& resumed) {
  try {
    resumed = run(num_ranks, more);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(OwnState, GoesOnAsItIsDescribed) {
  const TempFolder folder;
  const std::string on_change = "--keeper.on-change=", version = "--keeper.version=",
                    resume = "--resume=" + folder.path();
  const std::string keep = on_change + std::to_string(TSR_ON_CHANGE_KEEP);
  const std::string refuse = on_change + std::to_string(TSR_ON_CHANGE_REFUSE);
  const std::string reset = on_change + std::to_string(TSR_ON_CHANGE_RESET);
  run(2, {"--steps=3", "--save=" + folder.path(), "--grad-accum=3", keep, version + "2"});
  EXPECT_EQ(Checkpoint(folder.path("step-00000003")).index().tensors.at("state.1.dp.keeper.sums").version, 2u);
  const Flags on_three = {"--steps=5", resume, "--grad-accum=2"}, on_two = {"--steps=5", resume, "--grad-accum=3"};
  const auto with = [](Flags flags, const Flags& more) {
    flags.insert(flags.end(), more.begin(), more.end());
    return flags;
  };
  KeptRun resumed;
  const auto steps_of = [&](int rank) {
    int64_t steps = 0;
    std::memcpy(&steps, resumed.state.at(std::to_string(rank) + " count").data(), sizeof steps);
    return steps;
  };

  // On another mesh ranks that were there keep theirs; the new one begins anew.
  EXPECT_EQ(refusal(with(on_three, {keep, version + "2"}), 3, resumed), "");
  EXPECT_EQ(steps_of(0), 5);
  EXPECT_EQ(steps_of(1), 5);
  EXPECT_EQ(steps_of(2), 2);
  EXPECT_EQ(refusal(with(on_three, {reset, version + "2"}), 3, resumed), "");
  EXPECT_EQ(steps_of(0), 2);
  const std::string error = refusal(with(on_three, {refuse, version + "2"}), 3, resumed);
  for (const char* part :
       {"cannot restore state.",
        ".dp.keeper.sums, state of a strategy that a run must have to go on: it was saved under", "--init-from"})
    EXPECT_NE(error.find(part), std::string::npos) << part << " is missing in " << error;

  // On the same mesh all go on, but not with contents of another version.
  EXPECT_EQ(refusal(with(on_two, {refuse, version + "2"}), 2, resumed), "");
  EXPECT_EQ(steps_of(1), 5);
  EXPECT_EQ(refusal(with(on_two, {keep, version + "3"}), 2, resumed), "");
  EXPECT_EQ(steps_of(1), 2);
  EXPECT_NE(refusal(with(on_two, {refuse, version + "3"}), 2, resumed).find("has version 2 there and 3 here"),
            std::string::npos);
}

/// The strategy that knows is not there to ask.
TEST(OwnState, IsRequiredUnderOtherStrategiesAsItWasDescribed) {
  const TempFolder folder;
  const std::string on_change = "--keeper.on-change=";
  run(2, {"--steps=2", "--save=" + folder.path(), "--grad-accum=3", on_change + std::to_string(TSR_ON_CHANGE_REFUSE)});
  const std::string steps = "--steps=3", resume = "--resume=" + folder.path(),
                    reset = on_change + std::to_string(TSR_ON_CHANGE_RESET);
  KeptRun resumed;
  const std::string error = refusal({steps, resume, "--grad-accum=3", "--strategy=ddp"}, 2, resumed);
  EXPECT_NE(error.find("cannot restore state.0.dp.keeper.count, state of a strategy that a run must have to go on: it "
                       "was saved under dp=2 keeper, and this run is under dp=2 ddp"),
            std::string::npos)
      << error;
  EXPECT_NE(
      refusal({steps, resume, "--grad-accum=2", reset}, 3, resumed).find("state of a strategy that a run must have"),
      std::string::npos);
  EXPECT_EQ(refusal({steps, resume, "--grad-accum=3", reset}, 2, resumed), "");
  EXPECT_EQ(num_steps(resumed), 3);
}

TEST(OwnState, IsNamedThatThisRunDoesNotHave) {
  const TempFolder folder;
  const std::string refuse = "--keeper.on-change=" + std::to_string(TSR_ON_CHANGE_REFUSE),
                    resume = "--resume=" + folder.path();
  run(2, {"--steps=2", "--save=" + folder.path(), refuse, "--keeper.unused=3"});
  KeptRun resumed;
  const auto refusal_with = [&](const char* unused) {
    return refusal({"--steps=3", resume, refuse, unused}, 2, resumed);
  };
  EXPECT_NE(refusal_with("--keeper.unused=2").find("the checkpoint has state.0.dp.keeper.unused.2 that this run does"),
            std::string::npos);
  EXPECT_NE(refusal_with("--keeper.unused=0")
                .find("the checkpoint has state.0.dp.keeper.unused.0 and 2 more buffers of rank 0 that this run does"),
            std::string::npos);
}

TEST(OwnState, BeginsAnewWhereNoneWasSaved) {
  const TempFolder folder;
  run(2, {"--steps=3", "--save=" + folder.path("ddp"), "--strategy=ddp"});
  EXPECT_EQ(num_steps(run(2, {"--steps=5", "--resume=" + folder.path("ddp")})), 2);
}

/// A flipped byte of it is damage like any other.
TEST(OwnState, IsChecked) {
  const TempFolder folder;
  run(2, {"--steps=2", "--save=" + folder.path(), "--save-every=1"});
  const Checkpoint saved(folder.path("step-00000002"));
  const TensorPart& part = saved.index().tensors.at("state.1.dp.keeper.sums").parts.front();
  const std::string path = saved.folder() + "/" + saved.index().files[part.file].name;
  const SafetensorsFile file(path);
  std::string bytes = file_bytes(path);
  bytes[file.data_begin() + file.tensor("state.1.dp.keeper.sums").data_offset + 100] ^= 1;
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  const KeptRun older = run(2, {"--steps=3", "--resume=" + folder.path()});
  EXPECT_EQ(older.result.steps.front().step, 2);
  EXPECT_EQ(num_steps(older), 3);
}

}  // namespace
}  // namespace tessera::testing
