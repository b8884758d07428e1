// Every layout reads what every other has saved.
#include <gtest/gtest.h>

#include "parity/checkpoint_layouts.h"

namespace tessera::testing {
namespace {

TEST(CheckpointMatrix, EveryLayoutReadsWhatEveryOtherHasSaved) {
  expect_layouts_read_one_another([](size_t, size_t) { return true; });
}

}  // namespace
}  // namespace tessera::testing
