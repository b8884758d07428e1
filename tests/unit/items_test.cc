// Which buffers of a step may leave device memory, and how a policy sees their uses.
#include "offload/items.h"

#include <gtest/gtest.h>

#include <set>

#include "support/small_step.h"

namespace tessera::testing {
namespace {

std::set<std::string> item_names(const SmallStep& step) {
  std::set<std::string> names;
  for (const Item& item : items_of(step.program, step.visits))
    names.insert(item.buffer->name);
  return names;
}

TEST(Items, AreUsedByTwoVisits) {
  const SmallStep step({{{"once", 'w'}, {"t", 'w'}}, {}, {{"t", 'r'}}});
  EXPECT_EQ(item_names(step), std::set<std::string>{"t"});
  const Item item = items_of(step.program, step.visits)[0];
  ASSERT_EQ(item.uses.size(), 2u);
  EXPECT_EQ(item.uses[0].visit, 0u);
  EXPECT_EQ(item.uses[0].mode, TSR_MODE_ADD);
  EXPECT_EQ(item.uses[1].visit, 2u);
  EXPECT_EQ(item.uses[1].mode, TSR_MODE_READ);
  EXPECT_EQ(item.uses[1].num_bytes, 256u);
}

TEST(Items, ThatPersistAreUsedByOneVisitOrMoreAndMayBeWrittenAgain) {
  EXPECT_EQ(item_names(SmallStep({{{"p", 'r'}}, {{"p once", 'r'}}, {{"p", 'w'}}, {{"p", 'w'}}})),
            (std::set<std::string>{"p", "p once"}));
}

TEST(Items, AreOfTheseKindsInDeviceMemory) {
  std::set<std::string> kinds;
  for (const bool is_persistent : {false, true})
    for (uint32_t kind = TSR_BUFFER_HOME; kind <= TSR_BUFFER_FETCHED; ++kind)
      for (const uint32_t memory : {TSR_MEMORY_DEVICE, TSR_MEMORY_HOST}) {
        SmallStep step({{}, {}});
        const uint64_t buffer = step.program.add_buffer({0, "b", kind, memory, TSR_F32, is_persistent, 64});
        step.program.actions[0].bindings.push_back({buffer, 0, 64, 0, TSR_MODE_WRITE});
        step.program.actions[1].bindings.push_back({buffer, 0, 64, 0, TSR_MODE_READ});
        if (items_of(step.program, step.visits).empty()) continue;
        kinds.insert(std::string(is_persistent ? "persistent " : "") + std::string(buffer_kind_name(kind)) +
                     (memory == TSR_MEMORY_HOST ? " in host memory" : ""));
      }
  EXPECT_EQ(kinds, (std::set<std::string>{"activation", "saved", "gathered", "gradient", "plugin", "persistent home",
                                          "persistent optimizer"}));
}

TEST(Items, CountTheElementsThatAVisitUsesOnce) {
  SmallStep step({{{"t", 'w'}}, {{"t", 'r'}}, {{"t", 'r'}}});
  Binding& half = step.program.actions[1].bindings[0];
  half.offset = 16;
  half.num_elements = 32;
  step.program.actions[2].bindings[0].num_elements = 24;
  step.visits = {{0, 0, TSR_VISIT_FORWARD, 2, 0, 0, 0, 0, 0}, {1, 2, TSR_VISIT_FORWARD, 2, 0, 0, 0, 0, 0}};
  const Item item = items_of(step.program, step.visits).at(0);
  ASSERT_EQ(item.uses.size(), 2u);
  EXPECT_EQ(item.uses[0].num_bytes, 64 * 4u);
  EXPECT_EQ(item.uses[1].num_bytes, 48 * 4u) << "0 to 24 and 16 to 48";
  EXPECT_EQ(item.unit, 2);
  step.visits[1].unit = 3;
  EXPECT_EQ(items_of(step.program, step.visits).at(0).unit, -1) << "of two units";
}

TEST(Items, AreWrittenInAVisitThatReadsThemLater) {
  SmallStep step({{{"t", 'w'}}, {{"t", 'a'}}, {{"t", 'r'}}});
  step.visits = {{0, 0, TSR_VISIT_FORWARD, -1, 0, 0, 0, 0, 0}, {1, 2, TSR_VISIT_FORWARD, -1, 0, 0, 0, 0, 0}};
  EXPECT_EQ(items_of(step.program, step.visits).at(0).uses.at(1).mode, TSR_MODE_ADD);
}

TEST(Items, AreNotWhatAnActionBindsWithoutElements) {
  SmallStep step({{{"t", 'w'}}, {{"t", 'r'}}, {{"t", 'r'}}});
  step.program.actions[2].bindings[0].num_elements = 0;
  EXPECT_EQ(item_names(step), std::set<std::string>{});
}

TEST(Items, AreNotWhatIsWrittenAgain) {
  EXPECT_EQ(item_names(SmallStep({{{"t", 'w'}}, {{"t", 'r'}}, {{"t", 'w'}}, {{"t", 'r'}}})), std::set<std::string>{});
}

TEST(Items, AreNotWhatHasLeftAlready) {
  SmallStep step({{{"t", 'w'}}, {}, {{"t", 'r'}}, {{"u", 'w'}}, {{"u", 'r'}}});
  step.leave("t", 0, 0, 0).moved();
  step.visits.clear();
  for (uint64_t i = 0; i < step.program.actions.size(); ++i)
    step.visits.push_back({i, i, TSR_VISIT_FORWARD, -1, 0, 0, 0, 0, 0});
  EXPECT_EQ(item_names(step), std::set<std::string>{"u"});
}

}  // namespace
}  // namespace tessera::testing
