// Which gaps of a buffer are zeroed before something reads all of it.
#include "passes/zero_pads.h"

#include <gtest/gtest.h>

#include "support/program_builder.h"

namespace tessera::testing {
namespace {

/// The ranges that are zeroed of a buffer of 256 elements, of which two homes of 100 are at 0 and 128, when this one
/// is written and the whole is summed.
std::vector<std::pair<uint64_t, uint64_t>> zeroed(std::initializer_list<uint64_t> written) {
  const Model model = toy_model();
  const Mesh mesh({{"dp", 2}});
  Program p = empty_program(model, mesh);
  const uint64_t gradient = transient(p, "gradient", 256, TSR_BUFFER_GRADIENT);
  for (const uint64_t offset : {uint64_t{0}, uint64_t{128}}) {
    Home home{p.next_id++, "home", 0, {{0, 0, 0, 100, 0}}, 100, {}};
    home.roles[TSR_HOME_GRADIENT] = {gradient, offset, 100};
    p.homes.push_back(home);
  }
  for (const uint64_t offset : written)
    add_action(p, TSR_ACTION_CALL, TSR_STREAM_COMPUTE, {write(gradient).at(offset, 100)});
  add_action(p, TSR_ACTION_ALL_REDUCE, p.comm_stream(0, "sum"), {add(gradient)}).group = p.group({0, {}});
  zero_pads(p);
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (const Action& action : p.actions)
    if (action.kind == TSR_ACTION_ZERO)
      for (const Binding& binding : action.bindings)
        ranges.emplace_back(binding.offset, binding.offset + binding.num_elements);
  return ranges;
}

using Ranges = std::vector<std::pair<uint64_t, uint64_t>>;

TEST(ZeroPads, AreTheGapsBetweenParameters) {
  EXPECT_EQ(zeroed({0, 128}), (Ranges{{100, 128}, {228, 256}}));
}

// Zeros would hide that a backward is missing.
TEST(ZeroPads, AreNotWhereAParameterIsUnwritten) {
  EXPECT_EQ(zeroed({128}), (Ranges{{228, 256}}));
  EXPECT_EQ(zeroed({}), Ranges{});
}

}  // namespace
}  // namespace tessera::testing
