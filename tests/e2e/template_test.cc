// plugin-api/template as its reader uses it: copied out of the tree, built against the installed plugin-api alone,
// named on the command line. It must train, and give the bits that ddp gives.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "support/command.h"
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

  void build() const {
    const std::string copy = folder_.path("copy"), prefix = folder_.path("prefix"), binary = folder_.path("build");
    fs::copy(source_dir("plugin-api/template"), copy, fs::copy_options::recursive);
    ASSERT_NO_FATAL_FAILURE(
        run({TESSERA_CMAKE, "--install", TESSERA_BINARY_DIR, "--component", "plugin-api", "--prefix", prefix}));
    ASSERT_NO_FATAL_FAILURE(
        run({TESSERA_CMAKE, "-G", TESSERA_GENERATOR, "-S", copy, "-B", binary, "-DCMAKE_C_COMPILER=" + GetParam(),
             "-DCMAKE_C_FLAGS=-Werror", "-DCMAKE_PREFIX_PATH=" + prefix}));
    ASSERT_NE(file_bytes(binary + "/CMakeCache.txt").find("tessera_DIR:PATH=" + prefix), std::string::npos)
        << "another plugin-api was found than the one installed for this test";
    ASSERT_NO_FATAL_FAILURE(run({TESSERA_CMAKE, "--build", binary}));
    fs::create_directory(folder_.path("plugins"));
    fs::copy(binary + "/plain-ddp.so", folder_.path("plugins"));
  }

  Steps train(const std::vector<std::string>& flags) const {
    const std::string metrics = folder_.path("metrics");
    fs::remove(metrics);
    std::vector<std::string> argv = {
        TESSERA_PROGRAM,       "train",       "--model=" + kGolden, "--data=" + kGolden + "/tokens.bin",
        "--comm=local",        "--threads=1", "--steps=5",          "--plugin-dir=" + folder_.path("plugins"),
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
      steps.push_back({{"loss", step["loss"]}, {"grad_norm", step["grad_norm"]}, {"tokens", step["tokens"]}});
    }
    EXPECT_EQ(steps.size(), 5u);
    return steps;
  }

  const Json golden_ = Json::parse(std::ifstream(kGolden + "/trajectory.json"));
  const TempFolder folder_;
};

TEST_P(Template, TrainsAsDdpDoes) {
  ASSERT_NO_FATAL_FAILURE(build());
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
  EXPECT_EQ(train({"--nproc=3", "--strategy=plain-ddp", "--plain-ddp.fuse=parameter"}), three);
  const Steps micro_batch = train({"--nproc=3", "--strategy=ddp", "--reduce-every=micro-batch"});
  EXPECT_EQ(train({"--nproc=3", "--strategy=plain-ddp", "--reduce-every=micro-batch"}), micro_batch);
  EXPECT_NE(micro_batch, three) << "--reduce-every changes nothing";
}

INSTANTIATE_TEST_SUITE_P(Compilers, Template, ::testing::Values(TESSERA_C_COMPILERS),
                         [](const auto& test) { return fs::path(test.param).filename().string(); });

}  // namespace
}  // namespace tessera::testing
