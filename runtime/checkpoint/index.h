// index.json of a checkpoint: where the run was, what it was, and which file holds which elements of which tensor.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/strided_range.h"

namespace tessera::host {

/// The version that is written, and the newest that is read.
inline constexpr uint64_t kCheckpointVersion = 1;
inline constexpr std::string_view kIndexName = "index.json", kConfigName = "config.json";
/// How the text of an index begins.
inline constexpr std::string_view kIndexBegin = R"({"crc32c": ")";
/// Every checksum is of this many bytes of a tensor's part, or of what is left at its end.
inline constexpr uint64_t kChecksumBytes = 1 << 20;

/// Where a run is after a step: all that the next step depends on besides tensors and flags.
struct RunState {
  int64_t step = 0;            ///< steps done
  int64_t optimizer_step = 0;  ///< of these the ones that updated the parameters
  int64_t tokens = 0;          ///< consumed by all ranks, or examples
  uint64_t data_position = 0;  ///< of the next micro-step
  double loss_scale = 1;       ///< of the next step
  int64_t updates_at_scale = 0;
  int64_t best_step = 0;  ///< with --save-best: of the least loss of all evaluations so far; 0: none
  double best_loss = 0;
  std::string best_of = {};  ///< what that loss is of (evaluated_text()); empty: the checkpoint does not say
};

/// Names with their values as text: flags, facts of the model.
using NamedValues = std::vector<std::pair<std::string, std::string>>;

/// What the run was.
struct RunDescription {
  std::string tessera;                            ///< version
  std::string model;                              ///< --model
  bool has_config = false;                        ///< the checkpoint holds the config.json of the model's folder
  NamedValues model_facts;                        ///< everything that the model's structure depends on
  std::string items;                              ///< "tokens" or "examples"
  NamedValues settings;                           ///< flags that change what is computed, such as "lr", "0.0003"
  std::pair<std::string, std::string> data;       ///< "tokens", "1003854"
  std::string data_fingerprint;                   ///< Dataset::fingerprint(); empty: the checkpoint does not say
  std::vector<std::pair<std::string, int>> mesh;  ///< axes, outermost first, with their ranks
  NamedValues strategies;                         ///< by axis
  NamedValues plugins;                            ///< ids with their versions
};

/// A file of tensors, whose checksums are in their parts; or config.json, which is all header.
struct SavedFile {
  std::string name;  ///< "rank-00003.safetensors", in the checkpoint's folder
  uint64_t num_bytes = 0;
  uint64_t header_bytes = 0;  ///< up to where tensors begin
  uint32_t header_crc32c = 0;
};

/// Some elements of a tensor: those of `ranges`, one after another, are the tensor of its name in the file.
struct TensorPart {
  size_t file = 0;  ///< index in CheckpointIndex::files
  std::vector<StridedRange> ranges;
  std::vector<uint32_t> crc32c;  ///< of every kChecksumBytes

  uint64_t num_elements() const;
};

struct SavedTensor {
  std::string dtype;  ///< as in safetensors
  std::vector<uint64_t> shape;
  std::vector<TensorPart> parts;  ///< together hold every element once
  uint32_t version = 0;           ///< of a strategy's own state (tsr_state_description)
  bool is_required = false;       ///< a strategy's own state without which no run goes on (TSR_ON_CHANGE_REFUSE)

  uint64_t num_elements() const;
};

struct CheckpointIndex {
  RunState state;
  RunDescription run;
  std::vector<SavedFile> files;
  std::map<std::string, SavedTensor, std::less<>> tensors;

  uint64_t total_bytes() const;  ///< of all files, without index.json
};

/// What a rank has written, for the rank that makes the index. Its parts are in file 0, which is `file`.
struct RankPart {
  std::optional<SavedFile> file;  ///< none: it owns no tensor
  std::map<std::string, SavedTensor, std::less<>> tensors;
};

/// The names of a parameter's moments: "optim.wte.weight.m".
std::string moment_name(std::string_view parameter, char which);
/// Where ranks train parameters of their own, each group of them is a replica: "replica.1.wte.weight" of the second,
/// the tensor's own name of the first.
std::string replica_name(std::string_view tensor, int replica);
/// What a strategy keeps for itself in a buffer, on a rank: "state.1.dp.local-sgd.velocity".
std::string own_state_name(int rank, std::string_view buffer);
bool is_own_state(std::string_view tensor);
bool is_of_replica(std::string_view tensor);
/// The number of checksums of so many bytes.
constexpr uint64_t num_checksums(uint64_t num_bytes) {
  return (num_bytes + kChecksumBytes - 1) / kChecksumBytes;
}

}  // namespace tessera::host
