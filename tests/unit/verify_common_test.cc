// Where a program looks for what the host has filled, in programs whose homes an offload policy has cut.
#include <gtest/gtest.h>

#include <functional>
#include <initializer_list>
#include <string_view>

#include "support/expect_diagnostic.h"
#include "support/program_builder.h"
#include "verify/verify_common.h"

namespace tessera::testing {
namespace {

/// Elements of a parameter from `begin` on, in a buffer.
struct Part {
  std::string_view buffer;
  uint64_t offset, begin, num_elements;
};

class FilledPlaces : public ::testing::Test {
 protected:
  Program with(std::initializer_list<Part> parts, uint32_t purpose) const {
    Program p = empty_program(model_, mesh_);
    p.purpose = purpose;
    const uint64_t first = persistent(p, "first", 512), second = persistent(p, "second", 512);
    for (const Part& part : parts) {
      Home home{p.next_id++, "weight", 1, {{1, 0, part.begin, part.num_elements, 0}}, part.num_elements, {}};
      home.roles[TSR_HOME_VALUE] = {part.buffer == "first" ? first : second, part.offset, part.num_elements};
      p.homes.push_back(home);
    }
    return p;
  }
  /// Of an evaluation with all 256 elements in one place, after a step with these parts.
  Diagnostics findings(std::initializer_list<Part> filled) const {
    const Program step = with(filled, TSR_PURPOSE_STEP), eval = with({{"first", 0, 0, 256}}, TSR_PURPOSE_EVAL);
    DiagnosticList diagnostics;
    verify_common(eval, step, step, step, step.step_config, true, diagnostics);
    return diagnostics.take();
  }

  const Model model_ = toy_model(1);
  const Mesh mesh_{{{"dp", 1}}};
};

constexpr std::string_view kElsewhere = "in another place than the program whose homes the host fills";

TEST_F(FilledPlaces, SideBySideAreOne) {
  EXPECT_TRUE(is_clean(findings({{"first", 0, 0, 256}})));
  EXPECT_TRUE(is_clean(findings({{"first", 128, 128, 128}, {"first", 0, 0, 128}})));
}

TEST_F(FilledPlaces, InTwoBuffersAreTwo) {
  EXPECT_TRUE(has_diagnostic(findings({{"first", 0, 0, 128}, {"second", 128, 128, 128}}), kElsewhere));
}

TEST_F(FilledPlaces, ThatAreApartAreTwo) {
  EXPECT_TRUE(has_diagnostic(findings({{"first", 0, 0, 128}, {"first", 256, 128, 128}}), kElsewhere));
}

TEST_F(FilledPlaces, OfAPartAreNotOfTheWhole) {
  EXPECT_TRUE(has_diagnostic(findings({{"first", 0, 0, 128}}), kElsewhere));
  EXPECT_TRUE(has_diagnostic(findings({{"first", 128, 128, 128}}), kElsewhere));
}

TEST_F(FilledPlaces, AtAnotherOffset) {
  EXPECT_TRUE(has_diagnostic(findings({{"first", 64, 0, 256}}), kElsewhere));
}

TEST_F(FilledPlaces, UnderAnotherLayout) {
  const std::function<void(LayoutEntry&)> changes[] = {
      [](LayoutEntry& entry) { ++entry.parameter; },   [](LayoutEntry& entry) { ++entry.axis; },
      [](LayoutEntry& entry) { ++entry.roles; },       [](LayoutEntry& entry) { ++entry.kind; },
      [](LayoutEntry& entry) { ++entry.dim; },         [](LayoutEntry& entry) { ++entry.parts; },
      [](LayoutEntry& entry) { ++entry.blocks; },      [](LayoutEntry& entry) { entry.coordinates = {1}; },
      [](LayoutEntry& entry) { ++entry.padded_size; }, [](LayoutEntry& entry) { ++entry.name; }};
  Program step = with({}, TSR_PURPOSE_STEP);
  step.layout.emplace_back();
  for (const auto& change : changes) {
    Program other = step;
    change(other.layout[0]);
    DiagnosticList diagnostics;
    verify_common(step, step, step, other, step.step_config, true, diagnostics);
    EXPECT_TRUE(has_diagnostic(diagnostics.take(), "has another layout than the init program of rank 0"))
        << &change - changes;
  }
}

}  // namespace
}  // namespace tessera::testing
