// The rows of flag_table.cc that are about checkpoints, in a file of their own because they depend on one another. A
// flag without effect is refused: --keep without --save would look as if something were kept. Folders are local, not
// compared between ranks: machines may have the same storage under different paths.

#include "config/checkpoint_flags.h"

#include <limits>

#include "base/concat.h"
#include "config/flag_makers.h"
#include "config/usage_error.h"

namespace tessera::host {

void add_checkpoint_flags(std::vector<Flag>& flags) {
  using C = TrainConfig;
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  flags.insert(
      flags.end(),
      {local(text(kCheckpoints, "save", "FOLDER", "save checkpoints here, one folder for each; see --save-every",
                  &C::save)),
       integer(kCheckpoints, "save-every", "steps between checkpoints; 0: only after the last step", &C::save_every, 0,
               kMost),
       boolean(kCheckpoints, "save-async",
               "write checkpoints while steps run, from a copy in host memory (12 bytes a parameter with adamw)",
               &C::save_async),
       boolean(kCheckpoints, "save-best",
               "save after each evaluation with the lowest loss so far, and keep that checkpoint, named 'best'",
               &C::save_best),
       integer(kCheckpoints, "keep", "how many checkpoints to keep, the newest ones; 0: all", &C::keep, 0, kMost),
       local(text(
           kCheckpoints, "resume", "FOLDER",
           "continue from this checkpoint, or from the newest in a folder of --save, with any number of ranks and any "
           "layout; 'latest' is the newest in the folder of this run's --save",
           &C::resume)),
       local(text(kCheckpoints, "init-from", "FOLDER",
                  "start a new run with the parameters of a checkpoint, given as for --resume; with --resume, which "
                  "then names the folder of --save, only while that has no checkpoint",
                  &C::init_from))});
}

void name_resumed_folder(TrainConfig& config) {
  if (!config.save.empty() && config.resume == "latest") config.resume = config.save;
}

void check_checkpoint_flags(const TrainConfig& config) {
  // With --save they go together where --resume names its folder, which is checked where paths are compared.
  if (!config.resume.empty() && !config.init_from.empty() && config.save.empty())
    throw UsageError("--resume continues a run and --init-from starts one with saved parameters; give one of them");
  if (config.save_best && config.eval_data.empty())
    throw UsageError("--save-best saves nothing without --eval-data, whose loss decides what is best; give it too");
  if (!config.save.empty()) return;
  if (config.save_every > 0)
    throw UsageError(concat("--save-every ", config.save_every, " saves nothing without --save FOLDER; give it too"));
  if (config.save_async || config.save_best)
    throw UsageError(
        concat("--save-", config.save_async ? "async" : "best", " saves nothing without --save FOLDER; give it too"));
  // Whether it was given is not known here, and with the default's value it does no harm.
  if (config.keep != TrainConfig().keep)
    throw UsageError(concat("--keep ", config.keep, " keeps nothing without --save FOLDER; give it too"));
}

}  // namespace tessera::host
