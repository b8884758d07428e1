// What leaves device memory, when, and for how long changes no bit of a run: losses, norms and final weights are those
// of the same job without offload, on the CPU. The combinations are rows of one table in which any two settings meet.
// A further policy is an entry of policies(), with the options that it takes; an option is a factor of offload_space().
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <exception>
#include <map>

#include "plan/moved.h"
#include "support/compiled_job.h"
#include "support/covering.h"
#include "support/large_gradients.h"
#include "support/local_job.h"

namespace tessera::testing {
namespace {

using Values = std::vector<std::string>;

/// A value of --offload. Of the factors of offload_space() only `options` vary, those of the first policy if there are
/// several; `fixed` are flags given as they are.
struct Policy {
  std::string name;
  Values options, fixed;

  std::string first() const { return name.substr(0, name.find(',')); }
};

const std::vector<Policy>& policies() {
  static const std::vector<Policy> all = {
      {"activations", {"to", "what", "fraction", "ahead", "linger"}, {"--activations.min-bytes=0"}},
      {"optimizer-state", {"to", "states", "fraction", "ahead", "linger"}, {}},
      {"stream", {"to", "gradients", "fraction", "ahead", "linger"}, {}},
      {"stream,activations", {"to", "gradients", "ahead", "linger"}, {"--activations.min-bytes=0"}},
      {"activations,optimizer-state", {"to", "ahead"}, {"--activations.min-bytes=0", "--activations.linger=0"}}};
  return all;
}

/// A mesh with its strategies.
struct Layout {
  std::string name;
  int num_ranks;
  Values flags;
};

const std::vector<Layout>& layouts() {
  static const std::vector<Layout> all = {
      {"one", 1, {}},
      {"ddp", 3, {"--strategy=ddp"}},
      {"full_shard", 2, {"--strategy=fsdp"}},
      {"shard_grad_op", 2, {"--strategy=fsdp", "--fsdp.sharding=shard_grad_op"}},
      {"optimizer_only", 2, {"--strategy=fsdp", "--fsdp.sharding=optimizer_only"}},
      {"no_shard", 2, {"--strategy=fsdp", "--fsdp.sharding=no_shard"}},
      {"zero1", 2, {"--strategy=zero3", "--zero3.stage=1"}},
      {"zero2", 2, {"--strategy=zero3", "--zero3.stage=2"}},
      {"zero3", 3, {"--strategy=zero3"}},
      {"hybrid", 4, {"--mesh=replicate=2,shard=2", "--strategy=replicate=ddp,shard=fsdp"}},
      {"pipeline", 2, {"--mesh=pp=2", "--strategy=pp=pipeline"}},
      {"tensor", 2, {"--mesh=tp=2", "--strategy=tp=tensor"}},
      {"all", 8, {"--mesh=pp=2,dp=2,tp=2", "--strategy=pp=pipeline,dp=fsdp,tp=tensor"}}};
  return all;
}

template <class Entry>
Values names_of(const std::vector<Entry>& entries) {
  Values names;
  for (const Entry& entry : entries)
    names.push_back(entry.name);
  return names;
}

/// The factors that are options of policies.
const std::vector<Factor>& policy_options() {
  static const std::vector<Factor> all = {{"to", {"host", "file"}},      {"what", {"all", "saved", "values"}},
                                          {"states", {"all", "m", "v"}}, {"gradients", {"true", "false"}},
                                          {"fraction", {"1", "0.3"}},    {"ahead", {"1", "0", "3"}},
                                          {"linger", {"1", "0", "2"}}};
  return all;
}

/// A policy takes its own options only. A block that is computed again saves nothing from its forward.
std::vector<Rule> rules() {
  std::vector<Rule> rules = {{"recompute", {"full"}, "what", {"all", "values"}}};
  // Without momentum there is no state.
  Values without_state = names_of(policies());
  std::erase(without_state, "optimizer-state");
  rules.push_back({"optimizer", {"sgd"}, "policy", without_state});
  for (const Policy& policy : policies())
    for (const Factor& option : policy_options())
      if (!std::ranges::count(policy.options, option.name))
        rules.push_back({"policy", {policy.name}, option.name, {option.values[0]}});
  return rules;
}

/// What varies. The first value of each is that of the references.
Space offload_space() {
  std::vector<Factor> factors = {{"layout", names_of(layouts())}, {"policy", names_of(policies())}};
  factors.insert(factors.end(), policy_options().begin(), policy_options().end());
  const std::vector<Factor> others = {{"device", {"cpu", "other"}},
                                      {"chunk", {"16MiB", "4KiB", "32KiB"}},
                                      {"engine", {"auto", "threads"}},
                                      {"accumulation", {"1", "3"}},
                                      {"reduce-every", {"step", "micro-batch"}},
                                      {"dtype", {"float32", "bf16", "fp16"}},
                                      {"reduce-dtype", {"float32", "bf16"}},
                                      {"recompute", {"none", "full", "attention"}},
                                      {"clip", {"1", "0", "0.1"}},
                                      {"optimizer", {"adamw", "sgd"}},
                                      {"freeze", {"none", "wte*,h.1.*"}},
                                      {"comm", {"local", "gloo"}},
                                      {"debug", {"none", "memory", "delay"}}};
  factors.insert(factors.end(), others.begin(), others.end());
  return Space(std::move(factors), rules());
}

/// What results do not depend on, besides the policy and its options.
constexpr std::array kWithoutEffect = {"policy", "device", "chunk", "engine", "recompute", "comm", "debug"};

const Layout& layout_of(const Space& space, const Space::Row& row) {
  return *std::ranges::find(layouts(), space.value(row, "layout"), &Layout::name);
}

/// --offload with its options.
Values offload_flags(const Space& space, const Space::Row& row) {
  static const TempFolder files;
  const Policy& policy = *std::ranges::find(policies(), space.value(row, "policy"), &Policy::name);
  Values flags = {"--offload=" + policy.name, "--offload-chunk=" + space.value(row, "chunk")};
  flags.insert(flags.end(), policy.fixed.begin(), policy.fixed.end());
  for (const std::string& option : policy.options)
    flags.push_back("--" + policy.first() + "." + option + "=" + space.value(row, option));
  if (space.value(row, "to") == "file")
    flags.insert(flags.end(), {"--offload-dir=" + files.path(), "--offload-io=" + space.value(row, "engine")});
  return flags;
}

/// The flags of a row without --offload, model and data.
Values job_flags(const Space& space, const Space::Row& row) {
  const auto value = [&](const char* factor) { return space.value(row, factor); };
  Values flags = layout_of(space, row).flags;
  flags.insert(flags.end(), {"--grad-accum=" + value("accumulation"), "--reduce-every=" + value("reduce-every"),
                             "--reduce-dtype=" + value("reduce-dtype"), "--recompute=" + value("recompute"),
                             "--clip=" + value("clip"), "--dtype=" + value("dtype")});
  if (value("optimizer") == "sgd") flags.insert(flags.end(), {"--optimizer=sgd", "--beta1=0"});
  if (value("freeze") != "none") flags.push_back("--freeze=" + value("freeze"));
  if (value("device") == "other") flags.insert(flags.end(), {"--device=other", "--plugin-dir=" TESSERA_TEST_DEVICES});
  if (value("debug") == "memory") flags.push_back("--debug-memory");
  if (value("debug") == "delay") flags.push_back("--stream-delay=5");
  return flags;
}

/// Runs rows of the space and remembers the references. In fp16 the gradients of the first steps overflow.
class OffloadMatrix {
 public:
  OffloadMatrix(Space space, int num_steps) : space_(std::move(space)), num_steps_(num_steps) {
    write_golden_model_with_large_gradients(large_gradients_, 20);
  }

  const Space& space() const { return space_; }

  /// Empty when the row's run with the policy has the bits of its reference: the same arithmetic without offload, over
  /// local-comm on the CPU. Otherwise the first difference, or what was thrown.
  std::string check(const Space::Row& row) {
    try {
      const Space::Row reference = reference_of(row);
      const auto [found, is_new] = references_.try_emplace(reference);
      if (is_new) found->second = run(reference, {});
      return first_difference(found->second, run(row, offload_flags(space_, row)));
    } catch (const std::exception& e) {
      return e.what();
    }
  }

  RunResult run(const Space::Row& row, const Values& more) const {
    Values flags = job_flags(space_, row);
    flags.insert(flags.end(), more.begin(), more.end());
    const std::string model = space_.value(row, "dtype") == "fp16" ? large_gradients_.path() : golden_folder();
    flags.insert(flags.end(), {"--model=" + model, "--data=" + golden_folder() + "/tokens.bin", "--batch-size=1",
                               "--seq-len=12", "--lr=0.003", "--steps=" + std::to_string(num_steps_)});
    return run_local(flags, layout_of(space_, row).num_ranks, space_.value(row, "comm"));
  }

 private:
  Space::Row reference_of(const Space::Row& row) const {
    Space::Row reference = row;
    for (const Factor& option : policy_options())
      reference[space_.find(option.name)] = 0;
    for (const char* factor : kWithoutEffect)
      reference[space_.find(factor)] = 0;
    return reference;
  }

  Space space_;
  int num_steps_;
  TempFolder large_gradients_;
  std::map<Space::Row, RunResult> references_;
};

/// Every setting, in short runs.
OffloadMatrix& short_runs() {
  static OffloadMatrix matrix(offload_space(), 10);
  return matrix;
}
/// Every policy with its options under a few layouts, in long runs.
OffloadMatrix& long_runs() {
  static OffloadMatrix matrix(offload_space()
                                  .with("layout", {"one", "full_shard", "pipeline"})
                                  .with("device", {"cpu"})
                                  .with("comm", {"local"})
                                  .with("debug", {"none"})
                                  .with("reduce-dtype", {"float32"})
                                  .with("reduce-every", {"step"})
                                  .with("freeze", {"none"}),
                              100);
  return matrix;
}

std::string in_words(const Space& space, const Space::Row& row) {
  std::string name;
  for (size_t i = 0; i < row.size(); ++i)
    if (space.factors()[i].values.size() > 1) name += (i ? "_" : "") + space.factors()[i].values[row[i]];
  std::ranges::replace_if(
      name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
}

class ShortRuns : public ::testing::TestWithParam<Space::Row> {};
class LongRuns : public ::testing::TestWithParam<Space::Row> {};

TEST_P(ShortRuns, HaveTheBitsWithoutOffload) {
  EXPECT_EQ(short_runs().check(GetParam()), "") << short_runs().space().text(GetParam());
}

TEST_P(LongRuns, HaveTheBitsWithoutOffload) {
  EXPECT_EQ(long_runs().check(GetParam()), "") << long_runs().space().text(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Offload, ShortRuns, ::testing::ValuesIn(short_runs().space().covering_pairs()),
                         [](const auto& test) { return in_words(short_runs().space(), test.param); });
INSTANTIATE_TEST_SUITE_P(Offload, LongRuns, ::testing::ValuesIn(long_runs().space().covering_pairs()),
                         [](const auto& test) { return in_words(long_runs().space(), test.param); });

/// Whether the rank that moves the most moves anything in a step.
bool moves(const Space& space, const Space::Row& row) {
  Values flags = job_flags(space, row);
  const Values policy = offload_flags(space, row);
  flags.insert(flags.end(), policy.begin(), policy.end());
  flags.insert(flags.end(), {"--model=" + golden_folder(), "--batch-size=1", "--seq-len=12"});
  const int num_ranks = layout_of(space, row).num_ranks;
  const CompiledJob job(flags, num_ranks);
  for (int rank = 0; rank < num_ranks; ++rank)
    if (host::moved_in(job.step(rank)).total().out_bytes > 0) return true;
  return false;
}

// A row in which the policy finds nothing to gain proves nothing, and some are such: two blocks of a stage with a fetch
// three visits ahead. Every value of every factor has one that moves something.
TEST(OffloadMatrix, MovesSomethingUnderEverySetting) {
  const Space& space = short_runs().space();
  std::vector<std::vector<int>> moving(space.factors().size());
  for (size_t f = 0; f < moving.size(); ++f)
    moving[f].resize(space.factors()[f].values.size());
  const auto rows = space.covering_pairs();
  int num_moving = 0;
  for (const Space::Row& row : rows) {
    if (!moves(space, row)) continue;
    ++num_moving;
    for (size_t f = 0; f < row.size(); ++f)
      ++moving[f][row[f]];
  }
  EXPECT_GE(num_moving * 10, static_cast<int>(rows.size()) * 9);
  for (size_t f = 0; f < moving.size(); ++f)
    for (size_t v = 0; v < moving[f].size(); ++v)
      EXPECT_GT(moving[f][v], 0) << space.factors()[f].name << "=" << space.factors()[f].values[v];
}

// Runs in which gradients overflow skip steps and do others, and other arithmetic shows: the comparisons can fail.
TEST(OffloadMatrix, StepsAreSkippedAndArithmeticThatDiffersShows) {
  const OffloadMatrix& matrix = short_runs();
  Space::Row row = matrix.space().covering_pairs().front();
  std::ranges::fill(row, size_t{0});
  const RunResult plain = matrix.run(row, {});
  EXPECT_FALSE(plain.steps[0].evicted_bytes.has_value());
  const RunResult moved = matrix.run(row, offload_flags(matrix.space(), row));
  EXPECT_EQ(first_difference(plain, moved), "");
  EXPECT_GT(moved.steps[0].evicted_bytes.value_or(0), 0);
  EXPECT_EQ(moved.steps[9].fetched_bytes, moved.steps[0].fetched_bytes);
  row[matrix.space().find("clip")] = matrix.space().find("clip", "0.1");
  EXPECT_NE(first_difference(plain, matrix.run(row, {})), "");
  row[matrix.space().find("dtype")] = matrix.space().find("dtype", "fp16");
  const RunResult overflow = matrix.run(row, {});
  const auto num_skipped = std::ranges::count(overflow.steps, false, &StepMetrics::updated);
  EXPECT_GE(num_skipped, 2);
  EXPECT_LE(num_skipped, 8);
}

}  // namespace
}  // namespace tessera::testing
