// The folder of --save: a folder for each saved step, and two files with the name of one: `latest`, the newest, and
// `best`, that of the least loss.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/read_only_file.h"
#include "tessera/error.hpp"

namespace tessera::host {

/// The file by which a run holds the folder. It goes when the run ends.
inline constexpr std::string_view kSaveLock = "save.lock";

/// "step-00000010"
std::string step_folder_name(int64_t step);
/// The step of such a name; nothing for any other.
std::optional<int64_t> step_of_name(std::string_view name);
/// The steps that are complete in `folder`, ascending; none when it is not there. Throws UNAVAILABLE when it cannot be
/// read.
std::vector<int64_t> saved_steps(const std::string& folder);

/// Whether both paths name one folder, which need not be there.
bool is_same_folder(const std::filesystem::path& a, const std::filesystem::path& b);

/// What is named by FOLDER/latest or FOLDER/best; any other path is returned as it is.
std::string named_checkpoint(const std::string& given);

/// Makes the folder of --save, with those that it is in. Throws UNAVAILABLE.
void make_save_folder(const std::string& folder);

/// The checkpoints that --resume or --init-from may mean, best first. A checkpoint's own folder means itself alone, and
/// so does FOLDER/best. A
/// folder of --save means what `latest` names, then the older ones, newest first; without `latest`, or when what it
/// names is not there, all from the newest on.
struct CheckpointChoice {
  std::vector<std::string> folders;
  bool is_explicit = false;  ///< the checkpoint itself was given
  std::string note;          ///< a sentence about `latest`, if it is not as it should be
};
/// No folders: `given` holds no checkpoint. Throws UsageError for a file, UNAVAILABLE when it cannot be read.
CheckpointChoice choose_checkpoint(const std::string& given);

/// The sentence about a checkpoint that is gone before it was read: the run that saves there keeps only its newest.
std::string removal_text(const std::string& checkpoint);

/// The same of one that was chosen in a folder, so that another can be.
struct RemovedCheckpoint : Error {
  explicit RemovedCheckpoint(const std::string& checkpoint) : Error(TSR_E_DATA_LOSS, removal_text(checkpoint)) {}
};

/// Does the work with the `checkpoint` that was chosen for `given`. An error that names the checkpoint becomes
/// RemovedCheckpoint where that is gone by then, and `given` is not its own name.
template <class Work>
auto naming_removal(const std::string& given, const std::string& checkpoint, Work&& work) {
  try {
    return work();
  } catch (const std::exception& error) {
    const bool is_of_it = !checkpoint.empty() && std::string_view(error.what()).find(checkpoint) != std::string::npos;
    if (!is_of_it || checkpoint == given || name_is_there(checkpoint)) throw;
    throw RemovedCheckpoint(checkpoint);
  }
}

/// Does the work, which chooses a checkpoint, again where that was removed: twice at most.
template <class Work>
auto choosing_again(Work&& work) {
  for (int tries = 0; tries < 2; ++tries) {
    try {
      return work();
    } catch (const RemovedCheckpoint&) {  // the newest by now is another one
    }
  }
  return work();
}

/// Why no run may save among what is in `folder`, as a sentence: something there has the name of a checkpoint, and
/// holds files that no checkpoint has. Empty: it may. Throws UNAVAILABLE when it cannot be read.
std::string foreign_checkpoint_in(const std::string& folder);

/// One checkpoint on its way into a folder of --save. One process calls these, in this order, while all ranks write
/// their files into path() between begin() and commit(). All throw UNAVAILABLE with the system's reason. No folder that
/// holds files other than those of a checkpoint is replaced or removed, whatever its name.
class NewCheckpoint {
 public:
  NewCheckpoint(std::string folder, int64_t step);

  /// Where it is made: "DIR/step-00000010.partial".
  std::string path() const;
  /// Makes DIR, removes what an earlier attempt left, and makes the folder. Throws also when that, or what has the
  /// checkpoint's name, holds other files.
  void begin() const;
  /// Makes it durable and gives it its name, in place of one of the same step.
  void commit() const;
  /// Once it has its name: `latest` names it. When this fails the checkpoint is there all the same.
  void name_latest() const;
  /// Once it has its name: `best` names it. Does nothing when it is not there, or is named already.
  void name_best() const;
  /// Takes their names from all but the newest `keep` checkpoints up to this one (0: keeps all), the one that `best`
  /// names, and the one of `best_step`, which `best` should name. Those of later steps, which a run that went back had
  /// saved before, stay until it reaches them.
  void retire_older(int64_t keep, int64_t best_step = 0) const;
  /// Removes what has no name of its own: retired checkpoints, and what broken saves have left. Takes a moment for each
  /// GiB.
  void remove_unnamed() const;
  /// From now on nothing is the best.
  void name_no_best() const;
  /// Removes what was written. Does not throw.
  void abandon() const noexcept;

 private:
  std::string folder_;
  int64_t step_;
};

}  // namespace tessera::host
