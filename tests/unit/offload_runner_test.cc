// Policies asked about a step: what they are told, what the host does with their answers, and which it refuses.
#include "compile/edit/offload_runner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <span>

#include "support/expect_error.h"
#include "support/gpt2_ddp.h"
#include "support/program_builder.h"
#include "tessera/offload.hpp"

namespace tessera::testing {
namespace {

/// A policy whose plan is a function.
class FunctionPolicy {
 public:
  using Plan = std::function<void(const OffloadView&, const OffloadSink&)>;
  explicit FunctionPolicy(Plan plan) : plan_(std::move(plan)) {}

  OffloadPolicy policy() { return {"by-hand", &Table::kInterface, reinterpret_cast<tsr_offload*>(&policy_)}; }

 private:
  struct Policy {
    static constexpr std::string_view kName = "by-hand";
    explicit Policy(const Plan* function) : answers(function) {}
    explicit Policy(std::span<const tsr_option_value>) {}
    void plan(const OffloadView& view, const OffloadSink& sink) const { (*answers)(view, sink); }
    const Plan* answers = nullptr;
  };
  using Table = OffloadTable<Policy>;

  const Plan plan_;
  Policy policy_{&plan_};
};

class OffloadRunner : public ::testing::Test {
 protected:
  std::vector<RestingBuffer> run(const FunctionPolicy::Plan& plan) {
    FunctionPolicy policy(plan);
    return run_policy(program_, policy.policy(), limits_);
  }
  /// The one answer is refused with these words.
  void refuse(const std::function<tsr_leave(const OffloadView&)>& answer, const std::vector<std::string>& parts) {
    const Program before = program_;
    expect_error<Error>(
        [&] { run([&](const OffloadView& view, const OffloadSink& sink) { sink.leave(answer(view)); }); }, parts);
    EXPECT_EQ(program_.actions.size(), before.actions.size()) << "a refused answer changes nothing";
  }
  size_t num_on(std::string_view stream) const {
    return static_cast<size_t>(std::ranges::count_if(
        program_.actions, [&](const Action& action) { return program_.streams[action.stream].name == stream; }));
  }

  Program program_ = [] {
    static const Gpt2Ddp job(1);
    Program program = job.base(0);
    finalize_program(program);
    return program;
  }();
  OffloadLimits limits_;
};

/// The first saved tensor, and the first home.
const tsr_item& saved(const OffloadView& view) {
  return *std::ranges::find(view.items(), TSR_BUFFER_SAVED, &tsr_item::kind);
}
const tsr_item& home(const OffloadView& view) {
  return *std::ranges::find(view.items(), TSR_BUFFER_HOME, &tsr_item::kind);
}

TEST_F(OffloadRunner, ShowsTheStepAndItsLimits) {
  limits_ = {123, {{TSR_MEMORY_HOST, 0, 456}, {9, 0, 789}}};
  run([&](const OffloadView& view, const OffloadSink&) {
    EXPECT_EQ(view.raw.device_bytes, 123u);
    EXPECT_EQ(view.find_place(TSR_MEMORY_HOST)->num_bytes, 456u);
    EXPECT_EQ(view.find_place(9)->num_bytes, 789u);
    EXPECT_EQ(view.raw.program->axis, TSR_WORLD_AXIS);
    EXPECT_EQ(view.raw.program->num_actions, program_.actions.size());
    EXPECT_EQ(view.visits().back().last_action + 1, program_.actions.size());
    EXPECT_TRUE(OffloadView::is_persistent(home(view)));
    EXPECT_FALSE(OffloadView::is_persistent(saved(view)));
    EXPECT_EQ(saved(view).num_bytes, program_.buffer(saved(view).buffer).num_bytes());
    EXPECT_EQ(to_string(home(view).name), "wte");
    EXPECT_EQ(view.describe(home(view).uses[0].visit), "visit 1, forward of wte mb=0");
  });
}

TEST_F(OffloadRunner, MovesWhatLeaves) {
  const std::vector<RestingBuffer> resting = run([](const OffloadView& view, const OffloadSink& sink) {
    sink.leave({saved(view).buffer, saved(view).uses[0].visit, TSR_MEMORY_HOST, 1, 1});
  });
  EXPECT_EQ(num_on("evict"), 1u);
  EXPECT_EQ(num_on("fetch"), 1u);
  EXPECT_TRUE(resting.empty());
}

TEST_F(OffloadRunner, ReturnsWhatRestsElsewhere) {
  const std::vector<RestingBuffer> resting = run([](const OffloadView& view, const OffloadSink& sink) {
    for (const tsr_use& use : OffloadView::uses(home(view)))
      sink.leave({home(view).buffer, use.visit, TSR_MEMORY_HOST, 1, 1});
  });
  ASSERT_EQ(resting.size(), 1u);
  EXPECT_EQ(resting[0].name, "wte");
  EXPECT_EQ(program_.buffers.front().memory, TSR_MEMORY_HOST);
}

// Policies may ask for any number, which must not overflow.
TEST_F(OffloadRunner, KeepsDistancesWithinTheStep) {
  run([](const OffloadView& view, const OffloadSink& sink) {
    const tsr_item& item = home(view);
    sink.leave({item.buffer, OffloadView::uses(item).back().visit, TSR_MEMORY_HOST, UINT32_MAX, UINT32_MAX});
  });
  EXPECT_EQ(program_.streams[program_.actions.front().stream].name, "fetch");
  EXPECT_EQ(program_.streams[program_.actions.back().stream].name, "evict");
}

TEST_F(OffloadRunner, RefusesAnswersAboutWhatIsNotThere) {
  refuse(
      [](const OffloadView&) {
        return tsr_leave{999'999, 0, TSR_MEMORY_HOST, 1, 1};
      },
      {"offload policy by-hand: ", "999999 is not an item; an item's id is its buffer's"});
  refuse(
      [](const OffloadView& view) {
        return tsr_leave{home(view).buffer, static_cast<uint32_t>(view.visits().size()), TSR_MEMORY_HOST, 1, 1};
      },
      {"(wte) cannot leave after visit", "the last visit of the step is"});
  refuse(
      [](const OffloadView& view) {
        return tsr_leave{home(view).buffer, 0, TSR_MEMORY_HOST, 1, 1};
      },
      {"(wte) cannot leave after visit 0, other: ", "that visit does not use it; give the visit of one of its uses"});
  refuse(
      [](const OffloadView& view) {
        return tsr_leave{saved(view).buffer, OffloadView::uses(saved(view)).back().visit, TSR_MEMORY_HOST, 1, 1};
      },
      {"backward of ", "that is its last use, and nothing fetches it again"});
}

TEST_F(OffloadRunner, RefusesMemoriesThatAreNotPlaces) {
  const auto to = [](uint32_t memory) {
    return [memory](const OffloadView& view) {
      return tsr_leave{saved(view).buffer, saved(view).uses[0].visit, memory, 1, 1};
    };
  };
  refuse(to(TSR_MEMORY_DEVICE), {"memory 1 is not one of the view's places"});
  limits_.places.clear();
  refuse(to(TSR_MEMORY_HOST), {"memory 2 is not one of the view's places"});
}

TEST_F(OffloadRunner, RefusesSpareWordsThatAreNotZero) {
  refuse(
      [](const OffloadView& view) {
        tsr_leave leave{saved(view).buffer, saved(view).uses[0].visit, TSR_MEMORY_HOST, 1, 1};
        leave.spare[0] = 1;
        return leave;
      },
      {"tsr_leave", "spare or reserved"});
}

TEST_F(OffloadRunner, RefusesAPersistentItemThatStaysAfterItsLastUse) {
  refuse(
      [](const OffloadView& view) {
        return tsr_leave{home(view).buffer, home(view).uses[0].visit, TSR_MEMORY_HOST, 1, 1};
      },
      {"offload policy by-hand: item ",
       "(wte) leaves after visit 1, forward of wte mb=0, and not after its last use, visit ", "update of wte",
       "let it leave after its last use too"});
}

TEST_F(OffloadRunner, RefusesAPersistentItemInTwoMemories) {
  limits_.places.push_back({9, 0, UINT64_MAX});
  const size_t num_actions = program_.actions.size();
  expect_error<Error>(
      [&] {
        run([](const OffloadView& view, const OffloadSink& sink) {
          const auto uses = OffloadView::uses(home(view));
          sink.leave({home(view).buffer, uses.front().visit, TSR_MEMORY_HOST, 1, 1});
          sink.leave({home(view).buffer, uses.back().visit, 9, 1, 1});
        });
      },
      {"offload policy by-hand: item ",
       "(wte) leaves for memory 2 and for memory 9; a persistent item rests in one memory"});
  EXPECT_EQ(program_.actions.size(), num_actions);
}

// A transient item is two buffers then.
TEST_F(OffloadRunner, TakesATransientItemForTwoMemories) {
  limits_.places.push_back({9, 0, UINT64_MAX});
  bool is_found = false;
  run([&](const OffloadView& view, const OffloadSink& sink) {
    for (const tsr_item& item : view.items())
      if (item.kind == TSR_BUFFER_ACTIVATION && item.num_uses > 2 && !std::exchange(is_found, true)) {
        sink.leave({item.buffer, item.uses[0].visit, TSR_MEMORY_HOST, 0, 0});
        sink.leave({item.buffer, item.uses[1].visit, 9, 0, 0});
      }
  });
  EXPECT_TRUE(is_found);
  EXPECT_GT(num_on("fetch"), 1u);
}

// ---- actions on the host -----------------------------------------------------------------------------------------

const tsr_action& action_of(const OffloadView& view, uint32_t kind) {
  return *std::ranges::find(view.program().actions(), kind, &tsr_action::kind);
}

/// The first home updates on the host, with all that it uses there.
void update_on_host(const OffloadView& view, const OffloadSink& sink) {
  const uint64_t home = action_of(view, TSR_ACTION_OPTIMIZER).home;
  std::set<uint64_t> used;
  for (const tsr_action& action : view.program().actions())
    if (action.home == home)
      for (const tsr_binding& b : std::span(action.bindings, action.num_bindings))
        used.insert(b.buffer);
  for (const tsr_item& item : view.items())
    for (uint64_t u = 0; used.contains(item.buffer) && u < item.num_uses; ++u)
      if (u + 1 < item.num_uses || OffloadView::is_persistent(item))
        sink.leave({item.buffer, item.uses[u].visit, TSR_MEMORY_HOST, 1, 1});
  for (const tsr_action& action : view.program().actions())
    if (action.home == home) sink.run_on_host(action.id);
}

TEST_F(OffloadRunner, RunsUpdatesOnTheHost) {
  run(update_on_host);
  EXPECT_EQ(num_on("host"), 3u) << "zero, sum_squares, optimizer";
  EXPECT_EQ(program_.host_flag, "--offload by-hand");
  // An earlier policy has moved what it uses.
  run([](const OffloadView& view, const OffloadSink& sink) {
    EXPECT_THROW(sink.run_on_host(action_of(view, TSR_ACTION_OPTIMIZER).id), Error);
  });
}

TEST_F(OffloadRunner, RefusesToRunOnTheHostWhatCannot) {
  const auto refuse_run = [&](uint32_t kind, const std::vector<std::string>& parts) {
    const size_t num_actions = program_.actions.size();
    expect_error<Error>(
        [&] {
          run([&](const OffloadView& view, const OffloadSink& sink) {
            sink.run_on_host(kind ? action_of(view, kind).id : 999'999);
          });
        },
        parts);
    EXPECT_EQ(program_.actions.size(), num_actions);
    EXPECT_EQ(program_.host_flag, "");
  };
  refuse_run(0, {"offload policy by-hand: ", "999999 is not the id of an action of the step"});
  refuse_run(TSR_ACTION_BACKWARD, {"(backward) cannot run on the host: only elementwise actions, sum_squares and"});
  refuse_run(TSR_ACTION_CLIP, {"(clip) cannot run on the host: only elementwise actions, sum_squares and optimizer"});
  refuse_run(TSR_ACTION_ZERO, {"(zero) cannot run on the host: its operand ", "(loss) is not an item"});
  refuse_run(TSR_ACTION_SUM_SQUARES, {"(sum_squares of wte.weight) cannot run on the host: its operand ",
                                      "(wte) is not in host memory then; let it leave for it after visit ",
                                      "backward of wte mb=1, the last to use it on the device"});
  refuse_run(TSR_ACTION_OPTIMIZER, {"(optimizer of wte.weight) cannot run on the host: its operand ",
                                    "(wte) does not rest in host memory; let it leave for it after its last use"});
  limits_.host_obstacle = "the streams of --device x cannot wait for the host";
  refuse_run(TSR_ACTION_OPTIMIZER,
             {"cannot run on the host: the streams of --device x cannot wait for the host; let it"});
}

// Its items are away, in another memory.
TEST_F(OffloadRunner, RefusesToRunOnTheHostWhatIsElsewhere) {
  limits_.places.push_back({9, 0, UINT64_MAX});
  expect_error<Error>(
      [&] {
        run([](const OffloadView& view, const OffloadSink& sink) {
          const tsr_action& squares = action_of(view, TSR_ACTION_SUM_SQUARES);
          const tsr_item& item = *std::ranges::find(view.items(), squares.bindings[0].buffer, &tsr_item::buffer);
          for (uint64_t u = 0; u + 1 < item.num_uses; ++u)
            sink.leave({item.buffer, item.uses[u].visit, 9, 1, 1});
          sink.run_on_host(squares.id);
        });
      },
      {"is not in host memory then"});
}

// An answer that failed is dropped, and a policy may go on.
TEST_F(OffloadRunner, DropsARefusedAnswer) {
  run([](const OffloadView& view, const OffloadSink& sink) {
    EXPECT_THROW(sink.leave({saved(view).buffer, saved(view).uses[0].visit, 99, 1, 1}), Error);
    sink.leave({saved(view).buffer, saved(view).uses[0].visit, TSR_MEMORY_HOST, 1, 1});
    EXPECT_THROW(sink.leave({saved(view).buffer, saved(view).uses[0].visit, TSR_MEMORY_HOST, 1, 1}), Error);
  });
  EXPECT_EQ(num_on("evict"), 1u);
}

TEST_F(OffloadRunner, RefusesAPolicyThatChangesWhatItIsShown) {
  const std::function<void(const OffloadView&)> changes[] = {
      [](const OffloadView& view) { const_cast<tsr_item&>(view.items()[0]).num_bytes = 7; },
      [](const OffloadView& view) { const_cast<tsr_visit&>(view.visits()[0]).operations = 7; },
      [](const OffloadView& view) { const_cast<tsr_use&>(view.items()[0].uses[0]).visit = 7; }};
  for (const auto& change : changes)
    EXPECT_THROW(run([&](const OffloadView& view, const OffloadSink&) { change(view); }), Error) << &change - changes;
}

TEST_F(OffloadRunner, SaysWhichPolicyFailed) {
  expect_error<Error>(
      [&] { run([](const OffloadView&, const OffloadSink&) { throw Error(TSR_E_INVALID_ARGUMENT, "give more"); }); },
      {"offload policy by-hand: [by-hand] give more"});
}

}  // namespace
}  // namespace tessera::testing
