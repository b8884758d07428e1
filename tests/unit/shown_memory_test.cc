#include "guard/shown_memory.h"

#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <utility>
#include <vector>

#include "support/expect_error.h"

namespace tessera::testing {
namespace {

// What a plugin is shown: arrays whose ends are at no word's end, and one that is empty.
class ShownMemoryTest : public ::testing::Test {
 protected:
  ShownMemoryTest() {
    uint8_t next = 0;
    for (std::vector<uint8_t>& array : arrays_) {
      std::iota(array.begin(), array.end(), next);
      next = static_cast<uint8_t>(next + array.size());
      shown_.add(array.data(), array.size());
    }
    shown_.remember();
  }

  void expect_noticed(const char* what, size_t array, size_t byte) const {
    SCOPED_TRACE(what);
    SCOPED_TRACE("byte " + std::to_string(byte) + " of array " + std::to_string(array));
    expect_error([&] { shown_.check_unchanged(nullptr); }, {"writes through a const pointer"});
  }

  std::array<std::vector<uint8_t>, 4> arrays_{std::vector<uint8_t>(7), std::vector<uint8_t>(), std::vector<uint8_t>(64),
                                              std::vector<uint8_t>(83)};
  host::ShownMemory shown_;
};

TEST_F(ShownMemoryTest, WhatIsLeftAsItWasPasses) {
  shown_.check_unchanged(nullptr);
}

TEST_F(ShownMemoryTest, EachBitThatChangesIsNoticed) {
  for (size_t i = 0; i < arrays_.size(); ++i)
    for (size_t byte = 0; byte < arrays_[i].size(); ++byte)
      for (int bit = 0; bit < 8; ++bit) {
        arrays_[i][byte] ^= static_cast<uint8_t>(1 << bit);
        expect_noticed("flipped", i, byte);
        arrays_[i][byte] ^= static_cast<uint8_t>(1 << bit);
      }
  shown_.check_unchanged(nullptr);
}

TEST_F(ShownMemoryTest, BytesThatChangePlacesAreNoticed) {
  std::vector<uint8_t>& array = arrays_[3];
  for (size_t distance = 1; distance < array.size(); ++distance)
    for (size_t byte = 0; byte + distance < array.size(); ++byte) {
      std::swap(array[byte], array[byte + distance]);
      expect_noticed("swapped", 3, byte);
      std::swap(array[byte], array[byte + distance]);
    }
}

TEST_F(ShownMemoryTest, AnElementThatMovesToAnotherArrayIsNoticed) {
  std::swap(arrays_[0].back(), arrays_[2].front());
  expect_noticed("swapped", 0, 6);
}

}  // namespace
}  // namespace tessera::testing
