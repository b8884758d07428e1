// plugin-api/template as its reader uses it: copied out of the tree, built against the installed plugin-api alone,
// named on the command line. plain-ddp must give the bits that ddp gives; local-sgd must train alone, average, and
// compose.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "checkpoint/checkpoint.h"
#include "support/command.h"
#include "support/local_job.h"
#include "support/paths.h"
#include "support/temp_folder.h"

namespace tessera::testing {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

const std::string kGolden = source_dir("tests/golden/gpt2-nano");

/// Metrics of the steps, as JSON texts: loss, gradient norm and tokens are all that two equal runs share.
using Steps = std::vector<Json>;

class Template : public ::testing::TestWithParam<std::string> {
 protected:
  void run(const std::vector<std::string>& argv) const {
    const CommandResult result = Command(argv).wait(std::chrono::minutes(5));
    ASSERT_EQ(result.exit_code, 0) << ::testing::PrintToString(argv) << "\n" << result.out << result.err;
  }

  void SetUp() override { ASSERT_NO_FATAL_FAILURE(build()); }

  /// What is in the folder that the templates were built in.
  std::string built(const std::string& path) const { return folders_of_compilers().at(GetParam()).path(path); }

 private:
  /// Once for all tests with this compiler.
  void build() const {
    const auto [entry, is_new] = folders_of_compilers().try_emplace(GetParam());
    if (!is_new) return;
    const std::string copy = built("copy"), prefix = built("prefix"), binary = built("build");
    fs::copy(source_dir("plugin-api/template"), copy, fs::copy_options::recursive);
    ASSERT_NO_FATAL_FAILURE(
        run({TESSERA_CMAKE, "--install", binary_dir(), "--component", "plugin-api", "--prefix", prefix}));
    ASSERT_NO_FATAL_FAILURE(
        run({TESSERA_CMAKE, "-G", TESSERA_GENERATOR, "-S", copy, "-B", binary, "-DCMAKE_C_COMPILER=" + GetParam(),
             "-DCMAKE_C_FLAGS=-Werror", "-DCMAKE_PREFIX_PATH=" + prefix}));
    ASSERT_NE(file_bytes(binary + "/CMakeCache.txt").find("tessera_DIR:PATH=" + prefix), std::string::npos)
        << "another plugin-api was found than the one installed for this test";
    ASSERT_NO_FATAL_FAILURE(run({TESSERA_CMAKE, "--build", binary}));
    fs::create_directory(built("plugins"));
    for (const char* plugin : {"/plain-ddp.so", "/local-sgd.so", "/saved-out-offload.so"})
      fs::copy(binary + plugin, built("plugins"));
  }

  static std::map<std::string, TempFolder>& folders_of_compilers() {
    static std::map<std::string, TempFolder> folders;
    return folders;
  }

 protected:
  Steps train(const std::vector<std::string>& flags) const {
    const std::string metrics = folder_.path("metrics");
    fs::remove(metrics);
    std::vector<std::string> argv = {
        tessera_program(),     "train",       "--model=" + kGolden, "--data=" + kGolden + "/tokens.bin",
        "--comm=local",        "--threads=1", "--steps=5",          "--plugin-dir=" + built("plugins"),
        "--metrics=" + metrics};
    for (const char* name :
         {"batch_size", "seq_len", "grad_accum", "lr", "weight_decay", "beta1", "beta2", "eps", "clip"})
      argv.push_back("--" + std::string(name) + "=" + golden_.at(name).dump());
    argv.insert(argv.end(), flags.begin(), flags.end());
    run(argv);
    Steps steps;
    std::ifstream lines(metrics);
    for (std::string line; std::getline(lines, line);) {
      const Json step = Json::parse(line);
      if (step.contains("kind")) continue;  // describes the run
      steps.push_back({{"loss", step["loss"]}, {"grad_norm", step["grad_norm"]}, {"tokens", step["tokens"]}});
    }
    EXPECT_EQ(steps.size(), 5u);
    return steps;
  }

  const Json golden_ = Json::parse(std::ifstream(kGolden + "/trajectory.json"));
  const TempFolder folder_;
};

TEST_P(Template, TrainsAsDdpDoes) {
  const Steps steps = train({"--nproc=2", "--strategy=plain-ddp"});
  ASSERT_EQ(steps, train({"--nproc=2", "--strategy=ddp"}));
  for (size_t i = 0; i < steps.size(); ++i)
    for (const char* what : {"loss", "grad_norm"}) {
      const double expected = golden_[what][i];
      EXPECT_NEAR(steps[i][what].get<double>(), expected, 1e-4 * expected) << what << " of step " << i;
    }
  // Two ranks hide the order of a sum; three do not.
  const Steps three = train({"--nproc=3", "--strategy=ddp"});
  EXPECT_EQ(train({"--nproc=3", "--strategy=plain-ddp"}), three);
  const Steps micro_batch = train({"--nproc=3", "--strategy=ddp", "--reduce-every=micro-batch"});
  EXPECT_EQ(train({"--nproc=3", "--strategy=plain-ddp", "--reduce-every=micro-batch"}), micro_batch);
  EXPECT_NE(micro_batch, three) << "--reduce-every changes nothing";
}

TEST_P(Template, BuildsWithoutCMakeToo) {
  const std::string prefix = built("prefix"), out = folder_.path("by-hand");
  fs::create_directory(out);
  const std::string command = "export PKG_CONFIG_PATH=" + prefix + "/share/pkgconfig; " + GetParam() +
                              " -std=c11 -Werror -O2 -shared -fPIC -fvisibility=hidden"
                              " $(pkg-config --cflags tessera-plugin-api) " +
                              built("copy") + "/plain_ddp.c $(pkg-config --libs tessera-plugin-api) -o " + out +
                              "/plain-ddp.so";
  ASSERT_NO_FATAL_FAILURE(run({"/bin/sh", "-c", command}));
  ASSERT_NO_FATAL_FAILURE(run({tessera_program(), "plugins", "info", "plain-ddp", "--plugin-dir=" + out}));
}

TEST_P(Template, ComesWithItsLicenseAndTheContract) {
  const std::string documents = built("prefix/share/doc/tessera/");
  for (const char* file : {"LICENSE", "plugin-abi.md", "template/README.md", "template/plain_ddp.c"})
    EXPECT_TRUE(fs::exists(documents + file)) << file;
  EXPECT_NE(file_bytes(documents + "LICENSE").find("Apache License"), std::string::npos);
}

TEST_P(Template, HasAnOffloadPolicyThatIsFoundByItsName) {
  const std::string dir = "--plugin-dir=" + built("plugins");
  const CommandResult list = Command({tessera_program(), "plugins", "list", dir}).wait(std::chrono::minutes(1));
  EXPECT_NE(list.out.find("offload       saved-out "), std::string::npos) << list.out;
  EXPECT_NE(list.out.find(" " + built("plugins")), std::string::npos) << list.out;
  const CommandResult info =
      Command({tessera_program(), "plugins", "info", "saved-out", dir}).wait(std::chrono::minutes(1));
  EXPECT_NE(info.out.find("kind     offload  (--offload saved-out)"), std::string::npos) << info.out << info.err;
  EXPECT_NE(info.out.find("--saved-out.ahead N"), std::string::npos) << info.out;
}

// Other bits would be another computation: a policy moves, and computes nothing.
TEST_P(Template, HasAnOffloadPolicyThatChangesNoBit) {
  const std::vector<std::string> job = {"--nproc=2", "--strategy=ddp"};
  const Steps without = train(job);
  for (const char* ahead : {"0", "1", "5"}) {
    std::vector<std::string> flags = job;
    flags.insert(flags.end(), {"--offload=saved-out", std::string("--saved-out.ahead=") + ahead});
    EXPECT_EQ(train(flags), without) << "ahead=" << ahead;
  }
  const CommandResult plan = Command({tessera_program(), "plan", "--model=" + kGolden,
                                      "--plugin-dir=" + built("plugins"), "--offload=saved-out", "--print-program"})
                                 .wait(std::chrono::minutes(1));
  EXPECT_NE(plan.out.find("evict"), std::string::npos) << "it moves nothing:\n" << plan.out << plan.err;
}

/// local-sgd on its axis beside strategies of the host's tree. Ranks are threads of this process.
class LocalSgdTemplate : public Template {
 protected:
  /// In `strategies`, @ is the plugin.
  RunResult train(const std::string& mesh, std::string strategies, int num_ranks,
                  const std::vector<std::string>& more = {}) const {
    if (const size_t at = strategies.find('@'); at != std::string::npos)
      strategies.replace(at, 1, built("plugins") + "/local-sgd.so");
    std::vector<std::string> flags = {"--model=" + kGolden, "--data=" + kGolden + "/tokens.bin",
                                      "--batch-size=2",     "--seq-len=16",
                                      "--mesh=" + mesh,     "--strategy=" + strategies};
    flags.insert(flags.end(), more.begin(), more.end());
    for (const std::string name : {"--steps=8", "--lr=3e-3"})
      if (std::ranges::none_of(more,
                               [&](const auto& flag) { return flag.starts_with(name.substr(0, name.find('='))); }))
        flags.push_back(name);
    return run_local(flags, num_ranks);
  }

  static std::vector<float> elements(const Checkpoint& checkpoint, const std::string& tensor) {
    std::vector<float> values(checkpoint.index().tensors.at(tensor).num_elements());
    checkpoint.read(tensor, 0, values);
    return values;
  }

  static void expect_near(const RunResult& run, const RunResult& expected, double tolerance) {
    ASSERT_EQ(run.steps.size(), expected.steps.size());
    for (size_t i = 0; i < run.steps.size(); ++i)
      EXPECT_NEAR(run.steps[i].loss, expected.steps[i].loss, tolerance * expected.steps[i].loss) << "step " << i;
    for (const auto& [name, values] : expected.parameters)
      for (size_t i = 0; i < values.size(); ++i)
        ASSERT_NEAR(run.parameters.at(name)[i], values[i], 10 * tolerance) << name << "[" << i << "]";
    EXPECT_EQ(run.num_missing + run.num_contradictions, 0u);
  }
};

int num_lines(const std::string& template_file) {
  std::ifstream file(source_dir("plugin-api/template/" + template_file));
  int lines = 0;
  for (std::string line; std::getline(file, line);)
    ++lines;
  return lines;
}

TEST(TemplateSources, AreAsShortAsTheirReadmeSays) {
  EXPECT_GT(num_lines("plain_ddp.c"), 0);
  EXPECT_LE(num_lines("plain_ddp.c"), 120);
  EXPECT_GT(num_lines("local_sgd.c"), 0);
  EXPECT_LT(num_lines("local_sgd.c"), 150);
  EXPECT_GT(num_lines("saved_out.c"), 0);
  EXPECT_LE(num_lines("saved_out.c"), 100);
  EXPECT_GT(num_lines("cpp/unit_ddp.cc"), 0);
  EXPECT_LE(num_lines("cpp/unit_ddp.cc"), 60);
  EXPECT_GT(num_lines("cpp/shm_comm.cc"), 0);
  EXPECT_LT(num_lines("cpp/shm_comm.cc"), 300);
}

TEST_P(LocalSgdTemplate, DivergesBetweenAverages) {
  const auto contradictions = [&](int steps) {
    const RunResult run = train("dp=3", "dp=@", 3, {"--steps=" + std::to_string(steps)});
    EXPECT_EQ(run.num_missing, 0u);
    return run.num_contradictions;
  };
  for (const int steps : {1, 3, 5})
    EXPECT_GT(contradictions(steps), 0u) << steps << " steps";
  for (const int steps : {4, 8})
    EXPECT_EQ(contradictions(steps), 0u) << steps << " steps";
}

/// Rank 0 begins with the tokens that a rank without others begins with: scale and norm are its own.
TEST_P(LocalSgdTemplate, BeginsAsARankAlone) {
  const RunResult alone = run_local(
      {"--model=" + kGolden, "--data=" + kGolden + "/tokens.bin", "--batch-size=2", "--seq-len=16", "--steps=1"}, 1);
  const RunResult run = train("dp=2", "dp=@", 2, {"--steps=1"});
  EXPECT_EQ(run.steps[0].grad_norm, alone.steps[0].grad_norm);
}

/// The average of steps is the step with the average, when a step is linear in the gradient.
TEST_P(LocalSgdTemplate, AveragingEveryStepIsDdp) {
  const std::vector<std::string> linear = {"--optimizer=sgd", "--beta1=0",      "--clip=0",
                                           "--lr=0.1",        "--grad-accum=2", "--local-sgd.every=1"};
  for (const int n : {2, 3}) {
    const std::string mesh = "dp=" + std::to_string(n);
    const RunResult ddp = train(mesh, "dp=ddp", n, {linear.begin(), linear.end() - 1});
    expect_near(train(mesh, "dp=@", n, linear), ddp, 1e-6);
    auto rarely = linear;
    rarely.back() = "--local-sgd.every=4";
    EXPECT_GT(std::abs(train(mesh, "dp=@", n, rarely).steps.back().loss - ddp.steps.back().loss), 1e-6);
  }
}

TEST_P(LocalSgdTemplate, ComposesWithTensorAndPipeline) {
  const std::vector<std::string> accumulate = {"--grad-accum=2"};
  const RunResult flat = train("dp=2", "dp=@", 2, accumulate);
  const struct {
    const char *mesh, *strategies;
    int num_ranks;
  } meshes[] = {{"dp=2,tp=2", "dp=@,tp=tensor", 4},
                {"pp=2,dp=2", "pp=pipeline,dp=@", 4},
                {"pp=2,dp=2,tp=2", "pp=pipeline,dp=@,tp=tensor", 8}};
  for (const auto& [mesh, strategies, num_ranks] : meshes) {
    SCOPED_TRACE(mesh);
    const RunResult run = train(mesh, strategies, num_ranks, accumulate);
    expect_near(run, flat, 1e-5);
    for (size_t i = 0; i < flat.steps.size(); ++i)
      EXPECT_NEAR(run.steps[i].grad_norm, flat.steps[i].grad_norm, 1e-4 * flat.steps[i].grad_norm) << "step " << i;
  }
}

/// Islands of ranks that share parameters: inside, the strategies of the host's tree agree on every bit.
TEST_P(LocalSgdTemplate, ComposesWithShardedIslands) {
  const RunResult ddp = train("island=2,dp=2", "island=@,dp=ddp", 4);
  EXPECT_EQ(ddp.num_contradictions, 0u);
  for (const char* inner : {"fsdp", "zero3"})
    EXPECT_EQ(first_difference(train("island=2,dp=2", std::string("island=@,dp=") + inner, 4), ddp), "");
  EXPECT_EQ(first_difference(train("island=2,dp=2", "island=@,dp=fsdp", 4, {"--fsdp.sharding=optimizer_only"}), ddp),
            "");
}

/// Saved where the replicas differ, and continued as each was.
TEST_P(LocalSgdTemplate, GoesOnWithTheParametersOfEachRank) {
  const auto save = [&](const char* mesh, const char* strategies, int num_ranks, const std::string& name) {
    train(mesh, strategies, num_ranks, {"--steps=3", "--save=" + folder_.path(name)});
    return "--resume=" + folder_.path(name);
  };
  const std::string islands = save("island=2,dp=2", "island=@,dp=fsdp", 4, "islands");
  RunResult whole = train("island=2,dp=2", "island=@,dp=fsdp", 4);
  whole.steps.erase(whole.steps.begin(), whole.steps.begin() + 3);
  for (const char* inner : {"fsdp", "ddp", "zero3"})
    EXPECT_EQ(first_difference(train("island=2,dp=2", std::string("island=@,dp=") + inner, 4, {islands}), whole), "");
  whole = train("dp=3", "dp=@", 3);
  whole.steps.erase(whole.steps.begin(), whole.steps.begin() + 3);
  EXPECT_EQ(first_difference(train("dp=3", "dp=@", 3, {save("dp=3", "dp=@", 3, "three")}), whole), "");
}

/// The first one's are as good as any, and what evaluation and generation take too.
TEST_P(LocalSgdTemplate, WithAnotherNumberOfReplicasAllGoOnFromTheFirst) {
  train("dp=2", "dp=@", 2, {"--steps=3", "--save=" + folder_.path("two")});
  const std::vector<std::string> flags = {tessera_program(),
                                          "train",
                                          "--model=" + kGolden,
                                          "--data=" + kGolden + "/tokens.bin",
                                          "--batch-size=2",
                                          "--seq-len=16",
                                          "--comm=local",
                                          "--nproc=3",
                                          "--strategy=local-sgd",
                                          "--steps=3",
                                          "--plugin-dir=" + built("plugins")};
  const auto begin = [&](const char* flag, const std::string& save, const std::string& sentence) {
    std::vector<std::string> more = flags;
    more.insert(more.end(), {flag + folder_.path("two"), "--save=" + folder_.path(save)});
    const CommandResult run = Command(more).wait(std::chrono::minutes(1));
    ASSERT_EQ(run.exit_code, 0) << run.err;
    EXPECT_NE(run.err.find(sentence), std::string::npos) << run.err;
  };
  const std::string first =
      "two/step-00000003 holds 2 replicas of the parameters, which differ; all ranks begin with the first, ";
  begin("--resume=", "resumed", first + "since this run has 3");
  begin("--init-from=", "new", first + "since --init-from takes one");
  const Checkpoint two(folder_.path("two/step-00000003")), resumed(folder_.path("resumed/step-00000003"));
  for (const char* name : {"wte.weight", "optim.h.1.ln_1.bias.v"}) {
    EXPECT_NE(elements(two, name), elements(two, "replica.1." + std::string(name)));
    for (const char* replica : {"", "replica.1.", "replica.2."})
      EXPECT_EQ(elements(resumed, std::string(replica) + name), elements(two, name)) << replica << name;
  }
}

TEST_P(LocalSgdTemplate, TrainsInHalfPrecision) {
  const RunResult run = train("dp=2", "dp=@", 2, {"--dtype=fp16"});
  EXPECT_EQ(run.num_contradictions, 0u);
  EXPECT_LT(run.steps.back().loss, run.steps.front().loss);
}

/// The plan counts what is sent in the step that averages.
TEST_P(LocalSgdTemplate, PlanShowsTheStepThatAverages) {
  const CommandResult plan =
      Command({tessera_program(), "plan", "--model=" + kGolden, "--mesh=dp=2", "--plugin-dir=" + plugin_dir(),
               "--strategy=dp=" + built("plugins") + "/local-sgd.so", "--local-sgd.every=3"})
          .wait(std::chrono::minutes(1));
  ASSERT_EQ(plan.exit_code, 0) << plan.err;
  EXPECT_NE(plan.out.find("sent by this rank in step 2, the one that sends the most"), std::string::npos) << plan.out;
  EXPECT_NE(plan.out.find("comm.dp.average          all_reduce"), std::string::npos) << plan.out;
}

INSTANTIATE_TEST_SUITE_P(Compilers, LocalSgdTemplate, ::testing::Values(TESSERA_C_COMPILERS),
                         [](const auto& test) { return fs::path(test.param).filename().string(); });
INSTANTIATE_TEST_SUITE_P(Compilers, Template, ::testing::Values(TESSERA_C_COMPILERS),
                         [](const auto& test) { return fs::path(test.param).filename().string(); });

}  // namespace
}  // namespace tessera::testing
