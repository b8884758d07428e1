// The layouts that checkpoints are saved under and loaded into, in tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <string>
#include <tuple>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "support/local_job.h"
#include "support/temp_folder.h"

namespace tessera::testing {

/// Ranks with their strategies, and what leaves device memory.
struct CheckpointLayout {
  std::string name;
  int num_ranks = 1, num_data_ranks = 1;
  std::vector<std::string> flags = {};
};

inline std::ostream& operator<<(std::ostream& out, const CheckpointLayout& layout) {
  return out << layout.name;
}

inline const std::vector<CheckpointLayout>& checkpoint_layouts() {
  static const TempFolder offload_folder;
  static const std::vector<CheckpointLayout> all = {
      {"one", 1, 1},
      {"ddp2", 2, 2, {"--strategy=ddp"}},
      {"fsdp3", 3, 3, {"--strategy=fsdp"}},
      {"optimizer_only2", 2, 2, {"--strategy=fsdp", "--fsdp.sharding=optimizer_only"}},
      {"zero3_2", 2, 2, {"--strategy=zero3"}},
      {"zero1_4", 4, 4, {"--strategy=zero3", "--zero3.stage=1"}},
      {"hybrid", 4, 4, {"--mesh=replicate=2,shard=2", "--strategy=replicate=ddp,shard=fsdp"}},
      {"tp2", 2, 1, {"--mesh=tp=2", "--strategy=tp=tensor"}},
      {"pp2", 2, 1, {"--mesh=pp=2", "--strategy=pp=pipeline"}},
      {"all8", 8, 2, {"--mesh=pp=2,dp=2,tp=2", "--strategy=pp=pipeline,dp=fsdp,tp=tensor"}},
      {"stream", 1, 1, {"--offload=stream", "--offload-chunk=4KiB"}},
      {"state_in_files",
       2,
       2,
       {"--strategy=fsdp", "--offload=optimizer-state", "--optimizer-state.to=file", "--offload-chunk=4KiB",
        "--offload-dir=" + offload_folder.path()}}};
  return all;
}

/// A run of the golden model under the layout: 12 sequences a step, a schedule, and what is in `more`.
inline RunResult run_layout(const CheckpointLayout& layout, const std::vector<std::string>& more,
                            const AtEnd& at_end = {}) {
  std::vector<std::string> flags = {"--data=" + golden_folder() + "/tokens.bin",
                                    "--batch-size=1",
                                    "--seq-len=12",
                                    "--lr=0.003",
                                    "--lr-schedule=cosine",
                                    "--warmup-steps=2",
                                    "--grad-accum=" + std::to_string(12 / layout.num_data_ranks)};
  flags.insert(flags.end(), layout.flags.begin(), layout.flags.end());
  flags.insert(flags.end(), more.begin(), more.end());
  const bool has_model =
      std::ranges::any_of(more, [](const std::string& flag) { return flag.starts_with("--model="); });
  if (!has_model) flags.push_back("--model=" + golden_folder());
  return run_local(flags, layout.num_ranks, "local", at_end);
}

/// The run without its first steps.
inline RunResult without_steps(RunResult run, size_t num_steps) {
  run.steps.erase(run.steps.begin(), run.steps.begin() + static_cast<ptrdiff_t>(num_steps));
  return run;
}

inline std::vector<uint32_t> bits_of(const Checkpoint& checkpoint, const std::string& tensor) {
  std::vector<float> values(checkpoint.index().tensors.at(tensor).num_elements());
  checkpoint.read(tensor, 0, values);
  std::vector<uint32_t> bits;
  for (const float value : values)
    bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

/// What differs first; empty: nothing does.
inline std::string difference(const Checkpoint& a, const Checkpoint& b) {
  const CheckpointIndex &x = a.index(), &y = b.index();
  const auto fields = [](const RunState& s) {
    return std::tie(s.step, s.optimizer_step, s.data_position, s.loss_scale, s.updates_at_scale, s.tokens);
  };
  if (fields(x.state) != fields(y.state)) return "the state";
  if (x.tensors.size() != y.tensors.size()) return "the number of tensors";
  for (const auto& [name, tensor] : x.tensors) {
    const auto other = y.tensors.find(name);
    if (other == y.tensors.end() || other->second.shape != tensor.shape || other->second.dtype != tensor.dtype)
      return name;
    if (bits_of(a, name) != bits_of(b, name)) return "the elements of " + name;
  }
  return "";
}

}  // namespace tessera::testing
