// tessera/helpers.h: what most plugins in C are written with.
#include <gtest/gtest.h>

#include <string>

#include "tessera/helpers.h"

namespace tessera::testing {
namespace {

constexpr uint32_t kSource = TSR_SLOT(TSR_ROLE_SOURCE, 0), kDestination = TSR_SLOT(TSR_ROLE_DESTINATION, 0);

TEST(Helpers, TextsAreComparedWhole) {
  const tsr_str ddp = TSR_STR("ddp");
  EXPECT_EQ(ddp.len, 3u);
  EXPECT_TRUE(tsr_equals(ddp, "ddp"));
  EXPECT_FALSE(tsr_equals(ddp, "dd"));
  EXPECT_FALSE(tsr_equals(ddp, "ddp2"));
  EXPECT_FALSE(tsr_equals({"ddp2", 4}, "ddp"));
  EXPECT_TRUE(tsr_equals({"ddp2", 3}, "ddp")) << "texts need not end with a zero";
}

TEST(Helpers, ErrorsAreFilledAndCut) {
  tsr_error err;
  std::fill_n(reinterpret_cast<char*>(&err), sizeof err, '\xab');
  const std::string longer(1000, 'x');
  EXPECT_EQ(tsr_fail(&err, TSR_E_UNSUPPORTED, longer.c_str(), longer.c_str()), TSR_E_UNSUPPORTED);
  EXPECT_EQ(err.code, TSR_E_UNSUPPORTED);
  EXPECT_EQ(err.rank, -1);
  EXPECT_EQ(std::string(err.domain), longer.substr(0, sizeof err.domain - 1));
  EXPECT_EQ(std::string(err.message), longer.substr(0, sizeof err.message - 1));
  EXPECT_EQ(tsr_fail(nullptr, TSR_E_INTERNAL, "a", "b"), TSR_E_INTERNAL) << "err may be NULL";
}

TEST(Helpers, OptionsAreFoundByName) {
  tsr_option_value values[2] = {};
  values[0].name = TSR_STR("every");
  values[1].name = TSR_STR("ahead");
  EXPECT_EQ(tsr_find_option(values, 2, "ahead"), &values[1]);
  EXPECT_EQ(tsr_find_option(values, 1, "ahead"), nullptr);
  EXPECT_EQ(tsr_find_option(nullptr, 0, "ahead"), nullptr);
}

TEST(Helpers, AHandshakeNeedsTheMinorOfTheHeaders) {
  const auto shake = [](auto change) {
    tsr_handshake io{};
    io.magic = TSR_MAGIC;
    io.abi_major = TSR_ABI_MAJOR;
    io.pointer_bits = 64;
    io.host_minor_min = io.host_minor_max = TSR_ABI_MINOR;
    change(io);
    tsr_error err{};
    return tsr_shake_hands(&io, "sample", &err);
  };
  EXPECT_EQ(shake([](tsr_handshake&) {}), TSR_OK);
  EXPECT_EQ(shake([](tsr_handshake& io) { io.host_minor_max = TSR_ABI_MINOR + 5; }), TSR_OK);
  EXPECT_EQ(shake([](tsr_handshake& io) { io.magic = 1; }), TSR_E_ABI);
  EXPECT_EQ(shake([](tsr_handshake& io) { io.abi_major = TSR_ABI_MAJOR + 1; }), TSR_E_ABI);
  EXPECT_EQ(shake([](tsr_handshake& io) { io.pointer_bits = 32; }), TSR_E_ABI);
  EXPECT_EQ(shake([](tsr_handshake& io) { io.host_minor_min = io.host_minor_max = TSR_ABI_MINOR + 1; }), TSR_E_ABI);
}

/// Action 5 writes %1[0:8], 6 adds to %1[8:16], 7 reads %1, 8 writes %2.
class Program : public ::testing::Test {
 protected:
  void SetUp() override {
    for (tsr_action& action : actions_)
      action.num_bindings = 1;
    for (size_t i = 0; i < 4; ++i) {
      actions_[i].id = 5 + i;
      actions_[i].bindings = &bindings_[i];
    }
    view_.actions = actions_;
    view_.num_actions = 4;
    view_.buffers = buffers_;
    view_.num_buffers = 2;
    buffers_[0].id = 1;
    buffers_[1].id = 2;
  }
  uint64_t last_writer(uint64_t buffer, uint64_t offset, uint64_t num_elements) const {
    const tsr_binding range = {buffer, offset, num_elements, 0, 0};
    return tsr_last_writer(&view_, &range);
  }

  const tsr_binding bindings_[4] = {{1, 0, 8, kDestination, TSR_MODE_WRITE},
                                    {1, 8, 8, kDestination, TSR_MODE_ADD},
                                    {1, 0, 16, kSource, TSR_MODE_READ},
                                    {2, 0, 4, kDestination, TSR_MODE_WRITE}};
  tsr_action actions_[4] = {};
  tsr_buffer buffers_[2] = {};
  tsr_program_view view_{};
};

TEST_F(Program, HasTheLastWriterOfEachRange) {
  EXPECT_EQ(last_writer(1, 0, 16), 6u);
  EXPECT_EQ(last_writer(1, 0, 8), 5u) << "ranges that touch do not overlap";
  EXPECT_EQ(last_writer(1, 7, 2), 6u);
  EXPECT_EQ(last_writer(2, 3, 1), 8u);
  EXPECT_EQ(last_writer(2, 4, 1), 0u);
  EXPECT_EQ(last_writer(3, 0, 1), 0u);
}

TEST_F(Program, FindsBuffersAndBindings) {
  EXPECT_EQ(tsr_find_buffer(&view_, 2), &buffers_[1]);
  EXPECT_EQ(tsr_find_buffer(&view_, 3), nullptr);
  EXPECT_EQ(tsr_find_binding(&actions_[2], kSource), &bindings_[2]);
  EXPECT_EQ(tsr_find_binding(&actions_[2], kDestination), nullptr);
}

TEST(Helpers, AHomeHasRolesByNumber) {
  const tsr_home_role roles[] = {{TSR_HOME_VALUE, 1, 10, 0, 4}, {TSR_HOME_STATE(1), 1, 11, 0, 4}};
  tsr_home home{};
  home.roles = roles;
  home.num_roles = 2;
  EXPECT_EQ(tsr_find_role(&home, TSR_HOME_STATE(1)), &roles[1]);
  EXPECT_EQ(tsr_find_role(&home, TSR_HOME_GRADIENT), nullptr);
}

}  // namespace
}  // namespace tessera::testing
