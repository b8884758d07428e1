// What the policies that come with Tessera answer to views made by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "activations.h"
#include "optimizer_state.h"
#include "stream.h"
#include "support/expect_error.h"
#include "tessera/offload.hpp"

namespace tessera::testing {
namespace {

constexpr uint64_t kMiB = 1 << 20;

/// Visits from this one on are updates, where that matters.
constexpr uint32_t kFirstUpdate = 7;

/// A view of items with uses, and the homes that name them.
class View {
 public:
  View& item(uint32_t kind, std::vector<uint32_t> visits, uint64_t num_bytes = kMiB) {
    std::vector<tsr_use>& uses = uses_.emplace_back();
    for (const uint32_t visit : visits)
      uses.push_back({visit, TSR_MODE_READ, num_bytes});
    const bool is_persistent = kind == TSR_BUFFER_HOME || kind == TSR_BUFFER_OPTIMIZER;
    items_.push_back(
        {items_.size() + 1, {}, kind, is_persistent ? TSR_BUFFER_PERSISTENT : 0u, -1, 0, num_bytes, nullptr, 0});
    return *this;
  }
  View& unit(const char* name) {
    tsr_unit unit{};
    unit.name = str(name);
    units_.push_back(unit);
    return *this;
  }
  /// A home whose moments are these items, of the last unit.
  View& home(uint64_t m, uint64_t v) {
    roles_.push_back({{TSR_HOME_M, 1, m, 0, 0}, {TSR_HOME_V, 1, v, 0, 0}});
    tsr_home home{};
    home.num_roles = 2;
    home.unit = static_cast<int32_t>(units_.size()) - 1;
    homes_.push_back(home);
    return *this;
  }
  /// Squares and update of a home with these items: actions 100 and 101, then 102 and 103 of the next one.
  View& update(uint64_t value, uint64_t gradient, uint64_t m, uint64_t v) {
    const auto operand = [](uint64_t item, uint32_t role, uint32_t index) {
      return tsr_binding{item, 0, 1, TSR_SLOT(role, index), TSR_MODE_ADD};
    };
    updates_.push_back({operand(gradient, TSR_ROLE_SOURCE, 0)});
    updates_.push_back({operand(gradient, TSR_ROLE_SOURCE, 0), operand(value, TSR_ROLE_DESTINATION, 0),
                        operand(m, TSR_ROLE_STATE, 0), operand(v, TSR_ROLE_STATE, 1)});
    return *this;
  }
  /// What it last ran on the host.
  const std::vector<uint64_t>& host_runs() const { return host_runs_; }
  View& with_files() {
    places_.push_back({TSR_MEMORY_FILE, 0, UINT64_MAX});
    return *this;
  }
  View& without_places() {
    places_.clear();
    return *this;
  }

  /// The policy's answers.
  template <class Policy>
  std::vector<tsr_leave> ask(const Policy& policy) {
    for (size_t i = 0; i < items_.size(); ++i) {
      items_[i].uses = uses_[i].data();
      items_[i].num_uses = uses_[i].size();
    }
    tsr_program_view program{};
    program.struct_size = sizeof program;
    for (size_t i = 0; i < homes_.size(); ++i)
      homes_[i].roles = roles_[i].data();
    program.units = units_.data();
    program.num_units = units_.size();
    program.homes = homes_.data();
    program.num_homes = homes_.size();
    tsr_offload_view view{sizeof view,    0,
                          UINT64_MAX,     &program,
                          places_.data(), visits_.data(),
                          items_.data(),  places_.size(),
                          visits_.size(), items_.size()};
    std::vector<tsr_action> actions;
    for (size_t i = 0; i < updates_.size(); ++i) {
      tsr_action action{};
      action.id = 100 + i;
      action.kind = updates_[i].size() == 1 ? TSR_ACTION_SUM_SQUARES : TSR_ACTION_OPTIMIZER;
      action.home = updates_[i][0].buffer;  // the gradient's number will do
      action.bindings = updates_[i].data();
      action.num_bindings = updates_[i].size();
      actions.push_back(action);
    }
    program.actions = actions.data();
    program.num_actions = actions.size();
    answers_.clear();
    host_runs_.clear();
    const auto take = [](void* ctx, const tsr_leave* leave, tsr_error*) noexcept -> tsr_status {
      static_cast<View*>(ctx)->answers_.push_back(*leave);
      return TSR_OK;
    };
    const auto run = [](void* ctx, uint64_t action, tsr_error*) noexcept -> tsr_status {
      static_cast<View*>(ctx)->host_runs_.push_back(action);
      return TSR_OK;
    };
    const tsr_offload_sink sink{sizeof sink, 0, this, take, run};
    policy.plan(OffloadView(view), OffloadSink(sink));
    return answers_;
  }

 private:
  std::vector<tsr_item> items_;
  std::vector<std::vector<tsr_use>> uses_;
  std::vector<std::vector<tsr_home_role>> roles_;  // of each home
  std::vector<tsr_unit> units_;
  std::vector<tsr_home> homes_;
  std::vector<std::vector<tsr_binding>> updates_;
  std::vector<tsr_leave> answers_;
  std::vector<uint64_t> host_runs_;
  std::vector<tsr_visit> visits_ = [] {
    std::vector<tsr_visit> visits(30);
    for (uint32_t v = 0; v < visits.size(); ++v)
      visits[v].kind = v >= kFirstUpdate ? TSR_VISIT_UPDATE : TSR_VISIT_BACKWARD;
    return visits;
  }();
  std::vector<tsr_place> places_ = {{77, 0, UINT64_MAX}, {TSR_MEMORY_HOST, 0, UINT64_MAX}};
};

/// "item after visit" of each answer.
std::vector<std::string> texts(const std::vector<tsr_leave>& answers) {
  std::vector<std::string> result;
  for (const tsr_leave& answer : answers)
    result.push_back(std::to_string(answer.buffer) + " after " + std::to_string(answer.after));
  return result;
}

using Texts = std::vector<std::string>;

// ---- activations -------------------------------------------------------------------------------------------------

struct ActivationOptions {
  std::string what = "all";
  double fraction = 1;
  int64_t min_bytes = 0, ahead = 1, linger = 1;
  std::string to = "host";

  activations::Activations policy() const {
    const tsr_option_value values[] = {{str("to"), str(to), 0, 0},         {str("what"), str(what), 0, 0},
                                       {str("fraction"), {}, 0, fraction}, {str("min-bytes"), {}, min_bytes, 0},
                                       {str("ahead"), {}, ahead, 0},       {str("linger"), {}, linger, 0}};
    return activations::Activations(values);
  }
};

TEST(Activations, LeaveWhereTheNextUseIsFarEnough) {
  View view;
  view.item(TSR_BUFFER_SAVED, {0, 3}).item(TSR_BUFFER_SAVED, {0, 4}).item(TSR_BUFFER_ACTIVATION, {0, 1, 9, 20});
  EXPECT_EQ(texts(view.ask(ActivationOptions{}.policy())), (Texts{"2 after 0", "3 after 1", "3 after 9"}))
      << "more than ahead + linger + 1 visits";
  EXPECT_EQ(texts(view.ask(ActivationOptions{.ahead = 5, .linger = 2}.policy())), (Texts{"3 after 9"}));
  EXPECT_EQ(texts(view.ask(ActivationOptions{.ahead = 0, .linger = 0}.policy())),
            (Texts{"1 after 0", "2 after 0", "3 after 1", "3 after 9"}));
}

TEST(Activations, SayWhenTheyComeAndGo) {
  const std::vector<tsr_leave> answers =
      View().item(TSR_BUFFER_SAVED, {0, 30}).ask(ActivationOptions{.ahead = 3, .linger = 2}.policy());
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].memory, TSR_MEMORY_HOST);
  EXPECT_EQ(answers[0].ahead, 3u);
  EXPECT_EQ(answers[0].linger, 2u);
}

TEST(Activations, AreSavedTensorsValuesOrBoth) {
  View view;
  view.item(TSR_BUFFER_SAVED, {0, 9}).item(TSR_BUFFER_ACTIVATION, {0, 9});
  for (const uint32_t other : {TSR_BUFFER_GATHERED, TSR_BUFFER_PLUGIN, TSR_BUFFER_HOME, TSR_BUFFER_OPTIMIZER})
    view.item(other, {0, 9});
  EXPECT_EQ(texts(view.ask(ActivationOptions{.what = "saved"}.policy())), (Texts{"1 after 0"}));
  EXPECT_EQ(texts(view.ask(ActivationOptions{.what = "values"}.policy())), (Texts{"2 after 0"}));
  EXPECT_EQ(texts(view.ask(ActivationOptions{}.policy())), (Texts{"1 after 0", "2 after 0"}));
}

TEST(Activations, ThatAreSmallStay) {
  View view;
  view.item(TSR_BUFFER_SAVED, {0, 9}, 1000).item(TSR_BUFFER_SAVED, {0, 9}, 1001).item(TSR_BUFFER_SAVED, {0, 9}, 999);
  EXPECT_EQ(texts(view.ask(ActivationOptions{.min_bytes = 1000}.policy())), (Texts{"1 after 0", "2 after 0"}));
}

/// Bytes that leave, each item once.
uint64_t bytes_of(const std::vector<tsr_leave>& answers, const std::vector<uint64_t>& num_bytes) {
  std::map<uint64_t, uint64_t> by_item;
  for (const tsr_leave& answer : answers)
    by_item[answer.buffer] = num_bytes[answer.buffer - 1];
  uint64_t sum = 0;
  for (const auto& [item, bytes] : by_item)
    sum += bytes;
  return sum;
}

TEST(Activations, OfAFractionAreThatShareOfTheBytesThatMayLeave) {
  View view;
  std::vector<uint64_t> num_bytes;
  uint64_t all = 0, largest = 0;
  for (uint64_t i = 0; i < 60; ++i) {
    num_bytes.push_back(kMiB + 37 * (i * i % 101) * 1000);
    const bool may_leave = i % 3 != 0;
    view.item(i % 2 ? TSR_BUFFER_SAVED : TSR_BUFFER_ACTIVATION, {0, may_leave ? 40u : 2u}, num_bytes.back());
    if (!may_leave) continue;
    all += num_bytes.back();
    largest = std::max(largest, num_bytes.back());
  }
  for (const double fraction : {0.0, 0.1, 0.5, 0.75, 1.0}) {
    const uint64_t taken = bytes_of(view.ask(ActivationOptions{.fraction = fraction}.policy()), num_bytes);
    EXPECT_NEAR(static_cast<double>(taken), fraction * static_cast<double>(all), static_cast<double>(largest))
        << fraction;
  }
  EXPECT_EQ(bytes_of(view.ask(ActivationOptions{.fraction = 0}.policy()), num_bytes), 0u);
  EXPECT_EQ(bytes_of(view.ask(ActivationOptions{.fraction = 1}.policy()), num_bytes), all);
}

// The first blocks of a model must not pay for the last ones.
TEST(Activations, OfAFractionAreSpreadOverTheModel) {
  View view;
  for (int i = 0; i < 8; ++i)
    view.item(TSR_BUFFER_SAVED, {0, 9});
  EXPECT_EQ(texts(view.ask(ActivationOptions{.fraction = 0.5}.policy())),
            (Texts{"1 after 0", "3 after 0", "5 after 0", "7 after 0"}));
  EXPECT_EQ(texts(view.ask(ActivationOptions{.fraction = 0.05}.policy())), Texts{}) << "0.4 of an item";
}

TEST(Activations, StayWhereThereIsNoHostMemory) {
  EXPECT_TRUE(View().item(TSR_BUFFER_SAVED, {0, 9}).without_places().ask(ActivationOptions{}.policy()).empty());
}

TEST(Activations, LeaveForTheMemoryThatIsNamed) {
  View view;
  view.item(TSR_BUFFER_SAVED, {0, 9}).with_files();
  EXPECT_EQ(view.ask(ActivationOptions{}.policy()).at(0).memory, TSR_MEMORY_HOST);
  EXPECT_EQ(view.ask(ActivationOptions{.to = "file"}.policy()).at(0).memory, TSR_MEMORY_FILE);
  expect_error<Error>([&] { view.without_places().ask(ActivationOptions{.to = "file"}.policy()); },
                      {"to=file needs --offload-dir FOLDER"});
}

// ---- optimizer-state ---------------------------------------------------------------------------------------------

struct StateOptions {
  double fraction = 1;
  std::string states = "all";
  int64_t ahead = 2, linger = 1;
  std::string to = "host";
  bool gradients = false;
  std::string update = "device";

  optimizer_state::OptimizerState policy() const {
    const tsr_option_value values[] = {{str("to"), str(to), 0, 0},         {str("fraction"), {}, 0, fraction},
                                       {str("states"), str(states), 0, 0}, {str("gradients"), {}, gradients, 0},
                                       {str("update"), str(update), 0, 0}, {str("ahead"), {}, ahead, 0},
                                       {str("linger"), {}, linger, 0}};
    return optimizer_state::OptimizerState(values);
  }
};

/// Two units: value 1, m 2, v 3, which two chunks update, and value 4, m 5, v 6, which one does.
View two_units() {
  View view;
  view.item(TSR_BUFFER_HOME, {0, 7, 8}).item(TSR_BUFFER_OPTIMIZER, {7, 8}).item(TSR_BUFFER_OPTIMIZER, {7, 8});
  view.item(TSR_BUFFER_HOME, {1, 9}).item(TSR_BUFFER_OPTIMIZER, {9}).item(TSR_BUFFER_OPTIMIZER, {9});
  view.item(TSR_BUFFER_SAVED, {0, 6});
  return view.home(2, 3).home(2, 3).home(5, 6);
}

TEST(OptimizerState, LeavesAfterEveryUpdateTheLastOneToo) {
  EXPECT_EQ(texts(two_units().ask(StateOptions{}.policy())),
            (Texts{"2 after 7", "2 after 8", "3 after 7", "3 after 8", "5 after 9", "6 after 9"}));
}

TEST(OptimizerState, IsEitherMomentOrBoth) {
  EXPECT_EQ(texts(two_units().ask(StateOptions{.states = "m"}.policy())),
            (Texts{"2 after 7", "2 after 8", "5 after 9"}));
  EXPECT_EQ(texts(two_units().ask(StateOptions{.states = "v"}.policy())),
            (Texts{"3 after 7", "3 after 8", "6 after 9"}));
}

// From a backward that is far enough from the updates, and between these.
TEST(OptimizerState, TakesGradientsAlongIfAsked) {
  const auto with_gradients = [] {
    return two_units()
        .item(TSR_BUFFER_GRADIENT, {2, 7, 8})
        .item(TSR_BUFFER_GRADIENT, {5, 9})
        .item(TSR_BUFFER_GRADIENT, {0, 6, 10});
  };
  EXPECT_EQ(with_gradients().ask(StateOptions{}.policy()).size(), 6u);
  const std::vector<tsr_leave> answers = with_gradients().ask(StateOptions{.gradients = true}.policy());
  EXPECT_EQ(texts({answers.begin() + 6, answers.end()}), (Texts{"8 after 2", "8 after 7", "10 after 0"}));
  EXPECT_EQ(texts(with_gradients().ask(StateOptions{.fraction = 0.5, .gradients = true}.policy())),
            (Texts{"2 after 7", "2 after 8", "5 after 9", "8 after 2", "8 after 7", "10 after 0"}));
}

/// Value 1, gradient 2, m 3, v 4, whose squares are visit 7 and update visit 10; then 5 to 8 with 8 and 11.
View two_updates() {
  View view;
  view.item(TSR_BUFFER_HOME, {0, 5, 10}).item(TSR_BUFFER_GRADIENT, {0, 5, 7, 10});
  view.item(TSR_BUFFER_OPTIMIZER, {10}).item(TSR_BUFFER_OPTIMIZER, {10});
  view.item(TSR_BUFFER_HOME, {1, 4, 11}).item(TSR_BUFFER_GRADIENT, {4, 8, 11});
  view.item(TSR_BUFFER_OPTIMIZER, {11}).item(TSR_BUFFER_OPTIMIZER, {11});
  return view.update(1, 2, 3, 4).update(5, 6, 7, 8);
}

TEST(OptimizerState, IsUpdatedOnTheHostWhereAllOfItRests) {
  View view = two_updates();
  EXPECT_EQ(texts(view.ask(StateOptions{.update = "host"}.policy())),
            (Texts{"1 after 5", "1 after 10", "2 after 5", "2 after 7", "3 after 10", "4 after 10", "5 after 4",
                   "5 after 11", "6 after 4", "6 after 8", "7 after 11", "8 after 11"}));
  std::vector<uint64_t> runs = view.host_runs();
  std::ranges::sort(runs);
  EXPECT_EQ(runs, (std::vector<uint64_t>{100, 101, 102, 103}));
  view.ask(StateOptions{}.policy());
  EXPECT_TRUE(view.host_runs().empty());
}

TEST(OptimizerState, IsUpdatedOnTheHostAndGradientsLeaveInTheirGapsToo) {
  EXPECT_EQ(texts(two_updates().ask(StateOptions{.gradients = true, .update = "host"}.policy())).at(2), "2 after 0");
}

// Whole homes, by the bytes of their values.
TEST(OptimizerState, OfAFractionIsUpdatedOnTheHost) {
  View view = two_updates();
  EXPECT_EQ(texts(view.ask(StateOptions{.fraction = 0.3, .update = "host"}.policy())),
            (Texts{"5 after 4", "5 after 11", "6 after 4", "6 after 8", "7 after 11", "8 after 11"}));
  EXPECT_EQ(view.host_runs().size(), 2u);
}

TEST(OptimizerState, ThatAnEarlierPolicyTookIsNotUpdatedOnTheHost) {
  View view = two_updates();
  view.update(1, 2, 3, 99).ask(StateOptions{.update = "host"}.policy());
  EXPECT_EQ(std::ranges::count(view.host_runs(), 105u), 0) << "99 is not an item";
}

TEST(OptimizerState, IsUpdatedOnTheHostInItsMemoryOnly) {
  expect_error<Error>([] { (void)StateOptions{.to = "file", .update = "host"}.policy(); },
                      {"--optimizer-state.update=host works on host memory; with to=file the update is on the device"});
  expect_error<Error>([] { (void)StateOptions{.states = "m", .update = "host"}.policy(); },
                      {"update=host needs m and v on the host, and states=m leaves one on the device"});
}

TEST(OptimizerState, SaysWhenItComesAndGoes) {
  for (const tsr_leave& answer : two_units().ask(StateOptions{.ahead = 4, .linger = 3}.policy())) {
    EXPECT_EQ(answer.memory, TSR_MEMORY_HOST);
    EXPECT_EQ(answer.ahead, 4u);
    EXPECT_EQ(answer.linger, 3u);
  }
}

TEST(OptimizerState, LeavesForTheMemoryThatIsNamed) {
  EXPECT_EQ(two_units().with_files().ask(StateOptions{.to = "file"}.policy()).at(0).memory, TSR_MEMORY_FILE);
}

TEST(OptimizerState, OfAFractionIsOfWholeBuffers) {
  EXPECT_EQ(texts(two_units().ask(StateOptions{.fraction = 0.5}.policy())),
            (Texts{"2 after 7", "2 after 8", "5 after 9"}));
  EXPECT_TRUE(two_units().ask(StateOptions{.fraction = 0}.policy()).empty());
}

// SGD without momentum has none: roles name no buffer.
TEST(OptimizerState, ThatDoesNotExistIsNotAskedFor) {
  EXPECT_TRUE(View().item(TSR_BUFFER_HOME, {0, 7}).home(0, 0).ask(StateOptions{}.policy()).empty());
}

TEST(OptimizerState, StaysWhereThereIsNoHostMemory) {
  EXPECT_TRUE(two_units().without_places().ask(StateOptions{}.policy()).empty());
}

// ---- stream ------------------------------------------------------------------------------------------------------

/// Which items leave, of three units of two each.
std::set<uint64_t> leaving(const std::string& keep) {
  View view;
  for (int item = 0; item < 6; ++item)
    view.item(TSR_BUFFER_OPTIMIZER, {0, 9});
  view.unit("wte").home(1, 2).unit("h.0").home(3, 4).unit("ln_f").home(5, 6);
  const tsr_option_value values[] = {
      {str("to"), str("host"), 0, 0}, {str("fraction"), {}, 0, 1},          {str("keep"), str(keep), 0, 0},
      {str("gradients"), {}, 1, 0},   {str("update"), str("device"), 0, 0}, {str("ahead"), {}, 1, 0},
      {str("linger"), {}, 1, 0}};
  std::set<uint64_t> items;
  for (const tsr_leave& leave : view.ask(stream::Stream(values)))
    items.insert(leave.buffer);
  return items;
}

TEST(Stream, KeepsUnitsThatAreNamed) {
  EXPECT_EQ(leaving(""), (std::set<uint64_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(leaving("wte"), (std::set<uint64_t>{3, 4, 5, 6}));
  EXPECT_EQ(leaving("wte,ln_f"), (std::set<uint64_t>{3, 4}));
  expect_error<Error>([] { leaving("wte,h.1"); },
                      {"keep names the unit 'h.1', which the model does not have; the first of its 3 units is wte"});
}

}  // namespace
}  // namespace tessera::testing
