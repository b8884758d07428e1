// A job whose step programs can be changed: whether the host refuses them, and what they compute.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launch/key_value_store.h"
#include "support/compiled_job.h"

namespace tessera::testing {
using namespace host;

using Change = std::function<void(Program&)>;
inline constexpr auto kUnchanged = [](Program&) {};
inline constexpr int kEveryClass = -1;  ///< as a representative: the programs of all ranks are changed

class MutationJob {
 public:
  /// Of `tessera train` with these flags. Throws what planning throws.
  MutationJob(std::vector<std::string> flags, int num_ranks);
  ~MutationJob();

  /// One rank of each class.
  std::vector<int> representatives() const;
  const Program& step(int rank) const { return compiled_.step(rank); }

  /// What the host says of the job when the step of every rank of this class is changed; empty when it is proved.
  std::string refusal(int representative, const Change& change) const;
  /// All that it says.
  Diagnostics findings(int representative, const Change& change) const;
  /// The same of its init program, whose homes are those of the job.
  std::string refusal_of_init(int representative, const Change& change) const;
  /// The same of its eval program.
  std::string refusal_of_eval(int representative, const Change& change) const;
  /// The bits that all ranks have after two steps of the job with that change: losses, norms, parameters and states.
  /// Throws what a rank throws, and when ranks wait for one another for seconds.
  std::vector<std::byte> run(int representative, const Change& change) const;

 private:
  struct RankBits;
  void replan(RankPrograms& programs, const Change& change) const;
  void run_rank(int rank, RankPrograms programs, const std::shared_ptr<KeyValueStore>& store, RankBits& bits) const;

  CompiledJob compiled_;
  mutable std::vector<RankPrograms> own_;  // of every rank, compiled when something runs
};

}  // namespace tessera::testing
