// --device-memory and --host-memory: what a run that does not fit is offered, and that it holds.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <regex>
#include <sstream>

#include "e2e/cli.h"
#include "support/paths.h"

namespace tessera::testing {
namespace {

using nlohmann::json;
using Flags = std::vector<std::string>;

Flags operator+(Flags a, const Flags& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// Of the golden model.
CommandResult plan(const Flags& more) {
  return run_command(tessera(Flags{"plan", "--model", golden(), "--seq-len=64", "--json"} + more));
}

/// States are most of it.
const Flags kJob = {"--batch-size=2", "--recompute=full"};

uint64_t arena(const Flags& more, const char* which = "arena_bytes") {
  const CommandResult result = plan(more);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return json::parse(result.out)[which];
}

Flags words_of(const std::string& text) {
  std::istringstream in(text);
  return Flags(std::istream_iterator<std::string>(in), {});
}

/// The flags with those of the offer instead of their own.
Flags with_offer(Flags flags, const std::string& offer) {
  const Flags words = words_of(offer);
  for (const std::string& word : words)
    std::erase_if(flags, [&](const std::string& flag) { return flag.starts_with(word + "="); });
  return flags + words;
}

/// The command line of an offer is printed, and a shell runs it as it is.
void expect_command(const json& offer, const char* which, const std::string& printed) {
  const std::string command = offer["command"];
  EXPECT_NE(printed.find("\n    " + command), std::string::npos) << printed;
  ASSERT_TRUE(command.starts_with("tessera plan ")) << command;
  const std::string line = tessera_program() + command.substr(7) + " --json";
  const CommandResult pasted = run_command({"/bin/sh", "-c", line});
  EXPECT_EQ(pasted.exit_code, 0) << command << pasted.err;
  EXPECT_EQ(json::parse(pasted.out)[which], offer["arena_bytes"]) << command;
}

/// What is offered to a job that does not fit, each of which must fit with the bytes that are said.
Flags true_offers(const Flags& job, const std::string& limit, const char* which = "arena_bytes") {
  const CommandResult refused = plan(job + Flags{limit});
  EXPECT_EQ(refused.exit_code, 1) << refused.err;
  Flags offers;
  const json report = json::parse(refused.out);
  for (const json& offer : report["shortfall"]["would_fit"]) {
    offers.push_back(offer["flags"]);
    const CommandResult offered = plan(with_offer(job + Flags{limit}, offers.back()));
    EXPECT_EQ(offered.exit_code, 0) << offers.back() << offered.err;
    EXPECT_EQ(json::parse(offered.out)[which], offer["arena_bytes"]) << offers.back();
    EXPECT_NE(refused.err.find("\n  " + offers.back() + ": "), std::string::npos) << refused.err;
    expect_command(offer, which, refused.err);
  }
  return offers;
}

bool has(const Flags& offers, const std::string& offer) {
  return std::ranges::count(offers, offer) > 0;
}

std::string joined(const Flags& offers) {
  std::string text;
  for (const std::string& offer : offers)
    text += offer + "\n";
  return text;
}

TEST(DeviceMemory, OfAJobThatDoesNotFitIsOfferedOffload) {
  const uint64_t without = arena(kJob);
  const Flags most = true_offers(kJob, "--device-memory=" + std::to_string(without * 7 / 10));
  EXPECT_TRUE(has(most, "--offload fit")) << joined(most);
  EXPECT_TRUE(has(most, "--offload stream")) << joined(most);
  const Flags some = true_offers(kJob, "--device-memory=" + std::to_string(without * 9 / 10));
  for (const char* policy : {"--offload fit", "--offload optimizer-state", "--offload stream"})
    EXPECT_TRUE(has(some, policy)) << policy << "\n" << joined(some);
  for (const Flags& offers : {most, some})
    EXPECT_EQ(joined(offers).find("file"), std::string::npos) << "no folder is given: " << joined(offers);
}

TEST(DeviceMemory, OffloadIsOfferedWithRecomputation) {
  const Flags job = {"--batch-size=2"};
  const uint64_t limit = arena(kJob + Flags{"--offload=stream"}) + 4096;
  ASSERT_GT(arena(kJob), limit);
  ASSERT_GT(arena(job + Flags{"--offload=stream"}), limit);
  const Flags offers = true_offers(job, "--device-memory=" + std::to_string(limit));
  EXPECT_TRUE(has(offers, "--offload stream --recompute full")) << joined(offers);
}

TEST(DeviceMemory, FilesAreOfferedWhereThereIsAFolder) {
  const std::string limit = "--device-memory=" + std::to_string(arena(kJob) * 7 / 10);
  const Flags offers = true_offers(kJob + Flags{"--offload-dir=/nvme"}, limit);
  EXPECT_TRUE(has(offers, "--offload stream")) << joined(offers);
  EXPECT_TRUE(has(offers, "--offload stream --stream.to=file")) << joined(offers);
}

TEST(DeviceMemory, FilesAreOfferedWhereHostMemoryWouldNotDo) {
  const std::string limit = "--device-memory=" + std::to_string(arena(kJob) * 7 / 10);
  const Flags little = true_offers(kJob + Flags{"--host-memory=100KiB"}, limit);
  EXPECT_TRUE(has(little, "--offload stream --stream.to=file --offload-dir /var/tmp")) << joined(little);
  EXPECT_FALSE(has(little, "--offload stream")) << joined(little);
  const Flags enough = true_offers(kJob + Flags{"--host-memory=1GiB"}, limit);
  EXPECT_TRUE(has(enough, "--offload stream")) << joined(enough);
  EXPECT_EQ(joined(enough).find("file"), std::string::npos) << joined(enough);
}

TEST(DeviceMemory, IsOfferedMorePolicies) {
  const Flags job = kJob + Flags{"--offload=optimizer-state"};
  const Flags offers = true_offers(job, "--device-memory=" + std::to_string(arena(job) * 9 / 10));
  EXPECT_TRUE(has(offers, "--offload optimizer-state,fit")) << joined(offers);
  EXPECT_EQ(joined(offers).find("optimizer-state,optimizer-state"), std::string::npos);
}

// The policy cannot even plan it, and names the visit; what would fit is offered all the same.
TEST(DeviceMemory, WhatAPolicyRefusesIsOfferedToo) {
  const Flags job = {"--batch-size=8", "--offload=fit"};
  const uint64_t all = arena({"--batch-size=8"});
  for (const uint64_t percent : {60, 50, 40, 30, 20}) {
    const std::string limit = "--device-memory=" + std::to_string(all * percent / 100);
    const CommandResult refused = plan(job + Flags{limit});
    if (refused.err.find("offload policy fit: ") == std::string::npos) continue;
    EXPECT_EQ(refused.exit_code, 1);
    for (const char* part : {"visit ", " alone needs ", "what would fit:\n  "})
      EXPECT_NE(refused.err.find(part), std::string::npos) << part << " is missing in " << refused.err;
    const std::string first = refused.err.substr(refused.err.find("fit:\n  ") + 7);
    const CommandResult offered = plan(with_offer(job + Flags{limit}, first.substr(0, first.find(": "))));
    EXPECT_EQ(offered.exit_code, 0) << first << offered.err;
    return;
  }
  FAIL() << "the policy refuses no limit";
}

// It has every option of every plugin, with empty values among them, which no command line can give.
TEST(DeviceMemory, OfAResolvedConfigurationIsOfferedWhatFits) {
  const TempFolder folder;
  const CommandResult printed =
      run_command(train({"--nproc=2", "--strategy=fsdp", "--comm=gloo", "--fsdp.prefetch=2", "--print-config"}));
  ASSERT_EQ(printed.exit_code, 0) << printed.err;
  ASSERT_NE(printed.out.find(R"("gloo.interface": "")"), std::string::npos) << printed.out;
  const std::string file = folder.path("config.json");
  std::ofstream(file) << printed.out;
  const auto planned = [&](const Flags& more) {
    return run_command(tessera(Flags{"plan", "--config", file, "--json"} + more));
  };
  // One rank loads no communicator.
  for (const Flags& ranks : {Flags{}, Flags{"--nproc=1"}}) {
    const uint64_t needed = json::parse(planned(ranks).out)["arena_bytes"];
    const CommandResult refused = planned(ranks + Flags{"--device-memory=" + std::to_string(needed * 8 / 10)});
    EXPECT_EQ(refused.exit_code, 1) << refused.err;
    const json report = json::parse(refused.out), offers = report["shortfall"]["would_fit"];
    ASSERT_FALSE(offers.empty()) << refused.err;
    const std::string command = offers[0]["command"];
    EXPECT_NE(command.find(" --fsdp.prefetch=2"), std::string::npos) << command;
    for (const char* at_default : {"--gloo.interface", "--fsdp.wrap"})
      EXPECT_EQ(command.find(at_default), std::string::npos) << command;
  }
}

/// No axis splits the batch.
TEST(DeviceMemory, OfStagesAloneIsOfferedAnotherAxis) {
  const Flags stages = kJob + Flags{"--mesh=pp=2", "--strategy=pp=pipeline"};
  const Flags offers = true_offers(stages, "--device-memory=" + std::to_string(arena(stages) * 7 / 10));
  EXPECT_NE(joined(offers).find("--mesh pp=2,tp=2 --strategy pp=pipeline,tp=tensor"), std::string::npos)
      << joined(offers);
}

TEST(DeviceMemory, AUnitThatDoesNotFitAloneIsNamed) {
  const CommandResult refused =
      run_command(tessera({"plan", "--model=gpt2", "--batch-size=1", "--seq-len=128", "--device-memory=256MiB"}));
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_NE(refused.err.find("the run does not fit --device-memory 256.0 MiB"), std::string::npos) << refused.err;
  EXPECT_NE(
      refused.err.find("; wte and its gradient alone take 294.5 MiB, so its tensors must be split over more ranks"),
      std::string::npos)
      << refused.err;
  const CommandResult larger =
      run_command(tessera({"plan", "--model=gpt2", "--batch-size=1", "--seq-len=128", "--device-memory=1GiB"}));
  EXPECT_EQ(larger.exit_code, 1);
  EXPECT_EQ(larger.err.find("alone take"), std::string::npos) << larger.err;
  EXPECT_NE(larger.err.find("--strategy tensor"), std::string::npos) << larger.err;
}

TEST(HostMemory, OfWhatLeavesIsLimited) {
  const Flags job = {"--offload=optimizer-state"};
  const uint64_t host = arena(job, "host_arena_bytes");
  EXPECT_EQ(plan(job + Flags{"--host-memory=" + std::to_string(host)}).exit_code, 0);
  const std::string limit = "--host-memory=" + std::to_string(host * 75 / 100);
  const Flags offers = true_offers(job, limit, "host_arena_bytes");
  EXPECT_TRUE(has(offers, "--optimizer-state.fraction=0.7")) << joined(offers);
  EXPECT_TRUE(has(offers, "--optimizer-state.to=file --offload-dir /var/tmp")) << joined(offers);
  const CommandResult refused = plan(job + Flags{limit});
  EXPECT_EQ(json::parse(refused.out)["shortfall"]["memory"], "host");
  const CommandResult text =
      run_command(tessera(Flags{"plan", "--model", golden(), "--seq-len=64"} + job + Flags{limit}));
  const std::string answer = text.out.substr(0, text.out.find('\n'));
  EXPECT_TRUE(
      std::regex_match(answer, std::regex("does not fit: a rank needs .*iB of device memory and .*iB of host memory")))
      << answer;
  for (const char* part : {"the run does not fit --host-memory ", ": rank 0 needs ", " (optimizer ", "what would fit:"})
    EXPECT_NE(refused.err.find(part), std::string::npos) << part << " is missing in " << refused.err;
}

TEST(HostMemory, DoesNotLimitARunThatMovesNothing) {
  EXPECT_EQ(plan({"--host-memory=1KiB"}).exit_code, 0);
}

/// By one rank, by threads, and by processes.
void expect_refused_once_before_any_step(const Flags& limits, const std::string& said) {
  for (const Flags& ranks :
       {Flags{"--nproc=1"}, Flags{"--nproc=2", "--comm=local"}, Flags{"--nproc=2", "--comm=gloo"}}) {
    const CommandResult refused = run_command(train(Flags{"--steps=1"} + limits + ranks));
    EXPECT_EQ(refused.exit_code, 1);
    const size_t first = refused.err.find(said);
    ASSERT_NE(first, std::string::npos) << refused.err;
    EXPECT_EQ(refused.err.find(said, first + 1), std::string::npos) << refused.err;
    EXPECT_EQ(refused.err.find("tok/s"), std::string::npos) << refused.err;
  }
}

TEST(DeviceMemory, TrainingIsRefusedOnceBeforeAnyStep) {
  // Progress on a slow machine names the flag alone.
  expect_refused_once_before_any_step({"--device-memory=10kB"}, "does not fit --device-memory 9.8 KiB");
}

TEST(HostMemory, TrainingIsRefusedOnceBeforeAnyStep) {
  expect_refused_once_before_any_step({"--offload=optimizer-state", "--host-memory=10KiB"},
                                      "does not fit --host-memory 10.0 KiB");
}

}  // namespace
}  // namespace tessera::testing
