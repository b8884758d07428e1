// How evenly persistent memory is shared, wherever it rests. fsdp splits every group equally; zero3 gives whole tensors
// to ranks, and then one tensor may be larger than a fair share (the embedding of a small model). No partition helps
// against that, so the tensor is reported by name. Examines one rank of each class.

#include "plan/balance.h"

#include <map>

#include "memory/first_fit.h"

namespace tessera::host {
namespace {

uint64_t state_bytes(const Program& program) {
  uint64_t num_bytes = 0;
  for (const Buffer& buffer : program.buffers)
    if (buffer.persistent) num_bytes += footprint_bytes(buffer, 0);
  return num_bytes;
}

/// Bytes of the persistent roles of each parameter that this rank owns whole.
std::map<int, uint64_t> whole_parameters(const Program& program) {
  std::map<int, uint64_t> result;
  for (const Home& home : program.homes)
    for (const tsr_piece& piece : home.pieces) {
      if (piece.num_elements != program.model->parameters[piece.parameter].num_elements) continue;
      for (const auto& [number, role] : home.roles) {
        if (!role.buffer || role.num_elements == 0) continue;
        const Buffer& buffer = program.buffer(role.buffer);
        if (buffer.persistent) result[piece.parameter] += TSR_NUM_BYTES(buffer.dtype, piece.num_elements);
      }
    }
  return result;
}

void find_bottleneck(const Program& program, Balance& balance) {
  for (const auto& [parameter, num_bytes] : whole_parameters(program)) {
    if (static_cast<double>(num_bytes) <= balance.mean_bytes || num_bytes <= balance.bottleneck_bytes) continue;
    balance.bottleneck = program.model->parameters[parameter].name;
    balance.bottleneck_bytes = num_bytes;
  }
}

}  // namespace

Balance balance_of(const JobPrograms& job) {
  Balance balance;
  size_t num_ranks = 0;
  double sum = 0;
  for (const auto& [rank, members] : job.classes.members()) {
    const uint64_t num_bytes = state_bytes(job.of(rank).steps[0]);
    if (num_ranks == 0 || num_bytes < balance.min_bytes) balance.min_bytes = num_bytes, balance.min_rank = rank;
    if (num_ranks == 0 || num_bytes > balance.max_bytes) balance.max_bytes = num_bytes, balance.max_rank = rank;
    sum += static_cast<double>(num_bytes) * static_cast<double>(members.size());
    num_ranks += members.size();
  }
  balance.mean_bytes = sum / static_cast<double>(num_ranks);
  if (balance.is_even()) return balance;
  for (const auto& [rank, programs] : job.by_representative)
    find_bottleneck(programs.steps[0], balance);
  return balance;
}

}  // namespace tessera::host
