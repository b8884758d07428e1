// A save has three parts. After each, the ranks agree in the job's store on the first error of any rank, or none.
//
//     rank 0: make the folder | all: write and sync a file, and rank-R.json, its description | rank 0: put these
//     together, check them, write index.json, rename, name it
//
// Descriptions pass through the folder, since the store keeps every value and takes 8 MiB at most. A rank that owns
// nothing touches no file, so data parallelism over machines needs no shared file system.

#include "train/saving/checkpoint_writer.h"

#include <algorithm>
#include <filesystem>
#include <functional>

#include "base/concat.h"
#include "base/durable_file.h"
#include "base/read_only_file.h"
#include "checkpoint/index_text.h"
#include "config/flag_table.h"
#include "model/model_name.h"
#include "storage/block_sums.h"
#include "tessera/error.hpp"
#include "train/consistency.h"
#include "train/saving/own_folder.h"

namespace tessera::host {
namespace {

constexpr uint64_t kMaxPartBytes = uint64_t{1} << 30;
constexpr int64_t kSlowBytesPerMs = 10'000;  // a disk of 10 MB/s

std::string part_path(const std::string& folder, int rank) {
  return concat(folder, "/rank-", rank, ".json");
}

NamedValues plugins_of(const Job& job) {
  NamedValues plugins;
  const auto add = [&](const LoadedPlugin& plugin) {
    if (std::ranges::find(plugins, plugin.id, [](const auto& pair) { return pair.first; }) == plugins.end())
      plugins.emplace_back(plugin.id, plugin.version);
  };
  add(job.plugins.device);
  if (job.plugins.communicator) add(*job.plugins.communicator);
  for (const auto& strategy : job.plugins.strategies)
    if (strategy) add(*strategy);
  for (const LoadedPlugin& policy : job.plugins.offload)
    add(policy);
  return plugins;
}

/// Adds a rank's part, which is file `number` of the index.
void merge(CheckpointIndex& index, RankPart part, size_t number) {
  index.files.push_back(std::move(*part.file));
  for (auto& [name, tensor] : part.tensors) {
    SavedTensor& whole = index.tensors[name];
    whole.dtype = tensor.dtype;
    whole.shape = tensor.shape;
    whole.version = tensor.version;
    whole.is_required = tensor.is_required;
    tensor.parts.front().file = number;
    whole.parts.push_back(std::move(tensor.parts.front()));
  }
}

}  // namespace

std::string_view tokens_are(const Dataset& data) {
  return data.tokens_are_bytes() ? kBytes : kNumbers;
}

RunDescription describe_run(const Job& job, const Dataset& data) {
  RunDescription run;
  run.tessera = TESSERA_VERSION;
  run.model = job.config.model;
  run.has_config = !job.named.config.empty();
  for (const ModelFact& fact : job.architecture().facts())
    run.model_facts.emplace_back(fact.name, fact.value);
  run.items = job.items();
  for (const ConfigField& field : result_fields(job.config))
    run.settings.emplace_back(field.name, field.value);
  run.settings.emplace_back(concat(job.items() == "tokens" ? "sequences" : "examples", kPerStep),
                            std::to_string(job.config.batch_size * job.config.grad_accum * job.mesh.num_data_ranks()));
  if (job.items() == "tokens") run.settings.emplace_back(kTokensAre, tokens_are(data));
  run.data = data.size();
  run.data_fingerprint = data.fingerprint();
  for (const MeshAxis& axis : job.axes) {
    run.mesh.emplace_back(axis.name, axis.num_ranks);
    if (!axis.strategy.empty()) run.strategies.emplace_back(axis.name, axis.strategy);
  }
  run.plugins = plugins_of(job);
  return run;
}

int64_t state_timeout_ms(const Job& job) {
  const auto num_bytes = static_cast<int64_t>(3 * sizeof(float) * job.model.num_parameter_elements());
  return job.config.timeout_ms + num_bytes / kSlowBytesPerMs;
}

CheckpointWriter::CheckpointWriter(const Job& job, const Dataset& data, const RankInfo& info, const Log& log,
                                   std::vector<HeldTensor> held)
    : job_(job),
      info_(info),
      log_(log),
      folder_(job.config.save),
      run_(describe_run(job, data)),
      held_(std::move(held)) {
  for (const Parameter& parameter : job.model.parameters) {
    const std::vector<int64_t> shape = parameter.shape();
    shapes_.emplace_back(shape.begin(), shape.end());
  }
}

/// All ranks do their work, and then know of the first error in it.
std::string CheckpointWriter::all_do(const std::string& what, const std::function<void()>& work) {
  std::string error;
  try {
    work();
  } catch (const std::exception& failure) {
    const bool is_one = job_.mesh.num_ranks() == 1;
    error = is_one ? sentence_of(failure) : concat("rank ", info_.rank, ": ", sentence_of(failure));
  }
  return lowest_answer(info_, job_.mesh.num_ranks(), concat("save/", num_attempts_, "/", what), error,
                       state_timeout_ms(job_));
}

/// Two runs in one folder would remove one another's checkpoints while they are made.
void CheckpointWriter::lock_folder() {
  const std::string refusal = all_do("lock", [&] {
    if (info_.rank != 0) return;
    lock_.emplace("--save", folder_, kSaveLock);
    require_no_other_run(job_.config);  // one that was over before this one had the lock
  });
  if (!refusal.empty()) throw Error(TSR_E_UNAVAILABLE, refusal);
}

/// Before rank 0 makes, removes or renames anything: a folder that was removed while steps ran may be another run's.
void CheckpointWriter::hold_folder() {
  make_save_folder(folder_);
  if (!lock_->renew() || job_.config.overwrite) return;
  try {
    require_own_steps();
  } catch (const std::exception&) {
    lock_->release();  // the other run may go on in its folder
    throw;
  }
}

/// Another run may have come and gone while the lock was lost.
void CheckpointWriter::require_own_steps() const {
  for (const int64_t step : saved_steps(folder_))
    if (std::ranges::find(own_steps_, step) == own_steps_.end())
      throw Error(TSR_E_UNAVAILABLE,
                  concat("this run's lock in --save ", folder_, " was removed, and another run has saved ",
                         step_folder_name(step), " there; move its checkpoints away, and this one saves here again"));
}

void CheckpointWriter::check_folder(int64_t best_step) {
  const NewCheckpoint probe(folder_, 0);
  ++num_attempts_;
  std::string error = all_do("folder", [&] {
    if (info_.rank == 0) make_save_folder(folder_);
  });
  if (error.empty()) {
    lock_folder();
    error = all_do("probe", [&] {
      if (info_.rank == 0) probe.begin();
    });
  }
  if (error.empty())
    error = all_do("look", [&] {
      if (std::ranges::any_of(held_, &HeldTensor::is_owner) && !std::filesystem::is_directory(probe.path()))
        throw Error(TSR_E_UNAVAILABLE, concat("the folder that rank 0 has made, ", probe.path(), ", is not there"));
    });
  if (error.empty())
    error = all_do("names", [&] {
      if (info_.rank != 0) return;
      probe.remove_unnamed();  // and what a killed run has left
      if (best_step)
        NewCheckpoint(folder_, best_step).name_best();  // which that run may not have come to
      else
        probe.name_no_best();
      own_steps_ = saved_steps(folder_);
    });
  if (!error.empty())
    throw Error(TSR_E_UNAVAILABLE,
                concat("--save ", folder_, " cannot be used: ", error,
                       "; give a folder that can be written, on a file system that all ranks share"));
}

std::string CheckpointWriter::part_key(int rank) const {
  return concat("save/", num_attempts_, "/part/", rank);
}

void CheckpointWriter::write_own_part(const std::string& path, const ReadState& read) {
  const RankPart part = write_rank_part(path, info_.rank, held_, shapes_, read);
  if (part.file) write_durably(part_path(path, info_.rank), print_rank_part(part));
  info_.store->set(part_key(info_.rank), part.file ? "a file" : "nothing");
}

uint64_t CheckpointWriter::put_together(const RunState& state, bool is_best) {
  hold_folder();  // again: the files of a large model take minutes
  const NewCheckpoint target(folder_, state.step);
  CheckpointIndex index{state, run_, {}, {}};
  for (int rank = 0; rank < job_.mesh.num_ranks(); ++rank) {
    if (info_.store->get(part_key(rank), job_.config.timeout_ms) == "nothing") continue;
    const std::string path = part_path(target.path(), rank);
    merge(index, parse_rank_part(read_text_file(path, kMaxPartBytes), path), index.files.size());
    std::filesystem::remove(path);
  }
  if (run_.has_config) {
    const std::string& text = job_.named.config;  // of the model that trains, whatever the file says by now
    write_durably(concat(target.path(), "/", kConfigName), text);
    index.files.push_back({std::string(kConfigName), text.size(), text.size(), crc32c(std::as_bytes(std::span(text)))});
  }
  const std::string text = print_index(index), path = concat(target.path(), "/", kIndexName);
  parse_index(text, path);  // refuses what would not load, such as tensors that are not whole
  for (const Parameter& parameter : job_.model.parameters)
    if (!index.tensors.contains(parameter.name) && !index.tensors.contains(replica_name(parameter.name, 0)))
      throw Error(TSR_E_INTERNAL, concat("no rank has saved ", parameter.name));
  write_durably(path, text);
  own_steps_.push_back(state.step);
  target.commit();
  const bool names_best = is_best || unwritten_names_.contains("best");  // then it is tried again
  write_names(state.step, names_best ? state.best_step : 0);
  remove_older(target, state.best_step);
  return index.total_bytes() + text.size();
}

/// `latest` and `best` (0: none) only point at checkpoints, which are complete without them: a save does not fail where
/// they cannot be written.
void CheckpointWriter::write_names(int64_t step, int64_t best_step) {
  const auto attempt = [this](const char* name, int64_t of_step, const auto& write) {
    try {
      write(NewCheckpoint(folder_, of_step));
    } catch (const std::exception& error) {
      if (!unwritten_names_.insert(name).second) return;
      log_.warning(
          folder_, "/", name, " cannot be written: ", sentence_of(error),
          "; checkpoints are saved without it, and this is reported once; to continue from one, give its own folder, "
          "as in --resume ",
          shell_word(concat(folder_, "/", step_folder_name(of_step))));
    }
  };
  attempt("latest", step, [](const NewCheckpoint& newest) { newest.name_latest(); });
  if (best_step) attempt("best", best_step, [](const NewCheckpoint& best) { best.name_best(); });
}

/// Their files go while steps run: a file system takes 0.2 s for a GiB.
void CheckpointWriter::remove_older(const NewCheckpoint& newest, int64_t best_step) {
  const auto attempt = [this](const auto& remove) {
    try {
      remove();
    } catch (const std::exception& error) {
      log_.warning("older checkpoints in ", folder_, " could not be removed: ", sentence_of(error));
    }
  };
  attempt([&] {
    newest.retire_older(job_.config.keep, best_step);
    own_steps_ = saved_steps(folder_);
    removal_ = std::async(std::launch::async, [newest, attempt] { attempt([&] { newest.remove_unnamed(); }); });
  });
}

WrittenCheckpoint CheckpointWriter::write(const RunState& state, bool is_best, const ReadState& read) {
  ++num_attempts_;
  const NewCheckpoint target(folder_, state.step);
  WrittenCheckpoint written;
  bool has_begun = false;
  written.error = all_do("folder", [&] {
    if (removal_.valid()) removal_.wait();
    if (info_.rank != 0) return;
    hold_folder();
    target.begin();
    has_begun = true;
  });
  if (written.error.empty()) written.error = all_do("files", [&] { write_own_part(target.path(), read); });
  if (written.error.empty())
    written.error = all_do("index", [&] {
      if (info_.rank == 0) written.num_bytes = put_together(state, is_best);
    });
  // In a folder that is another run's by now, a checkpoint of this name would be that run's.
  if (!written.error.empty() && has_begun && !lock_->is_lost()) target.abandon();
  return written;
}

}  // namespace tessera::host
