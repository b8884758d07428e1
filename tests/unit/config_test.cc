#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "config/axes.h"
#include "config/flag_table.h"
#include "config/help/flag_help.h"
#include "config/parse_flags.h"
#include "config/text_values.h"
#include "config/usage_error.h"
#include "support/expect_error.h"

namespace tessera::host {
namespace {

using testing::expect_error;
using Words = std::vector<std::string>;

ParsedFlags parse(Words words) {
  words.insert(words.begin(), {"--model", "gpt2", "--data", "corpus.txt"});
  return parse_flags(FlagSet::train, words);
}

void refuse(Words words, const std::vector<std::string>& parts) {
  expect_error<UsageError>([&] { parse(words); }, parts);
}

TEST(Flags, HaveTheDefaultsOfTheDesign) {
  const TrainConfig config = parse({}).config;
  EXPECT_EQ(config.comm, "auto");
  EXPECT_EQ(config.device, "cpu");
  EXPECT_EQ(config.dtype, Precision::float32);
  EXPECT_EQ(config.reduce_dtype, Precision::float32);
  EXPECT_EQ(config.lr_schedule, LrSchedule::constant);
  EXPECT_EQ(config.optimizer, OptimizerKind::adamw);
  EXPECT_EQ(config.reduce_every, ReduceEvery::step);
  EXPECT_EQ(config.warmup_steps, 0);
  EXPECT_EQ(config.min_lr, 0);
  EXPECT_EQ(config.seed, 1337u);
  EXPECT_FALSE(config.stream_delay.has_value());
}

TEST(Flags, ReadEveryKindOfValue) {
  const auto parsed = parse({"--batch-size=3",
                             "--lr",
                             "2.5e-4",
                             "--lr-schedule",
                             "cosine",
                             "--optimizer=sgd",
                             "--mesh",
                             "pp=2,dp=3",
                             "--strategy",
                             "pp=pipeline,dp=./x/fsdp.so",
                             "--plugin-dir",
                             "a",
                             "--plugin-dir=b",
                             "--debug-memory",
                             "--stream-delay",
                             "7",
                             "--reduce-every",
                             "micro-batch",
                             "--seed=0",
                             "--offload",
                             "one,./x/two-offload.so"});
  const TrainConfig& config = parsed.config;
  EXPECT_EQ(config.batch_size, 3);
  EXPECT_EQ(config.lr, 2.5e-4);
  EXPECT_EQ(config.lr_schedule, LrSchedule::cosine);
  EXPECT_EQ(config.optimizer, OptimizerKind::sgd);
  ASSERT_EQ(config.mesh.size(), 2u);
  EXPECT_EQ(config.mesh[1].name, "dp");
  EXPECT_EQ(config.mesh[1].num_ranks, 3);
  ASSERT_EQ(config.strategies.size(), 2u);
  EXPECT_EQ(config.strategies[1].plugin, "./x/fsdp.so");
  EXPECT_EQ(config.plugin_dirs, (Words{"a", "b"}));
  EXPECT_EQ(config.offload, (Words{"one", "./x/two-offload.so"}));
  EXPECT_TRUE(config.debug_memory);
  EXPECT_EQ(config.stream_delay, 7u);
  EXPECT_EQ(config.reduce_every, ReduceEvery::micro_batch);
  EXPECT_EQ(config.seed, 0u);
}

TEST(Flags, TakeUnderscoresForDashesInNamesOnly) {
  const auto parsed = parse({"--weight_decay", "0.5", "--metrics=my_file_name", "--ddp.bucket_mb=25"});
  EXPECT_EQ(parsed.config.weight_decay, 0.5);
  EXPECT_EQ(parsed.config.metrics, "my_file_name");
  ASSERT_EQ(parsed.plugin_flags.size(), 1u);
  EXPECT_EQ(parsed.plugin_flags[0].name, "ddp.bucket-mb");
}

TEST(Flags, SetPluginFlagsAsideWithTheirValues) {
  const auto parsed = parse({"--ddp.bucket-mb", "25", "--dp.ddp.first", "--steps", "3", "--x.z=a=b"});
  EXPECT_EQ(parsed.config.steps, 3);
  ASSERT_EQ(parsed.plugin_flags.size(), 3u);
  EXPECT_EQ(parsed.plugin_flags[0].value, "25");
  EXPECT_EQ(parsed.plugin_flags[1].name, "dp.ddp.first");
  EXPECT_EQ(parsed.plugin_flags[1].value, "true");
  EXPECT_FALSE(parsed.plugin_flags[1].has_value);
  EXPECT_TRUE(parsed.plugin_flags[0].has_value);
  EXPECT_EQ(parsed.plugin_flags[2].value, "a=b");
}

TEST(Flags, OfPluginsAreGivenOnce) {
  for (const char* second : {"--ddp.bucket-mb=6", "--ddp.bucket-mb=5", "--ddp.bucket_mb"})
    refuse({"--ddp.bucket-mb=5", second}, {"--ddp.bucket-mb is given more than once"});
  EXPECT_EQ(parse({"--ddp.bucket-mb=5", "--dp.ddp.bucket-mb=6"}).plugin_flags.size(), 2u);
}

TEST(Flags, OfPluginsTakeNegativeNumbers) {
  const auto flags = parse({"--fsdp.prefetch", "-1", "--steps", "3"}).plugin_flags;
  ASSERT_EQ(flags.size(), 1u);
  EXPECT_EQ(flags[0].value, "-1");
  refuse({"--fsdp.prefetch", "1", "-1"}, {"-1", "two dashes"});
  refuse({"--fsdp.prefetch", "-x"}, {"-x", "two dashes"});
}

TEST(Flags, EmptyValuesAreSaid) {
  refuse({"--pipeline.cut="}, {"--pipeline.cut has no value after '='"});
  refuse({"--steps="}, {"--steps has no value after '='"});
  refuse({"--steps"}, {"--steps has no value; give N after it"});
  refuse({"--out"}, {"--out has no value; give FOLDER after it"});
  refuse({"--config"}, {"--config has no value; give FILE after it"});
}

TEST(Flags, UnknownOnesAreErrorsWithASuggestion) {
  refuse({"--stesp", "3"}, {"--stesp", "--steps"});
  refuse({"--micro-batch-size", "3"}, {"use --batch-size"});
  refuse({"--micro_batch_size=3"}, {"use --batch-size"});
  refuse({"--step", "3"}, {"unknown flag --step", "--steps"});  // no guessing from a prefix
  refuse({"--dry-run"}, {"tessera plan"});
  refuse({"--bf16"}, {"use --dtype bf16"});
  refuse({"--precision=bf16"}, {"use --dtype"});
  refuse({"-x"}, {"-x"});
  refuse({"stray"}, {"'stray'"});
  refuse({"--steps", "3", "stray"}, {"'stray'"});
}

TEST(Flags, OfEvaluationNeedItsData) {
  const std::vector<std::string> all = {"--model=m", "--data=d", "--eval-data=e", "--eval-every=10",
                                        "--eval-batches=3"};
  const TrainConfig config = parse_flags(FlagSet::train, all).config;
  EXPECT_EQ(config.eval_data, "e");
  EXPECT_EQ(config.eval_every, 10);
  EXPECT_EQ(config.eval_batches, 3);
  refuse({"--eval-every=10"}, {"--eval-every 10 has no effect without --eval-data"});
  refuse({"--eval-batches=3"}, {"--eval-batches 3 has no effect without --eval-data"});
  refuse({"--eval-batches=-1"}, {"--eval-batches is '-1'"});
}

TEST(Flags, OfEvalAreThoseThatItUses) {
  const auto eval = [](const std::vector<std::string>& flags) { return parse_flags(FlagSet::eval, flags); };
  const ParsedFlags parsed = eval({"folder", "--data=d", "--eval-batches=3", "--nproc=2"});
  EXPECT_EQ(parsed.config.model, "folder");
  EXPECT_EQ(parsed.config.data, "d");
  EXPECT_EQ(parsed.config.eval_batches, 3);
  EXPECT_EQ(eval({"--data=d", "--model=folder"}).config.model, "folder");
  expect_error([&] { eval({"--data=d"}); }, {"the model is missing", "tessera eval FOLDER --data PATH"});
  expect_error([&] { eval({"folder"}); }, {"--data is missing"});
  expect_error([&] { eval({"folder", "again", "--data=d"}); }, {"'again'"});
  for (const char* flag : {"--lr=1", "--steps=1", "--eval-data=e", "--recompute=full", "--offload=x"})
    expect_error([&] { eval({"folder", "--data=d", flag}); }, {"unknown flag --"});
}

// A row for each way in which other tools say it; the table has more of each.
TEST(Flags, OfOtherToolsLeadToOurs) {
  const std::pair<const char*, const char*> kFlags[] = {{"--dry-run", "tessera plan"},
                                                        {"--bf16", "--dtype bf16"},
                                                        {"--fp16=true", "--dtype fp16"},
                                                        {"--precision=bf16", "--dtype"},
                                                        {"--epochs=3", "--steps"},
                                                        {"--num-train-epochs", "--steps"},
                                                        {"--val-data=x", "--eval-data"},
                                                        {"--val_loss_every=20", "--eval-every"},
                                                        {"--wandb", "--metrics FILE"},
                                                        {"--wandb-project=x", "--metrics FILE"},
                                                        {"--batch=3", "--batch-size"},
                                                        {"--per_device_train_batch_size=8", "--batch-size"},
                                                        {"--learning-rate=1", "--lr"},
                                                        {"--num-gpus=2", "--nproc"},
                                                        {"--nproc-per-node=2", "--nproc"},
                                                        {"--gradient-accumulation-steps=2", "--grad-accum"},
                                                        {"--manual_seed=2", "--seed"},
                                                        {"--random-seed=2", "--seed"},
                                                        {"--log-interval=2", "--log-every"},
                                                        {"--output_dir=x", "--save"},
                                                        {"--resume-from-checkpoint=x", "--resume"},
                                                        {"--gradient-checkpointing", "--recompute"},
                                                        {"--tp=2", "--mesh tp=N with --strategy tp=tensor"}};
  for (const auto& [theirs, ours] : kFlags)
    refuse({theirs}, {"unknown flag --", std::string("; use ") + ours});
}

TEST(Flags, OfTypesThatAreNotSupportedAreRefused) {
  refuse({"--dtype", "float8"}, {"--dtype", "float8", "float32", "bf16", "fp16"});
  refuse({"--reduce-dtype=float8"}, {"bf16"});
}

TEST(Flags, ProfilesAreOfStepsOfTheRun) {
  const auto profile = parse({"--steps=20", "--profile", "10:12"}).config.profile;
  ASSERT_TRUE(profile);
  EXPECT_EQ(profile->first, 10);
  EXPECT_EQ(profile->last, 12);
  EXPECT_EQ(parse({"--profile=7"}).config.profile->last, 7);
  EXPECT_EQ(trace_path(parse({"--profile=7"}).config), "trace.json.gz");
  EXPECT_EQ(trace_path(parse({"--profile=7", "--profile-out=t.json"}).config), "t.json");
  refuse({"--profile-out=t.json"}, {"--profile-out t.json has no effect without --profile FROM:TO"});
  refuse({"--steps=11", "--profile=10:12"}, {"--profile 10:12 goes beyond --steps 11; give steps from 1 to 11"});
  refuse({"--profile=0:2"}, {"--profile is '0:2'; give a step, from 1 on, or FROM:TO"});
  refuse({"--profile=5:2"}, {"--profile is '5:2', which ends before it begins"});
  refuse({"--profile=1:2:3"}, {"or FROM:TO, such as 10:12"});
  refuse({"--profile=a:b"}, {"--profile is 'a:b'; give a step"});
  refuse({"--steps=1000", "--profile=1:101"}, {"more than 100 steps"});
}

TEST(Flags, CheckpointsNeedAFolder) {
  const TrainConfig config = parse({"--save=a", "--save-every=5", "--keep=0", "--resume=b"}).config;
  EXPECT_EQ(config.save, "a");
  EXPECT_EQ(config.save_every, 5);
  EXPECT_EQ(config.keep, 0);
  EXPECT_EQ(config.resume, "b");
  EXPECT_EQ(parse({"--save=a", "--resume=latest"}).config.resume, "a");
  EXPECT_EQ(parse({"--save=a", "--resume=./latest"}).config.resume, "./latest");
  EXPECT_EQ(parse({"--resume=latest"}).config.resume, "latest");
  refuse({"--save-every=5"}, {"--save-every 5 saves nothing without --save FOLDER"});
  refuse({"--keep=5"}, {"--keep 5 keeps nothing without --save FOLDER"});
  refuse({"--save-async"}, {"--save-async saves nothing without --save FOLDER"});
  refuse({"--save-best", "--eval-data=e"}, {"--save-best saves nothing without --save FOLDER"});
  refuse({"--save-best", "--save=a"}, {"--save-best saves nothing without --eval-data"});
  EXPECT_TRUE(parse({"--save=a", "--save-async"}).config.save_async);
  EXPECT_TRUE(parse({"--save=a", "--save-best", "--eval-data=e"}).config.save_best);
  refuse({"--resume=a", "--init-from=b"}, {"give one of them"});
  for (const auto& [theirs, ours] : {std::pair("out-dir", "--save"),
                                     {"load", "--resume"},
                                     {"save-interval", "--save-every"},
                                     {"async-save", "--save-async"}})
    refuse({std::string("--") + theirs + "=1"}, {theirs, std::string("use ") + ours});
}

TEST(Flags, ResultFieldsAreThoseThatChangeResults) {
  const auto fields = result_fields(parse({"--lr=0.5", "--nproc=2"}).config);
  const auto value = [&](std::string_view name) {
    const auto found = std::ranges::find(fields, name, &ConfigField::name);
    return found == fields.end() ? "none" : found->value;
  };
  EXPECT_EQ(value("lr"), "0.5");
  EXPECT_EQ(value("seed"), "1337");
  EXPECT_EQ(value("dtype"), "float32");
  for (const char* name : {"nproc", "mesh", "comm", "save-every", "model", "data", "timeout-ms"})
    EXPECT_EQ(value(name), "none") << name;
}

TEST(Flags, PrecisionsHaveTheNamesOfOtherFrameworksToo) {
  for (const auto& [given, canonical] :
       {std::pair("bf16", "bf16"), {"bfloat16", "bf16"}, {"fp32", "float32"}, {"float16", "fp16"}, {"half", "fp16"}})
    for (const char* flag : {"dtype", "reduce-dtype"}) {
      const auto fields = shared_fields(parse({std::string("--") + flag, given}).config);
      EXPECT_EQ(std::ranges::find(fields, flag, &ConfigField::name)->value, canonical) << given;
    }
  refuse({"--dtype=bf61"}, {"'bf61'", "did you mean bf16?"});
  refuse({"--dtype=f16"}, {"'f16'", "did you mean fp16?"});
  refuse({"--dtype=f32"}, {"'f32'", "did you mean float32?"});
  refuse({"--dtype=float"}, {"'float'", "did you mean float32?"});
}

TEST(Flags, ChoicesMayBeLeftToTheData) {
  const auto value = [](const ParsedFlags& parsed, const char* flag) {
    const auto fields = shared_fields(parsed.config);
    return std::ranges::find(fields, flag, &ConfigField::name)->value;
  };
  EXPECT_EQ(value(parse({}), "data-label"), "");
  EXPECT_EQ(value(parse({}), "data-scale"), "");
  const auto parsed = parse({"--data-label=first", "--data_scale", "none"});
  EXPECT_EQ(parsed.config.data_label, LabelColumn::first);
  EXPECT_EQ(parsed.config.data_scale, DataScale::none);
  EXPECT_EQ(value(parsed, "data-label"), "first");
  EXPECT_EQ(value(parsed, "data-scale"), "none");
  refuse({"--data-label=frist"}, {"--data-label is 'frist'", "first|last", "did you mean first?"});
  refuse({"--data-scale=0.5"}, {"--data-scale is '0.5'", "column|file|none"});
}

TEST(Freeze, TakesListsAndRepetitions) {
  const auto parsed = parse({"--freeze", "wte*,*.bias", "--freeze=h.[0-3].*"});
  EXPECT_EQ(parsed.config.freeze, (Words{"wte*", "*.bias", "h.[0-3].*"}));
  const auto fields = shared_fields(parsed.config);
  const auto freeze = std::find_if(fields.begin(), fields.end(), [](const auto& f) { return f.name == "freeze"; });
  ASSERT_NE(freeze, fields.end());
  EXPECT_EQ(freeze->value, "wte*,*.bias,h.[0-3].*");
  refuse({"--freeze", "wte*,,wpe*"}, {"--freeze 'wte*,,wpe*'", "empty pattern"});
}

TEST(Offload, NamesEachPolicyOnceInItsOrder) {
  EXPECT_EQ(parse({}).config.offload, Words{});
  const auto parsed = parse({"--offload", "b,a,./x/c-offload.so", "--b.from_step=2"});
  EXPECT_EQ(parsed.config.offload, (Words{"b", "a", "./x/c-offload.so"}));
  EXPECT_EQ(parsed.plugin_flags.at(0).name, "b.from-step");
  const auto fields = shared_fields(parsed.config);
  EXPECT_EQ(std::ranges::find(fields, "offload", &ConfigField::name)->value, "b,a,./x/c-offload.so");
  EXPECT_EQ(parse({"--offload", "none"}).config.offload, Words{});
  refuse({"--offload=a,none"}, {"--offload 'a,none' has none beside policies; give none alone, or the policies"});
  refuse({"--offload=a,b,a"}, {"--offload names the policy a twice; name each once"});
  refuse({"--offload=a,,b"}, {"--offload 'a,,b' has an empty name", "tessera plugins list"});
  refuse({"--offload", ""}, {"--offload '' has an empty name"});
  refuse({"--offload="}, {"--offload has no value after '='"});
  refuse({"--offload=a", "--offload=b"}, {"--offload is given more than once; give it once"});
}

TEST(Recompute, ReadsAndPrints) {
  const auto read = [](const char* text) { return parse({"--recompute", text}).config.recompute; };
  EXPECT_EQ(parse({}).config.recompute, Recompute{});
  EXPECT_EQ(read("none"), Recompute{});
  EXPECT_EQ(read("full"), (Recompute{Recompute::What::blocks, 1}));
  EXPECT_EQ(read("every=1"), read("full"));
  EXPECT_EQ(read("every=12").every, 12);
  EXPECT_EQ(read("attention").what, Recompute::What::attention);
  for (const char* text : {"none", "full", "every=2", "attention"})
    EXPECT_EQ(to_string(read(text)), text);
}

TEST(Recompute, RefusesBadValues) {
  refuse({"--recompute=block"}, {"--recompute is 'block'", "none, full, every=K", "attention"});
  refuse({"--recompute="}, {"--recompute"});
  refuse({"--recompute", "every=0"}, {"--recompute every", "'0'", "from 1"});
  refuse({"--recompute", "every="}, {"--recompute every", "''"});
  refuse({"--recompute", "every=2x"}, {"'2x'"});
  refuse({"--recompute", "every"}, {"'every'"});
}

TEST(Flags, ReadBytes) {
  EXPECT_EQ(parse_bytes("device-memory", "2GiB"), 2ull << 30);
  EXPECT_EQ(parse_bytes("device-memory", "512MiB"), 512ull << 20);
  EXPECT_EQ(parse_bytes("device-memory", "1.5GB"), 1'500'000'000u);
  EXPECT_EQ(parse_bytes("device-memory", "4096"), 4096u);
  EXPECT_EQ(parse_bytes("device-memory", "7B"), 7u);
  EXPECT_EQ(parse_bytes("device-memory", "0.5TiB"), 1ull << 39);
  for (const char* text : {"", "GiB", "0", "-1GiB", "2gib", "2 GiB", "nan", "2GiBx", "0.1B", "1e30"})
    expect_error<UsageError>([&] { parse_bytes("device-memory", text); }, {"--device-memory", text, "2GiB"});
  for (const uint64_t num_bytes : {uint64_t{1}, uint64_t{1} << 31, uint64_t{1'500'000'000}, uint64_t{4097}})
    EXPECT_EQ(parse_bytes("device-memory", print_bytes(num_bytes)), num_bytes);
  EXPECT_EQ(parse({}).config.device_memory, 0u);
  EXPECT_EQ(parse({"--device-memory=1GiB"}).config.device_memory, 1u << 30);
}

TEST(Flags, RefuseBadValues) {
  refuse({"--batch-size", "0"}, {"--batch-size", "'0'", "1"});
  refuse({"--steps", "ten"}, {"--steps", "'ten'"});
  refuse({"--steps", "3.5"}, {"'3.5'"});
  refuse({"--steps", "99999999999999999999"}, {"--steps", "from 1 to 9223372036854775807"});
  refuse({"--steps", "0"}, {"a whole number of at least 1"});
  refuse({"--seed=-1"}, {"--seed", "'-1'"});
  refuse({"--lr", "nan"}, {"--lr", "'nan'"});
  refuse({"--lr=-1"}, {"--lr"});
  refuse({"--beta1", "1"}, {"--beta1", "a number of at least 0 and below 1"});
  refuse({"--max-skipped-steps=-1"}, {"--max-skipped-steps", "at least 0"});
  refuse({"--lr-schedule", "cosin"}, {"constant|linear|cosine", "did you mean cosine"});
  refuse({"--log-level", "loud"}, {"debug|info|warning|error|off"});
  refuse({"--steps"}, {"--steps"});
  refuse({"--steps", "1", "--steps", "2"}, {"--steps", "more than once"});
  refuse({"--min-lr", "1", "--lr", "0.5"}, {"--min-lr 1", "--lr 0.5"});
  refuse({"--min-lr", "1e-5"}, {"--min-lr 1e-05 has no effect", "--lr-schedule linear or cosine"});
  refuse({"--metrics", ""}, {"--metrics", "empty"});
  refuse({"--metrics="}, {"--metrics"});
}

TEST(Flags, AskForWhatIsMissing) {
  expect_error<UsageError>([] { parse_flags(FlagSet::train, Words{"--data", "x"}); }, {"--model is missing"});
  expect_error<UsageError>([] { parse_flags(FlagSet::train, Words{"--model", "gpt2"}); }, {"--data is missing"});
  EXPECT_TRUE(
      parse_flags(FlagSet::plan, Words{"--model", "gpt2", "--print-program", "--rank", "3"}).plan.print_program);
  expect_error<UsageError>([] { parse_flags(FlagSet::train, Words{"--print-program"}); }, {"--print-program"});
}

TEST(Help, WrapsWords) {
  EXPECT_EQ(wrapped("one two three", 7), "one two\nthree");
  EXPECT_EQ(wrapped("one two three", 9, 2), "one two\n  three");
  EXPECT_EQ(wrapped("a much-too-long-word b", 6), "a\nmuch-too-long-word\nb");
  EXPECT_EQ(wrapped(""), "");
}

TEST(Help, HasTwoColumns) {
  const FlagText flags[] = {{"G", "short", "N", "what it is", "3"}, {"G", "no-room-for-its-help", "VALUE", "what", ""}};
  EXPECT_EQ(flag_rows(flags),
            "\nG:\n"
            "  --short N                 what it is (default 3)\n"
            "  --no-room-for-its-help VALUE\n"
            "                            what\n");
}

TEST(Help, BeginsWithAUsageLine) {
  EXPECT_EQ(flags_help(FlagSet::train, "").find("usage: tessera train --model NAME|FOLDER --data PATH [flags]\n"), 0u);
  EXPECT_EQ(flags_help(FlagSet::plan, "").find("usage: tessera plan --model NAME|FOLDER [flags]\n"), 0u);
}

PlanFlags plan_flags(Words more) {
  more.insert(more.begin(), {"--model", "gpt2"});
  return parse_flags(FlagSet::plan, more).plan;
}

TEST(PlanFlags, PrintProgramTakesARank) {
  EXPECT_EQ(plan_flags({"--print-program"}).rank, -1);
  EXPECT_EQ(plan_flags({"--print-program", "3"}).rank, 3);
  EXPECT_EQ(plan_flags({"--print_program=3"}).rank, 3);
  EXPECT_EQ(plan_flags({"--rank", "3", "--print-program"}).rank, 3);
  EXPECT_EQ(plan_flags({"--print-program", "3", "--rank=3"}).rank, 3);
  EXPECT_EQ(plan_flags({"--print-program", "--nproc", "2"}).rank, -1);
  EXPECT_TRUE(plan_flags({"--nproc", "2", "--print-program", "1"}).print_program);
  expect_error<UsageError>([] { plan_flags({"--print-program", "1", "--rank", "0"}); }, {"two ranks"});
  expect_error<UsageError>([] { plan_flags({"--print-program=x"}); }, {"--print-program", "'x'"});
}

TEST(PlanFlags, WhatIsShownGoesTogether) {
  const PlanFlags all = plan_flags({"--verify", "--schedule", "--svg", "step.svg"});
  EXPECT_TRUE(all.verify && all.schedule);
  EXPECT_EQ(all.svg, "step.svg");
  expect_error<UsageError>([] { plan_flags({"--json", "--verify"}); }, {"--json", "--verify"});
  expect_error<UsageError>([] { plan_flags({"--print-program", "--svg=a.svg"}); }, {"--print-program", "--svg"});
  expect_error<UsageError>([] { plan_flags({"--svg="}); }, {"--svg"});
}

TEST(Help, SaysADefaultOnce) {
  for (const FlagText& flag : flag_texts(FlagSet::train))
    EXPECT_TRUE(flag.default_value.empty() || flag.help.find("(default") == std::string::npos) << flag.name;
}

TEST(Help, NamesEveryFlagWithItsDefault) {
  EXPECT_TRUE(parse_flags(FlagSet::train, Words{"--help", "--steps", "bad"}).help);
  const std::string help = flags_help(FlagSet::train, "");
  for (const char* part : {"--batch-size N", "(default 4)", "--strategy", "Timeouts:", "(default 100000)", "--help"})
    EXPECT_NE(help.find(part), std::string::npos) << part;
  EXPECT_EQ(help.find("--print-program"), std::string::npos);
  EXPECT_NE(flags_help(FlagSet::plan, "").find("--print-program"), std::string::npos);
}

TEST(Numbers, PrintedInConfigReadBackToTheSameBits) {
  const auto parsed = parse({"--lr", "0.1", "--eps=1e-300", "--clip=0.30000000000000004"});
  std::map<std::string, std::string> fields;
  for (const auto& field : shared_fields(parsed.config))
    fields[field.name] = field.value;
  EXPECT_EQ(fields.at("lr"), "0.1");
  EXPECT_EQ(fields.at("eps"), "1e-300");
  EXPECT_EQ(fields.at("clip"), "0.30000000000000004");
  EXPECT_EQ(fields.count("metrics"), 0u);
  EXPECT_EQ(fields.count("data"), 0u);
  EXPECT_EQ(fields.count("overwrite"), 0u);
  EXPECT_EQ(fields.at("max-skipped-steps"), "20");
}

TrainConfig with(const char* mesh, const char* strategy, int nproc = 0) {
  TrainConfig config;
  if (*mesh) config.mesh = parse_mesh(mesh);
  if (*strategy) config.strategies = parse_strategies(strategy);
  config.nproc = nproc;
  return config;
}

TEST(Axes, OneStrategyIsOneAxisOverTheWorld) {
  const auto axes = resolve_axes(with("", "fsdp"), 4);
  ASSERT_EQ(axes.size(), 1u);
  EXPECT_EQ(axes[0].name, "dp");
  EXPECT_EQ(axes[0].num_ranks, 4);
  EXPECT_EQ(axes[0].strategy, "fsdp");
  EXPECT_EQ(resolve_axes(with("", "shard=fsdp"), 4)[0].name, "shard");
  EXPECT_EQ(resolve_axes(with("dp=4", "fsdp"), 4)[0].strategy, "fsdp");
}

TEST(Axes, NoStrategyIsDdpOnMoreThanOneRank) {
  EXPECT_EQ(resolve_axes(with("", ""), 2)[0].strategy, "ddp");
  EXPECT_EQ(resolve_axes(with("", ""), 1)[0].strategy, "");
  EXPECT_EQ(resolve_axes(with("", "ddp"), 1)[0].strategy, "ddp");
}

TEST(Axes, MeshAndStrategiesMustFit) {
  EXPECT_EQ(resolve_axes(with("pp=2,dp=2", "dp=fsdp,pp=pipeline"), 4)[0].strategy, "pipeline");
  expect_error<UsageError>([] { resolve_axes(with("pp=2,dp=2", "dp=fsdp"), 4); }, {"axis 'pp'", "no strategy"});
  expect_error<UsageError>([] { resolve_axes(with("pp=2,dp=2", ""), 4); }, {"no strategy"});
  expect_error<UsageError>([] { resolve_axes(with("pp=2,dp=2", "fsdp"), 4); }, {"does not say which axis"});
  expect_error<UsageError>([] { resolve_axes(with("dp=2", "tp=tensor"), 2); }, {"no axis 'tp'", "dp"});
  expect_error<UsageError>([] { resolve_axes(with("dp=2", "ddp"), 3); }, {"2 ranks", "the job has 3"});
  expect_error<UsageError>([] { resolve_axes(with("", "dp=fsdp,tp=tensor"), 4); }, {"needs --mesh"});
}

TEST(Axes, WorldComesFromNprocOrMesh) {
  EXPECT_EQ(requested_world(with("", "")), 0);
  EXPECT_EQ(requested_world(with("", "", 3)), 3);
  EXPECT_EQ(requested_world(with("pp=2,dp=3", "")), 6);
  EXPECT_EQ(requested_world(with("pp=2,dp=3", "", 6)), 6);
  expect_error<UsageError>([] { requested_world(with("pp=2,dp=3", "", 4)); }, {"--nproc is 4", "6 ranks"});
}

TEST(Axes, BadTextIsRefused) {
  for (const char* text :
       {"", "dp", "dp=", "dp=0", "dp=-1", "=2", "Dp=2", "dp=2,dp=2", "dp=2,", "dp=1000000,tp=1000000"})
    expect_error<UsageError>([&] { parse_mesh(text); }, {"--mesh"});
  for (const char* text : {"", "dp=", "a,b", "dp=x,dp=y", "D=x"})
    expect_error<UsageError>([&] { parse_strategies(text); }, {"--strategy"});
}

}  // namespace
}  // namespace tessera::host
