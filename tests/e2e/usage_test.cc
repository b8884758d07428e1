// Wrong usage: one clear sentence and exit code 2, before anything runs.
#include <gtest/gtest.h>

#include "e2e/cli.h"

namespace tessera::testing {
namespace {

struct Case {
  const char* name;
  std::vector<std::string> arguments;
  std::vector<std::string> said;
};

class Refused : public ::testing::TestWithParam<Case> {};

TEST_P(Refused, WithASentence) {
  const CommandResult result = run_command(tessera(GetParam().arguments));
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_EQ(result.out, "");
  for (const std::string& text : GetParam().said)
    EXPECT_NE(result.err.find(text), std::string::npos) << result.err;
}

std::vector<std::string> bad_flag(const std::string& flag) {
  return {"train", "--model=" + golden(), "--data=" + golden("/tokens.bin"), flag};
}

INSTANTIATE_TEST_SUITE_P(
    Usage, Refused,
    ::testing::Values(
        Case{"NoCommand", {}, {"usage: tessera"}}, Case{"UnknownCommand", {"trian"}, {"did you mean train"}},
        Case{"LaterCommand", {"simulate"}, {"not supported yet", "train, plan, plugins"}},
        Case{"UnknownFlag", bad_flag("--bacth-size=3"), {"bacth-size", "did you mean --batch-size"}},
        Case{"ForeignFlag", bad_flag("--micro-batch-size=3"), {"--batch-size"}},
        Case{"NoModel", {"train", "--data=x"}, {"--model"}},
        Case{"UnknownModel", {"train", "--model=gpt7", "--data=x"}, {"gpt7", "gpt2_medium"}},
        Case{"HubModel", {"train", "--model=openai-community/gpt2", "--data=x"}, {"hf download openai-community/gpt2"}},
        Case{"ModelFile", {"train", "--model=" + golden("/config.json"), "--data=x"}, {"is not a folder"}},
        Case{"LongModel", {"train", "--model=" + std::string(5000, 'a'), "--data=x"}, {"5000 letters"}},
        Case{"Mlp", {"train", "--model=mlp:784,256,10", "--data=x"}, {"not supported yet"}},
        Case{"LongSequence", bad_flag("--seq-len=65"), {"65", "64"}},
        Case{"DeviceMemory", bad_flag("--device-memory=lots"), {"device-memory", "lots", "2GiB"}},
        Case{"ZeroBatch", bad_flag("--batch-size=0"), {"batch-size"}},
        Case{"UnknownStrategy", bad_flag("--strategy=fsdq"), {"fsdq", "ddp"}},
        Case{"Offload", bad_flag("--offload=cpu"), {"not supported yet"}},
        Case{"Float8", bad_flag("--dtype=float8"), {"float32", "bf16", "fp16"}},
        Case{"Recompute", bad_flag("--recompute=every=5"), {"--recompute every=5", "4 blocks"}},
        Case{"FreezeNothing", bad_flag("--freeze=h.9.*"), {"--freeze", "'h.9.*' matches no parameter", "wte.weight"}},
        Case{"FreezeAll", bad_flag("--freeze=w*,h.*,ln_f*"), {"--freeze", "no parameter is left"}},
        Case{"Resume", bad_flag("--resume=x"), {"not supported yet"}},
        Case{"PluginOption", bad_flag("--ddp.bucket=3"), {"bucket"}},
        Case{"AxisWithoutStrategy", {"plan", "--model=gpt2", "--mesh=pp=2,dp=2", "--strategy=dp=ddp"}, {"pp"}},
        Case{"Contradiction", {"plan", "--model=gpt2", "--mesh=dp=2", "--nproc=3"}, {"--mesh", "--nproc"}},
        Case{"UnknownCommAlone", bad_flag("--comm=nosuch"), {"nosuch"}},
        Case{"PluginOptionValue",
             {"train", "--model=" + golden(), "--data=" + golden("/tokens.bin"), "--nproc=2", "--ddp.bucket-mb=1e300"},
             {"bucket-mb", "1e300"}},
        Case{"ShortData", bad_flag("--batch-size=4000"), {"tokens.bin", "5000"}},
        Case{"MetricsPath", bad_flag("--metrics=/nonexistent/m"), {"/nonexistent/m"}},
        Case{"PluginNotThere", {"plugins", "info", "nothing"}, {"nothing"}}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(Usage, HelpGoesToStdout) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--help"}, {"train", "--help"}, {"plan", "--help"}, {"plugins", "--help"}}) {
    const CommandResult result = run_command(tessera(arguments));
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_EQ(result.err, "");
    EXPECT_FALSE(result.out.empty());
  }
}

TEST(Usage, ATruncatedModelNamesTheFile) {
  const TempFolder folder;
  std::filesystem::copy(golden(), folder.path(), std::filesystem::copy_options::recursive);
  std::filesystem::resize_file(folder.path("model.safetensors"), 100'000);
  const CommandResult result = run_command(tessera({"train", "--model", folder.path(), "--data", golden("/tokens.bin"),
                                                    "--seq-len=32", "--batch-size=1", "--steps=1"}));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.err.find("model.safetensors"), std::string::npos) << result.err;
}

TEST(Plugins, AreListedAndDescribedAlsoAsJson) {
  const CommandResult list = run_command(tessera({"plugins", "list"}));
  EXPECT_EQ(list.exit_code, 0);
  for (const char* name : {"ddp", "gloo", "local", "cpu"})
    EXPECT_NE(list.out.find(name), std::string::npos) << list.out;
  const auto json = nlohmann::json::parse(run_command(tessera({"plugins", "list", "--json"})).out);
  EXPECT_GE(json.size(), 4u);
  const CommandResult info = run_command(tessera({"plugins", "info", "ddp"}));
  EXPECT_EQ(info.exit_code, 0);
  EXPECT_NE(info.out.find("bucket-mb"), std::string::npos) << info.out;
  EXPECT_TRUE(nlohmann::json::parse(run_command(tessera({"plugins", "info", "ddp", "--json"})).out).is_object());
}

}  // namespace
}  // namespace tessera::testing
