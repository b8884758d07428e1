// Writing one checkpoint, by all ranks together.
#pragma once

#include <functional>
#include <future>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "checkpoint/held_state.h"
#include "checkpoint/index.h"
#include "checkpoint/save_folder.h"
#include "checkpoint/write_part.h"
#include "data/dataset.h"
#include "job/job.h"
#include "storage/folder_lock.h"
#include "train/rank_info.h"

namespace tessera::host {

/// The end of "sequences-per-step" or "examples-per-step", a setting that index.json has beside the flags.
inline constexpr std::string_view kPerStep = "-per-step";
/// Another one, of a model of tokens: what they are in --data, kBytes of text or kNumbers in token files. Checkpoints
/// of older versions do not say.
inline constexpr std::string_view kTokensAre = "tokens-are", kBytes = "bytes", kNumbers = "numbers";
std::string_view tokens_are(const Dataset& data);

/// What index.json says of the job.
RunDescription describe_run(const Job& job, const Dataset& data);
/// How long ranks wait for one another while state is read or written: --timeout-ms, and the time that a disk of 10
/// MB/s takes for all of it.
int64_t state_timeout_ms(const Job& job);

struct WrittenCheckpoint {
  std::string error;       ///< of the first rank that had one, the same on all ranks; empty: it has its name
  uint64_t num_bytes = 0;  ///< on rank 0: of all files
};

/// Makes checkpoints in --save. Uses the job's store and the file system and nothing else of the job, so one thread may
/// write while another trains; one call at a time. Collective: every rank calls every function in the same order.
class CheckpointWriter {
 public:
  /// Borrows job, info and log.
  CheckpointWriter(const Job& job, const Dataset& data, const RankInfo& info, const Log& log,
                   std::vector<HeldTensor> held);

  /// Finds out what would fail every save: throws UNAVAILABLE, on all ranks alike, when the folder cannot be made, or
  /// is not the same for all ranks that write, or when another run writes into it: the folder is this run's from then
  /// on. Removes what a killed run has left, and names the best checkpoint of the run that goes on here, whose step is
  /// `best_step`; 0: none yet.
  void check_folder(int64_t best_step);
  /// Writes the state of a step, which `read` gives. What failed is removed. `is_best`: `best` names it, too. Throws
  /// only when the ranks cannot meet. A folder that was removed since the last save is made anew, and the save fails
  /// when it is another run's by now. When `latest` or `best` cannot be written, rank 0 warns of it once in a run.
  /// Older checkpoints than --keep asks for have lost their names then; their files are removed meanwhile.
  WrittenCheckpoint write(const RunState& state, bool is_best, const ReadState& read);

  /// What this rank holds. [any-thread]
  const std::vector<HeldTensor>& held() const { return held_; }

 private:
  void lock_folder();
  void hold_folder();
  void require_own_steps() const;
  std::string all_do(const std::string& what, const std::function<void()>& work);
  void write_own_part(const std::string& path, const ReadState& read);
  uint64_t put_together(const RunState& state, bool is_best);
  void write_names(int64_t step, int64_t best_step);
  void remove_older(const NewCheckpoint& newest, int64_t best_step);
  std::string part_key(int rank) const;

  const Job& job_;
  const RankInfo& info_;
  const Log& log_;
  const std::string folder_;
  const RunDescription run_;
  const std::vector<HeldTensor> held_;
  std::vector<std::vector<uint64_t>> shapes_;  // of whole parameters
  int num_attempts_ = 0;                       // equal on all ranks: makes their questions unique
  std::optional<FolderLock> lock_;             // on rank 0, from check_folder() on
  std::vector<int64_t> own_steps_;             // on rank 0: the checkpoints in the folder, as this run left it
  std::set<std::string> unwritten_names_;      // on rank 0: those that a warning was about
  std::future<void> removal_;                  // of older checkpoints, on rank 0; ends before this object
};

}  // namespace tessera::host
