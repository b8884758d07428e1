// What gloo-comm says when it may open no more files.
#include "gloo-comm/connections/descriptor_limits.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace tessera::gloo_comm {
namespace {

TEST(TooFewDescriptors, NamesTheLimitThatWasReached) {
  errno = EMFILE;
  const std::string text = too_few_descriptors("[gloo-comm] dp rank 1", 1).what();
  EXPECT_NE(text.find("raise the limit with ulimit -n"), std::string::npos) << text;
}

TEST(TooFewDescriptors, OrThatTheMachineHasNoMore) {
  errno = ENFILE;
  const std::string text = too_few_descriptors("[gloo-comm] dp rank 1", 1).what();
  EXPECT_NE(text.find("no more files can be opened on this machine: Too many open files in system"), std::string::npos)
      << text;
}

}  // namespace
}  // namespace tessera::gloo_comm
