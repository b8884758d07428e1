// Wrong usage: one clear sentence and exit code 2, before anything runs.
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

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

std::vector<std::string> bad_flags(const std::vector<std::string>& flags) {
  std::vector<std::string> all = {"train", "--model=" + golden(), "--data=" + golden("/tokens.bin")};
  all.insert(all.end(), flags.begin(), flags.end());
  return all;
}

std::vector<std::string> bad_flag(const std::string& flag) {
  return bad_flags({flag});
}

INSTANTIATE_TEST_SUITE_P(
    Usage, Refused,
    ::testing::Values(
        Case{"NoCommand", {}, {"usage: tessera"}}, Case{"UnknownCommand", {"trian"}, {"did you mean train"}},
        Case{"EmptyCommand", {""}, {"unknown command ''", "the commands are train, eval, generate"}},
        Case{"NoValueOfPlan", {"plan", "--model=gpt2", "--svg"}, {"--svg has no value; give FILE after it"}},
        Case{"ModelTwice",
             {"eval", golden(), "--model=gpt2", "--data=x"},
             {"the model is named twice, by the folder and by --model; leave one of them out"}},
        Case{"FileOfAPattern",
             bad_flag(golden("/config.json")),
             {"is not a flag", "if it is of a pattern, put that in quotes: --data '*.bin'"}},
        Case{"LaterCommand", {"simulate"}, {"not supported yet", "supported: train, eval, generate"}},
        Case{"UnknownFlag", bad_flag("--bacth-size=3"), {"bacth-size", "did you mean --batch-size"}},
        Case{"ForeignFlag", bad_flag("--micro-batch-size=3"), {"--batch-size"}},
        Case{"NoModel", {"train", "--data=x"}, {"--model"}},
        Case{"UnknownModel", {"train", "--model=gpt7", "--data=x"}, {"gpt7", "gpt2_medium"}},
        Case{"HubModel", {"train", "--model=openai-community/gpt2", "--data=x"}, {"hf download openai-community/gpt2"}},
        Case{"ModelFile", {"train", "--model=" + golden("/config.json"), "--data=x"}, {"is not a folder"}},
        Case{"LongModel", {"train", "--model=" + std::string(5000, 'a'), "--data=x"}, {"5000 letters"}},
        Case{"Mlp", {"train", "--model=mlp:784,x,10", "--data=x"}, {"'x' is not a width", "mlp:784,256,10"}},
        Case{"LabelOfTokens", bad_flag("--data-label=last"), {"--data-label applies to the features of a classifier"}},
        Case{"ScaleOfTokens", bad_flag("--data-scale=file"), {"--data-scale applies to the features of a classifier"}},
        Case{"LabelColumn", bad_flag("--data-label=3"), {"--data-label is '3'; give one of first|last"}},
        Case{"LongSequence", bad_flag("--seq-len=65"), {"65", "64"}},
        Case{"DeviceMemory", bad_flag("--device-memory=lots"), {"device-memory", "lots", "2GiB"}},
        Case{"ZeroBatch", bad_flag("--batch-size=0"), {"batch-size"}},
        Case{"UnknownStrategy", bad_flag("--strategy=fsdq"), {"fsdq", "ddp"}},
        Case{"PluginFile",
             bad_flag("--strategy=ddp.so"),
             {"--strategy ddp.so is a file's name without a folder; give the path, such as ./ddp.so, or the name"}},
        Case{"OffloadPolicy", bad_flag("--offload=cpu"), {"plugin cpu for --offload was not found"}},
        Case{"Float8", bad_flag("--dtype=float8"), {"float32", "bf16", "fp16"}},
        Case{"Recompute", bad_flag("--recompute=every=5"), {"--recompute every=5", "4 blocks"}},
        Case{"FreezeNothing", bad_flag("--freeze=h.9.*"), {"--freeze", "'h.9.*' matches no parameter", "wte.weight"}},
        Case{"FreezeAll", bad_flag("--freeze=w*,h.*,ln_f*"), {"--freeze", "no parameter is left"}},
        Case{"Resume", bad_flag("--resume=x"), {"--resume x holds no checkpoint"}},
        Case{"PluginOption", bad_flag("--ddp.bucket=3"), {"bucket"}},
        Case{"AxisWithoutStrategy", {"plan", "--model=gpt2", "--mesh=pp=2,dp=2", "--strategy=dp=ddp"}, {"pp"}},
        Case{"Contradiction", {"plan", "--model=gpt2", "--mesh=dp=2", "--nproc=3"}, {"--mesh", "--nproc"}},
        Case{"UnknownCommAlone", bad_flag("--comm=nosuch"), {"nosuch"}},
        Case{"ShortData", bad_flag("--batch-size=4000"), {"tokens.bin", "5000"}},
        Case{"MetricsPath", bad_flag("--metrics=/nonexistent/m"), {"/nonexistent/m"}},
        Case{"PluginNotThere", {"plugins", "info", "nothing"}, {"nothing"}},
        Case{"PluginsAlone", {"plugins"}, {"needs list or info", "usage: tessera plugins"}},
        Case{"PluginsWord", {"plugins", "lits"}, {"has no subcommand 'lits'", "list or info"}},
        Case{"PluginsListName", {"plugins", "list", "extra"}, {"list takes no name", "'extra'"}},
        Case{"PluginsInfoNoName", {"plugins", "info"}, {"info needs the name of a plugin"}},
        Case{"PluginsInfoTwoNames", {"plugins", "info", "ddp", "fsdp"}, {"takes one name", "'ddp', 'fsdp'"}},
        Case{"PluginsDir", {"plugins", "list", "--plugin-dir"}, {"--plugin-dir has no folder after it"}}),
    [](const auto& test) { return std::string(test.param.name); });

INSTANTIATE_TEST_SUITE_P(
    PluginOptions, Refused,
    ::testing::Values(
        Case{"Value",
             bad_flags({"--nproc=2", "--ddp.bucket-mb=1e300"}),
             {"bucket-mb", "1e300", "tessera plugins info ddp"}},
        Case{"Twice",
             bad_flags({"--nproc=2", "--ddp.bucket-mb=5", "--ddp.bucket-mb=6"}),
             {"--ddp.bucket-mb is given more than once"}},
        Case{"NoValue",
             bad_flags({"--ddp.bucket-mb", "--nproc=2"}),
             {"--ddp.bucket-mb has no value; give a number from 1e-06 to 65536; see tessera plugins info ddp"}},
        Case{"NoText", bad_flags({"--gloo.interface", "--nproc=2"}), {"--gloo.interface has no value; give a text"}},
        Case{"AfterEquals",
             bad_flags({"--pipeline.cut=", "--mesh=pp=2", "--strategy=pipeline"}),
             {"--pipeline.cut has no value after '='"}},
        Case{"Negative",
             bad_flags({"--fsdp.prefetch", "-1", "--strategy=fsdp", "--nproc=2"}),
             {"--fsdp.prefetch is '-1'; give a whole number from 0 to 64; see tessera plugins info fsdp"}},
        Case{"UnknownOfAKnownPlugin",
             bad_flags({"--ddp.bucket=3", "--nproc=2"}),
             {"did you mean --ddp.bucket-mb?", "tessera plugins info ddp"}},
        Case{"UnknownPlugin", bad_flags({"--nothing.x=3", "--nproc=2"}), {"--nothing.x", "tessera plugins list"}},
        Case{"OfAnotherTool", bad_flag("--training.seq_len=10"), {"unknown flag --training.seq-len; use --seq-len"}},
        Case{"ConfigOfAnotherTool", bad_flag("--job.config_file=x"), {"unknown flag --job.config-file; use --config"}},
        Case{"OneRankUnknown", bad_flag("--fsdp.prefetch=2"), {"--fsdp.prefetch", "tessera plugins list"}},
        Case{"OneRankValue", bad_flag("--ddp.bucket-mb=x"), {"--ddp.bucket-mb is 'x'", "tessera plugins info ddp"}},
        Case{"Wrap",
             bad_flags({"--strategy=fsdp", "--fsdp.wrap=bogus"}),
             {"--fsdp.wrap is 'bogus'", "min-params:N", "tessera plugins info fsdp"}},
        Case{"WrapHuge",
             bad_flags({"--strategy=fsdp", "--fsdp.wrap=size:99999999999999999999999"}),
             {"a whole number from 1 to 18446744073709551615, in bytes"}},
        Case{"WrapNegative",
             bad_flags({"--strategy=fsdp", "--fsdp.wrap=min-params:-1"}),
             {"'min-params:-1'", "from 1 to", "of parameters"}}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(PluginOptions, OfPluginsThatOneRankLeavesOutHaveNoEffect) {
  for (const char* flag : {"--ddp.bucket-mb=5", "--dp.ddp.bucket-mb=5", "--gloo.interface=eth0"}) {
    const CommandResult one = run_command(train({"--steps=1", flag}));
    EXPECT_EQ(one.exit_code, 0) << one.err;
    const std::string name = std::string(flag).substr(0, std::string(flag).find('='));
    EXPECT_NE(one.err.find(name + " has no effect on one rank"), std::string::npos) << one.err;
  }
}

// One command line serves 1 and N ranks: what splits an axis is named, and may have options, where it has one rank too.
TEST(PluginOptions, OfStrategiesOnAxesOfOneRankAreAccepted) {
  const std::vector<std::string> flags = {"--strategy=pp=pipeline,dp=fsdp,tp=tensor",
                                          "--pipeline.schedule=1f1b",
                                          "--fsdp.prefetch=2",
                                          "--dp.fsdp.wrap=root",
                                          "--tensor.sequence-parallel=true",
                                          "--comm=local",
                                          "--grad-accum=2",
                                          "--steps=1"};
  for (const char* mesh : {"pp=1,dp=1,tp=1", "pp=1,dp=2,tp=1", "pp=2,dp=1,tp=1", "pp=1,dp=1,tp=2", "pp=2,dp=2,tp=1"}) {
    std::vector<std::string> all = flags;
    all.push_back(std::string("--mesh=") + mesh);
    const CommandResult run = run_command(train(all));
    EXPECT_EQ(run.exit_code, 0) << mesh << ": " << run.err;
    all.push_back("--fsdp.limit-all-gathers=none");
    EXPECT_EQ(run_command(train(all)).exit_code, 2) << mesh;
  }
  // A strategy that is not split by, without an axis: its options are those of the default one.
  for (const char* ranks : {"--nproc=1", "--nproc=2"}) {
    const CommandResult run = run_command(train({"--steps=1", ranks, "--ddp.bucket-mb=5"}));
    EXPECT_EQ(run.exit_code, 0) << ranks << ": " << run.err;
  }
}

TEST(Usage, AnAddressForRanksThatAreNotLaunchedIsSaidToHaveNoEffect) {
  const std::string warning = "TESSERA_STORE_ADDR has no effect: ";
  const auto log_of = [](const char* nproc, std::map<std::string, std::string> environment) {
    environment["TESSERA_STORE_ADDR"] = "node0:29500";
    const CommandResult result = Command(train({"--steps=1", nproc}), environment).wait();
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.err;
  };
  const std::string one = log_of("--nproc=1", {}), two = log_of("--nproc=2", {});
  EXPECT_NE(one.find(warning + "this job has one rank"), std::string::npos) << one;
  EXPECT_NE(two.find(warning + "ranks of --nproc and --mesh meet on this machine"), std::string::npos) << two;
  const std::string launched = log_of("--nproc=1", {{"TESSERA_RANK", "0"}, {"TESSERA_WORLD_SIZE", "1"}});
  EXPECT_EQ(launched.find(warning), std::string::npos) << launched;
}

TEST(Usage, ControlCharactersDoNotReachTheTerminal) {
  const TempFolder folder;
  auto config = nlohmann::json::parse(std::ifstream(golden("/config.json")));
  config["activation_function"] = "\x1b[2J\x07\nerror: forged";
  std::ofstream(folder.path("config.json")) << config;
  for (const CommandResult& result :
       {run_command(tessera({"plan", "--model", folder.path()})),
        run_command(tessera({"plan", "--model=\x1b[31mx\ny"})), run_command(tessera({"pl\x1b[31m\xff"})),
        run_command(tessera({"plugins", "info", "\x07"}))}) {
    EXPECT_NE(result.exit_code, 0);
    EXPECT_NE(result.err.find("\\x"), std::string::npos) << result.err;
    EXPECT_EQ(result.err.find_first_of("\x1b\x07\xff"), std::string::npos) << result.err;
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
  }
}

TEST(Usage, HelpGoesToStdout) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--help"}, {"train", "--help"}, {"plan", "--help"}, {"plugins", "--help"}}) {
    const CommandResult result = run_command(tessera(arguments));
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_EQ(result.err, "");
    EXPECT_EQ(result.out.find("usage: tessera"), 0u) << result.out;
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
  std::istringstream lines(list.out);
  for (std::string line; std::getline(lines, line);)
    if (line.find(" refused: ") == line.npos) EXPECT_EQ(line.find('/'), list.out.find('/')) << list.out;  // in columns
  const auto json = nlohmann::json::parse(run_command(tessera({"plugins", "list", "--json"})).out);
  EXPECT_GE(json.size(), 4u);
  const CommandResult info = run_command(tessera({"plugins", "info", "ddp"}));
  EXPECT_EQ(info.exit_code, 0);
  EXPECT_NE(info.out.find("bucket-mb"), std::string::npos) << info.out;
  EXPECT_TRUE(nlohmann::json::parse(run_command(tessera({"plugins", "info", "ddp", "--json"})).out).is_object());
}

}  // namespace
}  // namespace tessera::testing
