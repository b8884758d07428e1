// Which processes gloo-comm permits to read its memory, and until when: prctl() is replaced by the test's own.
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdarg>
#include <vector>

#include "gloo-comm/connections/cma.h"

namespace {
std::vector<unsigned long> tracers;
}

extern "C" int prctl(int option, ...) {
  if (option != PR_SET_PTRACER) return 0;
  va_list arguments;
  va_start(arguments, option);
  tracers.push_back(va_arg(arguments, unsigned long));
  va_end(arguments);
  return 0;
}

namespace tessera::gloo_comm {
namespace {

using Tracers = std::vector<unsigned long>;
const auto kParent = static_cast<unsigned long>(getppid());

class GlooCma : public ::testing::Test {
 protected:
  void SetUp() override {
    if (getppid() <= 1) GTEST_SKIP() << "needs a parent process other than init";
    tracers.clear();
  }
};

TEST_F(GlooCma, TheParentIsNamedUntilTheLastReaderHasGone) {
  {
    const CmaReader first(true, 2);
    const CmaReader second(true, 2);
    EXPECT_EQ(tracers, Tracers{kParent});
  }
  EXPECT_EQ(tracers, (Tracers{kParent, 0}));
}

TEST_F(GlooCma, WhereNothingIsReadNobodyMay) {
  const CmaReader off(false, 2), alone(true, 1);
  EXPECT_EQ(tracers, Tracers{});
  CmaReader reader(true, 2);
  reader.finish_probing();  // it has found no peer to read
  EXPECT_EQ(tracers, (Tracers{kParent, 0}));
}

TEST_F(GlooCma, ItLastsWhileAPeerIsRead) {
  CmaReader reader(true, 2), other(true, 2);
  tracers.clear();
  reader.try_peer(1, other.readable());
  reader.note_peer_can_read(1);
  ASSERT_TRUE(reader.reads(1));  // this process can read itself
  reader.finish_probing();
  EXPECT_EQ(tracers, Tracers{});
}

TEST_F(GlooCma, AProcessThatHasAnotherWordIsNotThePeer) {
  CmaReader reader(true, 2), other(true, 2);
  CmaProbe wrong = other.readable();
  wrong.word ^= 1;
  reader.try_peer(1, wrong);
  EXPECT_FALSE(reader.can_read(1));
}

}  // namespace
}  // namespace tessera::gloo_comm
