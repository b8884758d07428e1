// tessera plan: what it prints, and what does not fit.
#include <gtest/gtest.h>

#include "e2e/cli.h"

namespace tessera::testing {
namespace {

using nlohmann::json;

CommandResult plan(std::vector<std::string> more) {
  std::vector<std::string> all = {"plan", "--model", golden(), "--seq-len=32"};
  all.insert(all.end(), more.begin(), more.end());
  return run_command(tessera(all));
}

json plan_json(std::vector<std::string> more) {
  more.push_back("--json");
  const CommandResult result = plan(std::move(more));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return json::parse(result.out);
}

void expect_all(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << part << " is missing in\n" << text;
}

TEST(Plan, ShowsMemoryPeakTimelineAndTraffic) {
  const CommandResult result = plan({"--nproc=3", "--rank=2"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  expect_all(result.out, {"a step takes about ", "rank 2 of 3, for the 3 ranks that do the same (0 to 2)",
                          "\n  memory            between steps", "parameters", "gradients", "optimizer", "arena",
                          "waste", "the peak is in step at rank 2 #", "forward", "backward", "optimizer", "MiB |",
                          "comm.dp.gradient", "2 (n-1)/n of each"});
}

TEST(Plan, PrintsTheProgramsOfThatRank) {
  const CommandResult result = plan({"--nproc=3", "--rank=2", "--print-program"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  expect_all(result.out, {"all_reduce group=dp", "coordinates dp=2"});
}

TEST(Plan, PrintProgramTakesTheRank) {
  const CommandResult with_rank = plan({"--nproc=3", "--rank=2", "--print-program"});
  EXPECT_EQ(plan({"--nproc=3", "--print-program", "2"}).out, with_rank.out);
  EXPECT_EQ(plan({"--nproc=3", "--print-program=2"}).out, with_rank.out);
  const CommandResult outside = plan({"--nproc=3", "--print-program", "3"});
  EXPECT_EQ(outside.exit_code, 2);
  expect_all(outside.err, {"rank 3 does not exist; the job has the ranks 0 to 2"});
}

const std::vector<std::string> kEightRanks = {"--mesh=pp=2,dp=2,tp=2", "--strategy=pp=pipeline,dp=fsdp,tp=tensor",
                                              "--grad-accum=4"};

CommandResult plan_eight_ranks(const std::vector<std::string>& more) {
  std::vector<std::string> flags = kEightRanks;
  flags.insert(flags.end(), more.begin(), more.end());
  return plan(flags);
}

TEST(Plan, SaysWhatItProvedOfAllRanks) {
  const CommandResult result = plan_eight_ranks({"--verify"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  // Two stages of 4 ranks: each pair passes an activation and a gradient per micro-batch, and evaluates the same
  // number.
  const int num_messages = 4 * (2 * 4 + 4);
  expect_all(result.out, {"proved for 8 ranks (2 classes of equal programs), in init, step, eval:", " on all ranks)",
                          " collectives and " + std::to_string(num_messages) + " messages match",
                          "the waits form no cycle", "each trained element is updated once, after one clip"});
}

#ifndef TESSERA_IS_SANITIZED  // with one it takes minutes
// In 3 s of processor time: what compares each rank with each other would take longer than a test waits.
TEST(Plan, ProvesALargeModelOverAThousandRanks) {
  const CommandResult result =
      run_command(tessera({"plan", "--model=gpt2_xl", "--nproc=1024", "--strategy=fsdp", "--verify"}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  expect_all(result.out, {"proved for 1024 ranks (1 class of equal programs)"});
}
#endif

// A sum of three ranks is one: of gradients, losses, squares, and of losses in an evaluation. Values of 7 units are
// broadcast.
TEST(Plan, CountsACollectiveOnce) {
  expect_all(plan({"--nproc=3", "--mesh=dp=3", "--strategy=dp=ddp", "--verify"}).out,
             {" 11 collectives and 0 messages"});
}

TEST(Plan, DrawsThePipeline) {
  const CommandResult result = plan_eight_ranks({"--schedule"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  expect_all(result.out, {"rank 0    | F0 F1 .  .  B0 B0", "rank 4    | .  F0 B0 B0 F1", "bubble: 20.0 % of the slots",
                          "(p-1)/(v m + p-1) is 20.0 %"});
  EXPECT_EQ(plan({"--nproc=2", "--schedule"}).out,
            "this plan has no pipeline: no axis with two or more ranks has a strategy that splits layers\n");
}

TEST(Plan, NeedsNoDataAndNoRanks) {
  const json big = plan_json({"--nproc=1024", "--strategy=fsdp"});
  EXPECT_EQ(big["ranks"], 1024);
  EXPECT_EQ(big["same_ranks"].size(), 1024u);
}

TEST(Plan, NumbersAddUp) {
  const json p = plan_json({"--nproc=2"});
  for (const char* group : {"states", "peak_bytes"}) {
    uint64_t sum = 0;
    for (const auto& [name, num_bytes] : p[group].items())
      if (name != "total") sum += num_bytes.get<uint64_t>();
    EXPECT_EQ(sum, p[group]["total"]) << group;
  }
  EXPECT_EQ(p["arena_bytes"], p["peak_bytes"]["total"].get<uint64_t>() + p["waste_bytes"].get<uint64_t>());
  const auto live = p["timeline"]["live_bytes"].get<std::vector<uint64_t>>();
  const auto peak = std::ranges::max_element(live);
  EXPECT_EQ(*peak, p["peak_bytes"]["total"]);
  EXPECT_EQ(p["peak"]["index"], peak - live.begin());
  size_t actions = 0;
  for (const json& run : p["timeline"]["phases"])
    actions += run["actions"].get<size_t>();
  EXPECT_EQ(actions, live.size());
  EXPECT_EQ(p["states"]["optimizer"], 2 * p["states"]["parameters"].get<uint64_t>());
}

class FullShard : public ::testing::TestWithParam<int> {};

// Full-width gradients wait for their sum one unit at a time, so what stays is a share and what is whole is in flight.
TEST_P(FullShard, KeepsItsShareAndGathersTheUnitsInFlight) {
  const int num_ranks = GetParam();
  const json one = plan_json({"--nproc=1"});
  const json shard = plan_json({"--nproc=" + std::to_string(num_ranks), "--strategy=fsdp", "--fsdp.prefetch=1"});
  const double pads = 6 * 128 * sizeof(float);  // of the 6 units
  for (const char* what : {"parameters", "optimizer"})
    EXPECT_NEAR(shard["states"][what].get<double>(), one["states"][what].get<double>() / num_ranks, 2 * pads) << what;
  for (const json& unit : shard["gathers"])
    EXPECT_LE(unit["times"], 2) << unit["unit"];
  double largest_unit = 0;
  for (const json& buffer : one["peak"]["largest"])
    if (buffer["class"] == "parameters") largest_unit = std::max(largest_unit, buffer["bytes"].get<double>());
  EXPECT_GT(shard["most_bytes"]["gathered"].get<double>(), largest_unit);
  EXPECT_LE(shard["most_bytes"]["gathered"].get<double>(), 2 * (largest_unit + pads));
  EXPECT_LT(shard["most_bytes"]["gradients"], one["most_bytes"]["gradients"]);
}
INSTANTIATE_TEST_SUITE_P(Ranks, FullShard, ::testing::Values(2, 4, 8));

TEST(Plan, BytesOnTheWireAreThoseOfTheStrategy) {
  const auto sent = [](const json& p, const std::string& collective) {
    uint64_t num_bytes = 0;
    for (const json& t : p["traffic"])
      if (t["collective"] == collective && t["stream"] != "comm.world.scalars")
        num_bytes += t["sent_bytes"].get<uint64_t>();
    return static_cast<double>(num_bytes);
  };
  const json ddp = plan_json({"--nproc=4", "--strategy=ddp"});
  const auto parameters = ddp["states"]["parameters"].get<double>();
  EXPECT_NEAR(sent(ddp, "all_reduce"), 2 * 0.75 * parameters, 0.02 * parameters);
  const json fsdp = plan_json({"--nproc=4", "--strategy=fsdp"});
  EXPECT_NEAR(sent(fsdp, "reduce_scatter"), 0.75 * parameters, 0.02 * parameters);
}

TEST(Plan, OwnersOfWholeTensorsAreCompared) {
  const json even = plan_json({"--nproc=4", "--strategy=fsdp"})["balance"];
  EXPECT_EQ(even["min_bytes"], even["max_bytes"]);
  const CommandResult owners = plan({"--nproc=16", "--strategy=zero3"});
  expect_all(owners.out, {"balance: between steps rank", "times the mean", "bottleneck: ", "more ranks do not help"});
  const json balance = plan_json({"--nproc=16", "--strategy=zero3"})["balance"];
  EXPECT_LT(balance["min_bytes"], balance["max_bytes"]);
  EXPECT_GT(balance["imbalance"], 0);
}

TEST(Plan, SaysWhatReduceEveryCosts) {
  const json p = plan_json({"--nproc=4", "--strategy=fsdp", "--grad-accum=3"})["reduce_every"];
  EXPECT_EQ(p["value"], "step");
  EXPECT_GT(p["step"]["gradient_bytes"], p["micro_batch"]["gradient_bytes"]);
  EXPECT_LT(p["step"]["sent_bytes"], p["micro_batch"]["sent_bytes"]);
  const CommandResult text = plan({"--nproc=4", "--strategy=fsdp", "--grad-accum=3"});
  expect_all(text.out, {"gradients: --reduce-every step keeps at most ", "(this plan)"});
  EXPECT_FALSE(plan_json({"--nproc=4", "--strategy=fsdp"})["reduce_every"].contains("step"));
}

/// A deep and narrow model in a folder of its own.
void write_deep_model(const std::string& path) {
  std::ofstream(path) << R"({"model_type": "gpt2", "vocab_size": 256, "n_positions": 16, "n_embd": 64, "n_layer": 32,
                             "n_head": 2, "n_inner": 256, "activation_function": "gelu_new",
                             "layer_norm_epsilon": 1e-5, "tie_word_embeddings": true})";
}

// Where the processor computes, it is memory of the same machine.
TEST(Plan, TheMemoryOfARankHasTheCopyOfSaveAsync) {
  const auto first_line = [](std::vector<std::string> more) {
    std::vector<std::string> all = {"plan", "--model", golden(), "--seq-len=8", "--batch-size=1", "--save=run"};
    all.insert(all.end(), more.begin(), more.end());
    const CommandResult result = run_command(tessera(all));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out.substr(0, result.out.find('\n'));
  };
  const std::string without = first_line({}), with = first_line({"--save-async"});
  const auto need = [](const std::string& line) { return line.substr(0, line.find("iB")); };
  EXPECT_EQ(without.find("--save-async"), std::string::npos) << without;
  EXPECT_NE(with.find(" of it for the copy of --save-async; it has "), std::string::npos) << with;
  EXPECT_NE(need(with), need(without));
}

TEST(DeviceMemory, AModelWhoseStatesNeedFourTimesOfItTrainsOverEightRanks) {
  const TempFolder folder;
  write_deep_model(folder.path("config.json"));
  const std::vector<std::string> model = {"--model", folder.path(), "--batch-size=1", "--seq-len=8", "--dtype=float32"};
  auto alone = model;
  alone.insert(alone.begin(), "plan");
  alone.push_back("--json");
  const json one = json::parse(run_command(tessera(alone)).out);
  const uint64_t limit = one["states"]["total"].get<uint64_t>() / 4;
  auto flags = model;
  flags.insert(flags.begin(), "train");
  flags.insert(flags.end(),
               {"--data", source_dir("runtime"), "--steps=2", "--nproc=8", "--strategy=fsdp", "--comm=local",
                "--threads=1", "--recompute=full", "--device-memory=" + std::to_string(limit)});
  const CommandResult trained = run_command(tessera(flags));
  EXPECT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_NE(trained.err.find("done: 2 steps"), std::string::npos) << trained.err;
  flags.push_back("--nproc=1");
  flags.erase(std::ranges::find(flags, "--nproc=8"));
  EXPECT_EQ(run_command(tessera(flags)).exit_code, 1);
}

TEST(DeviceMemory, WhatFitsIsPlannedAsUsual) {
  EXPECT_EQ(plan({"--nproc=2", "--device-memory=1GiB"}).exit_code, 0);
}

TEST(DeviceMemory, WhatDoesNotFitIsRefusedWithWhatWould) {
  const json p = plan_json({"--nproc=2"});
  const uint64_t arena = p["arena_bytes"];
  const std::string limit = "--device-memory=" + std::to_string(arena - 1);
  const CommandResult refused = plan({"--nproc=2", limit, "--json"});
  EXPECT_EQ(refused.exit_code, 1);
  expect_all(refused.err, {"does not fit --device-memory " + std::to_string(arena - 1) + " bytes",
                           "needs " + std::to_string(arena) + " bytes", "parameters", "gradients", "what would fit:"});
  std::vector<std::string> both = {"/bin/sh", "-c", "\"$0\" \"$@\" 2>&1"};
  for (const std::string& word : tessera({"plan", "--model", golden(), "--seq-len=32", "--nproc=2", limit}))
    both.push_back(word);
  const std::string shown = run_command(both).out;
  EXPECT_LT(shown.find("does not fit: a rank needs "), shown.find("live memory over ")) << shown;
  EXPECT_LT(shown.find("live memory over "), shown.find("what would fit:")) << shown;
  const CommandResult verified = plan({"--nproc=2", limit, "--verify"});
  EXPECT_EQ(verified.exit_code, 1);
  expect_all(verified.err, {"does not fit --device-memory"});
  const json shortfall = json::parse(refused.out)["shortfall"];
  EXPECT_EQ(shortfall["limit_bytes"], arena - 1);
  EXPECT_EQ(shortfall["arena_bytes"], arena);
  ASSERT_FALSE(shortfall["would_fit"].empty());
  // What is offered holds.
  for (const json& offer : shortfall["would_fit"]) {
    std::istringstream words(offer["flags"].get<std::string>());
    std::vector<std::string> flags = {"--json", limit};
    bool names_ranks = false;
    for (std::string word; words >> word;) {
      flags.push_back(word);
      names_ranks = names_ranks || word == "--nproc" || word == "--mesh";
    }
    if (!names_ranks) flags.push_back("--nproc=2");
    const CommandResult offered = plan(flags);
    EXPECT_EQ(offered.exit_code, 0) << offer << offered.err;
    EXPECT_EQ(json::parse(offered.out)["arena_bytes"], offer["arena_bytes"]) << offer;
  }
}

/// The flags that are offered to a job that needs more than the limit.
std::vector<std::string> offers(std::vector<std::string> flags) {
  flags.push_back("--json");
  std::vector<std::string> offered;
  const json report = json::parse(plan(flags).out);
  for (const json& offer : report["shortfall"]["would_fit"])
    offered.push_back(offer["flags"]);
  return offered;
}

bool is_offered(const std::vector<std::string>& all, const std::string& strategy) {
  return std::ranges::any_of(
      all, [&](const std::string& flags) { return flags.find("--strategy " + strategy) != std::string::npos; });
}

/// Found among what is installed, by what it says of itself.
TEST(DeviceMemory, AStrategyThatShardsIsOffered) {
  const auto limit = [](std::vector<std::string> flags) {
    return "--device-memory=" + std::to_string(plan_json(std::move(flags))["arena_bytes"].get<uint64_t>() - 1);
  };
  EXPECT_TRUE(is_offered(offers({"--nproc=2", limit({"--nproc=2"})}), "fsdp"));
  const std::string mesh = "--mesh=pp=2,dp=2", strategies = "--strategy=pp=pipeline,dp=ddp";
  EXPECT_TRUE(is_offered(offers({mesh, strategies, limit({mesh, strategies})}), "pp=pipeline,dp=fsdp"));
  const std::string has_it = "--strategy=fsdp";
  EXPECT_FALSE(is_offered(offers({"--nproc=2", has_it, limit({"--nproc=2", has_it})}), "fsdp"));
}

TEST(DeviceMemory, FilesThatNobodyAskedForDoNotDisturbTheOffers) {
  const TempFolder folder;
  std::ofstream(folder.path("a-broken.so")) << "not a plugin";
  const std::string limit =
      "--device-memory=" + std::to_string(plan_json({"--nproc=2"})["arena_bytes"].get<uint64_t>() - 1);
  const auto usual = offers({"--nproc=2", limit});
  EXPECT_FALSE(usual.empty());
  EXPECT_EQ(offers({"--nproc=2", limit, "--plugin-dir=" + folder.path()}), usual);
}

TEST(DeviceMemory, TheSmallestIsNamedWhenNothingFits) {
  const CommandResult refused = plan({"--nproc=2", "--device-memory=10kB"});
  EXPECT_EQ(refused.exit_code, 1);
  expect_all(refused.err, {"none of the changes of flags that were tried fits; the smallest needs ", " with --"});
}

}  // namespace
}  // namespace tessera::testing
