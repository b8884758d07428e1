// A run that cannot recover ends with an error, on all ranks alike, and says what is wrong since when.
#include <gtest/gtest.h>

#include <cstring>

#include "e2e/cli.h"

namespace tessera::testing {
namespace {

using Words = std::vector<std::string>;

void expect_lost(const CommandResult& result, const Words& parts) {
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_EQ(result.err.find("done:"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("the run is lost: "), std::string::npos) << result.err;
  for (const std::string& part : parts)
    EXPECT_NE(result.err.find(part), std::string::npos) << part << " is missing in\n" << result.err;
}

CommandResult train_at(const std::string& rate, Words more) {
  Words flags = {"train",          "--model",      golden(),      "--data", golden("/tokens.bin"),
                 "--batch-size=1", "--seq-len=32", "--threads=1", "--lr",   rate};
  flags.insert(flags.end(), more.begin(), more.end());
  return run_command(tessera(flags));
}

TEST(LostRun, EndsWhenItsLastLossIsNotFinite) {
  expect_lost(train_at("1e30", {"--clip=0", "--steps=6"}),
              {"the last loss is not finite", "the largest parameter is finite: element ", "e+30",
               "step 1 was the last that updated with a finite loss", "lower --lr (1e+30)", "set --clip"});
  expect_lost(train_at("1e30", {"--dtype=fp16", "--steps=6"}), {"the last loss is not finite"});
}

TEST(LostRun, EndsAtTheStepThatFindsAParameterThatIsNotFinite) {
  const TempFolder folder;
  expect_lost(train_at("1e38", {"--clip=0", "--steps=100", "--metrics", folder.path("m")}),
              {"a parameter is not finite, in step 2: element ", "wte.weight is ", "step 1 was the last"});
  const auto steps = read_metrics(folder.path("m"));
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0]["updated"], true);
  EXPECT_EQ(steps[1]["updated"], false);
  EXPECT_EQ(steps[1]["not_finite"], Words({"loss", "grad_norm"}));
}

/// In step 5 weight decay makes positions infinite that no token reads, so its loss is finite.
TEST(LostRun, IsNotSaved) {
  const TempFolder folder;
  expect_lost(train_at("0.1", {"--steps=40", "--weight-decay=1e9", "--freeze=h.*,ln_f*,wte*", "--save-every=1",
                               "--save", folder.path()}),
              {"a parameter is not finite, ", "of wpe.weight is ", " and was not saved"});
  EXPECT_EQ(file_bytes(folder.path("latest")), "step-00000004\n");
}

TEST(LostRun, LooksAtWhatTheLastUpdateDid) {
  expect_lost(train_at("1e38", {"--clip=0", "--steps=1"}),
              {"a parameter is not finite, after the last step: element "});
}

TEST(LostRun, EndsAfterSkippedStepsInARow) {
  expect_lost(train_at("1e30", {"--clip=0", "--steps=100", "--max-skipped-steps=3"}),
              {"in steps 2 to 4 (--max-skipped-steps 3) the loss or a gradient is not finite"});
  expect_lost(train_at("1e30", {"--clip=0", "--steps=100"}), {"in steps 2 to 21 (--max-skipped-steps 20)"});
  expect_lost(train_at("1e30", {"--clip=0", "--steps=40", "--max-skipped-steps=0"}),
              {"step 40 was skipped", "the last loss is not finite"});
}

TEST(LostRun, TheMemoryCheckNamesTheFirstActionThatIsNotFinite) {
  expect_lost(train_at("1e38", {"--clip=0", "--steps=1", "--debug-memory"}),
              {"the first action of that step with a result that is not finite: rank 0 #", " optimizer "});
  expect_lost(train_at("1e30", {"--clip=0", "--steps=3", "--debug-memory", "--nproc=2", "--comm=local"}),
              {"with a result that is not finite: rank ", " compute forward "});
}

TEST(LostRun, NamesWhatElseMayBeToBlame) {
  expect_lost(train_at("1e-3", {"--eps=0", "--steps=4"}), {"lower --lr (0.001), raise --eps (0), lengthen"});
  expect_lost(train_at("1e-3", {"--weight-decay=1e99", "--steps=4"}),
              {"lower --lr (0.001), lower --weight-decay (1e+99), lengthen"});
  const CommandResult of_rate = train_at("1e38", {"--clip=0", "--steps=1"});
  expect_lost(of_rate, {"lower --lr (1e+38), lengthen"});
}

TEST(LostRun, SkippedStepsOfLossScalingAreNone) {
  const CommandResult result = train_at("1e-3", {"--dtype=fp16", "--steps=30"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

/// The golden model with one value that is so large that weight decay at a rate of 100 makes it infinite: the last of
/// the positions, which no sequence of 32 tokens reads, and which in a sharded job one rank holds.
struct HugeValue {
  HugeValue() {
    std::filesystem::copy(golden(), folder.path("model"), std::filesystem::copy_options::recursive);
    std::string bytes = file_bytes(folder.path("model/model.safetensors"));
    uint64_t header = 0;
    std::memcpy(&header, bytes.data(), sizeof header);
    const auto tensors = nlohmann::json::parse(bytes.substr(sizeof header, header));
    const std::string name = tensors.contains("wpe.weight") ? "wpe.weight" : "transformer.wpe.weight";
    const auto end = tensors.at(name).at("data_offsets").at(1).get<uint64_t>();
    const float value = 3e38f;
    std::memcpy(bytes.data() + sizeof header + header + end - sizeof value, &value, sizeof value);
    folder.write("model/model.safetensors", bytes);
  }
  TempFolder folder;
};

class LostOn : public ::testing::TestWithParam<Words> {};

TEST_P(LostOn, AllRanksAlike) {
  const HugeValue model;
  Words words = {"train",
                 "--model",
                 model.folder.path("model"),
                 "--data",
                 golden("/tokens.bin"),
                 "--batch-size=1",
                 "--seq-len=32",
                 "--threads=1",
                 "--lr=100",
                 "--steps=1"};
  words.insert(words.end(), GetParam().begin(), GetParam().end());
  expect_lost(
      run_command(tessera(words)),
      {"a parameter is not finite, after the last step: element 3071 of wpe.weight is -inf", "step 1 was the last"});
}

INSTANTIATE_TEST_SUITE_P(
    Ranks, LostOn,
    ::testing::Values(Words{}, Words{"--nproc=3", "--strategy=fsdp", "--comm=local"},
                      Words{"--nproc=3", "--strategy=zero3", "--comm=local"}, Words{"--nproc=2", "--comm=gloo"},
                      Words{"--nproc=2", "--strategy=fsdp", "--comm=gloo"},
                      Words{"--mesh=pp=2,tp=2", "--strategy=pp=pipeline,tp=tensor", "--comm=local"}));

TEST(Rates, ThatTrainNothingAreWarnedOf) {
  const auto warned = [](Words flags) {
    flags.push_back("--steps=1");
    const CommandResult result = train_at("1e-3", flags);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.err;
  };
  EXPECT_NE(warned({"--warmup-steps=4"}).find("the learning rate ends at 0.00025 and never reaches --lr 0.001"),
            std::string::npos);
  EXPECT_NE(warned({"--weight-decay=1000"}).find("--lr times --weight-decay is 1"), std::string::npos);
  EXPECT_EQ(warned({"--warmup-steps=1"}).find("warning"), std::string::npos);
  EXPECT_NE(warned({"--warmup-steps=1", "--lr-schedule=cosine", "--min-lr=1e-5"})
                .find("--lr-schedule cosine has no effect: it falls to --min-lr 1e-05 over two steps or more, and "
                      "--warmup-steps 1 leaves 0 of --steps 1"),
            std::string::npos);
  EXPECT_EQ(train_at("1e-3", {"--steps=3", "--warmup-steps=1", "--lr-schedule=linear"}).err.find("has no effect"),
            std::string::npos);
  EXPECT_NE(train_at("2", {"--steps=1"}).err.find("--lr 2 is too high"), std::string::npos);
}

}  // namespace
}  // namespace tessera::testing
