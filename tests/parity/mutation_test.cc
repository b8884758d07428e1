// Every fault of one line in a step program is refused before step 1, or changes no bit. What survives is printed with
// the counts by kind: a rule is missing then.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <map>
#include <optional>

#include "base/concat.h"
#include "mutants.h"
#include "mutation_job.h"
#include "support/paths.h"
#include "support/setting.h"

namespace tessera::testing {
namespace {

struct MutationCase {
  const char* name;
  int num_ranks;
  std::vector<std::string> flags;
  std::vector<std::string> own = {};  ///< mutants with these words are not tried: only the strategy knows what it means
};

void PrintTo(const MutationCase& one, std::ostream* out) {
  *out << one.name;
}

const std::string kOwnStrategies = "--plugin-dir=" + binary_dir("tests/mutation_strategies");

const std::vector<MutationCase>& cases() {
  static const std::vector<MutationCase> all = {
      {"OneRank", 1, {}},
      {"OneRankMicroBatches", 1, {"--grad-accum=2"}},
      {"OneRankEveryMicroBatch", 1, {"--grad-accum=2", "--reduce-every=micro-batch"}},
      {"Ddp", 2, {"--mesh=dp=2", "--strategy=dp=ddp", "--grad-accum=2"}},
      {"DdpEveryMicroBatch", 2, {"--mesh=dp=2", "--strategy=dp=ddp", "--grad-accum=2", "--reduce-every=micro-batch"}},
      {"Fsdp", 3, {"--mesh=dp=3", "--strategy=dp=fsdp", "--grad-accum=2"}},
      {"FsdpEveryMicroBatch", 3, {"--mesh=dp=3", "--strategy=dp=fsdp", "--grad-accum=2", "--reduce-every=micro-batch"}},
      {"Zero3", 2, {"--mesh=dp=2", "--strategy=dp=zero3"}},
      {"Pipeline", 2, {"--mesh=pp=2", "--strategy=pp=pipeline", "--pipeline.cut=even", "--grad-accum=3"}},
      {"Tensor", 2, {"--mesh=tp=2", "--strategy=tp=tensor"}},
      {"All",
       8,
       {"--mesh=pp=2,dp=2,tp=2", "--strategy=pp=pipeline,dp=fsdp,tp=tensor", "--pipeline.cut=even", "--grad-accum=2"}},
      {"Bf16", 2, {"--mesh=dp=2", "--strategy=dp=fsdp", "--dtype=bf16", "--grad-accum=2"}},
      {"Scaled", 2, {"--mesh=dp=2", "--strategy=dp=scaled", kOwnStrategies}},
      {"LocalSgd",
       2,
       {"--mesh=dp=2", "--strategy=dp=local-sgd", "--local-sgd.every=1", kOwnStrategies},
       {"average", "scale of home"}}};
  return all;
}

struct Counts {
  size_t tried = 0, refused = 0, same = 0, survived = 0;
};

std::vector<std::string> flags_of(const MutationCase& one) {
  std::vector<std::string> flags = {"--model=" + source_dir("tests/golden/programs/two-blocks"), "--batch-size=1",
                                    "--seq-len=8", "--clip=0.01"};
  flags.insert(flags.end(), one.flags.begin(), one.flags.end());
  return flags;
}

const MutationCase& case_of(std::string_view name) {
  return *std::ranges::find(cases(), name, &MutationCase::name);
}

/// Tries every n-th mutant of each kind, from the first on.
class MutationRun {
 public:
  explicit MutationRun(const MutationCase& one) : job_(flags_of(one), one.num_ranks), own_(one.own) {}

  void try_every(size_t n) {
    for (const int rank : job_.representatives()) {
      ASSERT_EQ(job_.refusal(rank, [](Program&) {}), "");  // else every mutant would be refused for that
      const std::vector<Mutant> mutants = mutants_of(job_.step(rank));
      std::map<std::string, size_t> seen;
      for (const Mutant& mutant : mutants)
        if (seen[mutant.kind]++ % n == 0 && std::ranges::none_of(own_, [&](const std::string& words) {
              return mutant.what.find(words) != std::string::npos;
            }))
          try_one(rank, mutant);
    }
    for (const auto& [kind, c] : counts_)
      std::cout << concat(kind, ": ", c.tried, " mutants, ", c.refused, " refused, ", c.same, " with the same bits, ",
                          c.survived, " survived\n");
  }

 private:
  void try_one(int rank, const Mutant& mutant) {
    Counts& counts = counts_[mutant.kind];
    ++counts.tried;
    if (!job_.refusal(rank, mutant.change).empty()) {
      ++counts.refused;
      return;
    }
    if (std::getenv("TESSERA_MUTANTS_NOT_RUN")) {  // to look at what is accepted
      ++counts.survived;
      std::cout << concat(mutant.kind, ": ", mutant.what, "\n");
      return;
    }
    const std::string difference = difference_of(rank, mutant);
    ++(difference.empty() ? counts.same : counts.survived);
    EXPECT_EQ(difference, "") << mutant.kind << ": " << mutant.what;
  }

  std::string difference_of(int rank, const Mutant& mutant) {
    if (!right_) right_ = job_.run(kEveryClass, kUnchanged);
    try {
      return job_.run(rank, mutant.change) == *right_ ? "" : "proved, and has other bits";
    } catch (const std::exception& error) {
      return concat("proved, and fails: ", error.what());
    }
  }

  MutationJob job_;
  const std::vector<std::string> own_;
  std::optional<std::vector<std::byte>> right_;
  std::map<std::string, Counts> counts_;
};

class Mutation : public ::testing::TestWithParam<MutationCase> {};

TEST_P(Mutation, EachIsRefusedOrChangesNothing) {
  MutationRun(GetParam()).try_every(static_cast<size_t>(setting("TESSERA_MUTANTS_EVERY", 97)));
}

INSTANTIATE_TEST_SUITE_P(Programs, Mutation, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return std::string(info.param.name); });

// ---- homes against the layout ---------------------------------------------------------------------------------

class Homes : public ::testing::Test {
 protected:
  std::string refusal(const Change& change) const { return job_.refusal_of_init(0, change); }

  const MutationJob job_{flags_of(case_of("Fsdp")), 3};
};

TEST_F(Homes, AreEachParameterOnce) {
  EXPECT_EQ(refusal([](Program&) {}), "");
  const auto claims_the_next_slice = [](Program& init) {
    tsr_piece& piece = init.homes[0].pieces[0];
    piece.parameter_offset += piece.num_elements;
  };
  EXPECT_EQ(
      refusal(claims_the_next_slice),
      "the layout splits the gradient of wte.weight over dp, but ranks 0 and 1 both own its elements 1024 to 2047");
  const auto leaves_one_out = [](Program& init) { --init.homes[0].pieces[0].num_elements; };
  EXPECT_EQ(
      refusal(leaves_one_out),
      "the layout splits the gradient of wte.weight over dp, but none of these ranks owns its elements 1023 to 1023");
}

TEST_F(Homes, ShowTheRolesThatAreSplit) {
  const auto without = [](uint32_t role) {
    return [role](Program& init) {
      for (LayoutEntry& entry : init.layout)
        entry.roles &= ~(1u << role);
    };
  };
  const std::string of_rank_0 =
      " of wte.weight whole on each rank, but none of these ranks owns its elements 1024 to 3071";
  EXPECT_EQ(refusal(without(TSR_HOME_GRADIENT)), "the layout leaves the gradient" + of_rank_0);
  EXPECT_EQ(refusal(without(TSR_HOME_M)), "the layout leaves the m" + of_rank_0);
}

}  // namespace
}  // namespace tessera::testing
