// Ordered by what they cost the user:
//
//     device memory     recompute, offload, offload and recompute, shard, 16 bits, smaller micro-batches, more ranks
//     host memory       a smaller fraction of what leaves, files instead, then as above without offload
//
// The host knows no plugin by name: strategies are found by what they split, policies by their kind, and a policy's
// `fraction` and `to` by what their schemas say.

#include "plan/advice/families.h"

#include "base/concat.h"
#include "plan/advice/plugin_offers.h"

namespace tessera::host {
namespace {

Family and_also(Family family, const Change& more) {
  for (Change& change : family)
    change = change + more;
  return family;
}

Change more_ranks(const Job& job, int factor) {
  const int axis = batch_axis(job);
  if (axis < 0) return {};
  if (job.config.mesh.empty()) return {{"nproc", std::to_string(job.mesh.num_ranks() * factor)}};
  std::string mesh;
  for (size_t i = 0; i < job.axes.size(); ++i) {
    const int num_ranks = job.axes[i].num_ranks * (static_cast<int>(i) == axis ? factor : 1);
    mesh += concat(mesh.empty() ? "" : ",", job.axes[i].name, "=", num_ranks);
  }
  return {{"mesh", mesh}};
}

/// The same step in smaller micro-batches.
Family smaller_batches(const Job& job) {
  Family family;
  // Halving keeps the tokens of a step, and thus the training.
  for (int64_t factor = 2; job.config.batch_size % factor == 0; factor *= 2)
    family.push_back({{"batch-size", std::to_string(job.config.batch_size / factor)},
                      {"grad-accum", std::to_string(job.config.grad_accum * factor)}});
  return family;
}

/// The first strategy on the batch axis, by name, with which ranks need less than in the job; empty when there is none.
/// On one rank none needs less: then the first that can be planned, to be combined with more ranks.
Change shard(const Job& job, uint32_t memory, const NeededMemory& needed) {
  const int axis = batch_axis(job);
  if (axis < 0) return {};
  for (const Change& change : sharding_strategies(job)) {
    const auto then = try_change(job, change);
    if (then && (then->needed.of(memory) < needed.of(memory) || job.mesh.axes()[axis].num_ranks == 1)) return change;
  }
  return {};
}

}  // namespace

std::vector<Family> families_for(const Job& job, uint32_t memory, const NeededMemory& needed) {
  const Change sharded = shard(job, memory, needed);
  const Change recompute = {{"recompute", "full"}}, half = {{"dtype", "bf16"}};
  const Change one_by_one = sharded + Change{{"reduce-every", "micro-batch"}};
  const Family batches = smaller_batches(job);
  const Family ranks = {more_ranks(job, 2), more_ranks(job, 4), more_ranks(job, 8)};
  std::vector<Family> families = memory == TSR_MEMORY_HOST ? smaller_offload(job) : std::vector<Family>();
  families.push_back({recompute});
  if (memory == TSR_MEMORY_DEVICE) {
    const std::vector<Family> policies = more_offload(job);
    families.insert(families.end(), policies.begin(), policies.end());
    for (const Family& policy : policies)
      families.push_back(and_also(policy, recompute));
  }
  const std::vector<Family> others = {{sharded},
                                      {sharded + recompute},
                                      {half},
                                      batches,
                                      and_also(batches, recompute),
                                      and_also(batches, one_by_one),
                                      and_also(batches, one_by_one + recompute),
                                      {sharded + recompute + half},
                                      and_also(ranks, sharded),
                                      and_also(ranks, sharded + recompute),
                                      split_tensors(job),
                                      and_also(split_tensors(job), recompute)};
  families.insert(families.end(), others.begin(), others.end());
  if (job.config.grad_accum > 1) {
    families.push_back({one_by_one});
    families.push_back(and_also(ranks, one_by_one + recompute));
  }
  return families;
}

std::vector<Family> split_and_offload(const Job& job) {
  std::vector<Family> families;
  for (const Family& policy : more_offload(job))
    families.push_back(and_also(split_tensors(job), policy.front() + Change{{"recompute", "full"}}));
  return families;
}

}  // namespace tessera::host
