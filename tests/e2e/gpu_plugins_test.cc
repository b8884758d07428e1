// The plugins for GPUs on a machine that may have none: they are listed and described everywhere and plan steps, and
// a run that cannot be is refused with one sentence.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "e2e/cli.h"

namespace tessera::testing {
namespace {

bool has_driver() {
  return std::filesystem::exists("/dev/nvidiactl");
}

TEST(GpuPlugins, AreListed) {
  const auto list = nlohmann::json::parse(run_command(tessera({"plugins", "list", "--json"})).out);
  const auto is_cuda = [](const auto& plugin) {
    return plugin.at("kind") == "device" && plugin.at("name") == "cuda" && plugin.at("status") == "ok";
  };
  EXPECT_TRUE(std::any_of(list.begin(), list.end(), is_cuda)) << list;
}

TEST(GpuPlugins, AreDescribedWithoutADriver) {
  const CommandResult text = run_command(tessera({"plugins", "info", "cuda"}));
  EXPECT_EQ(text.exit_code, 0) << text.err;
  for (const char* part : {"--device cuda", "--cuda.share true|false", "(default false)"})
    EXPECT_NE(text.out.find(part), std::string::npos) << text.out;
  const auto info = nlohmann::json::parse(run_command(tessera({"plugins", "info", "cuda", "--json"})).out);
  EXPECT_GE(info.at("options").size(), 2u);
}

TEST(GpuPlugins, PlanWithoutADriver) {
  const CommandResult plan = run_command(tessera({"plan", "--model=gpt2", "--device=cuda", "--dtype=bf16"}));
  EXPECT_EQ(plan.exit_code, 0) << plan.err;
  EXPECT_NE(plan.out.find("workspace"), std::string::npos) << plan.out;
}

TEST(GpuPlugins, NeedNoLibraryOfCuda) {
  const CommandResult ldd = run_command({"/usr/bin/env", "ldd", plugin_dir() + "/cuda-device.so"});
  EXPECT_EQ(ldd.exit_code, 0) << ldd.err;
  for (const char* library : {"libcuda", "libcublas", "libcudnn", "libnccl", "not found"})
    EXPECT_EQ(ldd.out.find(library), std::string::npos) << ldd.out;
}

class RefusedDevice : public ::testing::TestWithParam<std::vector<std::string>> {};

TEST_P(RefusedDevice, WithOneSentence) {
  if (has_driver()) GTEST_SKIP() << "needs a machine without an NVIDIA driver";
  std::vector<std::string> flags = {"--device=cuda", "--steps=1"};
  flags.insert(flags.end(), GetParam().begin(), GetParam().end());
  const CommandResult result = run_command(train(flags));
  EXPECT_EQ(result.exit_code, 1);
  for (const char* part : {"cuda-device", "no NVIDIA driver", "use --device cpu"})
    EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
  EXPECT_EQ(result.err.find('\n'), result.err.size() - 1) << result.err;
}

INSTANTIATE_TEST_SUITE_P(Flags, RefusedDevice,
                         ::testing::Values(std::vector<std::string>{}, std::vector<std::string>{"--cuda.share=true"}));

}  // namespace
}  // namespace tessera::testing
