#include "config/settings/settings_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "config/flag_table.h"
#include "config/parse_flags.h"
#include "config/usage_error.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace tessera::host {
namespace {

using testing::expect_error;
using testing::TempFolder;
using Words = std::vector<std::string>;

const TempFolder& folder() {
  static const TempFolder made;
  return made;
}

/// A file of settings with this text.
std::string file(const std::string& text) {
  return folder().write("settings.json", text);
}

ParsedFlags parse(const std::string& path, Words words = {}, FlagSet set = FlagSet::train) {
  words.insert(words.begin(), {"--config", path});
  return parse_flags(set, words);
}

const std::string kJob = R"("model": "gpt2", "data": "corpus.txt")";

void refuse(const std::string& text, const std::vector<std::string>& parts) {
  std::vector<std::string> all = {"--config", "settings.json"};
  all.insert(all.end(), parts.begin(), parts.end());
  expect_error<UsageError>([&] { parse(file(text)); }, all);
}

bool has_note(const ParsedFlags& flags, const std::string& part) {
  return std::ranges::any_of(flags.notes, [&](const std::string& note) { return note.find(part) != note.npos; });
}

TEST(SettingsFile, RefusesANumberThatIsTooSmall) {
  refuse("{" + kJob + R"(, "lr": 1e-400})", {"has the number 1e-400, which is too small for a number of 64 bits"});
  EXPECT_EQ(parse(file("{" + kJob + R"(, "lr": 1e-300, "eps": 0.0e-400})")).config.lr, 1e-300);
}

// Every flag of train with a value that is not its default.
TEST(SettingsFile, ReadsBackWhatItWrote) {
  const Words words = {"--model=gpt2",
                       "--data=a,b \"c\".txt",
                       "--data-label=first",
                       "--data-scale=none",
                       "--data-order=shuffled",
                       "--batch-size=3",
                       "--seq-len=17",
                       "--grad-accum=2",
                       "--seed=9223372036854775807",
                       "--eval-data=e.txt",
                       "--eval-every=7",
                       "--eval-batches=5",
                       "--steps=12",
                       "--lr=0.1",
                       "--min-lr=1e-30",
                       "--warmup-steps=3",
                       "--lr-schedule=cosine",
                       "--beta1=0.3",
                       "--beta2=0.4",
                       "--eps=1e-7",
                       "--weight-decay=0.25",
                       "--clip=0.5",
                       "--freeze=wte*,h.0.*",
                       "--nproc=4",
                       "--mesh=pp=2,dp=2",
                       "--strategy=pp=pipeline,dp=fsdp",
                       "--comm=local",
                       "--device=other",
                       "--cuda-graph=off",
                       "--plugin-dir=p,1",
                       "--plugin-dir=p2",
                       "--dtype=bf16",
                       "--reduce-dtype=fp16",
                       "--reduce-every=micro-batch",
                       "--recompute=every=2",
                       "--offload=stream",
                       "--offload-dir=/a,/b",
                       "--offload-io=threads",
                       "--offload-check=false",
                       "--offload-chunk=1MiB",
                       "--device-memory=3GiB",
                       "--host-memory=5000",
                       "--bind-cores=false",
                       "--insecure",
                       "--threads=2",
                       "--save=s",
                       "--save-every=4",
                       "--save-async",
                       "--save-best",
                       "--keep=9",
                       "--resume=r",
                       "--start-timeout-ms=5",
                       "--timeout-ms=6",
                       "--metrics=m",
                       "--out=o",
                       "--overwrite",
                       "--profile=2:3",
                       "--profile-out=trace.json",
                       "--log-every=7",
                       "--debug-replicas=3",
                       "--max-skipped-steps=8",
                       "--log-level=error",
                       "--debug-memory",
                       "--stream-delay=11"};
  const ParsedFlags given = parse_flags(FlagSet::train, words);
  const PluginSetting options[] = {{"fsdp.prefetch", int64_t{3}},
                                   {"dp.fsdp.limit", 0.5},
                                   {"fsdp.on", true},
                                   {"gloo.interface", std::string("eth0")}};
  const ParsedFlags read = parse(file(settings_json(given.config, FlagSet::train, options, "0.1")));
  for (const Flag& flag : train_flags()) {
    EXPECT_EQ(flag.print(read.config), flag.print(given.config)) << flag.name;
    if (flag.items) {
      EXPECT_EQ(flag.items(read.config), flag.items(given.config)) << flag.name;
    }
    const bool is_default = flag.items ? flag.items(given.config).empty() : flag.print(given.config) == flag.print({});
    EXPECT_EQ(is_default, flag.name == "init-from" || flag.name == "optimizer") << flag.name << " was not tried";
  }
  std::map<std::string, std::string> read_options;
  for (const PluginFlag& flag : read.plugin_flags)
    read_options[flag.name] = flag.value;
  EXPECT_EQ(read_options,
            (std::map<std::string, std::string>{
                {"fsdp.prefetch", "3"}, {"dp.fsdp.limit", "0.5"}, {"fsdp.on", "true"}, {"gloo.interface", "eth0"}}));
  EXPECT_TRUE(read.notes.empty());
  // Whose betas are not all of sgd's.
  const TrainConfig sgd = parse_flags(FlagSet::train, Words{"--model=gpt2", "--data=a", "--optimizer=sgd"}).config;
  EXPECT_EQ(parse(file(settings_json(sgd, FlagSet::train, {}, "0.1"))).config.optimizer, OptimizerKind::sgd);
}

TEST(SettingsFile, HasTypesAndANullForWhatIsNotSet) {
  const auto json = nlohmann::json::parse(settings_json(TrainConfig(), FlagSet::train, {}, "0.1"));
  EXPECT_EQ(json["tessera"], "0.1");
  EXPECT_EQ(json["lr"], 3e-4);
  EXPECT_EQ(json["steps"], 100);
  EXPECT_EQ(json["overwrite"], false);
  EXPECT_EQ(json["dtype"], "float32");
  EXPECT_EQ(json["device-memory"], nullptr);
  EXPECT_EQ(json["freeze"], nlohmann::json::array());
  EXPECT_TRUE(begins_like_settings(settings_json(TrainConfig(), FlagSet::train, {}, "0.1")));
  EXPECT_FALSE(begins_like_settings(R"({"model_type": "gpt2"})"));
}

TEST(SettingsFile, TheCommandLineWins) {
  const std::string path = file("{" + kJob + R"(, "lr": 0.25, "steps": 9, "freeze": ["wte*"], "ddp.bucket-mb": 5})");
  const ParsedFlags flags = parse(path, {"--lr", "0.5", "--steps", "9", "--ddp.bucket-mb=7", "--freeze=h.0.*"});
  EXPECT_EQ(flags.config.lr, 0.5);
  EXPECT_EQ(flags.config.steps, 9);
  EXPECT_EQ(flags.config.freeze, Words{"h.0.*"});
  ASSERT_EQ(flags.plugin_flags.size(), 1u);
  EXPECT_EQ(flags.plugin_flags[0].value, "7");
  EXPECT_TRUE(has_note(flags, "--lr is 0.5, from the command line; --config " + path + " has 0.25"));
  EXPECT_TRUE(has_note(flags, "--ddp.bucket-mb is 7"));
  EXPECT_TRUE(has_note(flags, "--freeze is h.0.*"));
  EXPECT_FALSE(has_note(flags, "--steps"));  // equal
}

TEST(SettingsFile, AFlagVoidsWhatGoesWithIt) {
  const std::string path = file(
      "{" + kJob +
      R"(, "nproc": 2, "mesh": "dp=2", "strategy": "dp=fsdp", "fsdp.prefetch": 1, "resume": "r", "comm": "gloo"})");
  EXPECT_TRUE(parse(path, {"--nproc=4"}).config.mesh.empty());
  EXPECT_EQ(parse(path, {"--mesh=dp=4"}).config.nproc, 0);
  EXPECT_TRUE(has_note(parse(path, {"--nproc=4"}), "\"mesh\", dp=2, is ignored"));
  EXPECT_EQ(parse(path, {"--init-from=i"}).config.resume, "");
  const ParsedFlags other = parse(path, {"--strategy=ddp"});
  EXPECT_TRUE(other.plugin_flags.empty());
  EXPECT_TRUE(has_note(other, "\"fsdp.prefetch\" is ignored, since --strategy"));
  EXPECT_EQ(parse(path, {"--strategy=fsdp"}).plugin_flags.size(), 1u);
  // The option of one axis would win over that of all.
  EXPECT_TRUE(has_note(parse(file("{" + kJob + R"(, "dp.ddp.bucket-mb": 5})"), {"--ddp.bucket-mb=7"}), "is 7"));
  // That of all still holds on the other axes.
  const std::string of_all = file("{" + kJob + R"(, "ddp.bucket-mb": 5})");
  const ParsedFlags one_axis = parse(of_all, {"--dp.ddp.bucket-mb=7"});
  EXPECT_TRUE(has_note(one_axis, "--dp.ddp.bucket-mb is 7, from the command line; --config " + of_all + " has 5"));
  EXPECT_EQ(one_axis.plugin_flags.size(), 2u);
  EXPECT_FALSE(has_note(parse(of_all, {"--dp.ddp.bucket-mb=5"}), "--dp.ddp.bucket-mb"));
}

TEST(SettingsFile, OffloadIsSwitchedOff) {
  const std::string path = file(
      "{" + kJob +
      R"(, "offload": "stream", "offload-dir": "/a", "offload-chunk": "1MiB", "stream.to": "file", "fsdp.on": true})");
  EXPECT_EQ(parse(path).config.offload, Words{"stream"});
  const ParsedFlags off = parse(path, {"--offload", "none"});
  EXPECT_TRUE(off.config.offload.empty());
  EXPECT_TRUE(off.config.offload_dirs.empty());
  EXPECT_EQ(off.config.offload_chunk, TrainConfig().offload_chunk);
  ASSERT_EQ(off.plugin_flags.size(), 1u);
  EXPECT_EQ(off.plugin_flags[0].name, "fsdp.on");
  EXPECT_TRUE(has_note(off, "--offload is none, from the command line; --config " + path + " has stream"));
  EXPECT_TRUE(has_note(off, "\"offload-dir\", /a, is ignored, since the command line has --offload none"));
  EXPECT_TRUE(has_note(off, "\"stream.to\" is ignored, since --offload"));
}

TEST(SettingsFile, OtherCommandsTakeWhatTheyHave) {
  const std::string path =
      file("{" + kJob + R"(, "eval-data": "e.txt", "lr": 0.25, "batch-size": 3, "save": "s", "save-every": 1})");
  EXPECT_EQ(parse(path, {}, FlagSet::plan).config.lr, 0.25);
  const ParsedFlags eval = parse_flags(FlagSet::eval, Words{"folder", "--config", path});
  EXPECT_EQ(eval.config.model, "folder");
  EXPECT_EQ(eval.config.data, "e.txt");
  EXPECT_EQ(eval.config.batch_size, 3);
  EXPECT_EQ(eval.config.save, "");
  EXPECT_EQ(eval.config.lr, TrainConfig().lr);
  // Data to train on are not taken for data to judge by.
  expect_error<UsageError>([] { parse(file("{" + kJob + R"(, "eval-data": null})"), {}, FlagSet::eval); },
                           {"--data is missing"});
  // What eval itself prints has no other data.
  const std::string printed = file(settings_json(eval.config, FlagSet::eval, {}, "0.1"));
  EXPECT_EQ(parse(printed, {}, FlagSet::eval).config.data, "e.txt");
}

// Neither does a shell in a file, nor in a word that begins with a flag.
TEST(SettingsFile, APathThatBeginsWithATildeIsRefusedThereAndOnTheCommandLine) {
  const std::string path = file("{" + kJob + "}");
  const auto refuse_flag = [&](const std::string& flag, const std::string& value) {
    expect_error<UsageError>([&] { parse(path, {flag + value}); }, {"in which no shell has replaced ~"});
  };
  for (const char* flag : {"--save=", "--out=", "--metrics=", "--resume=", "--plugin-dir=", "--offload-dir=/local,"}) {
    refuse_flag(flag, "~");
    refuse_flag(flag, "~/x");
  }
  EXPECT_EQ(parse(path, {"--save=./~/runs"}).config.save, "./~/runs");
  EXPECT_EQ(parse(path, {"--metrics=~m.jsonl"}).config.metrics, "~m.jsonl");
}

TEST(SettingsFile, RefusesWithFileAndKey) {
  refuse("{" + kJob + R"(, "save": "~/runs"})", {"\"save\"", "--save is '~/runs', in which no shell has replaced ~"});
  refuse("{" + kJob + R"(, "learning-rat": 1})", {"\"learning-rat\" is not a setting"});
  refuse("{" + kJob + R"(, "learning-rat": null})", {"\"learning-rat\" is not a setting"});
  refuse("{" + kJob + R"(, "step": 1})", {"\"step\" is not a setting", "did you mean \"steps\"?"});
  refuse("{" + kJob + R"(, "lr": "0.1"})", {"\"lr\" is \"0.1\"; give a number"});
  refuse("{" + kJob + R"(, "lr": -1})", {"\"lr\": --lr"});
  refuse("{" + kJob + R"(, "steps": 2.5})", {"\"steps\": --steps"});
  refuse("{" + kJob + R"(, "overwrite": "true"})", {"\"overwrite\" is \"true\"; give true or false"});
  refuse("{" + kJob + R"(, "dtype": 16})", {"\"dtype\" is 16; give a string in quotes"});
  refuse("{" + kJob + R"(, "dtype": "fp8"})", {"\"dtype\": --dtype", "fp8"});
  refuse("{" + kJob + R"(, "freeze": "wte*"})", {"\"freeze\" is \"wte*\"; give a list"});
  refuse("{" + kJob + R"(, "ddp.bucket-mb": [1]})", {"\"ddp.bucket-mb\" is [1]"});
  refuse("{" + kJob + R"(, "metrics": "a\u0000b"})", {R"("metrics" is "a\u0000b", which has a zero character)"});
  refuse("{" + kJob + R"(, "freeze": ["a\u0000b"]})", {R"("freeze" is "a\u0000b", which has a zero character)"});
  refuse("{" + kJob + R"(, "gloo.interface": "a\u0000b"})", {R"("gloo.interface" is "a\u0000b", which has a zero)"});
  refuse("{" + kJob + R"(, "lr": 0.1, "lr": 0.2})", {"\"lr\" twice"});
  refuse("{" + kJob + R"(, "lr": 0.)", {"not valid JSON"});
  refuse("{" + kJob, {"not valid JSON"});
  refuse("", {"not valid JSON"});
  refuse("[1]", {"not a JSON object"});
  expect_error<UsageError>([] { parse(folder().path("none.json")); }, {"--config", "none.json", "No such file"});
  expect_error<UsageError>([] { parse(folder().path()); }, {"--config", "not a regular file"});
  expect_error<UsageError>([] { parse_flags(FlagSet::train, Words{"--config="}); }, {"--config has no value"});
}

}  // namespace
}  // namespace tessera::host
