// Evaluation as a user asks for it: in training over gloo, and by `tessera eval`.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "e2e/cli.h"

namespace tessera::testing {
namespace {

/// The lines of evaluations.
std::vector<nlohmann::json> evaluations_in(const std::string& metrics) {
  std::vector<nlohmann::json> lines = read_json_lines(metrics);
  std::erase_if(lines, [](const nlohmann::json& line) { return line.value("kind", "") != "eval"; });
  return lines;
}

TEST(Eval, OfTrainingIsInLogAndMetrics) {
  const TempFolder folder;
  const std::string metrics = folder.path("m"), text = folder.write("a.txt", std::string(500, 'x') + "yz");
  const CommandResult run =
      run_command(tessera({"train", "--model", source_dir("examples/char"), "--data", text, "--eval-data", text,
                           "--nproc=2", "--comm=gloo", "--batch-size=1", "--seq-len=32", "--threads=1", "--steps=5",
                           "--eval-every=2", "--eval-batches=3", "--metrics", metrics}));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const auto lines = evaluations_in(metrics);
  ASSERT_EQ(lines.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    const double loss = lines[i]["loss"];
    EXPECT_EQ(lines[i]["after_step"], i < 2 ? 2 * (i + 1) : 5);
    EXPECT_EQ(lines[i]["tokens"], 3 * 2 * 32);
    EXPECT_DOUBLE_EQ(lines[i]["perplexity"].get<double>(), std::exp(loss));
    EXPECT_DOUBLE_EQ(lines[i]["bits_per_byte"].get<double>(), loss / std::log(2));
  }
  EXPECT_EQ(read_metrics(metrics).size(), 5u);
  EXPECT_NE(run.err.find("\n  evaluation       " + text), std::string::npos) << run.err;
  EXPECT_NE(run.err.find("evaluation after step 4: loss "), std::string::npos) << run.err;
  EXPECT_NE(run.err.find(" bits per byte | 192 tokens"), std::string::npos) << run.err;
}

TEST(Eval, ACommandGivesTheSameBitsOverProcesses) {
  std::vector<double> losses;
  for (const char* flags : {"--nproc=1", "--nproc=2", "--mesh=pp=2"}) {
    const TempFolder folder;
    std::vector<std::string> command = {"eval",        golden(),         "--data",    golden("/tokens.bin"), flags,
                                        "--threads=1", "--batch-size=3", "--metrics", folder.path("m")};
    if (std::string(flags).find("pp") != std::string::npos) command.emplace_back("--strategy=pipeline");
    const CommandResult run = run_command(tessera(command));
    ASSERT_EQ(run.exit_code, 0) << run.err;
    EXPECT_NE(run.err.find("evaluation: loss 4.51"), std::string::npos) << run.err;
    EXPECT_EQ(run.err.find("optimizer"), std::string::npos) << "memory for an optimizer: " << run.err;
    const auto lines = evaluations_in(folder.path("m"));
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_EQ(lines[0]["tokens"], 4999);
    losses.push_back(lines[0]["loss"]);
  }
  EXPECT_EQ(losses, std::vector<double>(3, losses[0]));
}

TEST(Eval, OfACheckpointGivesTheSameBitsOverProcesses) {
  const TempFolder folder;
  ASSERT_EQ(run_command(train({"--steps=2", "--save", folder.path("saved")})).exit_code, 0);
  std::vector<double> losses;
  for (const char* flags : {"--nproc=1", "--nproc=2", "--comm=local"}) {
    const std::string metrics = folder.path(flags);
    std::vector<std::string> command = {"eval", folder.path("saved"), "--data",         golden("/tokens.bin"),
                                        flags,  "--threads=1",        "--batch-size=3", "--metrics",
                                        metrics};
    if (std::string(flags) == "--comm=local") command.emplace_back("--nproc=2");
    const CommandResult run = run_command(tessera(command));
    ASSERT_EQ(run.exit_code, 0) << run.err;
    losses.push_back(evaluations_in(metrics).at(0)["loss"]);
  }
  EXPECT_EQ(losses, std::vector<double>(3, losses[0]));
}

/// `tessera train` of a small classifier, and the loss of its last evaluation.
double classifier_loss(const TempFolder& folder, const std::string& data, const std::string& held_out,
                       const std::vector<std::string>& more) {
  const std::string metrics = folder.path("trained");
  std::filesystem::remove(metrics);
  std::vector<std::string> words = {"train",  "--model=mlp:2,4,3", "--data",      data,        "--eval-data",
                                    held_out, "--steps=2",         "--threads=1", "--metrics", metrics};
  words.insert(words.end(), more.begin(), more.end());
  const CommandResult run = run_command(tessera(words));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const auto lines = evaluations_in(metrics);
  return lines.empty() ? 0 : lines.back()["loss"].get<double>();
}

TEST(Eval, OfACheckpointReadsDataAsItsTrainingDid) {
  const TempFolder folder;
  const std::string data = folder.write("a.csv", "2,0,5\n0,1,2\n1,3,4\n2,7,6\n"), saved = folder.path("saved");
  const double trained =
      classifier_loss(folder, data, data, {"--data-label=first", "--data-scale=none", "--save", saved});
  const auto evaluate = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"eval", saved, "--data", data, "--threads=1", "--metrics", folder.path("m")};
    words.insert(words.end(), more.begin(), more.end());
    return run_command(tessera(words));
  };
  const CommandResult same = evaluate({});
  ASSERT_EQ(same.exit_code, 0) << same.err;
  EXPECT_EQ(evaluations_in(folder.path("m")).at(0)["loss"], trained);
  EXPECT_EQ(same.err.find("differs from the training"), std::string::npos) << same.err;
  expect_message(evaluate({"--data-scale=column"}), 0,
                 {"warning: --data-scale column differs from the training of " + saved,
                  "which had --data-scale none; leave it out to read the data as it was read there"});
  EXPECT_NE(evaluations_in(folder.path("m")).at(1)["loss"], trained);
}

/// A flag that names the default is not a difference.
TEST(Eval, OfACheckpointNamesTheScaleThatItsTrainingDidNotGive) {
  const TempFolder folder;
  const std::string data = folder.write("a.csv", "5,2,0\n2,0,1\n4,1,2\n6,3,2\n"), saved = folder.path("saved");
  classifier_loss(folder, data, data, {"--save", saved});
  const auto evaluate = [&](const std::string& flag) {
    return run_command(tessera({"eval", saved, "--data", data, "--threads=1", flag}));
  };
  for (const char* flag : {"--data-scale=column", "--data-label=last"}) {
    const CommandResult same = evaluate(flag);
    EXPECT_EQ(same.exit_code, 0) << same.err;
    EXPECT_EQ(same.err.find("differs from the training"), std::string::npos) << same.err;
  }
  expect_message(evaluate("--data-scale=none"), 0,
                 {"--data-scale none differs from the training of " + saved,
                  "which did not give it, which means column for this data; leave it out"});
}

TEST(Eval, TrainingGoesOnWithTheDefaultsThatAreNamed) {
  const TempFolder folder;
  const std::string data = folder.write("a.csv", "5,2,0\n2,0,1\n4,1,2\n6,3,2\n"), saved = folder.path("saved");
  classifier_loss(folder, data, data, {"--save", saved});
  const auto resume = [&](const std::string& flag) {
    return run_command(tessera({"train", "--model=mlp:2,4,3", "--data", data, "--steps=3", "--threads=1", "--resume",
                                saved, "--data-label=last", flag}));
  };
  const CommandResult same = resume("--data-scale=column");
  EXPECT_EQ(same.exit_code, 0) << same.err;
  EXPECT_EQ(same.err.find("--data-scale"), std::string::npos) << same.err;
  expect_message(resume("--data-scale=none"), 0, {"continues with other settings", "--data-scale none (was column)"});
}

// Ranges of 4 and 8: dividing by hand gives the same bits.
TEST(Eval, OfTrainingScalesItsDataAsTheTrainingData) {
  const TempFolder folder;
  const double scaled = classifier_loss(folder, folder.write("a.csv", "0,0,0\n4,8,1\n2,4,2\n"),
                                        folder.write("b.csv", "1,2,0\n2,6,1\n"), {});
  const double by_hand = classifier_loss(folder, folder.write("c.csv", "0,0,0\n1,1,1\n0.5,0.5,2\n"),
                                         folder.write("d.csv", "0.25,0.25,0\n0.5,0.75,1\n"), {"--data-scale=none"});
  EXPECT_EQ(scaled, by_hand);
}

/// The golden model's tokens are numbers.
TEST(Eval, OfOtherTokensThanThoseOfTheTrainingIsWarnedOf) {
  const TempFolder folder;
  const std::string text = folder.write("a.txt", std::string(200, '!')), saved = folder.path("saved");
  expect_message(run_command(train({"--steps=1", "--save", saved, "--eval-data", text})), 0,
                 {"--data is token files and --eval-data text: the model is evaluated on other tokens"});
  expect_message(run_command(tessera({"eval", saved, "--data", text, "--threads=1"})), 0,
                 {"--data is text, whose bytes are the tokens, and " + saved +
                  "/step-00000001 was trained on token files, so it knows other tokens"});
  const CommandResult same = run_command(tessera({"eval", saved, "--data", golden("/tokens.bin"), "--threads=1"}));
  EXPECT_EQ(same.exit_code, 0) << same.err;
  EXPECT_EQ(same.err.find("other tokens"), std::string::npos) << same.err;
  expect_message(run_command(tessera({"train", "--model", golden(), "--data", text, "--batch-size=1", "--seq-len=32",
                                      "--threads=1", "--steps=2", "--resume", saved})),
                 0, {"tokens are bytes (were numbers)"});
}

/// Only training would apply it.
TEST(Eval, HasNoWarningOfDropout) {
  const TempFolder folder;
  nlohmann::json config = nlohmann::json::parse(file_bytes(golden("/config.json")));
  config["resid_pdrop"] = 0.1;
  folder.write("config.json", config.dump());
  std::filesystem::copy_file(golden("/model.safetensors"), folder.path("model.safetensors"));
  const auto warns = [&](std::vector<std::string> words) {
    const CommandResult run = run_command(tessera(std::move(words)));
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return run.err.find("dropout is not applied: resid_pdrop 0.1") != std::string::npos;
  };
  const std::string data = "--data=" + golden("/tokens.bin");
  EXPECT_FALSE(warns({"eval", folder.path(), data, "--threads=1"}));
  EXPECT_FALSE(warns({"plan", "--model", folder.path()}));
  EXPECT_TRUE(warns({"train", "--model", folder.path(), data, "--threads=1", "--steps=1"}));
}

TEST(Eval, ReadsNoDataThatIsNotThere) {
  const CommandResult run = run_command(tessera({"eval", golden(), "--data", "/nowhere"}));
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_NE(run.err.find("--data /nowhere: no such file or folder"), std::string::npos) << run.err;
}

}  // namespace
}  // namespace tessera::testing
