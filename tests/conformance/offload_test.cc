// What every offload policy must do (TSR-OFFLOAD-* in docs/plugin-abi.md), over those of this build, the template, and
// the one that TESSERA_TEST_OFFLOAD names. Broken policies (tests/e2e/bad_policies) show that the checks find what they
// are for.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <thread>

#include "compile/edit/offload_runner.h"
#include "config/text_values.h"
#include "conformance/offload_views.h"
#include "cpu-device/device.h"
#include "memory/memory_plan.h"
#include "model/gpt2/gpt2.h"
#include "offload/visits.h"
#include "passes/build_program.h"
#include "passes/chunks.h"
#include "passes/dependencies.h"
#include "passes/finalize.h"
#include "passes/zero_pads.h"
#include "plugins/host_services.h"
#include "plugins/loader.h"
#include "plugins/plugin_options.h"
#include "support/paths.h"
#include "tessera/error.hpp"
#include "verify/verify_rank.h"

namespace tessera::testing {
using namespace host;
namespace {

const Log kQuiet(LogLevel::off);
constexpr uint32_t kNumSteps = 50;

/// What plan answered to one view.
struct Plan {
  tsr_status status = TSR_OK;
  std::string message;
  std::vector<tsr_leave> answers;
  std::vector<uint64_t> host_runs;
  std::string refusal;  ///< the sink's first, or what is wrong with all answers together
};

/// It cannot decide, or nothing it may say is enough: it said why, and nothing else.
bool declines(const Plan& plan) {
  return (plan.status == TSR_E_INVALID_ARGUMENT || plan.status == TSR_E_RESOURCE_EXHAUSTED) && !plan.message.empty() &&
         plan.answers.empty() && plan.refusal.empty();
}

auto fields(const tsr_leave& leave) {
  return std::tuple(leave.buffer, leave.after, leave.memory, leave.ahead, leave.linger);
}
bool operator==(const Plan& a, const Plan& b) {
  return a.status == b.status && a.message == b.message && a.host_runs == b.host_runs &&
         std::ranges::equal(a.answers, b.answers, {}, fields, fields);
}

/// A policy with some options.
class Policy {
 public:
  explicit Policy(const std::string& path, const std::vector<PluginFlag>& flags = {})
      : plugin_(load_plugin(path, kQuiet)), options_(plugin_, "", flags), host_(kQuiet) {
    const GuardedStruct<tsr_offload_create_args> args(arguments());
    call(table().create, args.get(), &instance_);
  }
  ~Policy() { table().destroy(instance_); }
  Policy(const Policy&) = delete;

  const LoadedPlugin& plugin() const { return plugin_; }
  const tsr_offload_interface& table() const { return *plugin_.offload(); }
  tsr_offload* instance() const { return instance_; }
  tsr_offload_create_args arguments() const {
    return {sizeof(tsr_offload_create_args), 0, host_.of(plugin_), options_.values().data(), options_.values().size()};
  }

  Plan plan(const StepPlan& step, const HeldView& view, int refused_answer = -1,
            uint32_t sink_bytes = sizeof(tsr_offload_sink)) const {
    AnswerRecorder recorder(step, refused_answer);
    const GuardedStruct<tsr_offload_sink> sink(recorder.sink(), sink_bytes);
    const GuardedStruct<tsr_error> err(tsr_error{});
    const tsr_status status = table().plan(instance_, view.get(), sink.get(), err.get());
    const bool goes_on = refused_answer < 0 && status == TSR_OK;
    return {status, std::string(err.get()->message, strnlen(err.get()->message, sizeof err.get()->message)),
            recorder.answers(), recorder.host_runs(),
            goes_on ? recorder.refusal() + recorder.objection_at_the_end() : recorder.refusal()};
  }
  Plan plan(const StepPlan& step) const { return plan(step, HeldView(step)); }

 private:
  const LoadedPlugin plugin_;
  const PluginOptions options_;
  const HostServices host_;
  tsr_offload* instance_ = nullptr;
};

std::vector<std::string> policies() {
  std::vector<std::string> all = {binary_dir("tests/template/saved-out-offload.so")};
  for (const PluginCandidate& file : list_plugins({plugin_dir()}))
    if (file.kind == PluginKind::offload) all.push_back(file.path.string());
  if (const char* given = std::getenv("TESSERA_TEST_OFFLOAD")) all.emplace_back(given);
  return all;
}

class Offload : public ::testing::TestWithParam<std::string> {};

TEST_P(Offload, AnswersAreOnesThatTheHostTakes) {
  const Policy policy(GetParam());
  size_t num_answers = 0;
  for (uint32_t seed = 0; seed < kNumSteps; ++seed) {
    const Plan plan = policy.plan(random_step(seed));
    if (declines(plan)) continue;
    ASSERT_EQ(plan.status, TSR_OK) << "seed " << seed << ": " << plan.message;
    ASSERT_EQ(plan.refusal, "") << "seed " << seed;
    num_answers += plan.answers.size();
  }
  EXPECT_GT(num_answers, 0u) << "it moves nothing in any of " << kNumSteps << " steps";
}

/// The step of two blocks whose tensors are of some MiB, which no one runs.
Program two_blocks() {
  static const Model model =
      make_gpt2({.num_layers = 2, .num_heads = 8, .embed = 512, .vocab = 4096, .positions = 1024, .ffn = 2048},
                {.batch = 8, .seq = 1024, .loss_scale = 1.0 / 8192});
  static const Mesh mesh({{"dp", 1, TSR_SPLITS_BATCH}});
  Program program = build_program(model, mesh, {0}, {}, {}, TSR_PURPOSE_STEP, cpu::describe);
  finalize_program(program);
  return program;
}

size_t num_copies(const Program& program) {
  return static_cast<size_t>(
      std::ranges::count(program.actions, uint32_t{TSR_ACTION_COPY}, [](const Action& action) { return action.kind; }));
}

/// Nine tenths of what is in use at once.
uint64_t tight_limit(const Program& program) {
  return std::ranges::max(visits_of(program), {}, &tsr_visit::live_bytes).live_bytes / 10 * 9;
}

// The view is the host's own, and so is the sink.
TEST_P(Offload, AnswersAreTakenForAStepOfTwoBlocks) {
  const Policy policy(GetParam());
  Program program = two_blocks();
  if (policy.table().flags & TSR_OFFLOAD_CUTS_HOMES) cut_homes(program, 1 << 20);
  run_policy(program, {policy.plugin().name, &policy.table(), policy.instance()},
             {.device_bytes = tight_limit(program)});
  EXPECT_GT(num_copies(program), 0u) << "it moves nothing";
  zero_pads(program);
  derive_dependencies(program);
  Program* programs[] = {&program};
  const MemoryPlan memory = plan_memory(programs).front();
  EXPECT_EQ(verify_rank(program, &memory), Diagnostics());
}

TEST_P(Offload, AnswersAreTheSameWheneverItIsAsked) {
  const Policy one(GetParam()), other(GetParam());
  for (uint32_t seed = 0; seed < kNumSteps; ++seed) {
    const StepPlan step = random_step(seed);
    const Plan first = one.plan(step);
    ASSERT_EQ(one.plan(step), first) << "asked again, seed " << seed;
    ASSERT_EQ(other.plan(step), first) << "another instance, seed " << seed;
  }
}

TEST_P(Offload, AnswersAreTheSameOnTwoThreadsAtOnce) {
  const Policy policy(GetParam());
  std::vector<Plan> expected;
  for (uint32_t seed = 0; seed < kNumSteps; ++seed)
    expected.push_back(policy.plan(random_step(seed)));
  std::vector<Plan> seen[2];
  std::vector<std::thread> threads;
  for (auto& plans : seen)
    threads.emplace_back([&] {
      for (uint32_t seed = 0; seed < kNumSteps; ++seed)
        plans.push_back(policy.plan(random_step(seed)));
    });
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(seen[0], expected);
  EXPECT_EQ(seen[1], expected);
}

// The second view is there before the first is gone, so its pages are others.
TEST_P(Offload, KeepsNothingOfAView) {
  const Policy policy(GetParam());
  for (uint32_t seed = 0; seed < kNumSteps; ++seed) {
    const StepPlan step = random_step(seed);
    auto first = std::make_unique<HeldView>(step);
    const HeldView second(step);
    const Plan expected = policy.plan(step, *first);
    first.reset();
    ASSERT_EQ(policy.plan(step, second), expected) << "seed " << seed;
  }
}

TEST_P(Offload, SaysNothingWhereThereIsNoPlaceThatItKnows) {
  const Policy policy(GetParam());
  for (uint32_t seed = 0; seed < kNumSteps; ++seed) {
    StepPlan step = random_step(seed);
    for (const auto& places : {std::vector<tsr_place>{}, {{kUnknownMemory, 0, UINT64_MAX}}}) {
      step.places = places;
      const Plan plan = policy.plan(step);
      ASSERT_EQ(plan.status, TSR_OK) << plan.message;
      ASSERT_TRUE(plan.answers.empty() && plan.refusal.empty()) << "seed " << seed << ": " << plan.refusal;
    }
  }
}

TEST_P(Offload, ReturnsTheErrorOfTheSink) {
  const Policy policy(GetParam());
  int num_refused = 0;
  for (uint32_t seed = 0; seed < kNumSteps; ++seed) {
    const StepPlan step = random_step(seed);
    const int num_answers = static_cast<int>(policy.plan(step).answers.size());
    for (const int refused : {0, num_answers - 1}) {
      if (refused < 0 || refused >= num_answers) continue;
      ++num_refused;
      const Plan plan = policy.plan(step, HeldView(step), refused);
      ASSERT_EQ(plan.status, TSR_E_INVALID_ARGUMENT) << "seed " << seed;
      ASSERT_NE(plan.message.find("this answer is refused by the test"), std::string::npos) << plan.message;
    }
  }
  EXPECT_GT(num_refused, 0);
}

/// The flag with which a policy runs updates on the host; nothing: it has none.
std::optional<PluginFlag> update_on_host(const std::string& path) {
  const LoadedPlugin plugin = load_plugin(path, kQuiet);
  for (const PluginOption& option : plugin.options)
    if (option.name == "update" && std::ranges::count(option.choices, "host"))
      return PluginFlag{plugin.name + ".update", "host", true};
  return std::nullopt;
}

std::vector<std::string> policies_that_update_on_the_host() {
  std::vector<std::string> all = policies();
  std::erase_if(all, [](const std::string& path) { return !update_on_host(path); });
  return all;
}

class UpdatesOnTheHost : public Offload {};

TEST_P(UpdatesOnTheHost, RunWhatTheHostTakes) {
  const auto flag = update_on_host(GetParam());
  const Policy policy(GetParam(), {*flag});
  size_t num_runs = 0;
  for (uint32_t seed = 0; seed < kNumSteps; ++seed) {
    const StepPlan step = random_step(seed);
    const Plan plan = policy.plan(step);
    ASSERT_EQ(plan.status, TSR_OK) << "seed " << seed << ": " << plan.message;
    ASSERT_EQ(plan.refusal, "") << "seed " << seed;
    ASSERT_EQ(policy.plan(step), plan) << "seed " << seed;
    num_runs += plan.host_runs.size();
    if (plan.host_runs.empty()) continue;
    const Plan refused = policy.plan(step, HeldView(step), static_cast<int>(plan.answers.size()));
    ASSERT_EQ(refused.status, TSR_E_INVALID_ARGUMENT) << "seed " << seed;
    // A host that is older than the function.
    ASSERT_EQ(policy.plan(step, HeldView(step), -1, offsetof(tsr_offload_sink, run_on_host)).status, TSR_E_UNSUPPORTED);
  }
  EXPECT_GT(num_runs, 0u);
}

TEST_P(UpdatesOnTheHost, RunAStepOfTwoBlocks) {
  const auto flag = update_on_host(GetParam());
  const Policy policy(GetParam(), {*flag});
  Program program = two_blocks();
  cut_homes(program, 1 << 20);
  run_policy(program, {policy.plugin().name, &policy.table(), policy.instance()}, {});
  EXPECT_EQ(program.host_flag, "--offload " + policy.plugin().name);
  for (const Action& action : program.actions)
    if (action.kind == TSR_ACTION_OPTIMIZER || action.kind == TSR_ACTION_SUM_SQUARES) {
      EXPECT_EQ(program.streams[action.stream].name, "host");
    }
}

TEST_P(Offload, ReadsALongerHost) {
  const Policy policy(GetParam());
  for (uint32_t seed = 0; seed < kNumSteps; ++seed) {
    const StepPlan step = random_step(seed);
    const HeldView longer(step, sizeof(tsr_offload_view) + 64);
    ASSERT_EQ(policy.plan(step, longer, -1, sizeof(tsr_offload_sink) + 64), policy.plan(step)) << "seed " << seed;
  }
}

TEST_P(Offload, RefusesAShorterHost) {
  const Policy policy(GetParam());
  const StepPlan step = random_step(1);
  const auto expect_abi = [](tsr_status status, const std::string& message) {
    EXPECT_EQ(status, TSR_E_ABI);
    EXPECT_NE(message.find("struct_size"), std::string::npos) << message;
  };
  for (uint32_t num_bytes = 8; num_bytes < sizeof(tsr_offload_view); num_bytes += 8) {
    const Plan plan = policy.plan(step, HeldView(step, num_bytes));
    expect_abi(plan.status, plan.message);
  }
  for (uint32_t num_bytes = 8; num_bytes <= offsetof(tsr_offload_sink, leave); num_bytes += 8) {
    const Plan plan = policy.plan(step, HeldView(step), -1, num_bytes);
    expect_abi(plan.status, plan.message);
  }
  for (uint32_t num_bytes = 8; num_bytes < sizeof(tsr_offload_create_args); num_bytes += 8) {
    const GuardedStruct<tsr_offload_create_args> args(policy.arguments(), num_bytes);
    tsr_offload* made = nullptr;
    tsr_error err{};
    const tsr_status status = policy.table().create(args.get(), &made, &err);
    expect_abi(status, err.message);
    EXPECT_EQ(policy.table().create(args.get(), &made, nullptr), TSR_E_ABI);
  }
  EXPECT_EQ(policy.table().plan(policy.instance(), HeldView(step, 8).get(), nullptr, nullptr), TSR_E_ABI);
}

TEST_P(Offload, DestroysNothingWithoutHarm) {
  load_plugin(GetParam(), kQuiet).offload()->destroy(nullptr);
}

/// With one option at a limit; null: create refuses it, in a sentence.
std::unique_ptr<Policy> policy_at(const std::string& path, const PluginFlag& flag) {
  try {
    return std::make_unique<Policy>(path, std::vector{flag});
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), TSR_E_INVALID_ARGUMENT) << error.what();
    return nullptr;
  }
}

TEST_P(Offload, AnswersAreTakenAtTheLimitsOfItsOptions) {
  const LoadedPlugin plugin = load_plugin(GetParam(), kQuiet);
  for (const PluginOption& option : plugin.options) {
    if (option.min > option.max) continue;
    for (const double limit : {option.min, option.max}) {
      const PluginFlag flag{plugin.name + "." + option.name, shortest(limit), true};
      const auto policy = policy_at(GetParam(), flag);
      for (uint32_t seed = 0; policy && seed < kNumSteps / 5; ++seed) {
        const Plan plan = policy->plan(random_step(seed));
        ASSERT_EQ(plan.refusal, "") << flag.name << "=" << flag.value << ", seed " << seed;
      }
    }
  }
}

std::string name_of(const ::testing::TestParamInfo<std::string>& test) {
  std::string name = std::filesystem::path(test.param).stem().string();
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Policies, Offload, ::testing::ValuesIn(policies()), name_of);
INSTANTIATE_TEST_SUITE_P(Policies, UpdatesOnTheHost, ::testing::ValuesIn(policies_that_update_on_the_host()), name_of);

/// A step in which every policy of bad_policies finds something to do wrong.
StepPlan long_step() {
  for (uint32_t seed = 0;; ++seed) {
    StepPlan step = random_step(seed);
    if (!Policy(binary_dir("tests/bad_policies/faulty-offload.so")).plan(step).answers.empty()) return step;
  }
}

TEST(BrokenPolicy, IsRefusedByTheSink) {
  const std::pair<const char*, const char*> kFaults[] = {
      {"run-unknown", "it is not the id of an action"},     {"run-forward", "an action of its kind runs on the device"},
      {"run-twice", "the action runs on the host already"}, {"unknown-item", "the buffer is not an item"},
      {"unused-visit", "the visit does not use the item"},  {"no-visit", "the visit does not use the item"},
      {"unknown-place", "the memory is not a place"},       {"last-use", "it is a transient item's last use"},
      {"twice", "the item and the visit have an answer"}};
  const StepPlan step = long_step();
  for (const auto& [fault, reason] : kFaults) {
    const Plan plan =
        Policy(binary_dir("tests/bad_policies/faulty-offload.so"), {{"faulty.fault", fault, true}}).plan(step);
    EXPECT_EQ(plan.refusal, reason) << fault;
    EXPECT_EQ(plan.status, TSR_E_INVALID_ARGUMENT) << fault;
    EXPECT_NE(plan.message.find(reason), std::string::npos) << plan.message;
  }
}

TEST(BrokenPolicy, WhosePersistentItemsStayIsFound) {
  const Policy policy(binary_dir("tests/bad_policies/faulty-offload.so"), {{"faulty.fault", "no-rest", true}});
  size_t num_found = 0;
  for (uint32_t seed = 0; seed < kNumSteps; ++seed)
    num_found += policy.plan(random_step(seed)).refusal == "a persistent item leaves and stays after its last use";
  EXPECT_GT(num_found, 0u);
}

TEST(BrokenPolicy, WhoseItemsAreNotWhereTheHostRunsIsFound) {
  const Policy policy(binary_dir("tests/bad_policies/faulty-offload.so"), {{"faulty.fault", "run-optimizer", true}});
  size_t num_found = 0;
  for (uint32_t seed = 0; seed < kNumSteps; ++seed)
    num_found += policy.plan(random_step(seed)).refusal.starts_with("an item of an action on the host");
  EXPECT_GT(num_found, 0u);
}

TEST(BrokenPolicy, ThatIsNotPureGivesAnotherAnswer) {
  const StepPlan step = long_step();
  const Policy policy(binary_dir("tests/bad_policies/impure-offload.so"));
  const Plan first = policy.plan(step);
  ASSERT_EQ(setenv("TESSERA_RANK", "1", 1), 0);
  const Plan second = policy.plan(step);
  ASSERT_EQ(unsetenv("TESSERA_RANK"), 0);
  EXPECT_FALSE(first == second);
}

TEST(BrokenPolicyDeathTest, ThatKeepsAViewCrashes) {
  const StepPlan step = long_step();
  const auto plan_twice = [&] {
    const Policy policy(binary_dir("tests/bad_policies/retentive-offload.so"));
    auto first = std::make_unique<HeldView>(step);
    const HeldView second(step);
    policy.plan(step, *first);
    first.reset();
    policy.plan(step, second);
  };
  EXPECT_DEATH(plan_twice(), "");
}

}  // namespace
}  // namespace tessera::testing
